#!/bin/sh
# Runs in the lab's guest `all`, as root. What it leaves in /out is ./demo on the host.
set -eu
cd /scratch
mkdir -p state /var/lib/qdsweep # the guest's root is in memory, which qdsweep refuses for its journal
mount --bind state /var/lib/qdsweep

type_it() { printf '\n$ %s\n' "$*"; "$@"; }
title() { printf '\n--- %s\n' "$*"; }
by_serial() { # the name of the disk with that serial
	for f in /sys/block/sd*/device/vpd_pg80; do
		if grep -qa "$1" "$f"; then basename "${f%/device/vpd_pg80}"; fi
	done
}
by_model() { # the name of the first disk of that model
	for f in /sys/block/sd*/device/model; do
		if grep -q "$1" "$f"; then
			basename "${f%/device/model}"
			return
		fi
	done
}
settings() { # everything a sweep could leave changed, read without qdsweep
	for d in "$@"; do
		for f in /sys/block/$d/device/queue_depth /sys/block/$d/queue/*; do
			if [ -f "$f" ]; then printf '%s %s\n' "$f" "$(cat "$f" 2>/dev/null || true)"; fi
		done
		hdparm -W /dev/$d 2>&1 | grep -v '^$' || true
	done
}

sata=$(by_serial QDLAB-SATA-3)
delay=$(by_model scsi_debug)
settings "$sata" "$delay" >before

title "what is here, and what it can be set to"
type_it qdsweep devices

title "sweep 1: queue_depth x write_cache x max_sectors_kb on an emulated SATA disk (real libata, NCQ and write-cache commands)"
cat >sata.yaml <<'YAML'
version: 1
name: sata
description: queue_depth, write_cache and max_sectors_kb on an emulated SATA disk
matrix:
  queue_depth: [1, 31]
  write_cache: [off, on]
  max_sectors_kb: [8, 128]
repeats: 2
seed: 1
settle: 200ms
workloads:
  - {name: seq-read, type: io, mode: read, block_size: 1m, iodepth: 32, runtime: 1s}
  - {name: seq-write, type: dd, mode: write, block_size: 1m, size: 32m, sync: fsync}
YAML
type_it cat sata.yaml
type_it qdsweep plan sata.yaml --device serial:QDLAB-SATA-3 --erase serial:QDLAB-SATA-3
type_it qdsweep run sata.yaml --device serial:QDLAB-SATA-3 --erase serial:QDLAB-SATA-3 --out sata

title "sweep 2: queue_depth 1, 2, 3, 4, 8, 31 on a drive that answers after 10 ms and works on all its commands at once: 100 IOPS x depth is what it can do"
cat >depth.yaml <<'YAML'
version: 1
name: depth
description: random reads at rising queue_depth on a drive with a latency of 10 ms
matrix:
  queue_depth: [1, 2, 3, 4, 8, 31]
repeats: 2
seed: 1
settle: 200ms
workloads:
  - {name: rnd-4k, type: io, mode: randread, block_size: 4k, iodepth: 32, runtime: 2s}
YAML
type_it cat depth.yaml
type_it qdsweep run depth.yaml --device "/dev/$delay" --out depth

title "every drive as it was? (read by cat and hdparm, before and after)"
settings "$sata" "$delay" >after
if type_it diff before after; then
	echo "no difference: $sata and $delay are as they were ($(wc -l <before) attributes compared)"
else
	echo "THE DRIVES ARE NOT AS THEY WERE" >&2
	exit 5
fi
cp -r sata depth sata.yaml depth.yaml before after /out/
printf '\nThe rows and everything else are in ./demo: demo/sata/results.csv, demo/depth/results.csv\n'
