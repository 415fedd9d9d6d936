package sweep

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const buildAllowed = "how arrays are made, such as {members: [/dev/sdb, /dev/sdc, /dev/sdd], chunk_kb: 64, filesystem: ext4}"

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
	places := map[string]position{}
	for _, f := range fields {
		places[f.name] = at(f.value)
		r.p.places["build."+f.name] = at(f.value)
		switch f.name {
		case "members":
			b.Members = r.deviceList(f.value, "members", "a list of disks or partitions, such as [/dev/sdb, /dev/sdc, /dev/sdd]")
		case "chunk_kb":
			b.ChunkKB = r.chunk(f.value)
		case "layout":
			r.layout = f.value
		case "bitmap":
			b.Bitmap = r.oneOf(f.value, "bitmap", "none", "internal")
		case "initial_sync":
			b.InitialSync = r.yesNo(f.value, "initial_sync")
		case "filesystem":
			if b.Filesystem = r.oneOf(f.value, "filesystem", "ext4", "xfs", "none"); b.Filesystem == "none" {
				b.Filesystem = ""
			}
		case "mkfs_options":
			b.MkfsOptions = r.options(f.value, "mkfs_options", "words for mkfs, such as [-i, 65536]")
		case "mount_options":
			b.MountOptions = r.options(f.value, "mount_options", "options of mount, such as [noatime, nobarrier]")
		default:
			r.unknown(f, "in build", buildKeys(), nil)
		}
	}
	if places["members"] == (position{}) {
		r.fail(at(n), "build", "names no members; write members: [/dev/sdb, /dev/sdc, /dev/sdd]")
	}
	for _, key := range []string{"mkfs_options", "mount_options"} {
		if p, given := places[key]; given && b.Filesystem == "" {
			r.fail(p, key, "without a file system there is nothing to give it to; write filesystem: ext4 or xfs, or take it out")
		}
	}
	return b
}

// chunk reads chunk_kb: md takes powers of two, from one page on.
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
	if !ok {
		return false
	}
	yes := slices.Contains([]string{"yes", "true", "on", "1"}, text)
	if !yes && !slices.Contains([]string{"no", "false", "off", "0"}, text) {
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return yes
}

// options reads words for a command: a list, or one text with blanks between them. No shell sees them.
func (r *profileReader) options(n *yaml.Node, key, allowed string) []string {
	var words []string
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			word, ok := r.scalar(item, key, allowed)
			if ok && (word == "" || strings.ContainsAny(word, " \t") || !printable(word)) {
				r.wrong(at(item), key, word, "one word; %s", allowed)
				continue
			}
			words = append(words, word)
		}
		return words
	}
	text, ok := r.scalar(n, key, allowed)
	if ok && !printable(text) {
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return strings.Fields(text)
}

// buildLevels judges what build says by the levels that are to be built.
func (r *profileReader) buildLevels(used []string) {
	if r.layout != nil {
		r.layouts(used)
	}
}

// layouts reads layout: one text for the levels that know it, or one for each raid_level.
func (r *profileReader) layouts(used []string) {
	b := r.p.Target.Build
	b.Layout = map[string]string{}
	const allowed = "a layout of mdadm, such as left-symmetric (raid_level 5, 6) or f2 (10), or one for each raid_level: {5: left-symmetric, 10: f2}"
	if r.layout.Kind != yaml.MappingNode {
		text, _ := r.scalar(r.layout, "layout", allowed)
		for _, level := range used {
			b.Layout[level] = text
		}
		return
	}
	fields, _ := r.fields(r.layout, "layout", allowed)
	for _, f := range fields {
		level, ok := r.level(raidLevel, f.key)
		text, good := r.scalar(f.value, "layout", allowed)
		if ok && good {
			b.Layout[level] = text
		}
	}
}
