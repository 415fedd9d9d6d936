package writecache

import (
	"errors"
	"fmt"

	"qdsweep/sysfs/sgio"
)

// nvmeState asks the controller: whether there is a cache is one question (Identify), whether it is on
// another (feature 06h). The kernel asks only the first, so its queue/write_cache says that a cache
// exists, and no more.
func (d Drive) nvmeState() (State, error) {
	n, err := d.OpenNVMe(d.Node)
	if err != nil {
		return State{}, err
	}
	defer n.Close()
	id, err := sgio.IdentifyController(n)
	if err != nil {
		return State{}, err
	}
	if !id.WriteCache() {
		return State{Absent: true, Reason: "the controller has no volatile write cache (Identify Controller, byte 525)"}, nil
	}
	on, err := sgio.WriteCacheNVMe(n)
	if sgio.RefusedNVMe(err) {
		return State{Reason: "the controller does not say whether its write cache is on (" + err.Error() + ")"}, nil
	}
	if err != nil {
		return State{}, err
	}
	s := State{Level: onOff(on), Switchable: true, By: byNVMe}
	if id.CanSelect() {
		// A controller that does not tell may still allow it: the try will say.
		if can, err := sgio.WriteCacheChangeable(n); err == nil && !can {
			s.Switchable, s.Reason = false, "the controller says that feature 06h cannot be changed"
		}
	}
	return s, nil
}

// setNVMe believes nothing: some controllers answer success and go on as before.
func (d Drive) setNVMe(on bool) error {
	n, err := d.OpenNVMe(d.Node)
	if err != nil {
		return err
	}
	defer n.Close()
	first := sgio.FlushNVMe(n)
	err = sgio.SetWriteCacheNVMe(n, on)
	if sgio.RefusedNVMe(err) {
		return fmt.Errorf("%w: the controller refuses: %w", ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(first, sgio.FlushNVMe(n))
}

// flushNVMe sends the command itself: the kernel sends none where somebody has set queue/write_cache to
// write through.
func (d Drive) flushNVMe() error {
	n, err := d.OpenNVMe(d.Node)
	if err != nil {
		return err
	}
	defer n.Close()
	return sgio.FlushNVMe(n)
}
