package drive

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Workload is what a simulated host does: it keeps Depth commands outstanding.
type Workload struct {
	Write  bool
	Random bool // else from the first sector on, and round again
	Block  int64
	Region int64 // bytes, from the first on; 0: all of the drive
	Depth  int
	Think  time.Duration // of the host, in its own time, from a command's return to the next one
	Warmup time.Duration // of the drive's time, not counted
	Length time.Duration // of the drive's time, counted
	Seed   uint64        // of the host and of the drive
}

// Result is what the host saw, in its own time: the drive's divided by Model.Speed.
type Result struct {
	Commands int
	IOPS     float64
	MBs      float64 // 10^6 byte/s
	Mean     time.Duration
	Longest  time.Duration // from a command's submission to its return
}

// blank are media for what is about time alone: zeros, whatever is written.
type blank struct{}

func (blank) ReadAt(to []byte, _ int64) (int, error) {
	clear(to)
	return len(to), nil
}

func (blank) WriteAt(from []byte, _ int64) (int, error) { return len(from), nil }

// Simulate runs a workload on a drive just powered on.
func Simulate(m Model, w Workload) (Result, error) {
	d := New(m, blank{}, w.Seed)
	random := rand.New(rand.NewPCG(w.Seed, 1))
	region := w.Region
	if region == 0 {
		region = int64(d.model.Sectors()) * SectorSize
	}
	blocks := region / w.Block
	if w.Block%SectorSize != 0 || blocks < 1 || w.Depth < 1 || w.Length <= 0 {
		return Result{}, fmt.Errorf("%w: blocks of %d in %d bytes, depth %d, for %v", errCommand, w.Block, region, w.Depth, w.Length)
	}
	sectors, data := uint64(w.Block/SectorSize), make([]byte, w.Block)
	block := int64(0)
	next := func() *Command {
		if w.Random {
			block = random.Int64N(blocks)
		}
		c := &Command{Kind: Read, LBA: uint64(block) * sectors, Sectors: sectors}
		if w.Write {
			c.Kind, c.Data = Write, data
		}
		block = (block + 1) % blocks
		return c
	}
	think := time.Duration(float64(w.Think) * d.model.Speed)
	due := make([]time.Duration, w.Depth) // when the host submits, in order
	var r Result
	var sum time.Duration
	end := w.Warmup + w.Length
	for {
		at := min(d.Next(), dueOr(due))
		if at > end {
			break
		}
		for _, c := range d.Run(at) {
			due = append(due, at+think)
			if c.Err != nil {
				return Result{}, c.Err
			}
			if at >= w.Warmup {
				r.Commands++
				sum += c.Done - c.Arrived
			}
			r.Longest = max(r.Longest, c.Done-c.Arrived)
		}
		for len(due) > 0 && due[0] <= at {
			due = due[1:]
			if err := d.Submit(at, next()); err != nil {
				return Result{}, err
			}
		}
	}
	r.IOPS = float64(r.Commands) / w.Length.Seconds() * d.model.Speed
	r.MBs = r.IOPS * float64(w.Block) / 1e6
	if r.Commands > 0 {
		r.Mean = time.Duration(float64(sum) / float64(r.Commands) / d.model.Speed)
	}
	r.Longest = time.Duration(float64(r.Longest) / d.model.Speed)
	return r, nil
}

func dueOr(due []time.Duration) time.Duration {
	if len(due) == 0 {
		return Never
	}
	return due[0]
}
