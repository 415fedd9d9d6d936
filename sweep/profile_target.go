package sweep

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// targetForms are the ways to say what is driven; a profile has one of them, or leaves the target to --device.
func targetForms() []string { return []string{"device", "directory", "devices", "arrays", "build"} }

const (
	targetAllowed    = "write device: NAME or directory: PATH below it (or devices, arrays, build); or leave target out and give --device or --directory"
	deviceAllowed    = "a device: sdb, /dev/sdb, a link in /dev/disk/by-id, wwid:…, serial:…"
	directoryAllowed = "a directory, as an absolute path"
	devicesAllowed   = "a list of devices, such as [/dev/sdb, /dev/sdc]; each is driven in turn"
	arraysAllowed    = "what each raid_level drives, such as {5: /dev/md5, 10: /mnt/r10}"
)

// target reads the target; a profile may leave it to --device.
func (r *profileReader) target(n *yaml.Node) {
	fields, ok := r.fields(n, "target", targetAllowed)
	if !ok {
		return
	}
	t := &r.p.Target
	var forms []string
	for _, f := range fields {
		r.p.places["target."+f.name] = at(f.value)
		if slices.Contains(targetForms(), f.name) {
			forms = append(forms, f.name)
		}
		switch f.name {
		case "device":
			t.Device = r.targetText(f.value, f.name, deviceAllowed, goodDevice)
		case "directory":
			t.Directory = r.targetText(f.value, f.name, directoryAllowed, goodDirectory)
		case "devices":
			t.Devices = r.deviceList(f.value, f.name, devicesAllowed)
		case "arrays":
			t.Arrays = r.arrays(f.value)
		case "build":
			t.Build = r.build(f.value)
		default:
			r.unknown(f, "in target", targetForms())
		}
	}
	if len(forms) > 1 {
		r.fail(at(n), "target", "one of %s, and no more; here are %s", strings.Join(targetForms(), ", "), strings.Join(forms, ", "))
	}
	if len(fields) == 0 {
		r.fail(at(n), "target", targetAllowed)
	}
}

func goodDevice(text string) bool {
	return printable(text) && strings.TrimSpace(text) == text && text != "" && !strings.HasPrefix(text, "-")
}

func goodDirectory(text string) bool { return printable(text) && strings.HasPrefix(text, "/") }

func (r *profileReader) targetText(n *yaml.Node, key, allowed string, good func(string) bool) string {
	text, ok := r.scalar(n, key, allowed)
	if ok && !good(text) {
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return text
}

// deviceList reads devices as they are typed. Two names of one drive are found out by the plan.
func (r *profileReader) deviceList(n *yaml.Node, key, allowed string) []string {
	all := []string{} // not nil: what was wrong with it is said, and it is a target of this form all the same
	items, ok := r.items(n, key, allowed)
	if ok && len(items) == 0 {
		r.fail(at(n), key, "no device; %s", allowed)
	}
	first := map[string]int{}
	for _, item := range items {
		text, ok := r.scalar(item, key, deviceAllowed)
		switch line, twice := first[text]; {
		case !ok:
			continue
		case !goodDevice(text):
			r.wrong(at(item), key, text, "%s", deviceAllowed)
			continue
		case twice:
			r.wrong(at(item), key, text, "is there already, on line %d; take one out", line)
			continue
		}
		first[text] = item.Line
		all = append(all, text)
		r.place(key, text, at(item))
	}
	return all
}

// arrays reads what each raid_level drives. Whether it is of that level is for the plan to see.
func (r *profileReader) arrays(n *yaml.Node) []ArraySpec {
	all := []ArraySpec{}
	fields, ok := r.fields(n, "arrays", arraysAllowed)
	if ok && len(fields) == 0 {
		r.fail(at(n), "arrays", "no array; %s", arraysAllowed)
	}
	for _, f := range fields {
		level, good := r.level(raidLevel, f.key)
		text, ok := r.scalar(f.value, "arrays", "a device or a directory")
		if !ok || !good {
			continue
		}
		a := ArraySpec{Level: level}
		if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "/dev/") {
			a.Directory = r.targetText(f.value, "arrays", directoryAllowed, goodDirectory)
		} else {
			a.Device = r.targetText(f.value, "arrays", "a device, as /dev/md5, or a directory, as /mnt/r5", goodDevice)
		}
		all = append(all, a)
		r.place("arrays", level, at(f.value))
	}
	return all
}
