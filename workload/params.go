package workload

import (
	"slices"
	"strings"
	"time"

	"qdsweep/workload/ioengine"
)

// Param is one parameter of workloads: what it is called, where it belongs, what it may be. Adding a
// parameter is adding an entry to the table, and the code that obeys it.
type Param struct {
	Name    string
	Default string // canonical text; "" means that the target or another parameter decides
	Allowed string // for people
	Help    string
	Axis    bool     // may stand in a profile's matrix
	List    bool     // may be written as a list, too: its values, separated by blanks
	Types   []string // workload types that have it

	column bool   // has a column of its own in the CSV
	later  string // a value that a later version will know
	set    func(s *Spec, value string) bool
	get    func(s Spec) string
}

// Params are the parameters of one type, in the order of the docs and of the CSV's column parameters;
// nil when there is no such type.
func Params(typ string) []Param {
	var params []Param
	for _, p := range table() {
		if slices.Contains(p.Types, typ) {
			params = append(params, p)
		}
	}
	return params
}

func table() []Param {
	io, dd, both, bonnie, all := []string{"io"}, []string{"dd"}, []string{"io", "dd"}, []string{"bonnie"}, Types()
	engines := ioengine.Names()
	return []Param{
		choice(Param{Name: "mode", Types: io, Axis: true, Default: "randread",
			Help: "what each thread does; rw and randrw mix reads and writes in each thread, a + runs readers and writers apart"},
			func(s *Spec) *string { return &s.Mode }, ioModes()...),
		choice(Param{Name: "mode", Types: dd, Axis: true, Default: "write",
			Help: "the phases, in this order; each is a row"},
			func(s *Spec) *string { return &s.Mode }, "write", "read", "write-read", "write-read-remove"),
		choice(Param{Name: "engine", Types: io, Default: "auto", column: true,
			Help: "how I/O is issued; auto is the best that the kernel allows"},
			func(s *Spec) *string { return &s.Engine }, append([]string{"auto"}, engines...)...),
		choice(Param{Name: "engine", Types: dd, Default: "auto", column: true,
			Help: "dd issues one operation after another in each process, so auto is psync"},
			func(s *Spec) *string { return &s.Engine }, "auto", "psync", "sg", "null"),
		size(Param{Name: "block_size", Types: io, Axis: true, Default: "4k", column: true, Help: "bytes of one operation"},
			func(s *Spec) *int64 { return &s.BlockSize }, 512, 1<<30, 512),
		size(Param{Name: "block_size", Types: dd, Axis: true, Default: "1m", column: true, Help: "bytes of one operation"},
			func(s *Spec) *int64 { return &s.BlockSize }, 512, 1<<30, 512),
		number(Param{Name: "iodepth", Types: io, Axis: true, Default: "1", column: true, Help: "operations outstanding in each thread"},
			func(s *Spec) *int { return &s.IODepth }, 1, 4096),
		number(Param{Name: "threads", Types: io, Axis: true, Default: "1", column: true, Help: "threads; as many readers and as many writers in the modes with a +"},
			func(s *Spec) *int { return &s.Threads }, 1, 1024),
		number(Param{Name: "regions", Types: io, Axis: true, Help: "disjoint regions that the sequential modes walk; default: as many as threads"},
			func(s *Spec) *int { return &s.Regions }, 1, 1024),
		number(Param{Name: "processes", Types: dd, Axis: true, Default: "1", Help: "how many dd's at once, each with a file or range of its own"},
			func(s *Spec) *int { return &s.Processes }, 1, 1024),
		size(Param{Name: "size", Types: both, Help: "io: the bytes driven; dd: those of each process; default: the device, so a directory needs it"},
			func(s *Spec) *int64 { return &s.Size }, 512, 1<<60, 1),
		duration(Param{Name: "runtime", Types: io, Default: "30s", Help: "how long it is measured; 0s: once through size"},
			func(s *Spec) *time.Duration { return &s.Runtime }),
		duration(Param{Name: "warmup", Types: io, Default: "0s", Help: "how long it runs before the clock starts"},
			func(s *Spec) *time.Duration { return &s.Warmup }),
		percent(Param{Name: "read_percent", Types: io, Axis: true, Default: "50", Help: "share of reads in rw and randrw"},
			func(s *Spec) *int { return &s.ReadPercent }),
		choice(Param{Name: "sync", Types: io, Default: "none", Help: "fsync: one at the end of a once-through; dsync: every write"},
			func(s *Spec) *string { return &s.Sync }, "none", "fsync", "dsync"),
		choice(Param{Name: "sync", Types: dd, Default: "fsync", Help: "fsync: one at the end, inside the clock; dsync: every write"},
			func(s *Spec) *string { return &s.Sync }, "none", "fsync", "dsync"),
		boolean(Param{Name: "direct", Types: io, Default: "true", Help: "past the page cache; never falls back"},
			func(s *Spec) *bool { return &s.Direct }),
		boolean(Param{Name: "direct", Types: dd, Default: "false", Help: "past the page cache; never falls back"},
			func(s *Spec) *bool { return &s.Direct }),
		boolean(Param{Name: "verify", Types: both, Default: "false", Help: "read back and compare what was written, after the clock"},
			func(s *Spec) *bool { return &s.Verify }),
		choice(Param{Name: "engine", Types: bonnie, Default: "auto", column: true,
			Help: "bonnie reads and writes through the page cache, one operation after another in each thread, so auto is psync"},
			func(s *Spec) *string { return &s.Engine }, "auto", "psync", "null"),
		size(Param{Name: "size", Types: bonnie, Help: "of the large file; default: twice the memory of the machine, so that it cannot be cached"},
			func(s *Spec) *int64 { return &s.Size }, 512, 1<<60, 512),
		powerOfTwo(Param{Name: "chunk", Types: bonnie, Axis: true, Default: "8k", Help: "bytes of one operation of write, rewrite, read and seeks"},
			func(s *Spec) *int64 { return &s.BlockSize }, 512, 1<<20),
		number(Param{Name: "seeks", Types: bonnie, Default: "8192", Help: "random reads of a chunk, of all seekers together; each tenth is written back"},
			func(s *Spec) *int { return &s.Seeks }, 1, 1<<30),
		number(Param{Name: "seekers", Types: bonnie, Axis: true, Default: "3", Help: "threads that seek at once"},
			func(s *Spec) *int { return &s.Seekers }, 1, 1024),
		number(Param{Name: "files", Types: bonnie, Default: "16", Help: "small files, × 1024; 0: no phases of files"},
			func(s *Spec) *int { return &s.Files }, 0, 1<<17),
		sizeOrNone(Param{Name: "file_size_min", Types: bonnie, Default: "16", Help: "bytes of the smallest of the small files; their sizes are drawn"},
			func(s *Spec) *int64 { return &s.FileSizeMin }, 1<<30),
		sizeOrNone(Param{Name: "file_size_max", Types: bonnie, Default: "100000", Help: "bytes of the largest; 0: empty files"},
			func(s *Spec) *int64 { return &s.FileSizeMax }, 1<<30),
		number(Param{Name: "directories", Types: bonnie, Default: "64", Help: "that the small files are in"},
			func(s *Spec) *int { return &s.Directories }, 1, 1<<17),
		phases(Param{Name: "phases", Types: bonnie, Default: allPhases, List: true, Help: "those that are done, in this order"},
			func(s *Spec) *string { return &s.BonniePhases }),
		duration(Param{Name: "timeout", Types: all, Default: "0s", Help: "ends this workload as failed; 0s: only the run's own timeout"},
			func(s *Spec) *time.Duration { return &s.Timeout }),
	}
}

// TakesList says whether a parameter, of whichever type, may be written as a list.
func TakesList(name string) bool {
	return slices.ContainsFunc(table(), func(p Param) bool { return p.Name == name && p.List })
}

func ioModes() []string {
	return []string{"read", "write", "randread", "randwrite", "rw", "randrw", "read+write", "randread+randwrite"}
}

func find(params []Param, name string) (Param, bool) {
	for _, p := range params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// put sets a value, or says what is wrong with it and leaves the Spec alone.
func (p Param) put(s *Spec, value string) *FieldError {
	changed := *s
	ok := p.set(&changed, value)
	if p.later != "" && (value == p.later || ok && p.get(changed) == p.later) {
		return &FieldError{Key: p.Name, Value: value, Allowed: p.Allowed, Reason: "is not yet in this version"}
	}
	if !ok {
		return &FieldError{Key: p.Name, Value: value, Allowed: p.Allowed}
	}
	*s = changed
	return nil
}

// unknownKey tells a key of a later version, and of another type, from a misspelt one.
func unknownKey(typ, key, value string) FieldError {
	e := FieldError{Key: key, Value: value, Reason: "is of a key that type " + typ + " does not have"}
	names := []string{"name", "type"}
	for _, p := range Params(typ) {
		names = append(names, p.Name)
	}
	e.Allowed = "its keys are " + strings.Join(names, ", ")
	return e
}
