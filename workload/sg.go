package workload

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

// sgEngine is the engine that drives a SCSI disk past the block layer.
const sgEngine = "sg"

// SG says whether the workload goes by SCSI commands, past page cache, partitions, limits and the kernel's statistics.
func (s Spec) SG() bool { return s.Engine == sgEngine }

// SGQueued says whether it needs the disk's sg node: by the block node there is one command at a time in a thread.
func (s Spec) SGQueued() bool { return s.SG() && s.Depth() > 1 }

// passThrough gives one thread what engine sg needs besides the block node, and the descriptors to close after it.
// Completions come to the descriptor that sent the command, so each thread has its own.
func (t Target) passThrough(s Spec, writes bool, depth int) (c *ioengine.SCSI, files []*os.File, err error) {
	c = &ioengine.SCSI{Start: t.Start, Bytes: t.Bytes, Block: t.LogicalBlock, Limit: t.MaxTransfer, Through: s.Sync == "dsync", ReadOnly: !writes}
	if depth == 1 {
		return c, nil, nil
	}
	if t.SG == nil {
		return nil, nil, fmt.Errorf("open the sg node of %s: no descriptor was given", t.Name)
	}
	for range (depth + ioengine.SGQueue - 1) / ioengine.SGQueue {
		// Read-write whatever it does: commands are written to it. The engine refuses those that write.
		fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(t.SG.Fd())), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			closeAll(files)
			return nil, nil, fmt.Errorf("open the sg node of %s: %w", t.Name, err)
		}
		files = append(files, os.NewFile(uintptr(fd), t.Name+" (sg)"))
		c.Nodes = append(c.Nodes, fd)
	}
	return c, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// flush makes durable what the lane wrote.
func (l *lane) flush() error {
	if e, own := l.io.(ioengine.Syncer); own {
		return e.Sync()
	}
	return unix.Fsync(int(l.file.Fd()))
}

// explained adds what the engine knows of a failed operation, and counts those over the device's limit.
func (l *lane) explained(slot uint32, text string) string {
	e, knows := l.io.(ioengine.Explainer)
	if !knows {
		return text
	}
	words, over := e.Explain(slot)
	if over {
		l.over++
	}
	if words != "" {
		text += ": " + words
	}
	return text
}

// overLimit makes the results findings, where nothing else failed than records larger than the device takes.
func (p *phase) overLimit(f *failure, results []Result) bool {
	over := int64(0)
	for _, l := range p.lanes {
		if l.over != l.errors {
			return false
		}
		over += l.over
	}
	if over == 0 {
		return false
	}
	for i := range results {
		results[i].OverLimit, results[i].Errno = true, int(f.errno)
	}
	return true
}
