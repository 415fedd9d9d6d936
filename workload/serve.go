package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"qdsweep/sweep/wire"
)

// request is one thing that the worker is asked to do. The target's descriptor comes with it.
type request struct {
	Do           string // prepare, run, sync or drop
	Spec         Spec
	Directory    bool
	Name         string
	Bytes        int64
	LogicalBlock int
	Start        int64
	MaxTransfer  int64
	Seed         uint64

	began func(phase string) // told of each phase, nil: nobody
}

// reply is the answer to a request. Before it come those that only say which phase has begun.
type reply struct {
	Began   string `json:",omitempty"`
	Results []Result
	Err     string
	Errno   int
}

// Serve is the worker process: it does what comes over the line, one thing at a time, until the line
// ends. An error of the I/O is in the reply; a panic ends the process, which is that run's error at the
// other end.
func Serve(ctx context.Context, conn *wire.Conn) error {
	for {
		var q request
		files, err := conn.ReceiveContext(ctx, &q)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		q.began = func(phase string) { _ = conn.SendContext(ctx, reply{Began: phase}) } // main that is gone shows in the answer
		r := q.serve(files)
		for _, f := range files {
			_ = f.Close()
		}
		if err := conn.SendContext(ctx, r); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
}

func (q request) serve(files []*os.File) reply {
	t := Target{Name: q.Name, Bytes: q.Bytes, LogicalBlock: q.LogicalBlock, Start: q.Start, MaxTransfer: q.MaxTransfer}
	switch {
	case len(files) == 2 && !q.Directory:
		t.File, t.SG = files[0], files[1]
	case len(files) == 1 && q.Directory:
		t.Dir = files[0]
	case len(files) == 1:
		t.File = files[0]
	case q.Spec.Engine != "null":
		return reply{Err: fmt.Sprintf("%s: %d descriptors came with the request", q.Name, len(files))}
	}
	var err error
	switch q.Do {
	case "sync":
		return replyOf(t.sync())
	case "drop":
		return replyOf(t.dropPages())
	}
	q.Spec.Engine = AutoEngine(q.Spec)
	switch q.Do {
	case "prepare":
		err = prepare(q.Spec, t, q.Seed)
	case "run":
		if err = q.Spec.CheckTarget(t.Bytes, t.LogicalBlock, q.Directory); err == nil {
			return reply{Results: execute(q.Spec, t, q.Seed, q.tell)}
		}
		// Known before anything was opened, so it is told as the first phase's failure.
		r := Result{Phase: q.Spec.Phases()[0], Engine: q.Spec.Engine, BlockSize: q.Spec.BlockSize, Err: strings.ReplaceAll(err.Error(), "\n", "; ")}
		return reply{Results: []Result{r}}
	default:
		err = fmt.Errorf("the worker cannot %q", q.Do)
	}
	return replyOf(err)
}

func replyOf(err error) reply {
	if err != nil {
		return reply{Err: err.Error(), Errno: int(errnoOf(err))}
	}
	return reply{}
}

// tell says that a phase has begun.
func (q request) tell(phase string) {
	if q.began != nil {
		q.began(phase)
	}
}

func execute(s Spec, t Target, seed uint64, began func(phase string)) []Result {
	switch s.Type {
	case "dd":
		return runDD(s, t, seed, began)
	case "bonnie":
		return runBonnie(s, t, seed, began)
	default:
		return runIO(s, t, seed)
	}
}
