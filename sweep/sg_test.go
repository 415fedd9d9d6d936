package sweep

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
	"qdsweep/workload"
)

func sgProfile(target, workload string) string {
	return "version: 1\nname: sg\ntarget: {" + target + "}\nmatrix: {block_size: [4k]}\nworkloads:\n  - {name: w, engine: sg, " + workload + "}\n"
}

// What takes no SCSI commands is refused at the plan, with what to do instead; a disk and a partition of one are not.
func TestEngineSGNeedsASCSIDisk(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb", NoSG: true}, systest.Disk{Name: "sdc"}, systest.Disk{Name: "nvme0n1"}, systest.Disk{Name: "vda"})
	m.Partition("sda", 1, 1<<20, 8<<20)
	m.MD("md0", "raid0", "sdb", "sdc")
	const one, queued = "type: io, mode: read", "type: io, mode: read, iodepth: 8"
	for _, c := range []struct{ target, workload, reason, fix string }{
		{"device: sda", queued, "", ""},
		{"device: sda1", queued, "", ""},
		{"device: sda", "type: dd, mode: read, direct: true", "", ""},
		{"device: sdb", one, "", ""},
		{"device: sdb", queued, "workload w: engine sg sends SCSI commands, and iodepth 8 queues them on its sg node, and there is none",
			"modprobe sg; or iodepth: 1 and more threads, which need no sg node"},
		{"device: md0", one, "workload w: engine sg sends SCSI commands, and md0 is an array, which has none",
			"take another engine (io_uring, libaio, psync), or drive the disks below it by themselves: sdb, sdc"},
		{"device: nvme0n1", one, "workload w: engine sg sends SCSI commands, and nvme0n1 is no SCSI disk (nvme)", "take another engine (io_uring, libaio, psync)"},
		{"device: vda", one, "workload w: engine sg sends SCSI commands, and vda is no SCSI disk (virtio)", "take another engine (io_uring, libaio, psync)"},
	} {
		_, err := planOf(t, m.Host(), sgProfile(c.target, c.workload), PlanOptions{})
		if c.reason == "" {
			assert.NoError(t, err, c.target)
			continue
		}
		e := notHere(t, err)
		require.Len(t, e.Refusals, 1, c.target)
		assert.Equal(t, c.reason, e.Refusals[0].Reason)
		assert.Equal(t, c.fix, e.Refusals[0].Fix)
	}
	s := specOf(t, "io", map[string]string{"engine": "sg", "size": "1m"})
	assert.ErrorContains(t, s.CheckTarget(0, 512, true), "engine: sg sends commands to a disk, and a directory is none")
}

// What is wrong with engine sg on any machine.
func TestProfilesThatEngineSGCannotDo(t *testing.T) {
	const all = "version: 1\nname: sg\nmatrix: {max_sectors_kb: [8, 128]}\nworkloads:\n"
	for what, c := range map[string]struct{ source, key, allowed string }{
		"nothing obeys the axis": {all + "  - {name: a, type: io, engine: sg}\n  - {name: b, type: dd, mode: read, direct: true, engine: sg}\n", "max_sectors_kb",
			"the commands of engine sg do not obey it, and no workload has another engine"},
		"buffered": {strings.Replace(all, "max_sectors_kb", "queue_depth", 1) + "  - {name: a, type: dd, mode: read, engine: sg}\n", "direct", "goes past the page cache: write direct: true"},
	} {
		_, err := ReadProfile("sg.yaml", strings.NewReader(c.source))
		var wrong *ProfileErrors
		require.ErrorAs(t, err, &wrong, what)
		require.Len(t, wrong.Errors, 1, what)
		assert.Equal(t, c.key, wrong.Errors[0].Key)
		assert.Contains(t, wrong.Errors[0].Allowed, c.allowed)
		assert.Positive(t, wrong.Errors[0].Line)
	}
	_, err := ReadProfile("sg.yaml", strings.NewReader(all+"  - {name: a, type: io, engine: sg}\n  - {name: b, type: io}\n"))
	assert.NoError(t, err, "one workload that obeys it is enough")
}

// The records of engine sg are no requests that max_sectors_kb splits.
func TestRecordsOfSGDoNotShowTheLimit(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	p, err := planOf(t, m.Host(), "version: 1\nname: sg\ntarget: {device: sda}\nmatrix: {max_sectors_kb: [8, 16]}\nworkloads:\n"+
		"  - {name: a, type: io, engine: sg, block_size: 1m}\n  - {name: b, type: io, engine: psync, block_size: 4k}\n", PlanOptions{})
	require.NoError(t, err)
	assert.Contains(t, strings.Join(p.Warnings, "\n"), "no block is larger than 4 KiB")
}

// The kernel counts none of the commands: what it counted is not theirs, and the record is the request.
func TestTheRowOfAnSGPhase(t *testing.T) {
	p := phase{spec: specOf(t, "io", map[string]string{"engine": "sg", "mode": "read", "block_size": "64k", "iodepth": "8"}),
		result: workload.Result{Phase: "read", Engine: "sg", BlockSize: 64 << 10, IODepth: 8, Threads: 1, Bytes: 64 << 20, Operations: 1024, Window: workload.Window{End: 1e9}},
		seen:   summary{samples: 100, enough: true, counted: true, depth: 7.9, depthMax: 8, queued: 0.1, anyRequest: true, requestKB: 4}}
	var r results.Row
	(&Sweep{}).fill(&r, nil, p)
	assert.Equal(t, []string{"7.9", "8", "", "64"}, []string{r.ObservedDepth.String(), r.ObservedDepthMax.String(), r.QueuedDepth.String(), r.ObservedRequestKB.String()})
	reason, _ := cached(p)
	assert.Empty(t, reason)
}

// A record over the limit is a finding: what it was, and no rate.
func TestTheRowOfARecordOverTheLimit(t *testing.T) {
	p := phase{spec: specOf(t, "io", map[string]string{"engine": "sg", "mode": "read", "block_size": "256k", "iodepth": "8"}),
		result: workload.Result{Phase: "read", Engine: "sg", BlockSize: 256 << 10, IODepth: 8, Threads: 2, OverLimit: true, Errno: int(unix.EINVAL)}}
	pass := throughPass{limit: 1 << 20, queued: 128 << 10}
	var r results.Row
	(&Sweep{}).fill(&r, nil, p)
	assert.Equal(t, []string{"read", "sg", "262144", "2", "8"}, []string{r.Phase, r.Engine, r.BlockSize.String(), r.Threads.String(), r.IODepth.String()})
	for what, n := range map[string]string{"bytes": r.Bytes.String(), "operations": r.Operations.String(), "seconds": r.Seconds.String(), "MB/s": r.MBPerS.String(), "IOPS": r.IOPS.String(),
		"the slowest": r.MBPerSSlowest.String(), "request": r.ObservedRequestKB.String(), "depth": r.ObservedDepth.String()} {
		assert.Empty(t, n, what)
	}
	reason := overTheLimit(pass, p)
	assert.Equal(t, "over the limit: EINVAL: a record of 256k, and the device takes 128k in a command", reason)
	assert.Equal(t, results.OverTheLimit, results.CodeOf(reason))
}

// Beside commands that the kernel does not count, all that it counts is somebody else's, on a whole disk too.
func TestForeignIOBesideSG(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	stack, err := m.Host().Resolve("sda")
	require.NoError(t, err)
	var st sysfs.DiskStat
	h := &hold{stack: stack, probes: []probe{fixed{st: &st}}}
	for _, c := range []struct {
		others     uint64
		operations int64
		reasons    []string
	}{
		{0, 1000, nil},
		{10, 0, nil},
		{900, 100_000, nil},
		{1100, 100_000, []string{"foreign I/O: sda completed 1100 requests of others, and 100000 commands of the workload"}},
	} {
		shares := h.beside()
		before := tallies(shares, true)
		st.ReadIOs += c.others
		assert.Equal(t, c.reasons, foreignBeside(shares, before, tallies(shares, false), c.operations))
	}
	m.Set("/sys/block/sda/queue/iostats_passthrough", "1\n")
	assert.Empty(t, h.beside(), "others cannot be told from us")
}

// A command of the pass-through is in the device though not in its statistics: it is not at rest.
func TestRestCountsWhatTheStatisticsDoNot(t *testing.T) {
	b := newBench(t, "{queue_depth: [4]}", drives("sda")...)
	b.machine.Set("/sys/block/sda/device/device_busy", "3\n")
	stack, err := b.host.Resolve("sda")
	require.NoError(t, err)
	h := &hold{stack: stack}
	require.NoError(t, h.watchMembers(b.host))
	defer closeProbes(h.probes)
	assert.Equal(t, 3, h.counters().inFlight)
}

// Commands on the sg node outlive the worker that sent them: no write of ours comes after the claim was given up.
func TestTheClaimIsHeldUntilWhatWasSentHasLanded(t *testing.T) {
	b := newBench(t, "{queue_depth: [4]}", drives("sda")...)
	stack, err := b.host.Resolve("sda")
	require.NoError(t, err)
	var notes []string
	s := &Sweep{host: b.host}
	s.opt.Observe = func(e Event) { notes = append(notes, e.Text) }
	begin := func(busy string) *hold {
		b.machine.Set("/sys/block/sda/device/device_busy", busy+"\n")
		h := &hold{target: &Target{Stack: stack}, stack: stack}
		require.NoError(t, h.watchMembers(b.host))
		h.node, err = os.Open(os.DevNull)
		require.NoError(t, err)
		h.pass.node, err = os.Open(os.DevNull)
		require.NoError(t, err)
		return h
	}
	h := begin("3")
	node := h.node
	landed := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() {
		_, err := node.Stat()
		landed <- err
		b.machine.Set("/sys/block/sda/device/device_busy", "0\n")
	})
	require.NoError(t, s.letGo(h))
	assert.NoError(t, <-landed, "it was still claimed")
	assert.Empty(t, notes)

	h = begin("3")
	s.landed(h, 50*time.Millisecond)
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0], "commands of ours may still be on their way to it")
	closeProbes(h.probes)
	h.node.Close()
	h.pass.close()
}
