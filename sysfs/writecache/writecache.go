// Package writecache asks a drive whether its own write cache is on, switches it, and empties it:
// ATA by IDENTIFY and SET FEATURES, SCSI by the caching mode page, NVMe by feature 06h, virtio by its
// cache_type. It knows drives and the commands they take; it must not know sysfs.Device, and reaches
// attributes only by the functions handed in.
//
// Five things are called "the write cache"; kernel.md of the project's notes and docs/ list them. Here
// "state" is the drive's, "view" is what the kernel believes.
package writecache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"qdsweep/sysfs/sgio"
)

// ErrUnsupported: this drive's write cache cannot be switched.
var ErrUnsupported = errors.New("the write cache cannot be switched")

// Virtual is the Transport of a device that is made of others (md, dm, loop).
const Virtual = "virtual"

// The two levels.
const (
	On  = "on"
	Off = "off"
)

const (
	agreeWithin   = 2 * time.Second       // IDENTIFY and cache_type after a change
	pollEvery     = 10 * time.Millisecond // of two small attributes
	queryTimeout  = 10 * time.Second
	changeTimeout = 30 * time.Second
	flushTimeout  = 60 * time.Second // a full cache of a slow drive
)

// Drive is one whole disk, and the ways to reach it.
type Drive struct {
	Node      string // "/dev/sda"
	Transport string // "ata" "sas" "scsi" "usb" "nvme" "virtio", another or "", or Virtual

	// Logical paths of attributes, "" where there is none.
	Identify  string // libata's /sys/class/ata_device/devN.0/id
	CacheType string // sd's cache_type
	View      string // queue/write_cache
	Rescan    string // device/rescan: makes sd look at the mode page again
	HostCache string // virtio's cache_type

	HostCacheWritable bool   // the host offers to change it
	Fixed             string // why it must not be switched though it could be; "" it may

	Read     func(ctx context.Context, path string) (string, error)
	Write    func(ctx context.Context, path, value string) error
	Open     func(node string) (sgio.Device, error)
	OpenNVMe func(node string) (sgio.NVMe, error)
	Sync     func(node string) error // fsync of the node: the kernel's own flush
}

// State is what the drive itself says.
type State struct {
	Level      string // On, Off, or "" for unknown or none
	Absent     bool   // there is none; else a Level of "" is one that is not known
	Switchable bool
	By         string // how it is switched: "SET FEATURES", "MODE SELECT", "Set Features 06h", "cache_type"
	Reason     string // why unknown or not switchable
}

// How a cache is switched, in the words of who takes the command.
const (
	byATA    = "SET FEATURES"
	bySCSI   = "MODE SELECT"
	byNVMe   = "Set Features 06h"
	byVirtio = "cache_type"
)

// State asks the drive. It sends no command that changes anything. An error means that it could not
// be asked; a drive that answers but cannot be switched is a State with a Reason. Of a USB bridge it
// has an answer, or says that there is none, within 10 s.
func (d Drive) State(ctx context.Context) (State, error) {
	if way, _ := d.way(); way == wayUSB {
		return d.usbState(ctx)
	}
	return d.state(ctx)
}

func (d Drive) state(ctx context.Context) (s State, err error) {
	d = d.until(ctx)
	switch way, reason := d.way(); way {
	case wayATA:
		s, err = d.ataState(ctx)
	case waySCSI:
		s, err = d.scsiState(ctx)
	case wayUSB:
		s, err = d.bridgeState(ctx)
	case wayNVMe:
		s, err = d.nvmeState()
	case wayVirtio:
		s, err = d.virtioState(ctx)
	default:
		return State{Absent: d.Transport == Virtual, Reason: reason}, nil
	}
	if s.Switchable && d.Fixed != "" {
		s.Switchable, s.Reason = false, d.Fixed
	}
	return s, err
}

// Set switches the cache and gives the state that the drive says it has afterwards, which may be the
// other one (a cache forced by SCT does not move). The same commands are sent whatever the state was,
// and for both levels: flush, switch, flush. ErrUnsupported where the drive refuses.
func (d Drive) Set(ctx context.Context, level string) (effective string, err error) {
	if level != On && level != Off {
		return "", fmt.Errorf("write cache level %q", level)
	}
	if way, _ := d.way(); way == wayUSB {
		return withinBridge(ctx, func(ctx context.Context) (string, error) { return d.set(ctx, level) })
	}
	return d.set(ctx, level)
}

func (d Drive) set(ctx context.Context, level string) (effective string, err error) {
	d = d.until(ctx)
	before, err := d.state(ctx)
	if err != nil {
		return "", err
	}
	if !before.Switchable {
		return before.Level, fmt.Errorf("%w: %s", ErrUnsupported, before.Reason)
	}
	agreed := d.viewAgrees(ctx, before.Level)
	switch way, _ := d.way(); way {
	case wayATA:
		err = d.setATA(ctx, level == On)
	case wayNVMe:
		err = d.setNVMe(level == On)
	case wayVirtio:
		err = d.setVirtio(ctx, level)
	default:
		err = d.setSCSI(ctx, level == On)
	}
	if err != nil {
		now, _ := d.state(ctx)
		return now.Level, err
	}
	return d.settle(ctx, agreed)
}

// Flush empties the drive's cache. nil where the kernel's own flush (fsync of the node) is the way.
func (d Drive) Flush(ctx context.Context) error {
	way, _ := d.way()
	switch way {
	case wayNone, wayVirtio:
		return nil
	case wayNVMe:
		return d.flushNVMe()
	}
	sg, err := d.Open(d.Node)
	if err != nil {
		return err
	}
	defer sg.Close()
	if way == wayATA {
		return d.flushATA(ctx, sg)
	}
	return d.flushSCSI(ctx, sg)
}

type way int

const (
	wayNone way = iota
	wayATA
	waySCSI
	wayUSB
	wayNVMe
	wayVirtio
)

// way is how this drive is talked to, or why it is not.
func (d Drive) way() (way, string) {
	switch d.Transport {
	case "ata":
		return wayATA, ""
	case "sas", "scsi":
		return waySCSI, ""
	case "usb":
		return wayUSB, ""
	case "nvme":
		return wayNVMe, ""
	case "virtio":
		return wayVirtio, ""
	case Virtual:
		return wayNone, "this device has no write cache of its own"
	}
	return wayNone, "there is no way known to ask this kind of device about its write cache"
}

// settle asks the drive itself what came of it and, where the kernel's view agreed before, waits until
// the kernel has noticed: the change is asynchronous, and until libata and sd have looked again the
// port stalls and limits are reset. What is still not agreed on then is for Disagreement to say.
func (d Drive) settle(ctx context.Context, agreed bool) (string, error) {
	now, err := d.ask(ctx)
	if err != nil || !agreed || d.CacheType == "" && d.Identify == "" {
		return now.Level, err
	}
	ctx, cancel := context.WithTimeout(ctx, agreeWithin)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if seen, err := d.state(ctx); err == nil && seen.Level == now.Level && d.viewAgrees(ctx, now.Level) {
			return now.Level, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return now.Level, nil
		}
	}
}

// ask is state by a command, not by what the kernel remembers of an earlier one.
func (d Drive) ask(ctx context.Context) (State, error) {
	d.Identify = ""
	return d.state(ctx)
}

// remaining is a command's time-out: what the context leaves, at most most.
func remaining(ctx context.Context, most time.Duration) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(min(most, time.Until(at)), time.Millisecond)
	}
	return most
}

func onOff(on bool) string {
	if on {
		return On
	}
	return Off
}

// ParseView reads cache_type ("write back", "write through", "none", "write back, no read (daft)") or
// queue/write_cache. ok is false for another text.
func ParseView(text string) (level string, ok bool) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "write back"):
		return On, true
	case strings.HasPrefix(text, "write through"), text == "none":
		return Off, true
	}
	return "", false
}
