package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

func (s *Sweep) openFolder(ctx context.Context) error {
	var err error
	if s.out, err = createFolder(s.opt.Out); err != nil {
		return err
	}
	if s.logFile, err = openLog(s.out); err != nil {
		return err
	}
	s.log = zerolog.New(s.logFile).With().Timestamp().Logger()
	if err := s.out.save("profile.yaml", s.plan.Profile.YAML(), 0o644); err != nil {
		return err
	}
	if err := s.recordEnvironment(); err != nil {
		return err
	}
	if err := s.recordConsent(ctx); err != nil {
		return err
	}
	if s.file, err = results.Open(s.out.dir, s.id, append([]results.Option{results.WithOwner(s.out.uid, s.out.gid)}, s.opt.Results...)...); err != nil {
		return err
	}
	s.linkState()
	s.status = startStatus(s)
	s.event(Event{Kind: Began})
	for _, n := range s.notes {
		if strings.HasSuffix(n, sysfs.FurtherTarget) { // a line for each disk of each array, and the profile says the same
			s.log.Info().Str("event", string(Note)).Str("text", n).Send()
			continue
		}
		s.note("%s", n)
	}
	for _, w := range s.plan.Warnings {
		s.note("warning: %s", w)
	}
	return nil
}

// linkState leaves a link STATE/sweeps/SWEEP to the output folder, so that status and resume find it. A link that cannot be made costs nothing else.
func (s *Sweep) linkState() {
	dir, err := filepath.Abs(s.out.dir)
	if err != nil {
		return
	}
	sweeps := filepath.Join(s.opt.StateDir, "sweeps")
	err = os.MkdirAll(sweeps, 0o700)
	if err == nil {
		err = os.Symlink(dir, filepath.Join(sweeps, s.id))
	}
	if err != nil {
		s.note("no link to the output folder in %s: %v", sweeps, err)
	}
}

// openLog makes the log. It is the first file of a folder, and must not be there: of two sweeps that found the same folder absent in the same second (a loop
// over drives starts them so) only one may write into it.
func openLog(f folder) (*lateWriter, error) {
	w, err := os.OpenFile(f.path("log.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, &UsageError{fmt.Sprintf("--out %s: another sweep has just begun in it; name a folder that does not exist yet", f.dir)}
	}
	if err != nil {
		return nil, err
	}
	return newLateWriter(w), f.own(w.Name())
}
