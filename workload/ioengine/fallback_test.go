package ioengine

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refusing is the real kernel, but for what an older one, a limit or a filter refuses.
func refusing(flags uint32, missing uint32, errno syscall.Errno, ops ...uintptr) uringKernel {
	return uringKernel{
		setup: func(entries uint32, p *uringParams) (int, syscall.Errno) {
			if p.flags&flags != 0 {
				return -1, unix.EINVAL
			}
			fd, err := uringSetup(entries, p)
			p.features &^= missing
			return fd, err
		},
		register: func(fd int, op uintptr, arg unsafe.Pointer, n uintptr) syscall.Errno {
			if slices.Contains(ops, op) {
				return errno
			}
			return uringRegister(fd, op, arg, n)
		},
	}
}

// Whatever a kernel refuses of io_uring's better half, the ring moves the same data without it.
func TestURingDoesWithout(t *testing.T) {
	const allFlags = uringSetupSingleIssuer | uringSetupDeferTaskrun | uringSetupCoopTaskrun
	type has struct{ buffers, file, ring bool }
	for _, c := range []struct {
		name   string
		kernel uringKernel
		has    has
	}{
		{"nothing is refused", refusing(0, 0, 0), has{true, true, true}},
		{"before 6.1: no deferred task work", refusing(uringSetupDeferTaskrun, 0, 0), has{true, true, true}},
		{"before 5.19: no flags at all", refusing(allFlags, 0, 0), has{true, true, true}},
		{"RLIMIT_MEMLOCK: no registered buffers", refusing(0, 0, unix.ENOMEM, uringRegisterBuffers), has{false, true, true}},
		{"buffers of more than 1 GiB", refusing(0, 0, unix.EFAULT, uringRegisterBuffers), has{false, true, true}},
		{"no registered file", refusing(0, 0, unix.EMFILE, uringRegisterFiles), has{true, false, true}},
		{"before 5.18: no registered ring", refusing(0, 0, unix.EINVAL, uringRegisterRingFDs), has{true, true, false}},
		{
			"5.6, and a filter that forbids io_uring_register",
			refusing(allFlags, 0, unix.EPERM, uringRegisterBuffers, uringRegisterFiles, uringRegisterRingFDs), has{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f, content := directFile(t, os.O_RDWR)
			arena, err := NewArena(8, testBlock)
			require.NoError(t, err)
			defer arena.Close()
			e, err := openURingOf(Config{FD: int(f.Fd()), Depth: 8, Arena: arena}, c.kernel)
			require.NoError(t, err)
			r := e.(*uring)
			assert.Equal(t, c.has, has{r.opRead == uringOpReadFixed && r.opWrite == uringOpWriteFixed, r.sqeFl == uringSQEFixedFile, r.registered})
			var reads, writes []Op
			for s := range uint32(8) {
				reads = append(reads, Op{Offset: int64(7-s) * testBlock, Length: testBlock, Slot: s})
				writes = append(writes, Op{Offset: int64(8+s) * testBlock, Length: testBlock, Slot: s, Write: true})
			}
			for _, ops := range [][]Op{reads, writes} {
				require.NoError(t, e.Submit(ops))
				for _, done := range all(t, e, 8) {
					require.EqualValues(t, testBlock, done.Result)
				}
			}
			for s := range 8 {
				assert.Equal(t, content[(7-s)*testBlock:][:testBlock], arena.Buffer(uint32(s)))
			}
			got, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			for s := range 8 {
				assert.Equal(t, content[(7-s)*testBlock:][:testBlock], got[(8+s)*testBlock:][:testBlock])
			}
			require.NoError(t, e.Close())
		})
	}
}

func TestURingOfAKernelTooOld(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	arena, err := NewArena(1, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	_, err = openURingOf(Config{FD: 0, Depth: 1, Arena: arena}, refusing(0, uringFeatSingleMmap, 0))
	assert.ErrorContains(t, err, "io_uring of this kernel is too old (5.6 is needed)")
}

// seen is what a process under a filter says of its engines.
type seen struct{ Direct, Buffered, URing, LibAIO string }

// Over RLIMIT_MEMLOCK the kernel registers no buffers. The limit is not for who has CAP_IPC_LOCK, as root has; the thread
// gives it up, and ends with the test.
func TestURingOverTheMemlockLimit(t *testing.T) {
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was))
	low := unix.Rlimit{Cur: 64 << 10, Max: was.Max} // enough for the ring, which newer kernels count, too
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &low))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &was)) }()
	f, content := directFile(t, os.O_RDONLY)
	arena, err := NewArena(64, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		ended <- func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData
			if err := unix.Capset(&header, &none[0]); err != nil {
				return err
			}
			e, err := openURing(Config{FD: int(f.Fd()), Depth: 2, Arena: arena})
			if err != nil {
				return err
			}
			if e.(*uring).opRead != uringOpRead {
				return errors.New("the buffers are registered, over the limit")
			}
			var done [1]Completion
			return errors.Join(e.Submit([]Op{{Offset: testBlock, Length: testBlock, Slot: 1}}), second(e.Reap(1, done[:])), e.Close())
		}()
	}()
	require.NoError(t, <-ended)
	assert.Equal(t, content[testBlock:2*testBlock], arena.Buffer(1))
}

func second(_ int, err error) error { return err }

// Auto takes what is allowed to this very process: a container's filter may forbid calls that the kernel has.
func TestAutoUnderAFilter(t *testing.T) {
	const disabled = "io_uring_setup: operation not permitted: kernel.io_uring_disabled is set, or a filter of this container forbids it"
	for _, c := range []struct {
		name  string
		forb  string // the calls
		errno syscall.Errno
		want  seen
	}{
		{"io_uring, as docker does", "setup", unix.EPERM, seen{Direct: "libaio", Buffered: "psync", URing: disabled}},
		{"io_uring is compiled out", "setup", unix.ENOSYS, seen{Direct: "libaio", Buffered: "psync", URing: "a kernel without it"}},
		{"a ring can be made and not used", "enter", unix.EPERM, seen{Direct: "libaio", Buffered: "psync", URing: "io_uring_enter: operation not permitted"}},
		{"only registering is forbidden", "register", unix.EPERM, seen{Direct: "io_uring", Buffered: "io_uring"}},
		{"both", "setup aio", unix.ENOSYS, seen{Direct: "psync", Buffered: "psync", URing: "a kernel without it", LibAIO: "io_setup: function not implemented"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestUnderAFilter$", "-test.v")
			cmd.Env = append(os.Environ(), "QDSWEEP_TEST_FORBID="+c.forb, "QDSWEEP_TEST_ERRNO="+map[syscall.Errno]string{unix.EPERM: "EPERM", unix.ENOSYS: "ENOSYS"}[c.errno])
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			var got seen
			_, text, found := strings.Cut(string(out), "seen ")
			require.True(t, found, "%s", out)
			line, _, _ := strings.Cut(text, "\n")
			require.NoError(t, json.Unmarshal([]byte(line), &got))
			assert.Equal(t, c.want.Direct, got.Direct)
			assert.Equal(t, c.want.Buffered, got.Buffered)
			for _, why := range [][2]string{{c.want.URing, got.URing}, {c.want.LibAIO, got.LibAIO}} {
				if why[0] == "" {
					assert.Empty(t, why[1])
				}
				assert.Contains(t, why[1], why[0])
			}
		})
	}
}

// TestUnderAFilter is the child of TestAutoUnderAFilter: the filter is for ever, so it is a process of its own.
func TestUnderAFilter(t *testing.T) {
	calls := os.Getenv("QDSWEEP_TEST_FORBID")
	if calls == "" {
		t.Skip("the child of TestAutoUnderAFilter")
	}
	errno := map[string]syscall.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}[os.Getenv("QDSWEEP_TEST_ERRNO")]
	numbers := map[string]uint32{
		"setup": unix.SYS_IO_URING_SETUP, "enter": unix.SYS_IO_URING_ENTER, "register": unix.SYS_IO_URING_REGISTER, "aio": unix.SYS_IO_SETUP,
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for _, call := range strings.Fields(calls) {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: numbers[call]},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, refused := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	require.Zero(t, refused)
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	line, err := json.Marshal(seen{Auto(true), Auto(false), text(Probe("io_uring")), text(Probe("libaio"))})
	require.NoError(t, err)
	t.Log("seen " + string(line))
}
