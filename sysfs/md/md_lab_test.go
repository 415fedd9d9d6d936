//go:build lab

package md

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// Arrays of the real mdadm on emulated SATA drives. The four drives are partitioned once: the first partitions are for arrays of ours, the
// second ones of two drives carry somebody else's array, which has to stay as it is.

var ctx = context.Background()

type lab struct {
	*testing.T
	machine
	members []sysfs.Device // the first partition of each drive
	state   string
}

func labDisks(t *testing.T) []sysfs.Device {
	var all []sysfs.Device
	for n := 1; n <= 4; n++ {
		s, err := sysfs.NewHost("/").Resolve(fmt.Sprintf("serial:QDLAB-SATA-%d", n))
		require.NoError(t, err)
		all = append(all, s.Device)
	}
	return all
}

func newLab(t *testing.T) *lab {
	m, err := live(sysfs.NewHost("/"))
	require.NoError(t, err)
	m.patience = 2 * time.Second
	l := &lab{T: t, machine: m, state: filepath.Join(t.TempDir(), "link")}
	require.NoError(t, os.Symlink(t.TempDir(), l.state)) // the kernel lists a mount without the link
	for _, d := range labDisks(t) {
		l.do("sfdisk --quiet --no-tell-kernel --wipe always --label gpt %s <<E\nsize=64MiB\nsize=16MiB\nE", d.Path)
		l.reread(d)
		parts, err := d.Partitions()
		require.NoError(t, err)
		require.Len(t, parts, 2)
		l.members = append(l.members, parts[0])
	}
	t.Cleanup(func() {
		for _, d := range labDisks(t) {
			l.do("wipefs --quiet --all %s", d.Path)
			l.reread(d)
		}
	})
	return l
}

func (l *lab) reread(d sysfs.Device) {
	f, err := os.Open(d.Path)
	require.NoError(l, err)
	defer f.Close()
	require.NoError(l, unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0))
}

// do runs a shell command of the guest's that has to work.
func (l *lab) do(format string, a ...any) string {
	l.Helper()
	out, err := exec.Command("sh", "-c", fmt.Sprintf(format, a...)).CombinedOutput()
	require.NoError(l, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func (l *lab) spec(level string, members ...sysfs.Device) Spec {
	s := Spec{UUID: NewUUID(), Level: level, Members: members}
	s.MountPoint = filepath.Join(l.state, "mnt-"+s.UUID[:8])
	return s
}

func paths(devices []sysfs.Device) string {
	var all []string
	for _, d := range devices {
		all = append(all, d.Path)
	}
	return strings.Join(all, " ")
}

// clean makes sure that nothing is left: no array but the foreign one, no signature on a member, no mount, no folder.
func (l *lab) clean(devices ...sysfs.Device) {
	l.Helper()
	arrays, err := filepath.Glob("/sys/block/md*")
	require.NoError(l, err)
	var others []string
	for _, a := range arrays {
		if state, err := os.ReadFile(a + "/md/array_state"); err == nil && strings.TrimSpace(string(state)) != "clear" && filepath.Base(a) != "md50" {
			others = append(others, filepath.Base(a))
		}
	}
	assert.Empty(l, others)
	if devices == nil {
		devices = l.members
	}
	assert.Empty(l, l.do("wipefs %s", paths(devices)))
	entries, err := os.ReadDir(l.state)
	require.NoError(l, err)
	assert.Empty(l, entries)
}

func (l *lab) down(s Spec) []string {
	l.Helper()
	did, err := l.takeDown(ctx, s.Record())
	require.NoError(l, err)
	return did
}

// idle waits until an array has written down that it is clean, a moment after the last write.
func (l *lab) idle(name string) {
	l.Helper()
	l.do("sync; until grep -q clean /sys/block/%s/md/array_state; do sleep 0.05; done; sleep 0.2", name)
}

// detail is mdadm's own view, with runs of blanks made one.
func (l *lab) detail(d sysfs.Device) string {
	l.Helper()
	return strings.Join(strings.Fields(l.do("mdadm --detail %s", d.Path)), " ")
}

func content(t *testing.T, d sysfs.Device) []byte {
	t.Helper()
	fd, err := unix.Open(d.Path, unix.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	buf, err := unix.Mmap(-1, 0, int(d.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(buf)
	for done := 0; done < len(buf); {
		n, err := unix.Pread(fd, buf[done:], int64(done))
		require.NoError(t, err)
		require.Positive(t, n)
		done += n
	}
	return bytes.Clone(buf)
}

// Every level, on partitions, beside somebody else's running array on the same drives.
func TestLabSataArrays(t *testing.T) {
	l := newLab(t)
	var foreign []sysfs.Device
	for _, d := range l.members[:2] {
		disk, err := d.Whole()
		require.NoError(t, err)
		parts, err := disk.Partitions()
		require.NoError(t, err)
		foreign = append(foreign, parts[1])
	}
	l.do("mdadm --create /dev/md50 --run --metadata=1.2 --level=1 --raid-devices=2 --assume-clean --bitmap=none %s %s; mkfs.ext4 -q /dev/md50", foreign[0].Path, foreign[1].Path)
	l.idle("md50")
	var before [][]byte
	for _, d := range foreign {
		before = append(before, content(t, d))
	}
	t.Cleanup(func() {
		for i, d := range foreign {
			assert.True(t, bytes.Equal(before[i], content(t, d)), "%s is as it was, bit by bit", d.Name)
		}
		l.do("mdadm --stop /dev/md50; mdadm --zero-superblock %s; mdadm --zero-superblock %s", foreign[0].Path, foreign[1].Path)
	})
	order := []sysfs.Device{l.members[3], l.members[1], l.members[0], l.members[2]}
	for _, c := range []struct {
		level   string
		members int
		set     func(*Spec)
		want    []string
	}{
		{"none", 4, func(s *Spec) { s.Filesystem = "ext4" }, nil},
		{"0", 2, nil, []string{"Raid Level : raid0", "Chunk Size : 512K"}},
		{"1", 2, func(s *Spec) { s.Bitmap = "internal" }, []string{"Raid Level : raid1", "Intent Bitmap : Internal"}},
		{"4", 2, nil, []string{"Raid Level : raid4", "Consistency Policy : resync"}},
		{"5", 3, func(s *Spec) {
			s.ChunkKB, s.Layout, s.Filesystem = 64, "right-asymmetric", "ext4"
			s.MkfsOptions, s.MountOptions = []string{"-b", "1024", "-E", "stride=64"}, []string{"noatime,data=writeback"}
		}, []string{"Raid Level : raid5", "Chunk Size : 64K", "Layout : right-asymmetric"}},
		{"6", 4, func(s *Spec) { s.ChunkKB = 4 }, []string{"Raid Level : raid6", "Chunk Size : 4K", "Layout : left-symmetric"}},
		{"10", 3, func(s *Spec) { s.Layout, s.InitialSync = "f2", true }, []string{"Raid Level : raid10", "Layout : far=2"}},
	} {
		began := time.Now()
		s := l.spec(c.level, order[:c.members]...)
		if c.set != nil {
			c.set(&s)
		}
		var last Progress
		built, err := l.build(ctx, s, func(p Progress) { last = p })
		require.NoError(t, err, c.level)
		if s.Filesystem != "" {
			require.Equal(t, s.MountPoint, built.Directory)
			require.NoError(t, os.WriteFile(built.Directory+"/file", []byte("data"), 0o644))
		} else if s.InitialSync {
			assert.Equal(t, 1.0, last.Done)
		}
		if c.level == "5" {
			assert.Regexp(t, filepath.Base(built.Directory)+" ext4 rw,noatime.*data=writeback", l.do("cat /proc/mounts"))
		}
		if c.level != "none" {
			text := l.detail(built.Device)
			for _, want := range append(c.want, "UUID : "+mdadmUUID(s.UUID), fmt.Sprint("Raid Devices : ", c.members), "0 active sync "+order[0].Path, "any:"+arrayName(s.UUID)) {
				assert.Contains(t, text, want, c.level)
			}
			assert.Regexp(t, "State : (clean|active) [^,]", text) // and not degraded
		}
		took := time.Since(began)
		t.Logf("level %s: built in %v; %q in %v", c.level, took, l.down(s), time.Since(began)-took)
		l.clean()
	}
}

func TestLabSataArrayHalfMade(t *testing.T) {
	l := newLab(t)
	raw := func(s Spec, more string) string {
		args := strings.Join(s.createArguments("/dev/md126"), " ")
		return fmt.Sprintf("mdadm %s 2>&1; %s", args, more)
	}
	t.Run("superblocks only, one of them another's", func(t *testing.T) {
		s := l.spec("5", l.members...)
		l.do("%s", raw(s, "mdadm --stop /dev/md126; mdadm --zero-superblock "+l.members[2].Path))
		theirs := l.members[2]
		l.do("mdadm --create /dev/md60 --run --level=1 --metadata=1.2 --raid-devices=2 --bitmap=none --assume-clean %s missing 2>&1; mdadm --stop /dev/md60 2>&1", theirs.Path)
		before := content(t, theirs)
		left, err := l.look(ctx, s.Record())
		require.NoError(t, err)
		assert.Len(t, left, 3)
		assert.Len(t, l.down(s), 3)
		assert.True(t, bytes.Equal(before, content(t, theirs)))
		l.do("mdadm --zero-superblock %s", theirs.Path)
		l.clean()
	})
	t.Run("another's superblock of another kind at the end, and newer", func(t *testing.T) {
		s := l.spec("1", l.members[:2]...)
		d := l.members[0]
		l.do("%s", raw(s, "mdadm --stop /dev/md126"))
		ours := content(t, d)[:1<<16]
		l.do("sleep 1; mdadm --create /dev/md60 --run --level=1 --metadata=0.90 --raid-devices=2 --assume-clean %s missing 2>&1; mdadm --stop /dev/md60 2>&1", d.Path)
		f, err := os.OpenFile(d.Path, os.O_WRONLY|unix.O_SYNC, 0) // which has zeroed ours
		require.NoError(t, err)
		_, err = f.WriteAt(ours, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		theirs := content(t, d)[d.Bytes-1<<17:]
		assert.Len(t, l.down(s), 2)
		assert.True(t, bytes.Equal(theirs, content(t, d)[d.Bytes-1<<17:]))
		assert.Contains(t, l.do("wipefs --noheadings --output offset,type %s", d.Path), "linux_raid_member")
		l.do("mdadm --zero-superblock %s", d.Path)
		l.clean()
	})
	t.Run("under another name, mounted, and in use", func(t *testing.T) {
		s := l.spec("5", l.members[:3]...)
		s.Filesystem = "ext4"
		_, err := l.build(ctx, s, nil)
		require.NoError(t, err)
		l.do("umount %s; mdadm --stop /dev/md126 2>&1; mdadm --assemble /dev/md77 %s 2>&1; mkdir -p /tmp/theirs; mount /dev/md77 /tmp/theirs", s.MountPoint, paths(s.Members))
		l.idle("md77")
		before := l.do("mdadm --examine %s; wipefs /dev/md77", paths(s.Members))
		_, err = l.takeDown(ctx, s.Record())
		assert.ErrorIs(t, err, ErrInUse)
		assert.ErrorContains(t, err, "md77 is mounted on /tmp/theirs")
		assert.Equal(t, before, l.do("mdadm --examine %s; wipefs /dev/md77", paths(s.Members)))
		l.do("umount /tmp/theirs; rmdir /tmp/theirs; mount /dev/md77 %s", s.MountPoint)

		holder := exec.Command("sleep", "600")
		holder.Dir = s.MountPoint
		require.NoError(t, holder.Start())
		_, err = l.takeDown(ctx, s.Record())
		assert.ErrorContains(t, err, fmt.Sprintf("used by pid %d (sleep)", holder.Process.Pid))
		require.NoError(t, holder.Process.Kill())
		_ = holder.Wait()
		did := l.down(s)
		assert.Contains(t, did, "unmounted "+s.MountPoint)
		assert.Contains(t, did, "wiped the ext4 signature on md77")
		assert.Contains(t, did, "stopped the array md77")
		l.clean()
	})
	t.Run("not running", func(t *testing.T) {
		s := l.spec("5", l.members[:3]...)
		l.do("%s", raw(s, "mdadm --stop /dev/md126; mdadm -I "+l.members[1].Path))
		t.Logf("inactive array: %s", l.do("cat /sys/block/md12?/md/uuid /sys/block/md12?/md/array_state"))
		assert.Contains(t, l.down(s), "stopped the array md127")
		l.clean()
	})
	t.Run("mdadm killed", func(t *testing.T) {
		// As soon as the array is there, and as soon as it has a member.
		for _, sign := range []string{"/sys/block/md126", "/sys/block/md126/md/dev-*"} {
			s := l.spec("5", l.members...)
			c := exec.Command("mdadm", s.createArguments("/dev/md126")...)
			require.NoError(t, c.Start())
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
				if there, _ := filepath.Glob(sign); there != nil {
					break
				}
			}
			_ = c.Process.Kill()
			_ = c.Wait()
			t.Logf("killed when there was %s: %q", sign, l.down(s))
			l.clean()
			l.do("mdadm --stop /dev/md126 2>&1 || true") // an empty shell may be there, which nobody can tell to be ours
		}
	})
	t.Run("cancelled in the initial sync", func(t *testing.T) {
		s := l.spec("5", l.members[:3]...)
		s.InitialSync, s.Filesystem = true, "ext4"
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var at Progress
		_, err := l.build(ctx, s, func(p Progress) {
			if strings.HasPrefix(p.Step, "initial sync") && p.Done >= 0 && p.Done < 1 {
				at = p
				cancel()
			}
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotContains(t, err.Error(), "not all")
		t.Logf("cancelled at %+v", at)
		l.clean()
	})
	t.Run("a member that does not answer, and one that is pulled", func(t *testing.T) {
		s := l.spec("0", l.members[2:]...)
		s.Filesystem = "ext4"
		_, err := l.build(ctx, s, nil)
		require.NoError(t, err)
		disk, err := l.members[3].Whole()
		require.NoError(t, err)
		host := filepath.Base(filepath.Dir(filepath.Dir(l.do("readlink -f /sys/block/%s/device", disk.Name))))
		l.do("echo 1 >/sys/block/%s/device/delete", disk.Name)
		did, err := l.takeDown(ctx, s.Record())
		assert.ErrorIs(t, err, sysfs.ErrNoDevice)
		assert.ErrorContains(t, err, string(l.members[3].Identity))
		t.Logf("%q, %v", did, err)
		l.clean(l.members[2])

		l.do("echo '- - -' >/sys/class/scsi_host/%s/scan", host)
		var back sysfs.Stack
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if back, err = l.host.Resolve(string(l.members[3].Identity)); err == nil {
				break
			}
			require.True(t, time.Now().Before(end), "%v", err)
		}
		whole, err := back.Device.Whole()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(whole.SysDir()+"/device/state", []byte("offline\n"), 0))
		_, err = l.takeDown(ctx, s.Record())
		assert.ErrorContains(t, err, "cannot be read")
		require.NoError(t, os.WriteFile(whole.SysDir()+"/device/state", []byte("running\n"), 0))
		assert.Equal(t, []string{"zeroed the md superblock of " + back.Device.Name}, l.down(s))
		l.members[3] = back.Device
		l.clean()
	})
	t.Run("mkfs fails", func(t *testing.T) {
		s := l.spec("1", l.members[:2]...)
		s.Filesystem, s.MkfsOptions = "ext4", []string{"-b", "777"}
		_, err := l.build(ctx, s, nil)
		assert.ErrorContains(t, err, "invalid block size")
		s.MkfsOptions, s.MountOptions = nil, []string{"data=nonsense"}
		_, err = l.build(ctx, s, nil)
		assert.ErrorContains(t, err, "the kernel log says which option")
		l.clean()
	})
}

// Whole disks, and xfs where the guest has it.
func TestLabSataArrayOfDisks(t *testing.T) {
	l := newLab(t)
	disks := labDisks(t)
	for _, d := range disks {
		l.do("wipefs --quiet --all %s", d.Path)
		l.reread(d)
	}
	s := l.spec("5", disks...)
	s.Filesystem = "ext4"
	if _, err := findProgram("mkfs.xfs"); err == nil {
		s.Filesystem = "xfs"
		small := l.spec("1", disks[2:]...)
		small.Filesystem = "xfs"
		_, err := l.build(ctx, small, nil)
		assert.ErrorContains(t, err, "must be larger than 300MB")
		l.clean(disks...)
	}
	built, err := l.build(ctx, s, nil)
	require.NoError(t, err)
	assert.Contains(t, l.do("blkid -p %s", built.Device.Path), `UUID="`+s.UUID+`"`)
	_, err = l.build(ctx, l.spec("1", disks[:2]...), nil)
	assert.ErrorContains(t, err, "Device or resource busy")
	assert.False(t, errors.Is(err, ErrInUse))
	assert.Regexp(t, "State : (clean|active) [^,]", l.detail(built.Device))
	did := l.down(s)
	assert.Contains(t, did, "wiped the "+s.Filesystem+" signature on "+built.Device.Name)
	l.clean(disks...)
}
