package writecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// A virtio disk has no cache of its own: its cache_type is the mode of the host's cache behind it, read
// from the device at each look, and the host decides whether the guest may change it
// (VIRTIO_BLK_F_CONFIG_WCE, virtio 1.1, 5.2.5).

func (d Drive) virtioState(ctx context.Context) (State, error) {
	if d.HostCache == "" {
		return State{Reason: "this virtio disk does not tell the host's cache mode (it has no cache_type)"}, nil
	}
	text, err := d.Read(ctx, d.HostCache)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Reason: "this virtio disk does not tell the host's cache mode (it has no cache_type)"}, nil
	}
	if err != nil {
		return State{}, err
	}
	level, ok := ParseView(text)
	switch {
	case !ok:
		return State{Reason: fmt.Sprintf("cache_type is %q, which is no cache mode", text)}, nil
	case !d.HostCacheWritable:
		return State{Level: level, By: byVirtio, Reason: "the host does not let its cache mode be changed (cache_type is read-only)"}, nil
	}
	return State{Level: level, Switchable: true, By: byVirtio}, nil
}

// setVirtio flushes before: once the mode is write through the kernel sends no flush any more.
func (d Drive) setVirtio(ctx context.Context, level string) error {
	first := d.Sync(d.Node)
	text := map[string]string{On: "write back", Off: "write through"}[level]
	if err := d.Write(ctx, d.HostCache, text); err != nil {
		return err
	}
	return errors.Join(first, d.Sync(d.Node))
}
