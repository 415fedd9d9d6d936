package sweep

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// ProfileVersion is the version of the profile format this program reads.
const ProfileVersion = 1

// The values of unsupported in a profile: what becomes of a level that a device cannot have.
const (
	Refuse = "refuse" // the plan is refused; found out at apply, the row is failed
	Skip   = "skip"   // the run is skipped
	Record = "record" // the run is done, and its row goes by the effective level
)

const (
	defaultRepeats = 3
	defaultSettle  = time.Second
	maxRepeats     = 100_000
	maxRuns        = 10_000_000 // more would take longer than a drive lives
)

// Profile is a profile as read: strict, with defaults filled in and every level canonical text. It does not depend on
// the machine; NewPlan puts it to one.
type Profile struct {
	Version           int
	Name, Description string // at small scale the name ends in -small
	Target            TargetSpec
	Matrix            Matrix
	Repeats           int     // replicates; with RepeatsMin the most of them
	RepeatsMin        int     // the fewest, after which Precision is enough; 0: all Repeats are done, whatever they show
	Precision         float64 // half the width of the 95 % interval of each mean, as a share of it; with RepeatsMin
	Order             string
	Seed              uint64
	SeedGiven         bool // else NewPlan chooses one
	Settle            time.Duration
	Timeout           time.Duration // of one run
	TimeoutGiven      bool          // else Plan.Timeout says what it is
	Deadline          time.Duration // from each start of the sweep; 0: none. No replicate is begun that cannot be finished
	Until             Clock         // the same as a time of day; at most one of them is set
	Unsupported       string
	Workloads         []workload.Spec
	Hooks             Hooks
	Warnings          []string // what is legal and hardly meant
	Source            []byte   // the file as it was
	File              string   // its name, for errors
	Small             *Profile // at small scale, which the key small describes; nil: it does not say
	Scaled            []string // of one at small scale: what differs from the whole; nil: it is the whole

	places map[string]position // where values stand that only a plan can judge
}

// TargetSpec is what the workloads drive: one of its fields, or none until --device or --directory says it.
type TargetSpec struct {
	Device    string      // sdb, /dev/sdb, a link in /dev/disk, wwid:…, serial:…
	Directory string      // an absolute path
	Devices   []string    // in turn, as the axis device
	Arrays    []ArraySpec // existing ones, picked by raid_level
	Build     *BuildSpec  // made by mdadm, for each raid_level
}

// ArraySpec is one entry of arrays: what a raid_level drives. One of device and directory.
type ArraySpec struct{ Level, Device, Directory string }

// BuildSpec is how arrays are made. Each raid_level is made from all the members but none, which is the first alone.
type BuildSpec struct {
	Members                   []string          // as Device; in order
	ChunkKB                   int               // 0: mdadm's default
	Layout                    map[string]string // by raid_level; one without an entry has mdadm's default
	Bitmap                    string            // none or internal
	InitialSync               bool              // else --assume-clean
	Filesystem                string            // ext4, xfs, or "" for none: then the array itself is driven
	MkfsOptions, MountOptions []string
}

// Empty says that the profile names no target.
func (t TargetSpec) Empty() bool {
	return t.Device == "" && t.Directory == "" && t.Devices == nil && t.Arrays == nil && t.Build == nil
}

// several says that the target is picked by an axis.
func (t TargetSpec) several() bool { return t.Devices != nil || t.Arrays != nil || t.Build != nil }

// form is the key by which the profile says its target.
func (t TargetSpec) form() string {
	switch {
	case t.Devices != nil:
		return "devices"
	case t.Arrays != nil:
		return "arrays"
	case t.Build != nil:
		return "build"
	case t.Directory != "":
		return "directory"
	}
	return "device"
}

// inDirectory says that workloads drive files, of one target at least.
func (t TargetSpec) inDirectory() bool {
	return t.Directory != "" || slices.ContainsFunc(t.Arrays, func(a ArraySpec) bool { return a.Directory != "" }) || t.Build != nil && t.Build.Filesystem != ""
}

// array is the entry of arrays for a raid_level.
func (t TargetSpec) array(level string) (ArraySpec, bool) {
	for _, a := range t.Arrays {
		if a.Level == level {
			return a, true
		}
	}
	return ArraySpec{}, false
}

// ReadProfile reads a profile; name is the file's, for the errors. The error is a *ProfileErrors with everything that is
// wrong, unless reading itself failed.
func ReadProfile(name string, r io.Reader) (*Profile, error) {
	source, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("read the profile %s: %w", name, err)
	}
	read := newProfileReader(name, source)
	if root := read.document(source); root != nil {
		read.profile(root)
	}
	if read.scaled != nil {
		read.readSmall()
	}
	if len(read.errs.Errors) > 0 {
		read.errs.sort()
		return nil, &read.errs
	}
	return read.p, nil
}

func newProfileReader(name string, source []byte) *profileReader {
	return &profileReader{
		reader: reader{ProfileErrors{File: name}},
		knobs:  map[string]sysfs.Knob{}, inSmall: map[position]bool{},
		p: &Profile{
			Source: source, File: name, places: map[string]position{},
			Repeats: defaultRepeats, Order: Interleaved, Settle: defaultSettle, Unsupported: Refuse,
		},
	}
}

// profileReader fills a profile from its document.
type profileReader struct {
	reader
	p     *Profile
	knobs map[string]sysfs.Knob // by axis; one without a name where the axis is none

	layout  *yaml.Node        // of build, read when the levels are known
	scaled  *yaml.Node        // the document with what small puts in; nil without small
	inSmall map[position]bool // where that stands
	small   bool              // this is the reading of such a document
}

// profileKeys are the keys of a profile in the order in which YAML writes them.
func profileKeys() []string {
	return []string{
		"version", "name", "description", "target", "matrix", "repeats", "order", "seed", "settle", "timeout",
		"deadline", "until", "unsupported", "workloads", "hooks", "small",
	}
}

func (r *profileReader) profile(root *yaml.Node) {
	fields, ok := r.fields(root, "profile", "a profile is a mapping; it begins with version: 1")
	if !ok {
		return
	}
	r.p.places[""] = at(root)
	seen := map[string]bool{}
	var matrix, workloads *yaml.Node
	for _, f := range fields {
		seen[f.name] = true
		r.p.places[f.name] = at(f.value)
		switch f.name {
		case "version":
			r.version(f.value)
		case "name":
			r.p.Name = r.name(f.value, "name")
		case "description":
			r.p.Description = r.prose(f.value, "description")
		case "target":
			r.target(f.value)
		case "matrix":
			matrix = f.value
		case "repeats":
			r.repeats(f.value)
		case "order":
			r.p.Order = r.oneOf(f.value, "order", Interleaved, Sequential)
		case "seed":
			r.seed(f.value)
		case "settle":
			r.p.Settle = r.duration(f.value, "settle", 0, 10*time.Minute)
		case "timeout":
			r.p.Timeout, r.p.TimeoutGiven = r.duration(f.value, "timeout", time.Second, 7*24*time.Hour), true
		case "deadline":
			r.p.Deadline = r.duration(f.value, "deadline", shortestDeadline, longestDeadline)
		case "until":
			r.until(f.value)
		case "unsupported":
			r.p.Unsupported = r.oneOf(f.value, "unsupported", Refuse, Skip, Record)
		case "workloads":
			workloads = f.value
		case "hooks":
			r.hooks(f.value)
		case "small":
			r.scaled = r.smallDocument(root, f.value)
		default:
			r.unknown(f, "in a profile", profileKeys())
		}
	}
	if seen["deadline"] && seen["until"] {
		r.fail(r.p.places["until"], "until", "the sweep ends by the deadline already; leave one of them out")
	}
	for key, write := range map[string]string{
		"version":   "missing; write version: 1",
		"name":      "missing; write a name for the sweep's folder and rows, such as name: ncq-on-off",
		"workloads": "missing; write a list with one workload at least, such as workloads: [{name: rnd-4k, type: io, mode: randread}]",
	} {
		if !seen[key] {
			r.fail(at(root), key, "%s", write)
		}
	}
	r.matrix(matrix) // whose first axis may come from the target
	if workloads != nil {
		r.workloadList(workloads)
	}
	r.runs(root)
}

// runs judges the matrix as a whole, once its parts are right.
func (r *profileReader) runs(root *yaml.Node) {
	if len(r.errs.Errors) > 0 {
		return
	}
	p, ok := r.p.places["matrix"]
	if !ok {
		p = at(root)
	}
	n, ok := r.p.Matrix.combinations(maxRuns)
	if ok && n > 0 {
		r.workloadCells(p)
		n = r.p.Matrix.Count()
	}
	switch {
	case !ok || n > maxRuns/r.p.Repeats:
		r.fail(p, "matrix", "more than %d runs; leave levels or repeats out", maxRuns)
	case n == 0:
		r.fail(p, "matrix", "no cell is left; an exclude matches every cell")
	}
}

func (r *profileReader) version(n *yaml.Node) {
	const allowed = "the version of the profile format, which is 1"
	text, ok := r.scalar(n, "version", allowed)
	if ok && text != strconv.Itoa(ProfileVersion) {
		r.wrong(at(n), "version", text, "%s; this program reads no other", allowed)
	}
	r.p.Version = ProfileVersion
}
