package workload

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// explain is an errno of a read or write by its name, which people search for, and by what it means there. The block
// layer has errnos of its own for what the drive or the way to it said (blk_errors in block/blk-core.c), and their
// ordinary texts mislead: a bad sector would be "no data available".
func explain(errno syscall.Errno) string {
	meaning := errno.Error()
	switch errno {
	case unix.ENODATA:
		meaning = "medium error: the drive cannot read or write this place"
	case unix.EREMOTEIO:
		meaning = "the drive failed the command: target error"
	case unix.EILSEQ:
		meaning = "protection information does not match the data"
	case unix.ENOLINK:
		meaning = "the way to the drive failed: transport error"
	case unix.ETIMEDOUT:
		meaning = "the drive did not answer in time"
	case unix.EBADE:
		meaning = "somebody else has reserved the drive"
	}
	return nameOf(errno) + " (" + meaning + ")"
}

func nameOf(errno syscall.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(errno))
}
