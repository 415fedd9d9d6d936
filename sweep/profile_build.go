package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
)

const (
	buildAllowed   = "how arrays are made, such as {members: [/dev/sdb, /dev/sdc, /dev/sdd], chunk_kb: 64, filesystem: ext4}"
	membersAllowed = "a list of disks or partitions, such as [/dev/sdb, /dev/sdc, /dev/sdd]"
	layoutAllowed  = "a layout of mdadm, such as left-symmetric (raid_level 5, 6) or f2 (10), or one for each raid_level: {5: left-symmetric, 10: f2}"
)

// buildKeys are the keys of build in the order in which YAML writes them.
func buildKeys() []string {
	return []string{"members", "chunk_kb", "layout", "bitmap", "initial_sync", "filesystem", "mkfs_options", "mount_options"}
}

// build reads how arrays are made. What depends on the levels is judged by buildLevels.
func (r *profileReader) build(n *yaml.Node) *BuildSpec {
	b := &BuildSpec{}
	fields, ok := r.fields(n, "build", buildAllowed)
	if !ok {
		return b
	}
	given := map[string]bool{}
	for _, f := range fields {
		given[f.name] = true
		r.p.places["build."+f.name] = at(f.value)
		switch f.name {
		case "members":
			b.Members = r.deviceList(f.value, "members", membersAllowed)
		case "chunk_kb":
			b.ChunkKB = r.chunk(f.value)
		case "layout":
			r.layout = f.value
		case "bitmap":
			b.Bitmap = r.oneOf(f.value, "bitmap", "none", "internal")
		case "initial_sync":
			b.InitialSync = r.yesNo(f.value, "initial_sync")
		case "filesystem":
			if b.Filesystem = r.oneOf(f.value, "filesystem", append(md.Filesystems(), "none")...); b.Filesystem == "none" {
				b.Filesystem = ""
			}
		case "mkfs_options":
			b.MkfsOptions = r.options(f.value, "mkfs_options", "options of mkfs, such as [-i, 65536] or \"-i 65536\"")
		case "mount_options":
			b.MountOptions = r.options(f.value, "mount_options", "options of mount, such as [noatime] or noatime,nodelalloc")
		default:
			r.unknown(f, "in build", buildKeys())
		}
	}
	if !given["members"] {
		r.fail(at(n), "build", "names no members; write members: [/dev/sdb, /dev/sdc, /dev/sdd]")
	}
	for _, key := range []string{"mkfs_options", "mount_options"} {
		if given[key] && b.Filesystem == "" {
			r.fail(r.p.places["build."+key], key, "is for a file system, and none is made; write filesystem: ext4 or xfs, or take it out")
		}
	}
	return b
}

// chunk reads chunk_kb: md takes powers of two.
func (r *profileReader) chunk(n *yaml.Node) int {
	const allowed = "a power of two in KiB, 4 at least, such as 64"
	text, ok := r.scalar(n, "chunk_kb", allowed)
	if !ok {
		return 0
	}
	kb, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(kb) != text || kb < 4 || kb > 1<<20 || kb&(kb-1) != 0 {
		r.wrong(at(n), "chunk_kb", text, "%s", allowed)
		return 0
	}
	return kb
}

// yesNo reads yes or no in the words that write_cache has for on and off.
func (r *profileReader) yesNo(n *yaml.Node, key string) bool {
	const allowed = "yes or no (true or false, on or off, 1 or 0)"
	text, ok := r.scalar(n, key, allowed)
	yes := slices.Contains([]string{"yes", "true", "on", "1"}, text)
	if ok && !yes && !slices.Contains([]string{"no", "false", "off", "0"}, text) {
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return yes
}

// options reads words for a command: a list, or one text with blanks between them. No shell sees them.
func (r *profileReader) options(n *yaml.Node, key, allowed string) []string {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var words []string
	for _, item := range items {
		text, ok := r.scalar(item, key, allowed)
		if ok && (strings.TrimSpace(text) == "" || !printable(text)) {
			r.wrong(at(item), key, text, "%s", allowed)
		}
		words = append(words, strings.Fields(text)...)
	}
	return words
}

// buildLevels judges what build says by the levels that are to be built, as far as it is wrong on any machine.
func (r *profileReader) buildLevels(used []string) {
	b := r.p.Target.Build
	for _, level := range used {
		if err := b.check(level, func(*md.Spec) {}); err != nil && len(b.Members) > 0 {
			r.wrong(r.p.places["level "+raidLevel+"="+level], raidLevel, level, "%v", err)
		}
	}
	r.forSome(used, "chunk_kb", strconv.Itoa(b.ChunkKB), b.ChunkKB > 0, md.HasChunk, func(s *md.Spec) { s.ChunkKB = b.ChunkKB })
	r.forSome(used, "bitmap", b.Bitmap, b.Bitmap == "internal", md.HasBitmap, func(s *md.Spec) { s.Bitmap = b.Bitmap })
	if r.layout != nil {
		r.layouts(used)
	}
	if slices.Contains(md.Filesystems(), b.Filesystem) {
		r.optionsOf(b, "mkfs_options", b.MkfsOptions, func(s *md.Spec) { s.MkfsOptions = b.MkfsOptions })
		r.optionsOf(b, "mount_options", b.MountOptions, func(s *md.Spec) { s.MountOptions = b.MountOptions })
	}
}

// optionsOf refuses options that mkfs or mount is not to be given.
func (r *profileReader) optionsOf(b *BuildSpec, key string, words []string, put func(*md.Spec)) {
	alone := BuildSpec{Members: []string{"alone"}}
	err := alone.check(md.LevelNone, func(s *md.Spec) { s.Filesystem = b.Filesystem; put(s) })
	if err != nil {
		r.wrong(r.p.places["build."+key], key, strings.Join(words, " "), "%s", strings.TrimPrefix(err.Error(), key+": "))
	}
}

// forSome refuses a value of build that no level of the matrix has a use for; a level that has none is built without it.
func (r *profileReader) forSome(used []string, key, value string, given bool, has func(level string) bool, put func(*md.Spec)) {
	if given && len(used) > 0 && !slices.ContainsFunc(used, has) {
		r.wrong(r.p.places["build."+key], key, value, "%v; take it out", r.p.Target.Build.check(used[0], put))
	}
}

// check asks md what is wrong with one value of build at one level: with members that are only counted, and nothing else in it.
func (b *BuildSpec) check(level string, put func(*md.Spec)) error {
	s := md.Spec{UUID: md.NewUUID(), Level: level, MountPoint: "/mnt"}
	for _, name := range b.Members {
		s.Members = append(s.Members, sysfs.Device{Name: name, Kind: sysfs.KindDisk})
	}
	put(&s)
	if err := s.Check(); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// layouts reads layout: one text for the levels that know it, or one for each raid_level.
func (r *profileReader) layouts(used []string) {
	b := r.p.Target.Build
	b.Layout = map[string]string{}
	put := func(level, text string, place position) {
		err := b.check(level, func(s *md.Spec) { s.Layout = text })
		if err != nil && b.check(level, func(*md.Spec) {}) == nil { // else that is said already
			r.wrong(place, "layout", text, "%v", err)
		}
		b.Layout[level] = text
	}
	if r.layout.Kind != yaml.MappingNode {
		text, ok := r.scalar(r.layout, "layout", layoutAllowed)
		if !ok {
			return
		}
		known := md.LayoutLevels(text)
		for _, level := range used {
			if slices.Contains(known, level) {
				put(level, text, at(r.layout))
			}
		}
		switch {
		case len(known) == 0:
			r.wrong(at(r.layout), "layout", text, "%s", layoutAllowed)
		case len(b.Layout) == 0:
			r.wrong(at(r.layout), "layout", text, "is of raid_level %s, and none of them is in the matrix; take it out", strings.Join(known, ", "))
		}
		return
	}
	fields, _ := r.fields(r.layout, "layout", layoutAllowed)
	for _, f := range fields {
		level, ok := r.level(raidLevel, f.key)
		text, good := r.scalar(f.value, "layout", layoutAllowed)
		if !ok || !good {
			continue
		}
		put(level, text, at(f.value))
		if !slices.Contains(used, level) {
			r.p.Warnings = append(r.p.Warnings, fmt.Sprintf("%s:%d: layout: no raid_level of the matrix is %s: its entry is not used", r.p.File, f.key.Line, level))
		}
	}
}
