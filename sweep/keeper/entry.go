package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"qdsweep/sysfs"
)

const entryVersion = 1

// Entry is one thing to be put back: a device's settings, a folder of ours that is to be removed, or an array of ours that
// is to be taken down.
type Entry struct {
	Version int `json:"version"`

	// Of a device: a drive, or an array or map above some. One without an identity is found by name, in the same boot.
	Identity sysfs.Identity `json:"identity,omitempty"`
	Name     string         `json:"name,omitempty"` // the kernel's, then

	BootID string    `json:"boot_id"`
	Sweep  string    `json:"sweep,omitempty"`
	PID    int       `json:"pid"`             // of main
	Since  string    `json:"since,omitempty"` // main's start, clock ticks of that boot: tells it from a later process of that number
	Taken  time.Time `json:"taken"`

	Snapshot *sysfs.Snapshot `json:"snapshot,omitempty"`
	Settings []sysfs.Setting `json:"settings,omitempty"` // what was about to be applied
	PartOf   string          `json:"part_of,omitempty"`  // UUID of the sweep's own array that the device is: it ends with it

	Folder *Folder `json:"folder,omitempty"`
	Array  *Array  `json:"array,omitempty"`

	File   string `json:"-"` // name in the journal folder, of an entry that was read
	Damage string `json:"-"` // why the file cannot be read, trusted or understood
}

// Folder is a folder that this tool made, and by what it is known again: a path alone may by now be another folder.
type Folder struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	Device string `json:"device"` // major:minor; only good in the same boot
	Inode  uint64 `json:"inode"`
	Born   string `json:"born,omitempty"` // statx(2) birth time, RFC 3339; "" where the file system keeps none

	ParentInode uint64 `json:"parent_inode"` // tells a removed folder from a file system that is not mounted
}

// Key names the entry to a user: what `qdsweep restore --forget` takes. FileName of it is the entry's lock file.
func (e Entry) Key() string {
	switch {
	case e.Damage != "":
		// FileName writes as URLs do.
		if key, err := url.PathUnescape(strings.TrimSuffix(e.File, suffix)); err == nil {
			return key
		}
		return e.File
	case e.Folder != nil:
		return "folder-" + e.Folder.ID
	case e.Array != nil:
		return "array-" + e.Array.UUID
	}
	return memberKey(e.Identity, e.Name)
}

// file is the entry's name in the journal folder. An identity never begins with "folder-" or "array-": it has a
// colon, which FileName writes as %3A.
func (e Entry) file() string {
	if e.Damage != "" {
		return e.File
	}
	return sysfs.Identity(e.Key()).FileName() + suffix
}

// mainLives says whether the sweep that made the entry still runs. Its keeper may be dead: then it starts another one.
func (e Entry) mainLives(boot string) bool {
	return e.BootID == boot && e.Since != "" && !dying(process{e.PID, e.Since})
}

// memberKey is the identity, or "name:sdh" of a device that has none.
func memberKey(id sysfs.Identity, name string) string {
	if id != "" {
		return string(id)
	}
	return "name:" + name
}

func decodeEntry(b []byte) (Entry, error) {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return Entry{}, fmt.Errorf("it is damaged: %w", err)
	}
	if version.Version != entryVersion {
		return Entry{}, fmt.Errorf("it is of version %d, this qdsweep knows version %d", version.Version, entryVersion)
	}
	var e Entry
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Entry{}, fmt.Errorf("it is damaged: %w", err)
	}
	switch {
	case e.Folder == nil && e.Snapshot == nil && e.Array == nil:
		return Entry{}, errors.New("it holds neither a snapshot nor a folder nor an array")
	case e.Snapshot != nil && (e.Folder != nil || e.Array != nil), e.Folder != nil && e.Array != nil:
		return Entry{}, errors.New("it holds more than one thing")
	case e.Snapshot != nil && e.Identity == "" && e.Name == "":
		return Entry{}, errors.New("it names no drive")
	case e.Array != nil && (e.Array.UUID == "" || len(e.Array.Members) == 0):
		return Entry{}, errors.New("its array has no UUID or no members")
	case e.Folder != nil && (e.Folder.ID == "" || !strings.HasPrefix(e.Folder.Path, "/")):
		return Entry{}, errors.New("its folder has no id or no absolute path")
	}
	return e, nil
}
