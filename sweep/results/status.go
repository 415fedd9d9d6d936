package results

import (
	"fmt"
	"iter"
)

// The statuses of a row, and of a run.
const (
	OK      = "ok"
	Failed  = "failed"
	Suspect = "suspect"
	Skipped = "skipped"
)

// rank orders the statuses from best to worst; 0 is not a status.
func rank(status string) int {
	switch status {
	case OK:
		return 1
	case Skipped:
		return 2
	case Suspect:
		return 3
	case Failed:
		return 4
	}
	return 0
}

// RunStatus is the status of a run: that of its worst row (failed, suspect,
// skipped, ok). A run without rows has none, "": it is remaining.
func RunStatus(rows []Row) string {
	worst := ""
	for _, r := range rows {
		if rank(r.Status) > rank(worst) {
			worst = r.Status
		}
	}
	return worst
}

// RunReason is the reason of the row that decided the run's status, "" for none.
func RunReason(rows []Row) string {
	worst := RunStatus(rows)
	for _, r := range rows {
		if r.Status == worst {
			return r.Reason
		}
	}
	return ""
}

// Audit is what became of every planned run.
// Planned = OK + Failed + Suspect + Skipped + Remaining; with Planned below 0 it
// is not known how many were planned, and Remaining says nothing.
type Audit struct {
	Planned   int `json:"planned"`
	OK        int `json:"ok"`
	Failed    int `json:"failed"`
	Suspect   int `json:"suspect"`
	Skipped   int `json:"skipped"`
	Remaining int `json:"remaining"`
}

// String is the sentence at the end of each sweep.
func (a Audit) String() string {
	if a.Planned < 0 {
		return fmt.Sprintf("%d ok + %d failed + %d suspect + %d skipped; how many were planned is not known from rows alone",
			a.OK, a.Failed, a.Suspect, a.Skipped)
	}
	return fmt.Sprintf("%d planned = %d ok + %d failed + %d suspect + %d skipped + %d remaining",
		a.Planned, a.OK, a.Failed, a.Suspect, a.Skipped, a.Remaining)
}

// Done is how many runs have rows.
func (a Audit) Done() int { return a.OK + a.Failed + a.Suspect + a.Skipped }

// Add counts one run of the given status and takes it from Remaining, which the
// caller starts at Planned.
func (a *Audit) Add(status string) {
	a.count(status, 1)
	a.Remaining--
}

// Again counts a run that has rows of another attempt by these: was is its status
// before, "" when it had none. Remaining is left to the caller.
func (a *Audit) Again(was, status string) {
	a.count(was, -1)
	a.count(status, 1)
}

func (a *Audit) count(status string, by int) {
	switch status {
	case OK:
		a.OK += by
	case Failed:
		a.Failed += by
	case Suspect:
		a.Suspect += by
	case Skipped:
		a.Skipped += by
	}
}

// AuditOf counts the runs of rows, each by its last attempt. It holds only the
// runs that are not ok, because only those are ever repeated. planned < 0: nobody
// knows. The first error among rows is returned beside the audit of the others.
func AuditOf(rows iter.Seq2[Row, error], planned int) (Audit, error) {
	type key struct{ sweep, run string }
	var (
		a     Audit
		notOK = map[key]string{}
		run   []Row
		first error
	)
	for r, err := range rows {
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if run = append(run, r); r.Row < r.Rows {
			continue
		}
		k, status := key{r.Sweep, r.Run}, RunStatus(run)
		run = run[:0]
		if before, again := notOK[k]; again {
			a.count(before, -1)
			delete(notOK, k)
		}
		if a.count(status, 1); status != OK {
			notOK[k] = status
		}
	}
	if a.Planned = -1; planned >= 0 {
		a.Planned, a.Remaining = planned, planned-a.Done()
	}
	return a, first
}
