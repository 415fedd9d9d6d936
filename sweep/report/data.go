// Package report turns the rows of sweeps into what people and programs read.
// It knows rows and their statistics, not how they were measured: a report made
// a year later from the folder is the one printed that night.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"qdsweep/sweep/results"
)

// Data is what a report is made of. The rows say most; the rest is what they
// cannot.
type Data struct {
	Title       string // first line; "" makes one from Name and the rows
	Name        string // the profile's
	Description string // the profile's

	// Rows gives the rows from the first on, each time it is called: a report
	// goes through them twice and holds none.
	Rows func() iter.Seq2[results.Row, error]

	Audit results.Audit

	Settings []string // how the members are now, one line each; none: what the rows say
	Warnings []string // shown as they are
	Dir      string   // the output folder; "" several, or none
	Results  []string // the CSV files; none: results.csv in Dir
	Next     string   // what to type next

	// All shows every phase, in as many tables as the width needs; else those
	// that fit into one.
	All bool
}

// RowsOf makes a Data.Rows of rows in memory.
func RowsOf(rows []results.Row) func() iter.Seq2[results.Row, error] {
	return func() iter.Seq2[results.Row, error] {
		return func(yield func(results.Row, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// Load gathers what is known of sweeps from their output folders, or from CSV
// files alone. Errors name the path.
func Load(paths ...string) (Data, error) {
	d := Data{All: true}
	planned, known := 0, true
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return Data{}, fmt.Errorf("%s: %w", path, bare(err))
		}
		if !info.IsDir() {
			d.Results = append(d.Results, path)
			known = false
			continue
		}
		if _, err := os.Stat(inDir(path, results.FileName)); err != nil {
			return Data{}, fmt.Errorf("%s: no output folder of a sweep: its %s: %w", path, results.FileName, bare(err))
		}
		d.Results = append(d.Results, inDir(path, results.FileName))
		n, err := plannedIn(path)
		if err != nil {
			d.Warnings = append(d.Warnings, err.Error())
		}
		planned += n
		known = known && n > 0
		if len(paths) == 1 {
			d.Dir = path
			if err := d.profile(path); err != nil {
				d.Warnings = append(d.Warnings, err.Error())
			}
		}
	}
	files := d.Results
	d.Rows = func() iter.Seq2[results.Row, error] { return rowsOf(files) }
	if !known {
		planned = -1
	}
	var err error
	if d.Audit, err = results.AuditOf(d.Rows(), planned); err != nil && !bearable(err) {
		return Data{}, err
	}
	return d, nil
}

// bare is an error without the path, which the text around it has.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// bearable says whether the rows around an error can be reported all the same.
func bearable(err error) bool {
	var torn *results.TornError
	var damage *results.DamageError
	return errors.As(err, &torn) || errors.As(err, &damage)
}

// rowsOf streams the rows of files, one file after another.
func rowsOf(files []string) iter.Seq2[results.Row, error] {
	return func(yield func(results.Row, error) bool) {
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				yield(results.Row{}, err)
				return
			}
			goOn := yieldAll(f, yield)
			f.Close() // it was only read
			if !goOn {
				return
			}
		}
	}
}

func yieldAll(f *os.File, yield func(results.Row, error) bool) bool {
	for r, err := range results.Read(f) {
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Name(), err)
		}
		if !yield(r, err) {
			return false
		}
	}
	return true
}

// plannedIn is how many runs the sweep in dir has, by its status.json; 0 when
// there is none.
func plannedIn(dir string) (int, error) {
	var status struct {
		Planned int `json:"planned"`
	}
	name := filepath.Join(dir, "status.json")
	text, err := readSmall(name)
	if err != nil || text == nil {
		return 0, err
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return max(status.Planned, 0), nil
}

// profile takes the name and description from the profile in dir.
func (d *Data) profile(dir string) error {
	var p struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	name := filepath.Join(dir, "profile.yaml")
	text, err := readSmall(name)
	if err != nil || text == nil {
		return err
	}
	if err := yaml.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d.Name, d.Description = p.Name, p.Description
	return nil
}

// readSmall reads a file of at most 1 MiB; nil when it is absent.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}
