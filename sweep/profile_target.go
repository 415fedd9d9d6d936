package sweep

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// target reads the target; a profile may leave it to --device.
func (r *profileReader) target(n *yaml.Node) {
	keys := []string{"device", "directory"}
	later := map[string]string{
		"devices": "write one device: NAME, and run the profile once for each (--device)",
		"arrays":  "write device: /dev/mdN or directory: PATH, and run the profile once for each array (--device, --directory)",
		"build":   "build the array with mdadm, then write device: /dev/mdN or directory: PATH",
	}
	fields, ok := r.fields(n, "target", "write device: NAME or directory: PATH below it")
	if !ok {
		return
	}
	for _, f := range fields {
		r.p.places["target."+f.name] = at(f.value)
		switch f.name {
		case "device":
			r.p.Target.Device = r.targetText(f.value, "device", deviceAllowed, goodDevice)
		case "directory":
			r.p.Target.Directory = r.targetText(f.value, "directory", directoryAllowed, goodDirectory)
		default:
			r.unknown(f, "in target", keys, later)
		}
	}
	if r.p.Target.Device != "" && r.p.Target.Directory != "" {
		r.fail(at(n), "target", "a device or a directory, not both")
	}
	if len(fields) == 0 {
		r.fail(at(n), "target", "write device: NAME or directory: PATH; or leave target out and give --device or --directory")
	}
}

const (
	deviceAllowed    = "a device: sdb, /dev/sdb, a link in /dev/disk/by-id, wwid:…, serial:…"
	directoryAllowed = "a directory, as an absolute path"
)

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
