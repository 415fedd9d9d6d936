package sysfs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Refusals of a level: the kernel's word for "this device cannot have that".
var invalidErrnos = []unix.Errno{unix.EINVAL, unix.EOPNOTSUPP, unix.ERANGE}

func isErrno(err error, any ...unix.Errno) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && slices.Contains(any, errno)
}

// Apply makes one setting and reads it back. effective is what is in force then, which may be another
// level (a clamp, a drive that does not obey): that is no error. Levels that the device cannot have are
// ErrUnsupported; a write that does not come back before the context ends is ErrStuck, and may still
// take effect later. The write cache gets the same commands also where the level is already in force.
func (d Device) Apply(ctx context.Context, s Setting) (effective string, err error) {
	k, err := lookup(s.Knob)
	if err != nil {
		return "", err
	}
	level, err := k.Canonical(s.Level)
	if err != nil {
		return "", err
	}
	doing := func(err error) error {
		return fmt.Errorf("set %s of %s to %s: %w", k.Name, d.Name, level, err)
	}
	if k.attribute != "" {
		if exists, writable, err := d.writableAttribute(k.attribute); err == nil && (!exists || !writable) {
			if _, err = d.Allowed(ctx, k.Name); err == nil {
				err = notSupported("%s has no %s", describeKind(d), k.Name)
			}
			return "", doing(err)
		}
	}
	if err := k.set(ctx, d, level); err != nil {
		if k.attribute != "" && isErrno(err, invalidErrnos...) {
			err = fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		return "", doing(err)
	}
	effective, err = k.current(ctx, d)
	if err != nil {
		return "", fmt.Errorf("read back %s of %s after setting it to %s: %w", k.Name, d.Name, level, err)
	}
	return effective, nil
}
