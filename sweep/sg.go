package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// refuseSG says why a workload with engine sg cannot be on this target: it sends SCSI commands, which a disk has, and
// what lies on disks has not.
func (t *Target) refuseSG(s workload.Spec) []sysfs.Refusal {
	if !s.SG() || t.files() { // files are refused with everything that they cannot be driven by
		return nil
	}
	d := t.Stack.Device
	refuse := func(reason, fix string) []sysfs.Refusal {
		return []sysfs.Refusal{{Device: t.Stack.Target, Reason: fmt.Sprintf("workload %s: engine sg sends SCSI commands, and %s", s.Name, reason), Fix: fix}}
	}
	const other = "take another engine (io_uring, libaio, psync)"
	kind := map[sysfs.Kind]string{sysfs.KindMD: "an array", sysfs.KindDM: "a mapping", sysfs.KindLoop: "a loop device"}[d.Kind]
	switch {
	case t.Built():
		return refuse("what is built is an array, which has none", other)
	case kind != "":
		fix := other
		if names := memberNames(t.Stack.Members); names != "" && d.Kind != sysfs.KindLoop {
			fix += ", or drive the disks below it by themselves: " + names
		}
		return refuse(d.Name+" is "+kind+", which has none", fix)
	case d.SCSIAddress() == "":
		what := "no SCSI disk"
		if d.Transport != "" {
			what += " (" + d.Transport + ")"
		}
		return refuse(d.Name+" is "+what, other)
	}
	if !s.SGQueued() {
		return nil
	}
	if _, err := d.Generic(); err != nil {
		what := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			what = "there is none"
		}
		return refuse(fmt.Sprintf("iodepth %d queues them on its sg node, and %s", s.IODepth, what), "modprobe sg; or iodepth: 1 and more threads, which need no sg node")
	}
	return nil
}

func memberNames(members []sysfs.Device) string {
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// passesThrough says whether any workload goes by SCSI commands, and whether any of these needs the sg node.
func (p *Plan) passesThrough() (sg, queued bool) {
	return slices.ContainsFunc(p.work.loads, func(l load) bool { return l.sg }), slices.ContainsFunc(p.work.loads, func(l load) bool { return l.queuedSG })
}

// throughPass is what a hold has for engine sg.
type throughPass struct {
	node          *os.File // the sg node of the claimed disk; nil where no workload queues on it
	limit, queued int64    // bytes that the disk takes in a command, by its block node and by its sg node
}

// claimPass opens what engine sg needs of a target that is claimed: the sg node is the kernel's own for that disk, and never given.
func (s *Sweep) claimPass(ctx context.Context, h *hold) (err error) {
	sg, queued := s.plan.passesThrough()
	if !sg {
		return nil
	}
	d := h.stack.Device
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	h.pass.limit, h.pass.queued = d.MaxTransfer(ctx, false), d.MaxTransfer(ctx, true)
	if queued {
		h.pass.node, err = d.OpenGeneric()
	}
	return err
}

func (t throughPass) maxTransfer(s workload.Spec) int64 {
	if s.SGQueued() {
		return t.queued
	}
	return t.limit
}

func (t *throughPass) close() {
	if t.node != nil {
		t.node.Close()
	}
	*t = throughPass{}
}

// landed waits until the disk has carried out what was sent to its sg node: commands outlive the process that sent them, as a killed worker's do, and none
// of ours shall write once the claim was given up.
func (s *Sweep) landed(h *hold, limit time.Duration) {
	if h.pass.node == nil {
		return
	}
	if err := s.drained(context.Background(), h, limit); err != nil {
		s.note("%s: commands of ours may still be on their way to it (%v); leave it alone until device/device_busy is 0", h.stack.Target, err)
	}
}

// overTheLimit is the reason of a phase whose record the kernel refused.
func overTheLimit(t throughPass, p phase) string {
	errno := unix.ErrnoName(unix.Errno(p.result.Errno))
	return results.OverTheLimit.With(fmt.Sprintf("%s: a record of %s, and the device takes %s in a command", errno,
		workload.FormatSize(p.result.BlockSize), workload.FormatSize(t.maxTransfer(p.spec))))
}

// beside are the shares by which the I/O of others shows while engine sg works. The kernel counts none of its commands, so that all that is
// counted is somebody else's, on the target's own partitions too; where it was told to count them, others cannot be told from us.
func (h *hold) beside() (shares []share) {
	for i, m := range h.stack.Members {
		text, _ := m.Host().Read(m.SysDir() + "/queue/iostats_passthrough") // since 6.13
		if i < len(h.probes) && strings.TrimSpace(text) != "1" {
			shares = append(shares, share{name: m.Name, disk: h.probes[i]})
		}
	}
	return shares
}

// foreignBeside says which members did I/O for somebody else while engine sg did its operations.
func foreignBeside(shares []share, before, after []tally, operations int64) (reasons []string) {
	for i, sh := range shares {
		if i >= len(before) || i >= len(after) {
			break
		}
		others := int64(after[i].disk - before[i].disk)
		if others > foreignRequests && float64(others) > foreignShare*float64(operations) {
			reasons = append(reasons, results.ForeignIO.With(fmt.Sprintf("%s completed %d requests of others, and %d commands of the workload", sh.name, others, operations)))
		}
	}
	return reasons
}
