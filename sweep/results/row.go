// Package results is the CSV of a sweep: its columns, how rows are appended
// so that a crash loses nothing and doubles nothing, and how they are read
// back. It imports nothing else of qdsweep: a row is text and numbers, and what
// they mean for a drive is not known here.
package results

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// Schema is the version of the columns that this package writes. Columns are
// only ever added at the end within one schema.
const Schema = 1

// FileName is the name of the CSV in a sweep's output folder; what a crash left
// half written goes to FileName + TornSuffix beside it.
const (
	FileName   = "results.csv"
	TornSuffix = ".torn"
)

// MaxRows is the largest number of rows of one run. It bounds what a reader
// has to hold of a run that never becomes whole.
const MaxRows = 4096

// Row is one phase of one run. The order of the fields is the order of the
// columns, and the csv tag their name; docs/csv.md says what each means.
//
// Levels, asked for or in force, are canonical text. Text that is "" and an Int
// or Num that was not set are empty cells: empty is not zero.
type Row struct {
	Schema    int    `csv:"schema"`
	Sweep     string `csv:"sweep"`
	Run       string `csv:"run"`  // cell#replicate
	Cell      string `csv:"cell"` // name=level;name=level
	Replicate int    `csv:"replicate"`
	Attempt   int    `csv:"attempt"`
	Row       int    `csv:"row"`
	Rows      int    `csv:"rows"`

	Started time.Time `csv:"started"` // of the run, by the wall clock
	Host    string    `csv:"host"`
	Kernel  string    `csv:"kernel"`
	Target  string    `csv:"target"`

	RAIDLevel             string `csv:"raid_level"`
	Members               string `csv:"members"` // FormatMembers
	QueueDepth            string `csv:"queue_depth"`
	WriteCache            string `csv:"write_cache"`
	MaxSectorsKB          string `csv:"max_sectors_kb"`
	Axes                  string `csv:"axes"` // name=level;name=level
	QueueDepthEffective   string `csv:"queue_depth_effective"`
	WriteCacheEffective   string `csv:"write_cache_effective"`
	MaxSectorsKBEffective string `csv:"max_sectors_kb_effective"`
	AxesEffective         string `csv:"axes_effective"`

	Workload   string `csv:"workload"`
	Phase      string `csv:"phase"`
	Engine     string `csv:"engine"`
	BlockSize  Int    `csv:"block_size"` // bytes
	Threads    Int    `csv:"threads"`
	IODepth    Int    `csv:"iodepth"` // per thread
	Parameters string `csv:"parameters"`

	Bytes         Int `csv:"bytes"`
	Operations    Int `csv:"operations"`
	Errors        Int `csv:"errors"`
	Seconds       Num `csv:"seconds"`
	MBPerS        Num `csv:"mb_per_s"` // 10^6 byte/s
	MBPerSSlowest Num `csv:"mb_per_s_slowest"`
	IOPS          Num `csv:"iops"`
	LatMeanUS     Num `csv:"lat_mean_us"`
	LatP50US      Num `csv:"lat_p50_us"`
	LatP95US      Num `csv:"lat_p95_us"`
	LatP99US      Num `csv:"lat_p99_us"`
	LatP999US     Num `csv:"lat_p999_us"`
	LatMaxUS      Num `csv:"lat_max_us"`
	FirstDoneS    Num `csv:"first_done_s"`
	LastDoneS     Num `csv:"last_done_s"`
	CPUUserS      Num `csv:"cpu_user_s"`
	CPUSysS       Num `csv:"cpu_sys_s"`

	ObservedDepth     Num `csv:"observed_depth"`
	ObservedDepthMax  Num `csv:"observed_depth_max"`
	QueuedDepth       Num `csv:"queued_depth"`
	ObservedRequestKB Num `csv:"observed_request_kb"` // KiB
	DeviceSamples     Int `csv:"device_samples"`
	DrainS            Num `csv:"drain_s"`
	TemperatureC      Num `csv:"temperature_c"`

	Status   string `csv:"status"` // OK, Failed, Suspect, Skipped
	Reason   string `csv:"reason"` // begins with a Code
	Restored bool   `csv:"restored"`

	BytesPerThread string `csv:"bytes_per_thread"` // 1048576;1044480, in the order of the workers
}

// addedLater are the columns that files of earlier versions do not have: a reader takes them as empty.
func addedLater() []string { return []string{"bytes_per_thread"} }

// Columns returns the names of the columns, in order.
func Columns() []string {
	t := reflect.TypeFor[Row]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("csv")
	}
	return names
}

// cells appends the row's cells, in column order, as they stand in the file.
func (r Row) cells(to []string) []string {
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i).Addr().Interface().(type) {
		case *string:
			to = append(to, protect(*f))
		case *int:
			to = append(to, strconv.Itoa(*f))
		case *Int:
			to = append(to, f.String())
		case *Num:
			to = append(to, f.String())
		case *bool:
			to = append(to, yesNo(*f))
		case *time.Time:
			to = append(to, formatTime(*f))
		default:
			panic(fmt.Sprintf("results: column %s has a type without a text form", v.Type().Field(i).Name))
		}
	}
	return to
}

// setCell puts one cell's text into field i. A cell that cannot be that
// column's is an error which names the column and the text.
func (r *Row) setCell(i int, text string) error {
	var err error
	field := reflect.ValueOf(r).Elem().Field(i).Addr().Interface()
	switch f := field.(type) {
	case *string:
		*f = unprotect(text)
	case *int:
		*f, err = strconv.Atoi(text)
	case *Int:
		*f, err = parseInt(text)
	case *Num:
		*f, err = parseNum(text)
	case *bool:
		*f, err = parseYesNo(text)
	case *time.Time:
		if text != "" {
			*f, err = time.Parse(time.RFC3339, text)
		}
	}
	if err != nil {
		return fmt.Errorf("column %s: %q: %w", reflect.TypeFor[Row]().Field(i).Tag.Get("csv"), shorten(text), err)
	}
	return nil
}

// check says what makes a row impossible, whoever wrote it.
func (r Row) check() error {
	switch {
	case r.Schema != Schema:
		return &SchemaError{Schema: r.Schema}
	case r.Sweep == "" || r.Run == "":
		return fmt.Errorf("a row without sweep or run")
	case r.Attempt < 1 || r.Row < 1 || r.Rows < r.Row || r.Rows > MaxRows:
		return fmt.Errorf("attempt %d, row %d of %d", r.Attempt, r.Row, r.Rows)
	case rank(r.Status) == 0:
		return fmt.Errorf("status %q: want ok, failed, suspect or skipped", shorten(r.Status))
	}
	return nil
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func parseYesNo(s string) (bool, error) {
	switch s {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, fmt.Errorf("want yes or no")
}

// shorten keeps a message about a garbage cell from becoming garbage itself.
func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
