package results

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OwnName refuses what is no plain file, or one that has another name elsewhere
// and is not uid's, who has the folder: a user may have put another name of
// one of root's files into it, and what is written to the file would come to be in
// that one. uid < 0 is nobody. Backups that are made of links are their owner's.
func OwnName(f *os.File, uid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is no file", f.Name())
	}
	if st.Nlink != 1 && (uid < 0 || st.Uid != uint32(uid)) {
		return fmt.Errorf("%s belongs to user id %d and has %d names, and was left alone: put a copy in its place", f.Name(), st.Uid, st.Nlink)
	}
	return nil
}
