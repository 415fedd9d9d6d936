// Package md builds md arrays with the real mdadm, puts file systems on them, and takes both down again, also in another boot and from any
// half-made state. It knows devices (sysfs) and must not know sweeps, journals or workloads.
//
// The order of care is: never destroy data, never leave something behind, never claim what is not so. Everything it makes carries one
// random UUID, the array and the file system the same, and only what carries that UUID is ever stopped, wiped or zeroed.
package md

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// ErrInUse: somebody else uses what is to be taken down. It is left as it is; the text says who.
var ErrInUse = errors.New("in use")

// Spec is an array, or with level none a single device, that is to be made.
type Spec struct {
	UUID    string         // "21514354-7f0c-4045-8c4d-8722426fdbbd" (NewUUID), of the array and of its file system
	Level   string         // one of Levels()
	Members []sysfs.Device // disks or partitions, in order; level none uses the first alone
	ChunkKB int            // 0: mdadm's own choice
	Layout  string         // "left-symmetric", "f2"; "": mdadm's own choice
	Bitmap  string         // "", "none", "internal"

	// InitialSync waits until parity or mirrors are made, as for an array that is to be used; else it is assumed clean.
	InitialSync bool
	// SyncStall is how long that may stand still, waiting for another array perhaps, before the build is given up. 0: for ever.
	SyncStall time.Duration

	Filesystem   string // one of Filesystems(), "" for none
	MkfsOptions  []string
	MountOptions []string
	MountPoint   string // made by Build, 0700; its parent is there
}

// Built is what Build made.
type Built struct {
	Device    sysfs.Device // the array; with level none the first member
	Directory string       // where its file system is mounted, "" without one
}

// Progress is how far Build is.
type Progress struct {
	Step string        // "create raid5 of 4 members", "initial sync of md126", …
	Done float64       // 0 to 1 of this step, -1 unknown
	Left time.Duration // of this step, 0 unknown
}

// Record is all that taking down needs to know. It goes into the journal as JSON, before anything is made.
type Record struct {
	UUID       string         `json:"uuid"`
	Level      string         `json:"level"`
	Filesystem string         `json:"filesystem,omitempty"`
	MountPoint string         `json:"mount_point,omitempty"`
	Members    []RecordMember `json:"members"`
}

// RecordMember is a disk or partition by its identity; one that has none is found by name and size.
type RecordMember struct {
	Identity sysfs.Identity `json:"identity,omitempty"`
	Name     string         `json:"name"`
	Bytes    int64          `json:"bytes"`
}

// text is the member as an error names it: "sdb1 (wwid:naa.5000c5…-part1)".
func (r RecordMember) text() string {
	if r.Identity == "" {
		return fmt.Sprintf("%s (%d bytes)", r.Name, r.Bytes)
	}
	return fmt.Sprintf("%s (%s)", r.Name, r.Identity)
}

// Record is what has to be written down of a spec before it is built.
func (s Spec) Record() Record {
	r := Record{UUID: s.UUID, Level: s.Level, Filesystem: s.Filesystem}
	if s.Filesystem != "" {
		r.MountPoint = s.MountPoint
	}
	for _, d := range s.used() {
		r.Members = append(r.Members, RecordMember{Identity: d.Identity, Name: d.Name, Bytes: d.Bytes})
	}
	return r
}

// used is the members that the level uses.
func (s Spec) used() []sysfs.Device {
	if s.Level == LevelNone {
		return s.Members[:min(1, len(s.Members))]
	}
	return s.Members
}

// NewUUID gives a random UUID (RFC 9562, version 4).
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// plainUUID is the 32 hex digits of a UUID as mdadm ("21514354:7f0ce045:…"), blkid or the kernel writes it; "" where it is none, or the
// zeros of a thing that has none yet.
func plainUUID(s string) string {
	plain := strings.ToLower(strings.NewReplacer("-", "", ":", "").Replace(s))
	if len(plain) != 32 || strings.Trim(plain, "0123456789abcdef") != "" || strings.Trim(plain, "0") == "" {
		return ""
	}
	return plain
}

// sameUUID is never true for two things without one: everything that is stopped, wiped or zeroed hangs on it.
func sameUUID(a, b string) bool {
	plain := plainUUID(a)
	return plain != "" && plain == plainUUID(b)
}

// arrayName is written into the superblocks, so that who meets one can tell whose it is.
func arrayName(uuid string) string { return "qdsweep-" + plainUUID(uuid)[:8] }
