package keeper

import (
	"context"
	"fmt"
	"strings"

	"qdsweep/sysfs"
)

// forget drops entries, each by its key or its file's name.
func (s *server) forget(ctx context.Context, entries []Entry, o RestoreOptions) ([]EntryOutcome, error) {
	byKey := map[string]Entry{}
	var keys []string
	for _, e := range entries {
		byKey[e.Key()], byKey[e.File] = e, e
		keys = append(keys, e.Key())
	}
	for _, key := range o.Forget {
		if _, ok := byKey[key]; !ok {
			there := "it is empty"
			if len(keys) > 0 {
				there = "there are '" + strings.Join(keys, "', '") + "'"
			}
			return nil, &StateError{Path: s.j.dir, Reason: fmt.Sprintf("its journal has no entry '%s' to forget: %s", key, there)}
		}
	}
	all := []EntryOutcome{}
	for _, key := range o.Forget {
		e := byKey[key]
		out := s.outcome(e)
		lock, err := takeLock(ctx, s.h, s.j, e.Key(), e.Key(), s.main, o.Wait)
		if err != nil {
			all = append(all, busyOutcome(out, err))
			continue
		}
		switch err := error(nil); {
		case o.DryRun:
			out.State, out.Notes = StateWouldRestore, []string{"it would be forgotten, not restored"}
		default:
			if err = s.j.Clear(e); err != nil {
				out.State, out.Reason = StateFailed, err.Error()
				break
			}
			out.State = StateForgotten
			switch {
			case e.Snapshot != nil:
				out.Notes = append(out.Notes, "its originals were: "+originals(*e.Snapshot))
			case e.Array != nil:
				out.Notes = append(out.Notes, "what is on its members is left as it is; its UUID was "+e.Array.UUID)
			}
		}
		_ = lock.Close()
		all = append(all, out)
	}
	return all, nil
}

// originals is what a snapshot holds of the settings that sweeps change, for somebody who throws it away.
func originals(s sysfs.Snapshot) string {
	var b strings.Builder
	if s.WriteCache != "" {
		fmt.Fprintf(&b, "write_cache %s", s.WriteCache)
	}
	for _, a := range s.Attributes {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", a.Path, a.Value)
	}
	return b.String()
}
