package writecache

import (
	"context"
	"errors"
	"fmt"

	"qdsweep/sysfs/sgio"
)

// ataState reads libata's copy of IDENTIFY, which the kernel refreshes after each SET FEATURES and
// which needs no command and no privilege; without one it asks the drive.
func (d Drive) ataState(ctx context.Context) (State, error) {
	if d.Identify != "" {
		if text, err := d.Read(ctx, d.Identify); err == nil {
			if id, err := sgio.ParseIdentityText(text); err == nil {
				return ataIdentityState(id), nil
			}
		}
	}
	sg, err := d.Open(d.Node)
	if err != nil {
		return State{}, err
	}
	defer sg.Close()
	id, err := sgio.Identify(sg, remaining(ctx, queryTimeout))
	if errors.Is(err, sgio.ErrNotATA) || errors.Is(err, sgio.ErrNoAnswer) {
		return State{Reason: err.Error()}, nil
	}
	if err != nil {
		return State{}, err
	}
	return ataIdentityState(id), nil
}

func ataIdentityState(id sgio.Identity) State {
	supported, on, known := id.WriteCache()
	switch {
	case !supported:
		return State{Absent: true, Reason: "the drive has no write cache that can be switched (IDENTIFY word 82)"}
	case !known:
		return State{Reason: "the drive does not say whether its write cache is on (IDENTIFY word 87)"}
	}
	return State{Level: onOff(on), Switchable: true, By: byATA}
}

func (d Drive) setATA(ctx context.Context, on bool) error {
	sg, err := d.Open(d.Node)
	if err != nil {
		return err
	}
	defer sg.Close()
	return d.switchATA(ctx, sg, on)
}

// switchATA does what hdparm -W does, and believes nothing: each command's own taskfile is checked
// (hdparm's exit status is that of the second flush), and the drive itself is asked afterwards.
func (d Drive) switchATA(ctx context.Context, sg sgio.Device, on bool) error {
	first := d.flushATA(ctx, sg)
	err := sgio.SetWriteCacheATA(sg, on, remaining(ctx, changeTimeout))
	var sense *sgio.SenseError
	if errors.As(err, &sense) && sense.Aborted() || errors.Is(err, sgio.ErrNotATA) {
		return fmt.Errorf("%w: the drive refuses: %w", ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(first, d.flushATA(ctx, sg))
}

func (d Drive) flushATA(ctx context.Context, sg sgio.Device) error {
	id, err := d.identity(ctx, sg)
	if err != nil {
		return err
	}
	return sgio.FlushATA(sg, id, remaining(ctx, flushTimeout))
}

func (d Drive) identity(ctx context.Context, sg sgio.Device) (sgio.Identity, error) {
	if d.Identify != "" {
		if text, err := d.Read(ctx, d.Identify); err == nil {
			if id, err := sgio.ParseIdentityText(text); err == nil {
				return id, nil
			}
		}
	}
	return sgio.Identify(sg, remaining(ctx, queryTimeout))
}
