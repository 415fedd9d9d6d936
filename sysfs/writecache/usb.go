package writecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"qdsweep/sysfs/sgio"
)

// bridgeTimeout is for everything that one question to, or change behind, a USB bridge takes. Bridges that
// answer nothing keep a command for as long as they are given, and the kernel's resets come on top.
const bridgeTimeout = 10 * time.Second

// ErrBridge: a USB bridge kept a command for longer than it is waited for. What the drive did is unknown.
var ErrBridge = fmt.Errorf("the USB bridge did not answer within %v", bridgeTimeout)

// usbState asks behind a USB bridge. One that says nothing leaves the state unknown, which is no error: the
// rest of the drive's settings are as good as another's.
func (d Drive) usbState(ctx context.Context) (State, error) {
	s, err := withinBridge(ctx, d.bridgeState)
	if errors.Is(err, ErrBridge) {
		return State{Reason: ErrBridge.Error()}, nil
	}
	return s, err
}

// bridgeState asks as of a disk behind an adapter: the drive's own IDENTIFY where the bridge translates
// it, else the mode page, which then is the bridge's word.
func (d Drive) bridgeState(ctx context.Context) (State, error) {
	sg, err := d.Open(d.Node)
	if err != nil {
		return State{}, err
	}
	defer sg.Close()
	s, err := d.askSCSI(ctx, sg)
	var sense *sgio.SenseError
	switch {
	case err == nil || errors.Is(err, fs.ErrPermission):
		return s, err
	case errors.As(err, &sense):
		return State{Reason: "the USB bridge does not say: " + err.Error()}, nil
	}
	return State{}, err
}

// withinBridge runs f in a goroutine of its own, with bridgeTimeout or what ctx leaves of it. A command
// that the kernel does not give back costs that goroutine, and what the drive did is unknown.
func withinBridge[T any](caller context.Context, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithTimeout(caller, bridgeTimeout)
	done := make(chan answer, 1)
	go func() {
		defer cancel()
		v, err := f(ctx)
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
	}
	var none T
	select {
	case a := <-done: // just in time, and only now looked at
		return a.v, a.err
	default:
	}
	if err := caller.Err(); err != nil {
		return none, fmt.Errorf("wait for the USB bridge: %w", err)
	}
	return none, ErrBridge
}
