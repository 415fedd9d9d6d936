package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

const (
	statusLimit = 5 * time.Second  // for one folder whose disk does not answer
	silentAfter = 60 * time.Second // without a new status.json, of a process that cannot be looked at
	staleAfter  = 10 * time.Second // of one that is seen to live: its disk is full or hangs, or somebody has stopped it
	statusBytes = 1 << 20          // no status.json is larger
	logTail     = 64 << 10         // in which the last line of a log is found
)

// SweepStatus is a sweep as one who asks finds it. Its State is what was found out, not what the file says.
type SweepStatus struct {
	Dir string `json:"dir"`
	Status
	Age float64         `json:"age_s"`         // since status.json was written
	Why string          `json:"why,omitempty"` // why it is died, or unknown
	Log json.RawMessage `json:"log,omitempty"` // the last line of the log
}

// ReadStatus says how far the sweep in an output folder is. It only reads, and asks neither the sweep nor its devices. A folder without a sweep is a *UsageError.
func ReadStatus(ctx context.Context, h sysfs.Host, dir string) (found SweepStatus, err error) {
	type answer struct {
		found SweepStatus
		err   error
	}
	got := make(chan answer, 1) // not shared: one that comes too late is nobody's
	err = bounded(ctx, statusLimit, func() error {
		found, err := readStatus(h, dir)
		got <- answer{found, err}
		return nil
	})
	if err != nil {
		return SweepStatus{Dir: dir}, fmt.Errorf("read %s: its disk does not answer: %w", filepath.Join(dir, StatusFile), err)
	}
	a := <-got
	return a.found, a.err
}

func readStatus(h sysfs.Host, dir string) (SweepStatus, error) {
	found := SweepStatus{Dir: dir}
	name := filepath.Join(dir, StatusFile)
	for tries := 0; ; tries++ {
		text, err := readRegular(name, 0, statusBytes)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return found, &RefusedError{[]sysfs.Refusal{{Device: dir, Reason: fmt.Sprintf("may not be read: %v", err), Fix: "sudo qdsweep status " + ShellQuote(dir)}}}
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			return found, &UsageError{fmt.Sprintf("%s: no output folder of a sweep: %v; name one, or none: `sudo qdsweep status` lists the sweeps of this machine", dir, err)}
		case err != nil:
			return found, err
		}
		err = json.Unmarshal(text, &found.Status)
		if err == nil {
			break
		}
		if tries == 5 { // on a full disk it is written where it stands
			return found, fmt.Errorf("read %s: %w", name, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	now := time.Now()
	found.Age = max(now.Sub(found.Updated).Seconds(), 0)
	found.State, found.Why = judgeState(h, found.Status, now)
	if found.State == Died {
		found.Left = nil
		found.Next = found.afterDeath()
	}
	found.Log = lastLine(filepath.Join(dir, "log.jsonl"))
	return found, nil
}

// judgeState finds out whether a sweep that says it is running still does.
func judgeState(h sysfs.Host, n Status, now time.Time) (state, why string) {
	if n.State == Ended {
		return Ended, ""
	}
	host, _ := os.Hostname()
	boot, err := h.BootID()
	switch {
	case err == nil && n.BootID != "" && n.BootID != boot && n.Host == host:
		return Died, "the machine was restarted since"
	case err == nil && n.BootID == boot && n.PIDSpace == pidSpace() && n.Since != "":
		if keeper.Lives(n.PID, n.Since) {
			return Running, ""
		}
		return Died, fmt.Sprintf("its process %d is gone", n.PID)
	case now.Sub(n.Updated) < silentAfter:
		return Running, ""
	case n.BootID != "" && n.BootID != boot:
		return Unknown, fmt.Sprintf("it is a sweep of %s: ask there", n.Host)
	}
	return Unknown, "its process is not to be seen from here (in a container, perhaps): ask there"
}

// afterDeath is what to type for a sweep that did not end by itself.
func (n SweepStatus) afterDeath() string {
	state := stateFlag(n.StateDir)
	return fmt.Sprintf("sudo qdsweep%s restore && sudo qdsweep%s resume %s", state, state, ShellQuote(n.Dir))
}

// lastLine is the last whole line of a log that is JSON, nil where there is none.
func lastLine(name string) json.RawMessage {
	st, err := os.Stat(name)
	if err != nil {
		return nil
	}
	tail, err := readRegular(name, max(st.Size()-logTail, 0), logTail)
	if err != nil {
		return nil
	}
	for len(tail) > 0 {
		var line []byte
		i := bytes.LastIndexByte(bytes.TrimRight(tail, "\n"), '\n')
		line, tail = bytes.TrimSpace(tail[i+1:]), tail[:max(i, 0)]
		if json.Valid(line) {
			return json.RawMessage(line)
		}
	}
	return nil
}

// readRegular reads part of a file that is one: the folder may be anybody's, and a pipe in it would never end.
func readRegular(name string, from, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	return io.ReadAll(io.NewSectionReader(f, from, limit))
}

// Sweeps says how far every sweep is that the state folder knows, the oldest first. One whose folder cannot be read is Unknown, with the reason.
func Sweeps(ctx context.Context, h sysfs.Host, stateDir string) ([]SweepStatus, error) {
	dir := filepath.Join(stateDir, "sweeps")
	links, err := os.ReadDir(dir) // sorted by name, which begins with the time of its start
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, &RefusedError{[]sysfs.Refusal{{Device: stateDir, Reason: "only root may read which sweeps there are", Fix: "sudo qdsweep status, or name the output folder: qdsweep status DIR"}}}
	case err != nil:
		return nil, err
	}
	var all []SweepStatus
	for _, l := range links {
		out, err := os.Readlink(filepath.Join(dir, l.Name()))
		if err != nil {
			continue // not ours
		}
		found, err := ReadStatus(ctx, h, out)
		if cause := context.Cause(ctx); cause != nil {
			return all, cause
		}
		if err == nil && found.Sweep != l.Name() {
			err = fmt.Errorf("%s holds another sweep now, %s", out, found.Sweep)
		}
		if err != nil {
			found = SweepStatus{Dir: out, Why: err.Error(), Status: Status{Sweep: l.Name(), State: Unknown}}
			if _, gone := os.Lstat(out); errors.Is(gone, fs.ErrNotExist) {
				found.Why = "its folder is not there any more"
			}
		}
		all = append(all, found)
	}
	return all, nil
}

// StatusExit is the exit code of a look at sweeps: 4 when one has died, for somebody has to type something.
func StatusExit(all []SweepStatus) int {
	for _, found := range all {
		if found.State == Died {
			return ExitIncomplete
		}
	}
	return ExitOK
}
