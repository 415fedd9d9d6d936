package md

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// TakeDown takes down what Build made of a record, from any half-made state, in the same boot or another: it unmounts the mount point,
// wipes our file system's signature, stops the array under whatever name it has, zeroes our superblock on each member, and removes the
// mount point. Only what carries the record's UUID is touched. It is done when nothing more is found, and says what it did.
//
// An error says what is left and why: used by somebody else (ErrInUse: nothing was touched), a member that is not there
// (sysfs.ErrNoDevice: the rest was done), or what failed. It may be called again at any time. Whoever holds the array or its members with
// O_EXCL lets go of them before.
func TakeDown(ctx context.Context, h sysfs.Host, r Record) (did []string, err error) {
	m, err := live(h)
	if err != nil {
		return nil, err
	}
	return m.takeDown(ctx, r)
}

// Look says what TakeDown would do, and, as the error, what it could not. It changes nothing.
func Look(ctx context.Context, h sysfs.Host, r Record) (left []string, err error) {
	m, err := live(h)
	if err != nil {
		return nil, err
	}
	return m.look(ctx, r)
}

func (m machine) look(ctx context.Context, r Record) (left []string, err error) {
	f, err := m.find(ctx, r)
	if err != nil {
		return nil, cannotLook(r, err)
	}
	for _, a := range m.actions(f, r) {
		left = append(left, a.do)
	}
	return left, f.err()
}

func cannotLook(r Record, err error) error {
	return fmt.Errorf("look for what is left of the array %s: %w", r.UUID, err)
}

// takeDown looks, acts, and looks again until nothing is there. So udev's assembling the array anew between stop and zero (it does that when
// a member is closed) costs a round, and an array or mount that is busy for a moment does, too.
func (m machine) takeDown(ctx context.Context, r Record) (did []string, err error) {
	end := time.Now().Add(m.patience)
	for round := 1; ; round++ {
		f, err := m.find(ctx, r)
		if err != nil {
			return did, cannotLook(r, err)
		}
		late := time.Now().After(end)
		if len(f.blocked) > 0 && (!f.passing || late) {
			return did, f.err()
		}
		var failed []error
		if len(f.blocked) == 0 {
			actions := m.actions(f, r)
			if len(actions) == 0 {
				return did, f.err()
			}
			if round > 10 && time.Now().After(end) {
				return did, fmt.Errorf("the array %s comes back each time it is taken down: to do is still %q", r.UUID, actions[0].do)
			}
			var done []string
			done, failed = act(ctx, actions)
			did = append(did, done...)
		}
		stuck := errors.Is(errors.Join(failed...), sysfs.ErrStuck)
		if len(failed) > 0 && (late || stuck || ctx.Err() != nil) {
			return did, errors.Join(append(failed, f.unseen...)...)
		}
		if len(failed) > 0 || len(f.blocked) > 0 {
			if err := wait(ctx, m.moment); err != nil {
				return did, errors.Join(append(failed, f.err())...)
			}
		}
	}
}

// action is one thing that has to be done.
type action struct {
	do, done string
	act      func(ctx context.Context) error
	first    bool // what comes after it cannot be done without it
	optional bool // what comes after it takes it away, too
}

// act does one after another as far as that makes sense.
func act(ctx context.Context, actions []action) (did []string, failed []error) {
	for _, a := range actions {
		err := a.act(ctx)
		switch {
		case err == nil:
			did = append(did, a.done)
		case a.optional && ctx.Err() == nil && !errors.Is(err, sysfs.ErrStuck):
		default:
			failed = append(failed, fmt.Errorf("%s: %w", a.do, err))
			if a.first {
				return did, failed
			}
		}
	}
	return did, failed
}

// actions is all that is to be done about what was found, in order; none where somebody else uses it.
func (m machine) actions(f found, r Record) []action {
	if len(f.blocked) > 0 {
		return nil
	}
	var all []action
	for range f.mounts {
		all = append(all, action{do: "unmount " + r.MountPoint, done: "unmounted " + r.MountPoint, first: true,
			act: func(ctx context.Context) error { return m.unmountOurs(ctx, r.MountPoint) }})
	}
	for _, s := range f.signed {
		what := "the " + s.Type + " signature on " + s.device.Name
		all = append(all, action{do: "wipe " + what, done: "wiped " + what, optional: r.Level != LevelNone,
			act: func(ctx context.Context) error { return m.wipe(ctx, r, s) }})
	}
	for _, d := range f.arrays {
		all = append(all, action{do: "stop the array " + d.Name, done: "stopped the array " + d.Name, first: true,
			act: func(ctx context.Context) error { return m.stop(ctx, r, &f, d) }})
	}
	for _, d := range f.superblocks {
		what := "the md superblock of " + d.Name
		all = append(all, action{do: "zero " + what, done: "zeroed " + what,
			act: func(ctx context.Context) error { return m.zero(ctx, r, d) }})
	}
	if f.folder {
		all = append(all, action{do: "remove the folder " + r.MountPoint, done: "removed the folder " + r.MountPoint,
			act: func(context.Context) error { return m.removeFolder(r.MountPoint) }})
	}
	return all
}

func (m machine) unmountOurs(ctx context.Context, point string) error {
	err := within(ctx, mountTime, func() error { return m.unmount(m.path(point)) })
	if errors.Is(err, unix.EBUSY) {
		if who := m.usersOf(point); who != "" {
			return fmt.Errorf("%w: used by %s", err, who)
		}
	}
	return err
}

// wipe takes one signature away. It is looked at once more: unmounting can take long.
func (m machine) wipe(ctx context.Context, r Record, s signed) error {
	now, err := m.signatures(ctx, s.device)
	if err != nil {
		return err
	}
	for _, n := range now {
		if n == s.signature && sameUUID(n.UUID, r.UUID) {
			_, err = m.try(ctx, changeTime, "wipefs", "--offset", s.Offset, "--types", s.Type, s.device.Path)
			return err
		}
	}
	return fmt.Errorf("there is another signature on %s now", s.device.Name)
}

// stop stops an array if the name is still that of ours.
func (m machine) stop(ctx context.Context, r Record, f *found, d sysfs.Device) error {
	ours, err := m.isOurs(ctx, r, f, d)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("%s is another array now", d.Name)
	}
	if err := m.checkNode(d); err != nil {
		return err
	}
	_, err = m.try(ctx, changeTime, "mdadm", "--stop", d.Path)
	return err
}

// zero zeroes a member's superblock. Its UUID is read once more right before. With --metadata mdadm zeroes that version's superblock alone;
// without, every one that it finds, another's old one at the end of the disk too.
func (m machine) zero(ctx context.Context, r Record, d sysfs.Device) error {
	uuid, err := m.superblock(ctx, d)
	if err != nil {
		return err
	}
	if !sameUUID(uuid, r.UUID) {
		return fmt.Errorf("%s has the superblock of another array now (%s)", d.Name, uuid)
	}
	_, err = m.try(ctx, changeTime, "mdadm", "--zero-superblock", "--metadata="+metadata, d.Path)
	return err
}

func (m machine) removeFolder(point string) error {
	err := unix.Rmdir(m.path(point))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &os.PathError{Op: "rmdir", Path: point, Err: err}
}
