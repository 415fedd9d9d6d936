package sysfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qdsweep/sysfs/writecache"
)

// writeCacheKnob is the drive's own write cache, never the kernel's view of it (queue/write_cache).
func writeCacheKnob() Knob {
	k := Knob{Name: "write_cache"}
	k.canonical = func(level string) (string, error) {
		switch strings.ToLower(level) {
		case "on", "yes", "true", "1":
			return writecache.On, nil
		case "off", "no", "false", "0":
			return writecache.Off, nil
		}
		return "", errors.New("not on or off")
	}
	k.allowed = func(ctx context.Context, d Device) (Allowed, error) {
		s, err := d.cacheState(ctx)
		switch {
		case err != nil:
			return Allowed{}, err
		case !s.Switchable:
			return Allowed{Reason: s.Reason}, notSupported("%s", s.Reason)
		}
		return cacheLevels(), nil
	}
	k.current = func(ctx context.Context, d Device) (string, error) {
		s, err := d.cacheState(ctx)
		if err == nil && s.Level == "" {
			err = notSupported("%s", s.Reason)
		}
		return s.Level, err
	}
	k.set = func(ctx context.Context, d Device, level string) error {
		_, err := d.setCache(ctx, level)
		if errors.Is(err, writecache.ErrUnsupported) {
			return notSupported("%v", err)
		}
		return err
	}
	return k
}

func cacheLevels() Allowed {
	return Allowed{Levels: []string{writecache.Off, writecache.On}, Writable: true}
}

// drive is the device as writecache needs it.
func (d Device) drive() writecache.Drive {
	w := writecache.Drive{
		Node: d.Path, Transport: d.Transport,
		Read: d.host.ReadWithin, Write: d.host.Write, Open: d.host.OpenSG, OpenNVMe: d.host.OpenNVMe, Sync: d.host.syncNode,
	}
	if d.Kind != KindDisk {
		w.Transport = writecache.Virtual
	}
	switch w.Transport {
	case "nvme":
		w.Fixed = d.nvmeShared()
	case "virtio":
		if exists, writable, err := d.writableAttribute("cache_type"); err == nil && exists {
			w.HostCache, w.HostCacheWritable = d.dir+"/cache_type", writable
		}
	}
	if dir := d.ataDevice(); dir != "" {
		w.Identify = dir + "/id"
	}
	w.CacheType = d.cacheTypePath()
	for path, field := range map[string]*string{"/queue/write_cache": &w.View, "/device/rescan": &w.Rescan} {
		if d.host.exists(d.dir + path) {
			*field = d.dir + path
		}
	}
	return w
}

// cacheTypePath is sd's cache_type, "" of any other disk (virtio's is another thing).
func (d Device) cacheTypePath() string {
	for _, address := range d.host.names(d.dir + "/device/scsi_disk") {
		if p := d.dir + "/device/scsi_disk/" + address + "/cache_type"; d.host.exists(p) {
			return p
		}
	}
	return ""
}

// cacheState asks the drive, of a USB bridge only what it has not failed to answer before.
func (d Device) cacheState(ctx context.Context) (writecache.State, error) {
	if d.Transport != "usb" {
		return d.askCache(ctx)
	}
	if s, asked := d.host.bridges.unknown(d); asked {
		return s, nil
	}
	s, err := d.askCache(ctx)
	if err == nil {
		d.host.bridges.remember(d, s)
	}
	return s, err
}

func (d Device) askCache(ctx context.Context) (writecache.State, error) {
	return bounded(ctx, "ask "+d.Name+" about its write cache", func() (writecache.State, error) { return d.drive().State(ctx) })
}

// cacheStateFor is cacheState before settings are made. It sends nothing to a USB bridge whose cache is not to
// be set.
func (d Device) cacheStateFor(ctx context.Context, settings []Setting) (writecache.State, error) {
	if d.Transport == "usb" && !slices.ContainsFunc(settings, func(s Setting) bool { return s.Knob == "write_cache" }) {
		return writecache.State{Reason: "not asked: " + usbReason}, nil
	}
	return d.cacheState(ctx)
}

const usbReason = "a USB bridge may not answer for a minute"

// cacheByHand is the command that switches the drive's write cache.
func (d Device) cacheByHand(level string) string {
	bit := map[string]string{writecache.On: "1", writecache.Off: "0"}[level]
	switch d.Transport {
	case "ata":
		return fmt.Sprintf("hdparm -W%s %s", bit, quote(d.Path))
	case "nvme":
		return fmt.Sprintf("nvme set-feature %s --feature-id=6 --value=%s", quote(d.nvmeControllerNode()), bit)
	case "virtio":
		mode := map[string]string{writecache.On: "write back", writecache.Off: "write through"}[level]
		return fmt.Sprintf("echo %s > %s/cache_type", quote(mode), quote(d.dir))
	}
	return fmt.Sprintf("sdparm --set=WCE=%s %s", bit, quote(d.Path))
}

// setCache switches the drive's write cache, and gives the state that the drive then says it has.
func (d Device) setCache(ctx context.Context, level string) (string, error) {
	now, err := bounded(ctx, "switch the write cache of "+d.Name, func() (string, error) { return d.drive().Set(ctx, level) })
	switch {
	case errors.Is(err, writecache.ErrBridge):
		err = fmt.Errorf("%w: %w", ErrStuck, err)
	case err == nil && d.Transport == "usb":
		d.host.bridges.remember(d, writecache.State{Level: now})
	}
	return now, err
}

// Flush empties the drive's write cache by a command of its own; nil where there is no such command and
// fsync of the node is what does it (virtio), and of a USB bridge that nobody has asked about its cache.
func (d Device) Flush(ctx context.Context) error {
	if d.Transport == "usb" && !d.host.bridges.known(d) {
		return nil
	}
	_, err := bounded(ctx, "flush "+d.Name, func() (struct{}, error) { return struct{}{}, d.drive().Flush(ctx) })
	if err != nil {
		return fmt.Errorf("flush the write cache of %s: %w", d.Name, err)
	}
	return nil
}

// CacheDisagreement says where the kernel's view of the write cache is not the drive's state, as "the
// drive says off, the kernel believes on (queue/write_cache: write back)"; "" for nowhere, or unknown.
func (d Device) CacheDisagreement(ctx context.Context) string {
	s, err := d.cacheState(ctx)
	if err != nil {
		return ""
	}
	return d.cacheDisagreement(ctx, s.Level)
}

func (d Device) cacheDisagreement(ctx context.Context, level string) string {
	text, _ := bounded(ctx, "", func() (string, error) { return d.drive().Disagreement(ctx, level), nil })
	return text
}

// cacheBelief is what the kernel takes the write cache for, in words; "" where it cannot be read.
func (d Device) cacheBelief(ctx context.Context) string {
	text, _ := bounded(ctx, "", func() (string, error) { return d.drive().Belief(ctx), nil })
	return text
}

// bounded runs f in a goroutine of its own, so that a command the kernel never ends costs a goroutine
// and not the caller. ErrStuck when the context (or 60 s, where it has no deadline) ends first.
func bounded[T any](ctx context.Context, what string, f func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		v, err := f()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%s: %w (%w)", what, ErrStuck, ctx.Err())
	}
}
