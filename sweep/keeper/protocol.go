package keeper

import (
	"encoding/json"
	"errors"
	"time"

	"qdsweep/sysfs"
)

// What main asks of the keeper. A new one is a constant here, a case in (*server).handle and a method of Client.
const (
	opHello          = "hello"
	opClaim          = "claim"
	opRelease        = "release"
	opWorker         = "worker"
	opApply          = "apply"
	opCheck          = "check"
	opRestore        = "restore"
	opFlush          = "flush"
	opFolder         = "folder"
	opArray          = "array"
	opRecover        = "recover"
	opRestoreJournal = "restore-journal"
	opClose          = "close"
)

// request is main → keeper. One with Cancel abandons an earlier one, and has no answer.
type request struct {
	ID     int             `json:"id,omitempty"`
	Op     string          `json:"op,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Cancel int             `json:"cancel,omitempty"`
}

// response is keeper → main. Result is there with an error too: what was done before it.
type response struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Err    *wireError      `json:"err,omitempty"`
}

type helloArgs struct {
	PID            int
	Sweep          string
	WriteTimeout   time.Duration
	RestoreTimeout time.Duration
}

type claimArgs struct {
	Members []Member
	Wait    time.Duration
}

type applyArgs struct {
	Orders []Order
	Whole  bool
}

type folderArgs struct {
	Path string
	Made bool
}

type arrayArgs struct {
	Array Array
	Made  bool
}

// wireError carries an error with what a caller branches on.
type wireError struct {
	Text       string            `json:"text"`
	Busy       *BusyError        `json:"busy,omitempty"`
	Unrestored *UnrestoredError  `json:"unrestored,omitempty"`
	Changed    *ChangedError     `json:"changed,omitempty"`
	State      *StateError       `json:"state,omitempty"`
	Not        *NotRestoredError `json:"not_restored,omitempty"`
	Sentinels  []string          `json:"sentinels,omitempty"`
}

func sentinels() map[string]error {
	return map[string]error{"stuck": sysfs.ErrStuck, "no device": sysfs.ErrNoDevice, "unsupported": sysfs.ErrUnsupported}
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Text: err.Error()}
	errors.As(err, &w.Busy)
	errors.As(err, &w.Unrestored)
	errors.As(err, &w.Changed)
	errors.As(err, &w.State)
	errors.As(err, &w.Not)
	for name, s := range sentinels() {
		if errors.Is(err, s) {
			w.Sentinels = append(w.Sentinels, name)
		}
	}
	return w
}

// Error and Unwrap make the received one an error that branches like the original.
func (w *wireError) Error() string { return w.Text }

func (w *wireError) Unwrap() []error {
	var errs []error
	if w.Busy != nil {
		errs = append(errs, w.Busy)
	}
	if w.Unrestored != nil {
		errs = append(errs, w.Unrestored)
	}
	if w.Changed != nil {
		errs = append(errs, w.Changed)
	}
	if w.State != nil {
		errs = append(errs, w.State)
	}
	if w.Not != nil {
		errs = append(errs, w.Not)
	}
	all := sentinels()
	for _, s := range w.Sentinels {
		if err, ok := all[s]; ok {
			errs = append(errs, err)
		}
	}
	return errs
}
