package systest

import (
	"os"

	"golang.org/x/sys/unix"
)

// InMemory has t.TempDir make its folders in memory, unless TMPDIR says where, or /dev/shm is no good. It is for TestMain of packages
// whose tests make machines: a machine is hundreds of small files, which a kernel does not keep on a disk either. What is fsynced is the
// disk's time, and proves nothing in a test that cuts no power.
func InMemory() {
	const dir, room = "/dev/shm", 1 << 30
	var st unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Access(dir, unix.W_OK) != nil || unix.Statfs(dir, &st) != nil || int64(st.Bavail)*st.Bsize < room {
		return
	}
	_ = os.Setenv("TMPDIR", dir)
}
