package md

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// metadata is the superblock's version that is always made, whatever mdadm.conf says.
const metadata = "1.2"

// firstNumber is where the search for a free /dev/mdN begins, downwards: mdadm numbers from 127 down what it assembles by itself, and people
// from 0 up.
const firstNumber = 126

// Build makes an array of a spec's members, waits for its initial sync where that is asked for, makes the file system and mounts it. Old
// contents of the members are overwritten: the caller has asked for consent, has claimed the members, and has let go of their O_EXCL right
// before. The record of the spec is in the journal by then.
//
// On an error, and when ctx is cancelled, what was made is taken down again; where that fails, too, the error says what is left. progress may be nil.
func Build(ctx context.Context, h sysfs.Host, s Spec, progress func(Progress)) (Built, error) {
	m, err := live(h)
	if err != nil {
		return Built{}, err
	}
	return m.build(ctx, s, progress)
}

func (m machine) build(ctx context.Context, s Spec, progress func(Progress)) (Built, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	if err := m.ready(ctx, s); err != nil {
		return Built{}, err
	}
	if s.Filesystem != "" {
		if err := os.Mkdir(m.path(s.MountPoint), 0o700); err != nil {
			return Built{}, fmt.Errorf("make the mount point: %w", err)
		}
	}
	built, err := m.assemble(ctx, s, progress)
	if err == nil {
		return built, nil
	}
	progress(Progress{Step: "take down what was made", Done: -1})
	// Not under ctx: it may be what ended.
	if _, left := m.takeDown(context.WithoutCancel(ctx), s.Record()); left != nil {
		err = errors.Join(err, fmt.Errorf("what was made is not all taken down; sudo qdsweep restore tries again: %w", left))
	}
	return Built{}, err
}

// ready makes sure that nothing stands in the way, before anything is touched.
func (m machine) ready(ctx context.Context, s Spec) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range tools(s.Level, s.Filesystem) {
		if err := m.has(t); err != nil {
			return err
		}
	}
	for _, d := range s.used() {
		if err := m.sameDevice(d); err != nil {
			return err
		}
	}
	if page := os.Getpagesize() / 1024; s.ChunkKB != 0 && s.ChunkKB < page && s.Level != "0" {
		return fmt.Errorf("chunk_kb %d is not possible here: a page of this machine has %d KiB, and a chunk has a page or more", s.ChunkKB, page)
	}
	// The UUID is a new one. Were it not, taking down after an error would take down something else.
	r := s.Record()
	r.MountPoint = "" // looked at by mkdir
	f, err := m.find(ctx, r)
	if err == nil {
		err = f.err()
	}
	if err != nil {
		return err
	}
	if left := m.actions(f, r); len(left) > 0 {
		return fmt.Errorf("there is something of the array %s already (to do: %s): sudo qdsweep restore", s.UUID, left[0].do)
	}
	return nil
}

// sameDevice makes sure that a member is still what it was when it was chosen.
func (m machine) sameDevice(d sysfs.Device) error {
	now, err := m.host.Device(d.Name)
	switch {
	case err != nil:
		return fmt.Errorf("the member %s: %w", d.Name, err)
	case now.Identity != d.Identity || now.Number() != d.Number() || now.Bytes != d.Bytes:
		return fmt.Errorf("the member %s is another device now (%s, %d bytes; it was %s, %d bytes)", d.Name, now.Identity, now.Bytes, d.Identity, d.Bytes)
	case now.ReadOnly:
		return fmt.Errorf("the member %s is read-only", d.Name)
	}
	return m.checkNode(now)
}

// assemble is Build's work. Whatever it leaves on an error is found by the UUID.
func (m machine) assemble(ctx context.Context, s Spec, progress func(Progress)) (Built, error) {
	built := Built{Device: s.Members[0]}
	if s.Level != LevelNone {
		progress(Progress{Step: fmt.Sprintf("create raid%s of %d members", s.Level, len(s.Members)), Done: -1})
		d, err := m.create(ctx, s)
		if err != nil {
			return Built{}, err
		}
		// Reading under a context that has ended would find nothing, and say that mdadm has made something else.
		if err := m.verify(context.WithoutCancel(ctx), s, d); err != nil {
			return Built{}, err
		}
		if err := ctx.Err(); err != nil {
			return Built{}, err
		}
		if l, _ := lookupLevel(s.Level); s.InitialSync && l.sync {
			if err := m.awaitSync(ctx, d, s.SyncStall, progress); err != nil {
				return Built{}, err
			}
		}
		built.Device = d
	}
	if s.Filesystem == "" {
		return built, ctx.Err()
	}
	progress(Progress{Step: fmt.Sprintf("make %s on %s", s.Filesystem, built.Device.Name), Done: -1})
	if err := m.makeFilesystem(ctx, s, built.Device); err != nil {
		return Built{}, err
	}
	built.Directory = s.MountPoint
	return built, m.mountFilesystem(ctx, s, built.Device)
}

// create runs mdadm under the first free name. It is not cancelled in the middle: it takes a second, and what it would leave then is an
// empty array without a UUID.
func (m machine) create(ctx context.Context, s Spec) (sysfs.Device, error) {
	caller := ctx
	ctx = context.WithoutCancel(ctx)
	for n := firstNumber; n >= 0; n-- {
		name := "md" + strconv.Itoa(n)
		if _, err := os.Lstat(m.path("/sys/block/" + name)); err == nil {
			continue
		}
		_, err := m.try(ctx, changeTime, "mdadm", s.createArguments("/dev/"+name)...)
		if err == nil {
			return m.awaitArray(caller, name)
		}
		d, lookErr := m.host.Device(name)
		if lookErr != nil { // mdadm gave up, or took it away again
			return sysfs.Device{}, err
		}
		members := d.MemberNames()
		switch {
		case len(members) == 0 && m.attribute(ctx, d, "array_state") == "clear": // a shell, and ours: the name was free
			_, stopErr := m.try(ctx, changeTime, "mdadm", "--stop", d.Path)
			return sysfs.Device{}, errors.Join(err, stopErr)
		case len(members) == 0 || slices.ContainsFunc(s.Members, func(d sysfs.Device) bool { return slices.Contains(members, d.Name) }):
			return sysfs.Device{}, err
		}
		// Somebody was faster with this name, and mdadm has touched nothing.
	}
	return sysfs.Device{}, errors.New("there is no free name for an array: md0 to md126 are all taken")
}

// createArguments are mdadm's, with the members' nodes.
func (s Spec) createArguments(node string) []string {
	args := []string{"--create", node, "--run", "--config=none", "--homehost=any", "--name=" + arrayName(s.UUID), "--uuid=" + s.UUID,
		"--metadata=" + metadata, "--level=" + s.Level, "--raid-devices=" + strconv.Itoa(len(s.Members))}
	l, _ := lookupLevel(s.Level)
	if s.ChunkKB != 0 {
		args = append(args, "--chunk="+strconv.Itoa(s.ChunkKB))
	}
	if s.Layout != "" {
		args = append(args, "--layout="+s.Layout)
	}
	if l.bitmap { // else mdadm adds one by itself to members of 100 GB and more
		bitmap := s.Bitmap
		if bitmap == "" {
			bitmap = "none"
		}
		args = append(args, "--bitmap="+bitmap)
	}
	if l.sync && !s.InitialSync {
		args = append(args, "--assume-clean")
	}
	for _, d := range s.Members {
		args = append(args, d.Path)
	}
	return args
}

// awaitArray waits for the array and its node, which udev or the kernel makes.
func (m machine) awaitArray(ctx context.Context, name string) (sysfs.Device, error) {
	end := time.Now().Add(m.patience)
	for {
		d, err := m.host.Device(name)
		if err == nil {
			err = m.checkNode(d)
		}
		if err == nil && d.Bytes == 0 {
			err = fmt.Errorf("%s has no size", name)
		}
		if err == nil {
			return d, nil
		}
		if time.Now().After(end) {
			return d, fmt.Errorf("wait for the array %s that mdadm has made: %w", name, err)
		}
		if err := wait(ctx, m.moment); err != nil {
			return d, err
		}
	}
}

// verify compares what exists with what was asked.
func (m machine) verify(ctx context.Context, s Spec, d sysfs.Device) error {
	f := &found{}
	for i, want := range s.Record().Members {
		f.members = append(f.members, member{want, s.Members[i]})
	}
	ours, err := m.isOurs(ctx, s.Record(), f, d)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("the array %s that mdadm has made has not the UUID %s", d.Name, s.UUID)
	}
	names := make([]string, 0, len(s.Members))
	for _, member := range s.Members {
		names = append(names, member.Name)
	}
	slices.Sort(names)
	have := slices.Sorted(slices.Values(d.MemberNames()))
	wrong := func(what string, have, want any) error {
		return fmt.Errorf("the array %s that mdadm has made has %s %v, not %v", d.Name, what, have, want)
	}
	if !slices.Equal(names, have) {
		return wrong("the members", have, names)
	}
	expect := map[string]string{"level": "raid" + s.Level, "raid_disks": strconv.Itoa(len(s.Members))}
	if s.ChunkKB != 0 {
		expect["chunk_size"] = strconv.Itoa(s.ChunkKB * 1024)
	}
	if n, ok := layoutNumber(s.Level, s.Layout); ok {
		expect["layout"] = strconv.Itoa(n)
	}
	if l, _ := lookupLevel(s.Level); l.sync && !s.InitialSync {
		expect["degraded"] = "0"
	}
	for _, attribute := range []string{"level", "raid_disks", "chunk_size", "layout", "degraded"} {
		if want, ok := expect[attribute]; ok {
			if have := m.attribute(ctx, d, attribute); have != want {
				return wrong(attribute, have, want)
			}
		}
	}
	if state := m.attribute(ctx, d, "array_state"); !slices.Contains([]string{"clean", "active", "active-idle", "write-pending"}, state) {
		return wrong("the state", state, "clean")
	}
	return nil
}

// MkfsLimit is how long mkfs may take on so many bytes: it writes 2 % of them, at 10 MB/s.
func MkfsLimit(bytes int64) time.Duration {
	return 10*time.Minute + time.Duration(bytes/(500<<20))*time.Second
}

// makeFilesystem runs mkfs and makes sure that the file system has our UUID. Inode tables are written at once, so the time goes with the size.
func (m machine) makeFilesystem(ctx context.Context, s Spec, d sysfs.Device) error {
	f, _ := lookupFilesystem(s.Filesystem)
	args, err := f.arguments(s.UUID, s.MkfsOptions, d.Path)
	if err != nil {
		return err
	}
	if err := m.checkNode(d); err != nil {
		return err
	}
	if _, err := m.try(ctx, MkfsLimit(d.Bytes), f.program, args...); err != nil {
		return err
	}
	all, err := m.signatures(ctx, d)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(g signature) bool { return g.Type == s.Filesystem && sameUUID(g.UUID, s.UUID) }) {
		return fmt.Errorf("%s has made no %s with the UUID %s on %s: there is %v", f.program, s.Filesystem, s.UUID, d.Name, all)
	}
	return nil
}

// mountFilesystem mounts, and makes sure that it is mounted.
func (m machine) mountFilesystem(ctx context.Context, s Spec, d sysfs.Device) error {
	flags, data, err := mountFlags(s.MountOptions)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("mount the %s of %s on %s with options %q", s.Filesystem, d.Name, s.MountPoint, s.MountOptions)
	err = within(ctx, mountTime, func() error { return m.mount(d.Path, m.path(s.MountPoint), s.Filesystem, flags, data) })
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s: %w (the kernel log says which option or why: dmesg | tail)", what, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%s: %w (this kernel has no %s)", what, err, s.Filesystem)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	mounts, err := m.host.Mounts()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		if mount.Point == m.realPoint(s.MountPoint) && mount.Major == d.Major && mount.Minor == d.Minor {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: /proc/self/mountinfo does not list it", what)
}
