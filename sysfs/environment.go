package sysfs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Environment describes what a figure depends on besides the settings: kernel, CPU governor, and of
// each member driver, controller, model, firmware, serial, link and scheduler; the layers in between
// and the mount. What the machine does not say is left out.
func (h Host) Environment(s Stack) map[string]any {
	env := map[string]any{}
	put(env, "kernel", h.KernelRelease())
	put(env, "kernel_version", h.text("/proc/sys/kernel/version"))
	put(env, "host", h.text("/proc/sys/kernel/hostname"))
	put(env, "cpu_governor", h.governors())
	put(env, "cpu_model", h.cpuModel())
	put(env, "target", s.Target)
	if s.Device.Name != "" {
		put(env, "device", s.Device.Path)
	}
	if s.Directory != "" {
		put(env, "directory", s.Directory)
		put(env, "filesystem", s.FileSystem)
		put(env, "mount_point", s.MountPoint)
		put(env, "mount_options", s.MountOptions)
	}
	put(env, "no_knobs", s.NoKnobs)
	var members, layers, arrays []map[string]any
	for _, m := range s.Members {
		members = append(members, h.memberEnvironment(m))
	}
	for _, l := range s.Layers {
		layer := map[string]any{"name": l.Device.Name, "kind": string(l.Device.Kind)}
		put(layer, "detail", l.Detail)
		layers = append(layers, layer)
		if l.Device.Kind == KindMD {
			arrays = append(arrays, h.arrayEnvironment(l.Device))
		}
	}
	if members != nil {
		env["members"] = members
	}
	if layers != nil {
		env["layers"] = layers
	}
	if arrays != nil {
		env["arrays"] = arrays
	}
	return env
}

func (h Host) memberEnvironment(m Device) map[string]any {
	e := map[string]any{"name": m.Name, "size_bytes": m.Bytes, "logical_block": m.LogicalBlock,
		"physical_block": m.PhysicalBlock, "rotational": m.Rotational}
	put(e, "identity", string(m.Identity))
	put(e, "model", m.Model)
	put(e, "serial", m.Serial)
	put(e, "firmware", m.Firmware)
	put(e, "driver", m.Driver)
	put(e, "controller", m.Controller)
	put(e, "transport", m.Transport)
	put(e, "link_speed", m.LinkSpeed)
	put(e, "scheduler", chosen(h.text(m.dir+"/queue/scheduler")))
	put(e, "nr_requests", h.text(m.dir+"/queue/nr_requests"))
	put(e, "kernel_write_cache", h.text(m.dir+"/queue/write_cache"))
	put(e, "backing_file", h.text(m.dir+"/loop/backing_file"))
	return e
}

// arrayEnvironment is an array's layout, in the words of its md/ attributes.
func (h Host) arrayEnvironment(d Device) map[string]any {
	e := map[string]any{"name": d.Name}
	put(e, "uuid", strings.TrimPrefix(d.WWID, "md-uuid-"))
	for _, attribute := range []string{"level", "raid_disks", "chunk_size", "layout", "metadata_version", "array_state",
		"sync_action", "degraded", "bitmap/location", "consistency_policy", "stripe_cache_size"} {
		put(e, strings.ReplaceAll(attribute, "/", "_"), h.text(d.dir+"/md/"+attribute))
	}
	var members []string
	for _, entry := range h.names(d.dir + "/md") {
		if name, ok := strings.CutPrefix(entry, "dev-"); ok {
			members = append(members, name+" "+first(h.text(d.dir+"/md/"+entry+"/state"), "state unknown"))
		}
	}
	if members != nil {
		e["members"] = members
	}
	return e
}

var cpuName = regexp.MustCompile(`^cpu\d+$`)

// governors lists the frequency governors in use: more than one where CPUs differ.
func (h Host) governors() string {
	seen := map[string]bool{}
	for _, cpu := range h.names("/sys/devices/system/cpu") {
		if g := h.text("/sys/devices/system/cpu/" + cpu + "/cpufreq/scaling_governor"); cpuName.MatchString(cpu) && g != "" {
			seen[g] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

func (h Host) cpuModel() string {
	text, err := h.readAll("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(text, "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// chosen gives the level in brackets of a line like "none [mq-deadline] kyber".
func chosen(line string) string {
	_, rest, ok := strings.Cut(line, "[")
	level, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return line
	}
	return level
}

func put(m map[string]any, key, value string) {
	if value != "" {
		m[key] = value
	}
}
