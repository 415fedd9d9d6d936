package sysfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	plainDecimal  = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)
	schedulerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,30}$`)
)

// decimal accepts plain decimals from lowest on.
func decimal(lowest int) func(string) (string, error) {
	return func(level string) (string, error) {
		if !plainDecimal.MatchString(level) {
			return "", errors.New("not a plain decimal number (no sign, blank, leading zero or 0x: the kernel reads those otherwise)")
		}
		if n, err := strconv.Atoi(level); err != nil || n < lowest {
			return "", fmt.Errorf("below %d, which no machine can have", lowest)
		}
		return level, nil
	}
}

// number is a knob that is a number in queue/.
func number(name, unit string, lowest int, limits func(context.Context, Device) (Allowed, error)) Knob {
	k := Knob{Name: name, Unit: unit, attribute: "queue/" + name, canonical: decimal(lowest)}
	k.allowed = func(ctx context.Context, d Device) (Allowed, error) {
		if a, err := k.present(ctx, d); err != nil {
			return a, err
		}
		a, err := limits(ctx, d)
		if err != nil {
			return a, err
		}
		a.Min, a.Writable = max(a.Min, lowest), true
		return a, nil
	}
	k.current, k.set = k.readAttribute, k.writeAttribute
	return k
}

// words is a knob of queue/ with few levels.
func words(name string, levels ...string) Knob {
	k := Knob{Name: name, attribute: "queue/" + name}
	k.canonical = func(level string) (string, error) {
		if !slices.Contains(levels, level) {
			return "", fmt.Errorf("not one of %s", strings.Join(levels, ", "))
		}
		return level, nil
	}
	k.allowed = func(ctx context.Context, d Device) (Allowed, error) {
		if a, err := k.present(ctx, d); err != nil {
			return a, err
		}
		return Allowed{Levels: slices.Clone(levels), Writable: true}, nil
	}
	k.current, k.set = k.readAttribute, k.writeAttribute
	return k
}

// present is an error that says why the device has not got the attribute for writing.
func (k Knob) present(ctx context.Context, d Device) (Allowed, error) {
	exists, writable, err := d.writableAttribute(k.attribute)
	switch {
	case err != nil:
		return Allowed{}, err
	case !exists:
		err = notSupported("%s has no %s", describeKind(d), k.Name)
	case !writable:
		err = notSupported("fixed by the driver%s (the attribute is read-only)", inParentheses(d.Driver))
	default:
		// wbt_lat_usec is there, and EINVAL, where the kernel was built without it.
		if _, err = k.readAttribute(ctx, d); err == nil {
			return Allowed{}, nil
		}
		if errors.Is(err, os.ErrInvalid) || isErrno(err, invalidErrnos...) {
			err = notSupported("the kernel does not have it on this device (%v)", err)
		}
		return Allowed{}, err
	}
	return Allowed{Reason: err.Error()}, err
}

func (k Knob) readAttribute(ctx context.Context, d Device) (string, error) {
	if exists, _, err := d.writableAttribute(k.attribute); err == nil && !exists {
		return "", notSupported("%s has no %s", describeKind(d), k.Name)
	}
	text, err := d.host.ReadWithin(ctx, d.dir+"/"+k.attribute)
	return strings.TrimSpace(text), err
}

func (k Knob) writeAttribute(ctx context.Context, d Device, level string) error {
	return d.host.Write(ctx, d.dir+"/"+k.attribute, level)
}

func inParentheses(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func describeKind(d Device) string {
	switch {
	case d.Transport == "nvme":
		return "an NVMe drive"
	case d.Transport == "virtio":
		return "a virtio disk"
	case d.Kind == KindPartition:
		return "a partition"
	case d.Kind == KindMD:
		return "an md array"
	case d.Kind == KindDM:
		return "a device-mapper device"
	case d.Kind == KindLoop:
		return "a loop device"
	case d.Transport != "":
		return "this " + d.Transport + " device"
	}
	return "this device"
}

func upTo(highest int) func(context.Context, Device) (Allowed, error) {
	return func(context.Context, Device) (Allowed, error) { return Allowed{Max: highest}, nil }
}

// nrRequestsRange: without a scheduler the hardware queue's size is the limit (a SCSI host's
// can_queue; elsewhere not shown); with one, blk-mq's MAX_SCHED_RQ. md, and dm but for multipath, pass
// on what they get and have no requests of their own: older kernels show a number there all the same.
func nrRequestsRange(ctx context.Context, d Device) (Allowed, error) {
	const maxSchedRQ = 2048
	if (d.Kind == KindMD || d.Kind == KindDM) && !d.host.exists(d.dir+"/mq") {
		err := notSupported("%s queues no requests of its own", describeKind(d))
		return Allowed{Reason: err.Error()}, err
	}
	return Allowed{Max: maxSchedRQ}, nil
}

// maxSectorsRange: from the page size to max_hw_sectors_kb. A limit of the device that sysfs does not
// show may still clamp a level when it is applied.
func maxSectorsRange(ctx context.Context, d Device) (Allowed, error) {
	text, err := d.host.ReadWithin(ctx, d.dir+"/queue/max_hw_sectors_kb")
	if err != nil {
		return Allowed{}, err
	}
	hardware, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return Allowed{}, fmt.Errorf("max_hw_sectors_kb is %q", text)
	}
	a := Allowed{Min: d.host.pageSizeKB(), Max: hardware}
	if a.Min > 4 {
		a.Reason = fmt.Sprintf("at least the page size, %d KiB", a.Min)
	}
	return a, nil
}

// WithPageSize says how large the machine's pages are, in bytes; without it they are the running
// kernel's.
func WithPageSize(bytes int) Option {
	return func(h *Host) { h.pageKB = bytes / 1024 }
}

func (h Host) pageSizeKB() int {
	if h.pageKB > 0 {
		return h.pageKB
	}
	return os.Getpagesize() / 1024
}

// schedulerKnob: the attribute shows "none [mq-deadline] kyber"; one name is written. Writing another
// one resets nr_requests and makes iosched/ anew.
func schedulerKnob() Knob {
	k := words("scheduler")
	k.canonical = func(level string) (string, error) {
		if !schedulerName.MatchString(level) {
			return "", errors.New("not a scheduler's name")
		}
		return level, nil
	}
	k.allowed = func(ctx context.Context, d Device) (Allowed, error) {
		if a, err := k.present(ctx, d); err != nil {
			return a, err
		}
		text, err := k.readAttribute(ctx, d)
		if err != nil {
			return Allowed{}, err
		}
		names, _ := parseScheduler(text)
		if len(names) < 2 {
			return Allowed{Levels: names, Writable: true, Reason: "the kernel offers no other here"}, nil
		}
		return Allowed{Levels: names, Writable: true}, nil
	}
	k.current = func(ctx context.Context, d Device) (string, error) {
		text, err := k.readAttribute(ctx, d)
		_, selected := parseScheduler(text)
		return selected, err
	}
	return k
}

// parseScheduler reads the names and the selected one, which is bracketed, or the only one.
func parseScheduler(text string) (names []string, selected string) {
	for _, f := range strings.Fields(text) {
		if bare, ok := strings.CutPrefix(f, "["); ok {
			f = strings.TrimSuffix(bare, "]")
			selected = f
		}
		names = append(names, f)
	}
	if selected == "" && len(names) == 1 {
		selected = names[0]
	}
	return names, selected
}
