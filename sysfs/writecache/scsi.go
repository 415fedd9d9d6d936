package writecache

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// scsiState asks a disk behind a SCSI adapter. It may be a SATA drive, whose own IDENTIFY is the truth
// then, not the adapter's translation of it; a SAS disk refuses the pass-through, and its caching mode
// page is the truth. An answer that says nothing leaves the state unknown.
func (d Drive) scsiState(ctx context.Context) (State, error) {
	sg, err := d.Open(d.Node)
	if err != nil {
		return State{}, err
	}
	defer sg.Close()
	return d.askSCSI(ctx, sg)
}

func (d Drive) askSCSI(ctx context.Context, sg sgio.Device) (State, error) {
	id, ata, err := d.behindSCSI(ctx, sg)
	switch {
	case errors.Is(err, sgio.ErrNoAnswer):
		return State{Reason: err.Error()}, nil
	case err != nil:
		return State{}, err
	case ata:
		return ataIdentityState(id), nil
	}
	return pageState(ctx, sg)
}

// behindSCSI says whether an ATA drive answers behind the adapter.
func (d Drive) behindSCSI(ctx context.Context, sg sgio.Device) (sgio.Identity, bool, error) {
	id, err := sgio.Identify(sg, remaining(ctx, queryTimeout))
	var sense *sgio.SenseError
	switch {
	case err == nil:
		return id, true, nil
	case errors.Is(err, sgio.ErrNotATA), errors.As(err, &sense) && sense.Illegal():
		return id, false, nil
	}
	return id, false, err
}

func pageState(ctx context.Context, sg sgio.Device) (State, error) {
	page, err := sgio.ReadModePage(sg, sgio.CachingPage, sgio.CurrentValues, remaining(ctx, queryTimeout))
	var sense *sgio.SenseError
	if errors.As(err, &sense) && sense.Illegal() {
		return State{Reason: "the device has no caching mode page (" + err.Error() + ")"}, nil
	}
	if errors.Is(err, sgio.ErrModeData) {
		return State{Reason: "the device's caching mode page is no use (" + err.Error() + ")"}, nil
	}
	if err != nil {
		return State{}, err
	}
	s := State{Level: onOff(page.WCE()), Switchable: true, By: bySCSI}
	// A device that does not tell what is changeable may still allow it: the try will say.
	mask, err := sgio.ReadModePage(sg, sgio.CachingPage, sgio.ChangeableValues, remaining(ctx, queryTimeout))
	if err == nil && !mask.WCE() {
		s.Switchable, s.Reason = false, "the device says that WCE cannot be changed (mode page 08h)"
	}
	return s, nil
}

func (d Drive) setSCSI(ctx context.Context, on bool) error {
	sg, err := d.Open(d.Node)
	if err != nil {
		return err
	}
	defer sg.Close()
	_, ata, err := d.behindSCSI(ctx, sg)
	switch {
	case err != nil:
		return err
	case ata:
		err = d.switchATA(ctx, sg, on)
	default:
		err = d.selectPage(ctx, sg, on)
	}
	if err == nil && d.Rescan != "" {
		// Nobody tells sd about a command that went past it: without this it would go on sending, or
		// not sending, flushes as before.
		err = d.Write(ctx, d.Rescan, "1")
	}
	return err
}

func (d Drive) selectPage(ctx context.Context, sg sgio.Device, on bool) error {
	first := synchronize(ctx, sg)
	page, err := sgio.ReadModePage(sg, sgio.CachingPage, sgio.CurrentValues, remaining(ctx, queryTimeout))
	if err != nil {
		return err
	}
	err = sgio.WriteModePage(sg, page.WithWCE(on), remaining(ctx, changeTimeout))
	var sense *sgio.SenseError
	if errors.As(err, &sense) && sense.Illegal() || errors.Is(err, unix.EINVAL) {
		// RAID adapters refuse MODE SELECT even of the current value.
		return fmt.Errorf("%w: the adapter or drive refuses: %w", ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(first, synchronize(ctx, sg))
}

func (d Drive) flushSCSI(ctx context.Context, sg sgio.Device) error { return synchronize(ctx, sg) }

// synchronize empties the cache; a device without the command has none to empty.
func synchronize(ctx context.Context, sg sgio.Device) error {
	err := sgio.SynchronizeCache(sg, remaining(ctx, flushTimeout))
	var sense *sgio.SenseError
	if errors.As(err, &sense) && sense.Illegal() {
		return nil
	}
	return err
}
