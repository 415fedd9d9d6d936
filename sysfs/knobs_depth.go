package sysfs

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"qdsweep/sysfs/sgio"
)

// queueDepthKnob is /sys/block/X/device/queue_depth, which SCSI and libata disks have.
func queueDepthKnob() Knob {
	k := number("queue_depth", "", 1, queueDepthRange)
	k.attribute = "device/queue_depth"
	k.current, k.set = k.readAttribute, k.writeAttribute
	k.allowed = func(ctx context.Context, d Device) (Allowed, error) {
		exists, _, err := d.writableAttribute(k.attribute)
		if err == nil && !exists && d.Transport == "nvme" {
			err = notSupported("an NVMe drive has no queue_depth: sweep the workload's iodepth instead (profile iodepth-ladder)")
			return Allowed{Reason: err.Error()}, err
		}
		if a, err := k.present(ctx, d); err != nil {
			return a, err
		}
		a, err := queueDepthRange(ctx, d)
		a.Writable = err == nil
		return a, err
	}
	return k
}

// queueDepthRange: from 1 to what host and drive can take. A libata drive says its own limit in
// IDENTIFY word 75, and whether it has NCQ at all in word 76 bit 8. Whether the kernel knows a quirk
// of the drive ("noncq") shows only when a level reads back as 1.
func queueDepthRange(ctx context.Context, d Device) (Allowed, error) {
	text, err := d.host.ReadWithin(ctx, d.dir+"/device/queue_depth")
	if err != nil {
		return Allowed{}, err
	}
	now, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return Allowed{}, fmt.Errorf("queue_depth is %q", text)
	}
	a := Allowed{Min: 1, Max: now}
	if host := d.scsiHost(); host != "" {
		if n := d.host.number("/sys/class/scsi_host/" + host + "/can_queue"); n > 0 {
			a.Max, a.Reason = int(n), ""
		}
	}
	if id, ok := d.ataIdentity(ctx); ok && d.Libata() {
		switch ncq, depth := id.NCQ(); {
		case !ncq:
			a.Max, a.Reason = 1, "the drive has no NCQ"
		case depth < a.Max:
			a.Max, a.Reason = depth, fmt.Sprintf("the drive's NCQ depth is %d", depth)
		}
	}
	// What it has now it can have.
	a.Max = max(a.Max, now)
	return a, nil
}

// scsiHost is "host3" of a SCSI or libata disk, else "".
func (d Device) scsiHost() string {
	for _, part := range strings.Split(d.host.devicePath(d), "/") {
		if scsiHost.MatchString(part) {
			return part
		}
	}
	return ""
}

// ataIdentity is what libata's drive said to IDENTIFY last, without asking it again.
func (d Device) ataIdentity(ctx context.Context) (sgio.Identity, bool) {
	dir := d.ataDevice()
	if dir == "" {
		return sgio.Identity{}, false
	}
	text, err := d.host.ReadWithin(ctx, dir+"/id")
	if err != nil {
		return sgio.Identity{}, false
	}
	id, err := sgio.ParseIdentityText(text)
	return id, err == nil
}
