package md

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"qdsweep/sysfs"
)

// Check judges a spec without a machine: everything that mdadm, mkfs or the kernel would refuse on any. All reasons are joined.
func (s Spec) Check() error {
	var errs []error
	wrong := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }

	if s.UUID != strings.ToLower(s.UUID) || len(s.UUID) != 36 || plainUUID(s.UUID) == "" {
		wrong("%q is no UUID of an array: it has 32 hex digits in lower case, as 21514354-7f0c-4045-8c4d-8722426fdbbd", s.UUID)
	}
	l, known := lookupLevel(s.Level)
	if !known {
		wrong("there is no RAID level %q: %s are possible", s.Level, strings.Join(Levels(), ", "))
		return errors.Join(errs...)
	}
	if n := len(s.Members); n < l.members {
		wrong("%s needs at least %d members and has %d", levelText(s.Level), l.members, n)
	}
	seen := map[string]bool{}
	for _, d := range s.Members {
		if seen[d.Name] {
			wrong("%s is a member twice", d.Name)
		}
		seen[d.Name] = true
		if k := d.Kind; k != sysfs.KindDisk && k != sysfs.KindPartition && k != sysfs.KindLoop {
			wrong("%s is a device of kind %q: members are disks or partitions", d.Name, k)
		}
	}
	switch {
	case s.ChunkKB == 0:
	case !l.chunk:
		wrong("%s has no chunks: chunk_kb is for %s", levelText(s.Level), levelList(func(l level) bool { return l.chunk }))
	case s.ChunkKB < 4 || s.ChunkKB&(s.ChunkKB-1) != 0:
		wrong("chunk_kb %d is not possible: it is a power of two, 4 or more", s.ChunkKB)
	}
	if s.Layout != "" {
		if _, ok := layoutNumber(s.Level, s.Layout); !ok {
			wrong("%s has no layout %q: %s", levelText(s.Level), s.Layout, layoutsAllowed(s.Level))
		} else if copies := raid10Copies(s.Layout); s.Level == "10" && copies > len(s.Members) {
			wrong("layout %s keeps %d copies, and there are %d members", s.Layout, copies, len(s.Members))
		}
	}
	switch {
	case s.Bitmap != "" && s.Bitmap != "none" && s.Bitmap != "internal":
		wrong("there is no bitmap %q: none and internal are possible", s.Bitmap)
	case s.Bitmap == "internal" && !l.bitmap:
		wrong("%s has no bitmap: bitmap internal is for %s", levelText(s.Level), levelList(func(l level) bool { return l.bitmap }))
	}
	errs = append(errs, s.checkFilesystem()...)
	return errors.Join(errs...)
}

func (s Spec) checkFilesystem() (errs []error) {
	if s.Filesystem == "" {
		if len(s.MkfsOptions)+len(s.MountOptions) > 0 {
			errs = append(errs, errors.New("mkfs_options and mount_options need a filesystem"))
		}
		return errs
	}
	f, ok := lookupFilesystem(s.Filesystem)
	if !ok {
		return append(errs, fmt.Errorf("no filesystem %q can be made: %s are possible", s.Filesystem, strings.Join(Filesystems(), ", ")))
	}
	if !path.IsAbs(s.MountPoint) || path.Clean(s.MountPoint) != s.MountPoint || s.MountPoint == "/" {
		errs = append(errs, fmt.Errorf("the mount point %q is not an absolute path of a folder", s.MountPoint))
	}
	if _, err := f.options(s.MkfsOptions); err != nil {
		errs = append(errs, err)
	}
	if _, _, err := mountFlags(s.MountOptions); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// levelText names a level in a sentence.
func levelText(name string) string {
	if name == LevelNone {
		return "level none"
	}
	return "RAID level " + name
}

// levelList is "levels 0, 4, 5, 6 and 10".
func levelList(f func(level) bool) string {
	names := levelsThat(f)
	return "levels " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
