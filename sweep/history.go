package sweep

import (
	"context"
	"fmt"
	"time"

	"qdsweep/sweep/results"
)

const (
	// historyPatience is for the copies of other sweeps that end at the same time.
	historyPatience = time.Minute
	// historyLimit bounds a copy: the disk of the history may hang, and everything else is done by then.
	historyLimit = 10 * time.Minute
)

// checkHistory finds out in the evening that the rows could not be copied in the morning.
func (s *Sweep) checkHistory() error {
	if s.opt.CSV == "" {
		return nil
	}
	if err := results.CheckHistory(s.opt.CSV); err != nil {
		return &UsageError{fmt.Sprintf("--csv %s: %v", s.opt.CSV, err)}
	}
	return nil
}

// copyRows adds the sweep's rows to the history, those of an earlier start as well.
func (s *Sweep) copyRows() error {
	if s.opt.CSV == "" || s.file == nil {
		return nil
	}
	var copied int
	err := bounded(context.Background(), historyLimit, func() (err error) {
		copied, err = results.Copy(s.opt.CSV, s.file.Path(), s.id, historyPatience, results.WithOwner(s.out.uid, s.out.gid))
		return err
	})
	if err != nil {
		return fmt.Errorf("copy the rows to %s: %w; they are in %s, and are copied by: sudo qdsweep resume --csv %s %s",
			s.opt.CSV, err, s.file.Path(), ShellQuote(s.opt.CSV), ShellQuote(s.out.dir))
	}
	s.note("copied %s to %s", plural(copied, "run"), s.opt.CSV)
	return nil
}
