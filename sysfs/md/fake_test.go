package md

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

const (
	ourUUID   = "21514354-7f0c-4045-8c4d-8722426fdbbd"
	otherUUID = "99999999-aaaa-4bbb-8ccc-dddddddddddd"
	point     = "/state/mnt"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	systest.InMemory()
	os.Exit(m.Run())
}

var errDied = errors.New("this process died here")

// fake plays mdadm, mkfs, wipefs and mount on a played machine: superblocks and file systems are remembered by device. Everything that
// changes something is a step, at which it can fail or the whole process can die.
type fake struct {
	t   *testing.T
	sys *systest.Machine
	mu  sync.Mutex // programs run at once
	machine

	superblocks map[string]string      // UUID by device
	contents    map[string][]signature // by device, of an array by "array UUID"
	calls       []string
	changes     []string // what was done, one entry a step

	steps      int
	failAt     int // the step that fails, 0 none
	dieAt      int // the step before which the process dies
	atStep     func(change string)
	beforeCall func(call string)
	dead       bool
}

// newFake has six drives. sde and sdf are somebody else's array md0, mounted.
func newFake(t *testing.T) *fake {
	var parts []systest.Part
	for _, name := range []string{"sda", "sdb", "sdc", "sdd", "sde", "sdf"} {
		parts = append(parts, systest.Disk{Name: name, Bytes: 1 << 30, Serial: "S-" + name, WWID: "naa.50000000000000" + name[2:] + "1"})
	}
	sys := systest.New(t, parts...)
	f := &fake{t: t, sys: sys, superblocks: map[string]string{}, contents: map[string][]signature{}}
	f.machine = machine{host: sys.Host(), run: f.program, mount: f.mountOn, unmount: f.unmountFrom, moment: time.Millisecond, patience: 20 * time.Millisecond}
	require.NoError(t, os.MkdirAll(f.path("/state"), 0o700))
	f.assembled("md0", "raid1", otherUUID, "sde", "sdf")
	f.superblocks["sde"], f.superblocks["sdf"] = otherUUID, otherUUID
	f.contents["array "+otherUUID] = []signature{{"0x438", "ext4", otherUUID}}
	sys.Mount("md0", "/home", "ext4")
	return f
}

func (f *fake) spec(level string, names ...string) Spec {
	s := Spec{UUID: ourUUID, Level: level, Filesystem: "ext4", MountPoint: point}
	for _, name := range names {
		s.Members = append(s.Members, f.sys.Device(name))
	}
	return s
}

// state is everything that can be left behind or destroyed.
func (f *fake) state() string {
	mounts, err := f.host.Mounts()
	require.NoError(f.t, err)
	devices, err := f.host.Devices()
	require.NoError(f.t, err)
	var names []string
	for _, d := range devices {
		if d.Kind == sysfs.KindMD && len(d.MemberNames()) == 0 && f.sys.Get(d.SysDir()+"/md/array_state") == "clear" {
			continue // the shell that a killed mdadm leaves: nobody can tell whose it is
		}
		names = append(names, d.Name)
	}
	_, folder := os.Stat(f.path(point))
	contents := maps.Clone(f.contents)
	maps.DeleteFunc(contents, func(key string, all []signature) bool {
		return len(all) == 0 || key == "array "+ourUUID // gone with the array
	})
	return fmt.Sprintln(names, f.superblocks, contents, mounts, folder == nil)
}

// step is before each change.
func (f *fake) step(format string, a ...any) error {
	change := fmt.Sprintf(format, a...)
	f.steps++
	if f.atStep != nil {
		f.atStep(change)
	}
	if f.steps == f.dieAt {
		panic(errDied)
	}
	if f.steps == f.failAt {
		return errors.New("played failure: " + change)
	}
	f.changes = append(f.changes, change)
	return nil
}

// assembled makes an array as the kernel shows it.
func (f *fake) assembled(name, level, uuid string, members ...string) {
	f.sys.MD(name, level, members...)
	f.sys.Set("/sys/block/"+name+"/md/uuid", uuid+"\n")
	f.sys.Set("/sys/block/"+name+"/md/resync_start", "none\n")
	f.sys.Set("/sys/block/"+name+"/md/layout", "2\n")
}

// gone takes an array away.
func (f *fake) gone(name string) {
	d := f.sys.Device(name)
	for _, member := range d.MemberNames() {
		_ = os.Remove(f.path("/sys/class/block/" + member + "/holders/" + name))
	}
	for _, p := range []string{"/sys/block/" + name, "/sys/class/block/" + name, "/sys/dev/block/" + d.Number(), "/dev/" + name, "/sys/devices/virtual/block/" + name} {
		require.NoError(f.t, os.RemoveAll(f.path(p)))
	}
}

func (f *fake) holder(device string) string {
	entries, _ := os.ReadDir(f.path("/sys/class/block/" + device + "/holders"))
	for _, e := range entries {
		return e.Name()
	}
	return ""
}

func (f *fake) contentKey(device string) string {
	if uuid, err := os.ReadFile(f.path("/sys/block/" + device + "/md/uuid")); err == nil {
		return "array " + strings.TrimSpace(string(uuid))
	}
	return device
}

// program is the runner.
func (f *fake) program(ctx context.Context, name string, args ...string) (said, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead && !slices.Contains(args, "--examine") { // those are in goroutines, and change nothing
		f.dead = false
		panic(errDied)
	}
	call := commandText(name, args)
	f.calls = append(f.calls, call)
	if f.beforeCall != nil {
		f.beforeCall(call)
	}
	if err := ctx.Err(); err != nil {
		return said{}, err
	}
	var options []string
	var devices []string
	value := map[string]string{}
	for _, a := range args {
		if key, v, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "--") {
			value[key] = v
		} else if strings.HasPrefix(a, "/dev/") {
			devices = append(devices, strings.TrimPrefix(a, "/dev/"))
		} else {
			options = append(options, a)
		}
	}
	require.NotEmpty(f.t, devices, call)
	mode := name
	if name == "mdadm" || name == "wipefs" {
		mode += " " + options[0]
	}
	switch mode {
	case "mdadm --create":
		return f.create(devices[0], value, devices[1:], slices.Contains(options, "--assume-clean"))
	case "mdadm --examine":
		require.Equal(f.t, "1.2", value["--metadata"])
		if uuid := f.superblocks[devices[0]]; uuid != "" {
			return said{out: "MD_LEVEL=raid5\nMD_UUID=" + mdadmUUID(uuid) + "\n"}, nil
		}
		return said{err: "mdadm: No super block found on /dev/" + devices[0] + " (Expected magic a92b4efc, got 00000000)\n"}, nil
	case "mdadm --detail":
		for _, member := range f.sys.Device(devices[0]).MemberNames() {
			if uuid := f.superblocks[member]; uuid != "" {
				return said{out: "MD_UUID=" + mdadmUUID(uuid) + "\n"}, nil
			}
		}
		return said{code: 1, err: "mdadm: no array"}, nil
	case "mdadm --stop":
		return f.stopped(devices[0])
	case "mdadm --zero-superblock":
		require.Equal(f.t, "1.2", value["--metadata"])
		if f.holder(devices[0]) != "" {
			return said{code: 2, err: "mdadm: Couldn't open /dev/" + devices[0] + " for write - not zeroing\n"}, nil
		}
		return f.change(func() { delete(f.superblocks, devices[0]) }, "zero %s of %s", devices[0], f.superblocks[devices[0]])
	case "wipefs --json":
		text, err := json.Marshal(map[string]any{"signatures": f.contents[f.contentKey(devices[0])]})
		return said{out: string(text)}, err
	case "wipefs --offset":
		key := f.contentKey(devices[0])
		return f.change(func() {
			f.contents[key] = slices.DeleteFunc(f.contents[key], func(s signature) bool { return s.Offset == options[1] && s.Type == options[3] })
		}, "wipe %s on %s", options[3], key)
	case "mkfs.ext4":
		key := f.contentKey(devices[0])
		if s, err := f.change(func() { f.contents[key] = nil }, "begin ext4 on %s", key); err != nil || s.code != 0 {
			return s, err
		}
		uuid := args[slices.Index(args, "-U")+1]
		return f.change(func() { f.contents[key] = []signature{{"0x438", "ext4", uuid}} }, "ext4 on %s", key)
	}
	require.Fail(f.t, "nobody plays "+call)
	return said{}, nil
}

// change is one step of a program.
func (f *fake) change(do func(), format string, a ...any) (said, error) {
	if err := f.step(format, a...); err != nil {
		return said{code: 1, err: err.Error() + "\n"}, nil
	}
	do()
	return said{}, nil
}

// create follows the real order: the shell of the array, the superblocks, the members, and then it runs.
func (f *fake) create(name string, value map[string]string, members []string, clean bool) (said, error) {
	if _, err := os.Stat(f.path("/sys/block/" + name)); err == nil {
		return said{code: 1, err: "mdadm: /dev/" + name + " is already in use.\n"}, nil
	}
	for _, member := range members {
		if f.holder(member) != "" {
			return said{code: 1, err: "mdadm: super1.x cannot open /dev/" + member + ": Device or resource busy\n"}, nil
		}
	}
	steps := []struct {
		what string
		do   func()
	}{{"shell " + name, func() {
		f.assembled(name, "raid0", "00000000-0000-0000-0000-000000000000")
		f.sys.Set("/sys/block/"+name+"/md/array_state", "clear\n")
	}}}
	for _, member := range members {
		steps = append(steps, struct {
			what string
			do   func()
		}{"superblock on " + member, func() { f.superblocks[member] = value["--uuid"] }})
	}
	steps = append(steps, struct {
		what string
		do   func()
	}{"bind " + name, func() {
		f.gone(name)
		f.assembled(name, "raid"+value["--level"], "00000000-0000-0000-0000-000000000000", members...)
		f.sys.Set("/sys/block/"+name+"/md/array_state", "inactive\n")
		f.sys.Set("/sys/block/"+name+"/size", "0\n")
	}}, struct {
		what string
		do   func()
	}{"run " + name, func() {
		f.gone(name)
		f.assembled(name, "raid"+value["--level"], value["--uuid"], members...)
		if !clean && value["--level"] != "0" {
			f.sys.Set("/sys/block/"+name+"/md/sync_action", "recover\n")
			f.sys.Set("/sys/block/"+name+"/md/degraded", "1\n")
		}
	}})
	for _, s := range steps {
		if r, err := f.change(s.do, "%s", s.what); err != nil || r.code != 0 {
			return r, err
		}
	}
	return said{err: "mdadm: array /dev/" + name + " started.\n"}, nil
}

func (f *fake) stopped(name string) (said, error) {
	d := f.sys.Device(name)
	mounts, err := f.host.Mounts()
	require.NoError(f.t, err)
	for _, m := range mounts {
		if m.Major == d.Major && m.Minor == d.Minor {
			return said{code: 1, err: "mdadm: failed to stop array /dev/" + name + ": Device or resource busy\n"}, nil
		}
	}
	uuid, _ := os.ReadFile(f.path("/sys/block/" + name + "/md/uuid"))
	return f.change(func() { f.gone(name) }, "stop %s of %s", name, strings.TrimSpace(string(uuid)))
}

func (f *fake) mountOn(node, at, kind string, _ uintptr, _ string) (err error) {
	defer f.diesLater(&err)
	if err := f.step("mount %s", node); err != nil {
		return err
	}
	f.sys.Mount(filepath.Base(node), f.realPoint(strings.TrimPrefix(at, f.sys.Root())), kind)
	return nil
}

func (f *fake) unmountFrom(at string) (err error) {
	defer f.diesLater(&err)
	at = f.realPoint(strings.TrimPrefix(at, f.sys.Root()))
	mounts, err := f.host.Mounts()
	require.NoError(f.t, err)
	if !slices.ContainsFunc(mounts, func(m sysfs.Mount) bool { return m.Point == at }) {
		return unix.EINVAL
	}
	if err := f.step("unmount %s", at); err != nil {
		return err
	}
	f.sys.Unmount(at)
	return nil
}

// diesLater is for what is called in a goroutine of its own: the process dies at the next program.
func (f *fake) diesLater(err *error) {
	if r := recover(); r != nil {
		f.dead, *err = true, errDied
	}
}

// mdadmUUID is a UUID as mdadm writes it.
func mdadmUUID(uuid string) string {
	p := plainUUID(uuid)
	return p[:8] + ":" + p[8:16] + ":" + p[16:24] + ":" + p[24:]
}

// dies runs something in which the process dies, and tells whether it did.
func dies(t *testing.T, f func()) (died bool) {
	t.Helper()
	defer func() {
		switch r := recover(); r {
		case nil:
		case errDied:
			died = true
		default:
			panic(r)
		}
	}()
	f()
	return false
}
