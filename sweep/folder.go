package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if err := s.openResults(); err != nil {
		return err
	}
	s.underWay(s.notes)
	return nil
}

// openResults takes results.csv, whose lock says to others that this sweep is at work.
func (s *Sweep) openResults(more ...results.Option) (err error) {
	own := []results.Option{results.WithOwner(s.out.uid, s.out.gid)}
	s.file, err = results.Open(s.out.dir, s.id, slices.Concat(own, more, s.opt.Results)...)
	return err
}

// underWay is said once everything has agreed, and the first run is about to begin.
func (s *Sweep) underWay(notes []string) {
	s.linkState()
	s.status = startStatus(s)
	s.event(Event{Kind: Began})
	for _, n := range notes {
		if strings.HasSuffix(n, sysfs.FurtherTarget) { // a line for each disk of each array, and the profile says the same
			s.log.Info().Str("event", string(Note)).Str("text", n).Send()
			continue
		}
		s.note("%s", n)
	}
	for _, w := range s.plan.Warnings {
		s.note("warning: %s", w)
	}
}

// linkState leaves a link STATE/sweeps/SWEEP to the output folder, so that status and resume find it. A link that cannot be made costs nothing else.
func (s *Sweep) linkState() {
	dir, err := filepath.Abs(s.out.dir)
	if err != nil {
		return
	}
	sweeps := filepath.Join(s.opt.StateDir, "sweeps")
	err = os.MkdirAll(sweeps, 0o700)
	link := filepath.Join(sweeps, s.id)
	if to, linkErr := os.Readlink(link); linkErr == nil && to != dir {
		_ = os.Remove(link) // the folder was moved since
	}
	if err == nil {
		err = os.Symlink(dir, link)
	}
	if s.before != nil && errors.Is(err, os.ErrExist) {
		return
	}
	if err != nil {
		s.note("no link to the output folder in %s: %v", sweeps, err)
	}
}

const logFlags = os.O_WRONLY | os.O_CREATE | os.O_APPEND | unix.O_CLOEXEC | unix.O_NOFOLLOW

// openLog makes the log. It is the first file of a folder, and must not be there: of two sweeps that found the same folder absent in the same second (a loop
// over drives starts them so) only one may write into it.
func openLog(f folder) (*lateWriter, error) {
	w, err := os.OpenFile(f.path("log.jsonl"), logFlags|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, &UsageError{fmt.Sprintf("--out %s: another sweep has just begun in it; name a folder that does not exist yet", f.dir)}
	}
	if err != nil {
		return nil, err
	}
	return newLateWriter(w), f.own(w)
}
