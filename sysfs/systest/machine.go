// Package systest plays a machine with block devices: a tree of /sys, /proc and /dev in a temporary
// directory, whose attribute writes follow an old or a new kernel's rules (clamp, EINVAL, EACCES, never
// return) and whose nodes answer SG_IO as an ATA or a SCSI drive would. It is for tests only, and
// knows what kernels do, not what programs want.
//
// What the rules are was read in kernel sources and seen in guests; docs/ has the facts.
package systest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// Part is something a machine is made of: a Disk, a Kernel, a PageSize.
type Part interface{ add(*Machine) }

// Kernel is whose rules attribute writes follow.
type Kernel int

// Old stands for kernels up to 6.2: limits above the hardware's are EINVAL, max_sectors_kb does not
// take 0, and each look at a drive resets it. New stands for 6.12: such limits are clamped in silence,
// 0 is the default, and writing one lifts read_ahead_kb.
const (
	NewKernel Kernel = iota
	OldKernel
)

func (k Kernel) add(m *Machine) { m.kernel = k }

// PageSize is the machine's page size in bytes; 4096 when not given.
type PageSize int

func (p PageSize) add(m *Machine) { m.page = int(p) }

// Write is one attribute write as it was asked for, whether or not it worked.
type Write struct {
	Path  string // logical: "/sys/block/sda/queue/nr_requests"
	Value string
	Err   error
}

func (w Write) String() string { return w.Path + "=" + w.Value }

// Machine is a machine that a test plays.
type Machine struct {
	t      testing.TB
	root   string
	kernel Kernel
	page   int

	mu       sync.Mutex
	disks    []*disk
	arrays   []*array
	writes   []Write
	commands []string
	fail     map[string]unix.Errno
	hang     map[string]chan struct{}
	watch    []func(path, value string) error
	mounts   []string
	swaps    []string
	minors   int
	records  int // in /dev/kmsg
}

// New makes a machine of its parts. Disks come up in the order given.
func New(t testing.TB, parts ...Part) *Machine {
	t.Helper()
	m := &Machine{t: t, root: t.TempDir(), page: 4096, fail: map[string]unix.Errno{}, hang: map[string]chan struct{}{}}
	t.Cleanup(m.releaseAll)
	for _, p := range parts {
		if _, late := p.(Disk); !late {
			p.add(m)
		}
	}
	release := "6.12.0-systest"
	if m.kernel == OldKernel {
		release = "6.1.0-systest"
	}
	m.Set("/proc/sys/kernel/osrelease", release+"\n")
	m.Set("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
	m.Set("/proc/sys/kernel/hostname", "systest\n")
	m.Set("/proc/swaps", swapsHeader)
	m.mounts = []string{"1 0 0:2 / / rw - rootfs rootfs rw"}
	m.Set("/proc/self/mountinfo", m.mounts[0]+"\n")
	for _, dir := range []string{"/sys/block", "/sys/class/block", "/sys/dev/block", "/dev/disk/by-id", "/dev/mapper"} {
		m.dir(dir)
	}
	m.Set("/dev/kmsg", "")
	for _, p := range parts {
		if d, late := p.(Disk); late {
			d.add(m)
		}
	}
	return m
}

// Root is the directory that holds sys, proc and dev.
func (m *Machine) Root() string { return m.root }

// Host is the machine as the program sees it.
func (m *Machine) Host(more ...sysfs.Option) sysfs.Host {
	options := append([]sysfs.Option{sysfs.WithWriter(m.Write), sysfs.WithSG(m.open), sysfs.WithNVMe(m.openNVMe), sysfs.WithPageSize(m.page)}, more...)
	return sysfs.NewHost(m.root, options...)
}

// Device is a device of the machine; the test fails where there is none.
func (m *Machine) Device(name string) sysfs.Device {
	m.t.Helper()
	d, err := m.Host().Device(name)
	require.NoError(m.t, err)
	return d
}

// Get is an attribute's text, trimmed.
func (m *Machine) Get(path string) string {
	m.t.Helper()
	b, err := os.ReadFile(m.path(path))
	require.NoError(m.t, err)
	return strings.TrimSpace(string(b))
}

// Set puts text into a file as the kernel itself would: no rule is followed, nothing logged.
// A file that is not there is made, with mode 0644.
func (m *Machine) Set(path, text string) {
	m.t.Helper()
	m.put(path, text, 0o644)
}

// Link makes a link; both paths are logical.
func (m *Machine) Link(at, to string) {
	m.t.Helper()
	p := m.path(at)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(p), 0o755))
	rel, err := filepath.Rel(m.real(filepath.Dir(p)), m.real(m.path(to)))
	require.NoError(m.t, err)
	_ = os.Remove(p)
	require.NoError(m.t, os.Symlink(rel, p))
}

// Writes is every attribute write so far, in order.
func (m *Machine) Writes() []Write {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.writes)
}

// WritesTo is the values written to paths that end in suffix, in order.
func (m *Machine) WritesTo(suffix string) []string {
	var values []string
	for _, w := range m.Writes() {
		if strings.HasSuffix(w.Path, suffix) {
			values = append(values, w.Value)
		}
	}
	return values
}

// Commands is every SG_IO command so far, as "sda: SET FEATURES 82h".
func (m *Machine) Commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// Forget empties both logs.
func (m *Machine) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes, m.commands = nil, nil
}

// Fail makes every write to an attribute, or every command to a node ("/dev/sda"), fail; 0 ends it.
func (m *Machine) Fail(path string, errno unix.Errno) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errno == 0 {
		delete(m.fail, m.key(path))
		return
	}
	m.fail[m.key(path)] = errno
}

// Hang makes writes to an attribute, or commands to a node, not return until Release or the end of the
// test. What hung does nothing afterwards and reports EIO.
func (m *Machine) Hang(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hang[m.key(path)] == nil {
		m.hang[m.key(path)] = make(chan struct{})
	}
}

// Release ends a Hang.
func (m *Machine) Release(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ch := m.hang[m.key(path)]; ch != nil {
		close(ch)
		delete(m.hang, m.key(path))
	}
}

func (m *Machine) releaseAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, ch := range m.hang {
		close(ch)
		delete(m.hang, key)
	}
}

// OnWrite is called before each attribute write takes effect.
func (m *Machine) OnWrite(f func(path, value string)) {
	m.Intercept(func(path, value string) error { f(path, value); return nil })
}

// Intercept is called before each attribute write takes effect; an error is what the writer gets, and
// nothing is written then.
func (m *Machine) Intercept(f func(path, value string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = append(m.watch, f)
}

// Settings is everything writable of a disk, an array or a mapping, and a drive's write cache: what must
// be the same after a sweep as before.
func (m *Machine) Settings(name string) map[string]string {
	m.t.Helper()
	if a := m.array(name); a != nil {
		return m.writable(a.dir, a.dir+"/queue", a.dir+"/md")
	}
	d := m.disk(name)
	all := m.writable(d.dir, d.dir+"/queue", d.dir+"/queue/iosched", d.device)
	if d.Transport == "virtio" {
		all["cache_type"] = m.Get(d.dir + "/cache_type")
	}
	if d.cacheType != "" {
		all["cache_type"] = m.Get(d.cacheType)
	}
	all["drive write cache"] = fmt.Sprint(m.DriveCache(name))
	return all
}

// writable is the text of everything in these folders that can be read and written, by its path below base.
func (m *Machine) writable(base string, dirs ...string) map[string]string {
	all := map[string]string{}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(m.path(dir))
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode()&0o600 == 0o600 {
				all[strings.TrimPrefix(dir+"/"+e.Name(), base+"/")] = m.Get(dir + "/" + e.Name())
			}
		}
	}
	return all
}

func (m *Machine) path(logical string) string { return filepath.Join(m.root, logical) }

// real follows the links of a path that may not exist to its end.
func (m *Machine) real(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	if dir := filepath.Dir(p); dir != p {
		return filepath.Join(m.real(dir), filepath.Base(p))
	}
	return p
}

// key is one name for a path however it was reached.
func (m *Machine) key(logical string) string {
	return strings.TrimPrefix(m.real(m.path(logical)), m.real(m.root))
}

func (m *Machine) dir(logical string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(m.path(logical), 0o755))
}

// put replaces a file's text in one step: a reader sees the old or the new one. Statistics stay the
// same file, because programs keep them open.
func (m *Machine) put(logical, text string, mode os.FileMode) {
	m.t.Helper()
	p := m.path(logical)
	if info, err := os.Stat(p); err == nil {
		mode = info.Mode().Perm()
		if slices.Contains([]string{"stat", "inflight", "device_busy"}, filepath.Base(p)) {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			require.NoError(m.t, err)
			_, err = f.WriteAt([]byte(text), 0)
			require.NoError(m.t, err)
			require.NoError(m.t, f.Truncate(int64(len(text))))
			require.NoError(m.t, f.Close())
			return
		}
	} else {
		if err := os.WriteFile(p, []byte(text), mode); err == nil {
			return
		}
		require.NoError(m.t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(m.t, os.WriteFile(p, []byte(text), mode))
		return
	}
	f, err := os.CreateTemp(m.root, ".put-*")
	require.NoError(m.t, err)
	_, err = f.WriteString(text)
	require.NoError(m.t, err)
	require.NoError(m.t, f.Chmod(mode))
	require.NoError(m.t, f.Close())
	require.NoError(m.t, os.Rename(f.Name(), p))
}
