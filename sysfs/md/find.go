package md

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"qdsweep/sysfs"
)

// found is what there is of a record on the machine.
type found struct {
	members []member
	arrays  []sysfs.Device // with our UUID, whatever their name

	mounts      int            // how often a file system of ours is mounted on our mount point
	signed      []signed       // our file system's signatures
	superblocks []sysfs.Device // members with our UUID in their superblock
	folder      bool           // the mount point is there

	// What keeps from taking it down: others use it, or it is not what was built. Nothing is touched then.
	blocked []error
	passing bool // and that may be over in a moment
	// What cannot be seen: a member is not there, or cannot be read. The rest is taken down.
	unseen []error
}

// member is a member of the record and the device that it is now.
type member struct {
	RecordMember
	device sysfs.Device // Name "": not there
}

type signed struct {
	device sysfs.Device
	signature
}

// err joins what keeps from saying that nothing is left.
func (f found) err() error { return errors.Join(slices.Concat(f.blocked, f.unseen)...) }

// find looks for everything of a record. Nothing is changed. An error means that it could not be looked for.
func (m machine) find(ctx context.Context, r Record) (found, error) {
	var f found
	if plainUUID(r.UUID) == "" {
		return f, fmt.Errorf("%q is no UUID: nothing can be told to be ours by it", r.UUID)
	}
	if _, ok := lookupLevel(r.Level); !ok {
		return f, fmt.Errorf("there is no RAID level %q: %s are known", r.Level, strings.Join(Levels(), ", "))
	}
	if p := r.MountPoint; p != "" && (!path.IsAbs(p) || path.Clean(p) != p || p == "/") {
		return f, fmt.Errorf("%q is no mount point of ours", p)
	} else if p != "" {
		r.MountPoint = m.realPoint(p)
	}
	for _, t := range tools(r.Level, "") {
		if err := m.has(t); err != nil {
			return f, err
		}
	}
	for _, want := range r.Members {
		d, err := m.resolve(want)
		if err != nil {
			f.unseen = append(f.unseen, fmt.Errorf("the member %s is not found, and what was built may be left on it: %w", want.text(), err))
		}
		f.members = append(f.members, member{want, d})
	}
	if r.Level != LevelNone {
		if err := m.findArrays(ctx, r, &f); err != nil {
			return f, err
		}
		if err := m.findSuperblocks(ctx, r, &f); err != nil {
			return f, err
		}
	}
	if r.Filesystem != "" {
		if err := m.findFilesystem(ctx, r, &f); err != nil {
			return f, err
		}
		if err := m.findMounts(r, &f); err != nil {
			return f, err
		}
	}
	return f, m.findUsers(r, &f)
}

// has is an error where a program is missing.
func (m machine) has(t tool) error {
	if !m.host.Live() {
		return nil
	}
	if _, err := findProgram(t.program); err != nil {
		return fmt.Errorf("%w: apt install %s", err, t.pkg)
	}
	return nil
}

// resolve finds a member by identity, or, when it has none, by name and size.
func (m machine) resolve(want RecordMember) (sysfs.Device, error) {
	if want.Identity != "" {
		s, err := m.host.Resolve(string(want.Identity))
		if s.Device.Name != "" { // what lies under it does not matter
			err = nil
		}
		return s.Device, err
	}
	d, err := m.host.Device(want.Name)
	if err == nil && (d.Bytes != want.Bytes || d.Identity != "") {
		return sysfs.Device{}, fmt.Errorf("another device is called %s now: %w", want.Name, sysfs.ErrNoDevice)
	}
	return d, err
}

// findArrays looks for assembled arrays by UUID: an initramfs or udev may have made md127 of what was md126.
func (m machine) findArrays(ctx context.Context, r Record, f *found) error {
	all, err := m.host.Devices()
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Kind != sysfs.KindMD {
			continue
		}
		ours, err := m.isOurs(ctx, r, f, d)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		f.arrays = append(f.arrays, d)
		for _, name := range d.MemberNames() {
			if !f.isMember(m, name) {
				f.blocked = append(f.blocked, fmt.Errorf("the array %s has the UUID %s and a member that was not built into it, %s: it is left as it is; see mdadm --detail %s",
					d.Name, r.UUID, name, d.Path))
			}
		}
	}
	return nil
}

// isOurs tells whether an array has the record's UUID: by the kernel's word (md/uuid), and where the kernel has none, by mdadm's, which
// reads the members. The attribute is zeros as long as an array is not running: after a kill in the middle of mdadm --create, or when not
// all members have come up. mdadm is asked only about arrays that can be ours.
func (m machine) isOurs(ctx context.Context, r Record, f *found, d sysfs.Device) (bool, error) {
	uuid, err := m.host.ReadWithin(ctx, d.SysDir()+"/md/uuid")
	if errors.Is(err, sysfs.ErrStuck) {
		return false, fmt.Errorf("ask %s for its UUID: %w", d.Name, err)
	}
	if plainUUID(uuid) != "" {
		return sameUUID(uuid, r.UUID), nil
	}
	if !slices.ContainsFunc(d.MemberNames(), func(name string) bool { return f.isMember(m, name) }) {
		return false, nil
	}
	if err := m.checkNode(d); err != nil {
		return false, err
	}
	s, err := m.ask(ctx, lookTime, "mdadm", "--detail", "--export", d.Path)
	if err != nil {
		return false, err
	}
	return s.code == 0 && sameUUID(parseExport(s.out)["MD_UUID"], r.UUID), nil
}

// isMember tells whether a kernel name is that of a member of the record. One that the kernel has lost meanwhile cannot be told, and
// nothing can be done to it.
func (f found) isMember(m machine, name string) bool {
	if slices.ContainsFunc(f.members, func(w member) bool { return w.device.Name == name }) {
		return true
	}
	_, err := m.host.Device(name)
	return errors.Is(err, sysfs.ErrNoDevice)
}

// findSuperblocks reads each member's superblock, all at once: drives may have to spin up.
func (m machine) findSuperblocks(ctx context.Context, r Record, f *found) error {
	type answer struct {
		uuid string
		err  error
	}
	answers := make([]answer, len(f.members))
	var all sync.WaitGroup
	for i, w := range f.members {
		if w.device.Name != "" {
			all.Go(func() { answers[i].uuid, answers[i].err = m.superblock(ctx, w.device) })
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, w := range f.members {
		switch a := answers[i]; {
		case a.err != nil:
			f.unseen = append(f.unseen, fmt.Errorf("the member %s cannot be read: %w", w.text(), a.err))
		case sameUUID(a.uuid, r.UUID):
			f.superblocks = append(f.superblocks, w.device)
		}
	}
	return nil
}

// superblock gives the UUID in a device's md superblock, "" where there is none. Of several superblocks mdadm shows the newest, unless it
// is asked for a version: another's old one at the end of the disk would hide ours.
func (m machine) superblock(ctx context.Context, d sysfs.Device) (string, error) {
	if err := m.checkNode(d); err != nil {
		return "", err
	}
	args := []string{"--examine", "--export", "--metadata=" + metadata, d.Path}
	s, err := m.ask(ctx, lookTime, "mdadm", args...)
	if err != nil {
		return "", err
	}
	if uuid := parseExport(s.out)["MD_UUID"]; uuid != "" {
		return uuid, nil
	}
	if !strings.Contains(s.err, "No super block found") && !strings.Contains(s.err, "No md superblock detected") {
		return "", fmt.Errorf("%s: exit %d%s", commandText("mdadm", args), s.code, s.reason())
	}
	return "", m.readable(ctx, d) // mdadm says the same of a drive that does not answer
}

// carriers are the devices that the file system of a record can be on.
func (f found) carriers(r Record) []sysfs.Device {
	if r.Level != LevelNone {
		return f.arrays
	}
	if len(f.members) > 0 && f.members[0].device.Name != "" {
		return []sysfs.Device{f.members[0].device}
	}
	return nil
}

// findFilesystem looks for signatures of our file system: of that type and with our UUID.
func (m machine) findFilesystem(ctx context.Context, r Record, f *found) error {
	for _, d := range f.carriers(r) {
		if r.Level != LevelNone && d.Bytes == 0 {
			continue // an array that is not running has no contents
		}
		if err := m.has(tool{"wipefs", "util-linux"}); err != nil {
			return err
		}
		all, err := m.signatures(ctx, d)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && r.Level != LevelNone:
			// An array that lost a member does not answer. What is on it goes with it.
		case err != nil:
			f.unseen = append(f.unseen, fmt.Errorf("the member %s cannot be read: %w", f.members[0].text(), err))
		}
		for _, s := range all {
			if s.Type == r.Filesystem && sameUUID(s.UUID, r.UUID) {
				f.signed = append(f.signed, signed{d, s})
			}
		}
	}
	return nil
}

func (m machine) signatures(ctx context.Context, d sysfs.Device) ([]signature, error) {
	if err := m.checkNode(d); err != nil {
		return nil, err
	}
	text, err := m.try(ctx, lookTime, "wipefs", "--json", d.Path)
	if err != nil {
		return nil, err
	}
	return parseSignatures(text)
}

// findMounts looks at what is mounted on our mount point, the last one on top. Only what is on our array, or on a member that has our file
// system, is ours.
func (m machine) findMounts(r Record, f *found) error {
	if r.MountPoint == "" {
		return nil
	}
	mounts, err := m.host.Mounts()
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, d := range f.carriers(r) {
		ours[d.Number()] = r.Level != LevelNone || slices.ContainsFunc(f.signed, func(s signed) bool { return s.device.Name == d.Name })
	}
	for _, mount := range mounts {
		if mount.Point != r.MountPoint {
			continue
		}
		if !ours[fmt.Sprintf("%d:%d", mount.Major, mount.Minor)] {
			f.blocked = append(f.blocked, fmt.Errorf("%s is mounted on %s and cannot be told to be ours: umount %s", mount.Source, mount.Point, mount.Point))
			continue
		}
		f.mounts++
	}
	st, err := os.Lstat(m.path(r.MountPoint))
	switch {
	case err == nil && st.IsDir():
		f.folder = true
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// findUsers looks for who else uses what is to be taken down.
func (m machine) findUsers(r Record, f *found) error {
	devices := f.arrays
	if r.Level == LevelNone {
		devices = nil
		for _, s := range f.signed {
			devices = append(devices, s.device)
		}
	}
	f.passing = len(f.blocked) == 0
	for _, d := range devices {
		uses, err := m.foreign(d, r.MountPoint)
		if err != nil {
			return err
		}
		for _, u := range uses {
			f.blocked = append(f.blocked, fmt.Errorf("%w by somebody else, and left as it is: %s; end that, then: sudo qdsweep restore", ErrInUse, u.Text()))
			f.passing = f.passing && u.Kind == sysfs.UseOpen
		}
	}
	return nil
}

// foreign is the uses of a device and of partitions on it, without our mount.
func (m machine) foreign(d sysfs.Device, point string) ([]sysfs.Use, error) {
	names := []string{d.Name}
	parts, err := d.Partitions()
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		names = append(names, p.Name)
	}
	onTarget, _, err := m.host.Users(sysfs.Stack{Device: d})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(onTarget, func(u sysfs.Use) bool {
		return u.Own || !slices.Contains(names, u.Device) || u.Kind == sysfs.UseMounted && point != "" && path.Clean(u.By) == point
	}), nil
}
