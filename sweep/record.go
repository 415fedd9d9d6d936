package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"qdsweep/sweep/results"
)

const (
	// outputLimit is how long the disk of the output folder may take to write and sync the rows of a run. Nothing is changed on any drive meanwhile, and a
	// disk that is busy with somebody's backup takes minutes.
	outputLimit = 10 * time.Minute
	// outputSaid is when the wait is told of.
	outputSaid = 30 * time.Second
	// outputAfterSignal is what is left of it when somebody wants the sweep to end.
	outputAfterSignal = 10 * time.Second
	// rescueLimit is how long the disk of the state folder may take for the same rows.
	rescueLimit = 30 * time.Second
)

// record puts a run's rows into results.csv. A disk that does not take them in time is left behind with them: the file is not touched any more, since the
// rows may still come to be in it.
func (s *Sweep) record(ctx context.Context, rows []results.Row) error {
	written, file := make(chan error, 1), s.file
	go func() { written <- file.Append(rows) }()
	allowed := cmp.Or(s.opt.outputs, outputLimit)
	began, limit, said, signalled := time.Now(), time.NewTimer(allowed), time.NewTimer(outputSaid), ctx.Done()
	defer limit.Stop()
	defer said.Stop()
	for {
		select {
		case err := <-written:
			return err
		case <-said.C:
			s.note("the disk of %s has not taken the rows of run %s for %v; waiting, %v at most", s.out.dir, rows[0].Run, outputSaid, allowed)
		case <-signalled:
			signalled = nil
			limit.Reset(min(outputAfterSignal, allowed))
		case <-limit.C:
			s.file, s.silent = nil, true
			return fmt.Errorf("append run %s to %s: the disk did not answer for %v", rows[0].Run, file.Path(), time.Since(began).Round(time.Second))
		}
	}
}
