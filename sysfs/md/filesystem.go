package md

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// filesystem is how one is made. Which options a profile may add is listed, letter by letter: a word that mkfs takes for a device or a
// file would be formatted or read as root.
type filesystem struct {
	name, program, pkg string

	flags, values string              // letters of options without and with a value
	ours          map[string][]string // keys in a value that are set here, or lead to another device: "E" of ext4
	fixed         func(uuid string) []string
	extended      string // the option that mkfs takes once only, where ours and the profile's have to be one
}

func filesystems() []filesystem {
	return []filesystem{
		{
			// Without lazy initialisation: it goes on for minutes after the first mount, beside the workload.
			name: "ext4", program: "mkfs.ext4", pkg: "e2fsprogs",
			flags: "j", values: "bCEGIJLNOTegimr",
			ours: map[string][]string{
				"E": {"lazy_itable_init", "lazy_journal_init", "discard", "nodiscard", "offset"},
				"J": {"device"}, "O": {"journal_dev"},
			},
			extended: "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
			fixed:    func(uuid string) []string { return []string{"-q", "-F", "-U", uuid} },
		},
		{
			name: "xfs", program: "mkfs.xfs", pkg: "xfsprogs",
			values: "bdilLmns",
			ours:   map[string][]string{"m": {"uuid"}, "d": {"name", "file"}, "l": {"logdev", "name", "file"}},
			fixed:  func(uuid string) []string { return []string{"-q", "-f", "-K", "-m", "uuid=" + uuid} },
		},
	}
}

// Filesystems are those that can be made: ext4, xfs.
func Filesystems() []string {
	var names []string
	for _, f := range filesystems() {
		names = append(names, f.name)
	}
	return names
}

func lookupFilesystem(name string) (filesystem, bool) {
	all := filesystems()
	i := slices.IndexFunc(all, func(f filesystem) bool { return f.name == name })
	if i < 0 {
		return filesystem{}, false
	}
	return all[i], true
}

// arguments are mkfs's, for a node.
func (f filesystem) arguments(uuid string, more []string, node string) ([]string, error) {
	options, err := f.options(more)
	if err != nil {
		return nil, err
	}
	return append(append(f.fixed(uuid), options...), node), nil
}

// options reads a profile's mkfs_options, "-b", "4096" or "-b4096" or "-b 4096", and joins them with ours.
func (f filesystem) options(words []string) ([]string, error) {
	words = strings.Fields(strings.Join(words, " "))
	var args []string
	extended := f.extended
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) < 2 || word[0] != '-' {
			return nil, fmt.Errorf("mkfs_options: %q is not an option of %s", word, f.program)
		}
		letter, value := word[1:2], word[2:]
		switch {
		case strings.Contains(f.flags, letter) && value == "":
			args = append(args, word)
			continue
		case !strings.Contains(f.values, letter):
			return nil, fmt.Errorf("mkfs_options: %q of %s is not possible here: %s are", word, f.program, f.letters())
		}
		if value == "" {
			if i++; i == len(words) {
				return nil, fmt.Errorf("mkfs_options: -%s of %s needs a value", letter, f.program)
			}
			value = words[i]
		}
		if err := f.checkValue(letter, value); err != nil {
			return nil, err
		}
		if letter == "E" && f.extended != "" {
			extended += "," + value
			continue
		}
		args = append(args, "-"+letter, value)
	}
	if extended != "" {
		args = append([]string{"-E", extended}, args...)
	}
	return args, nil
}

func (f filesystem) checkValue(letter, value string) error {
	if value[0] == '-' || strings.Contains(value, "/") {
		return fmt.Errorf("mkfs_options: -%s %q of %s: no value names a file or a device, or begins with -", letter, value, f.program)
	}
	for _, part := range strings.Split(value, ",") {
		key, _, _ := strings.Cut(part, "=")
		if slices.Contains(f.ours[letter], strings.TrimPrefix(key, "^")) {
			return fmt.Errorf("mkfs_options: -%s %s of %s is not possible here: qdsweep decides about it", letter, key, f.program)
		}
	}
	return nil
}

// letters is "-b, -E and -m".
func (f filesystem) letters() string {
	all := f.flags + f.values
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, "-"+string(c))
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// mountFlags makes mount(2)'s arguments of mount options as in fstab. What it does not know goes to the file system as it is.
func mountFlags(options []string) (flags uintptr, data string, err error) {
	set := map[string]uintptr{
		"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME, "strictatime": unix.MS_STRICTATIME,
		"lazytime": unix.MS_LAZYTIME, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC, "nosuid": unix.MS_NOSUID,
		"nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "rw": 0, "defaults": 0,
	}
	refused := []string{"ro", "remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "shared", "private", "slave", "unbindable", "logdev", "rtdev",
		"journal_path", "journal_dev"}
	var rest []string
	for _, o := range strings.Split(strings.Join(options, ","), ",") {
		o = strings.TrimSpace(o)
		key, _, _ := strings.Cut(o, "=")
		flag, known := set[o]
		switch {
		case o == "":
		case slices.Contains(refused, key):
			return 0, "", fmt.Errorf("mount_options: %q is not possible here: the array's own file system is mounted, for writing", o)
		case known:
			flags |= flag
		default:
			rest = append(rest, o)
		}
	}
	return flags, strings.Join(rest, ","), nil
}
