package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
)

// keepElsewhere saves the rows of a run that results.csv did not take (field case 30: its disk is full): in the state folder, and where that fails too, on
// stdout, so that nothing measured is lost. The sweep then ends: each further run would have the same fate.
func (s *Sweep) keepElsewhere(r Run, rows []results.Row, cause error) error {
	path := s.rescuePath()
	err := bounded(context.Background(), rescueLimit, func() error { return appendRescued(path, rows) })
	if err != nil {
		path = "stdout"
		_, outErr := os.Stdout.Write(rescueText(rows))
		err = errors.Join(err, outErr)
		if outErr != nil {
			return &errEnd{reason: fmt.Sprintf("%v; the rows of run %s could be saved nowhere else and are lost: %v", cause, rows[0].Run, err), all: true}
		}
	}
	if err := s.count(r, rows); err != nil {
		return err
	}
	s.rescued = path
	return &errEnd{reason: fmt.Sprintf("%v; the rows of run %s are in %s", cause, rows[0].Run, path), all: true}
}

func (s *Sweep) rescuePath() string { return filepath.Join(s.opt.StateDir, "rescued", s.id+".csv") }

// mergeRescued appends to results.csv what an earlier start had to keep elsewhere, each run once: when this dies between the append and the removal, the next
// start finds the run in both.
func (s *Sweep) mergeRescued() error {
	path := s.rescuePath()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var run []results.Row
	for row, err := range results.Read(f) {
		var torn *results.TornError
		if errors.As(err, &torn) {
			s.tell("%s: %v: that run is repeated", path, torn)
			break
		}
		if err != nil {
			return fmt.Errorf("merge %s into %s: %w", path, s.file.Path(), err)
		}
		if run = append(run, row); row.Row < row.Rows {
			continue
		}
		if err := s.merge(path, run); err != nil {
			return err
		}
		run = run[:0]
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func (s *Sweep) merge(path string, run []results.Row) error {
	err := s.file.Append(run)
	var twice *results.TwiceError
	if errors.As(err, &twice) {
		return nil
	}
	if err != nil {
		return notWritable(s.out.dir, fmt.Errorf("the rows in %s: %w", path, err))
	}
	s.tell("the rows of run %s, which were in %s, are in %s now", run[0].Run, path, results.FileName)
	return s.recall(run)
}

func rescueText(rows []results.Row) []byte {
	return append(results.Header(), results.Encode(rows)...)
}

func appendRescued(path string, rows []results.Row) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(rescueText(rows))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path) // a torn copy would be merged as if it were whole
		return err
	}
	return syncDir(filepath.Dir(path))
}
