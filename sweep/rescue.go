package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"qdsweep/sweep/results"
)

// keepElsewhere saves the rows of a run that results.csv did not take (field case 30: its disk is full): in the state folder, and where that fails too, on
// stdout, so that nothing measured is lost. The sweep then ends: each further run would have the same fate.
func (s *Sweep) keepElsewhere(rows []results.Row, cause error) error {
	path := filepath.Join(s.opt.StateDir, "rescued", s.id+".csv")
	err := appendRescued(path, rows)
	if err != nil {
		path = "stdout"
		_, outErr := os.Stdout.Write(rescueText(rows))
		err = errors.Join(err, outErr)
		if outErr != nil {
			return &errEnd{reason: fmt.Sprintf("%v; the rows of run %s could be saved nowhere else and are lost: %v", cause, rows[0].Run, err), all: true}
		}
	}
	s.count(results.RunStatus(rows))
	s.rescued = path
	return &errEnd{reason: fmt.Sprintf("%v; the rows of run %s are in %s", cause, rows[0].Run, path), all: true}
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
