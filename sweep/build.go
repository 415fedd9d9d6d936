package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
)

// takeDownLimit bounds one take-down: an array on drives that do not answer is named and left to `qdsweep restore`. Of a run that was interrupted all that
// is dirty is written first, on drives that may be slow.
const takeDownLimit = 15 * time.Minute

// buildNotes is how often a build that takes long is heard of.
const buildNotes = time.Minute

// maker makes arrays and takes them down.
type maker interface {
	Build(ctx context.Context, h sysfs.Host, s md.Spec, progress func(md.Progress)) (md.Built, error)
	TakeDown(ctx context.Context, h sysfs.Host, r md.Record) (did []string, err error)
}

// mdadm is the real maker.
type mdadm struct{}

func (mdadm) Build(ctx context.Context, h sysfs.Host, s md.Spec, progress func(md.Progress)) (md.Built, error) {
	return md.Build(ctx, h, s, progress)
}

func (mdadm) TakeDown(ctx context.Context, h sysfs.Host, r md.Record) (did []string, err error) {
	return md.TakeDown(ctx, h, r)
}

// standing is what the sweep has built: an array, with a file system or without.
type standing struct {
	record    md.Record
	replicate int
	claimed   []keeper.Member // the devices of the array itself, which the keeper has hold of
}

// part is a disk or partition that arrays are built from. While nothing stands on it it is claimed O_EXCL.
type part struct {
	stack sysfs.Stack
	node  *os.File
}

func (s *Sweep) resolveParts() error {
	for _, h := range s.holds {
		for _, d := range h.target.Parts {
			stack, err := s.host.Resolve(d.Path)
			if err != nil {
				return err
			}
			s.parts = append(s.parts, &part{stack: stack})
		}
		if h.target.Built() { // every level is built from the same parts
			return nil
		}
	}
	return nil
}

// claimParts takes hold of everything that arrays are built from. waited says that somebody else had one of them at first.
func (s *Sweep) claimParts(ctx context.Context) (waited bool, err error) {
	for _, p := range s.parts {
		if p.node != nil {
			continue
		}
		f, w, err := s.claimNode(ctx, p.stack.Device, false)
		if err != nil {
			return waited, err
		}
		p.node, waited = f, waited || w
	}
	return waited, nil
}

// dropParts lets go of what a target is built from: mdadm and mkfs claim for themselves. What its level does not use stays claimed: nobody shall put
// anything on it that the next level overwrites.
func (s *Sweep) dropParts(t *Target) {
	used := t.spec().Members
	for _, p := range s.parts {
		if slices.ContainsFunc(used, func(d sysfs.Device) bool { return d.Name == p.stack.Device.Name }) {
			p.drop()
		}
	}
}

func (p *part) drop() {
	if p.node != nil {
		_ = bounded(context.Background(), claimPatience, p.node.Close)
		p.node = nil
	}
}

// stand builds what the run drives, where that is to be built and does not stand yet for this replicate; what another level had built is taken down
// first. Members have their originals then: an array takes its limits from them.
func (s *Sweep) stand(ctx context.Context, t *transaction) {
	h := t.at
	if !t.measuring() || !h.target.Built() || h.standing != nil && h.standing.replicate == t.run.Replicate {
		return
	}
	if err := ctx.Err(); err != nil {
		t.end = context.Cause(ctx)
		return
	}
	for _, other := range s.holds {
		if !s.strike(other) {
			t.end = &errEnd{reason: "what was built before could not be taken down"}
			return
		}
	}
	if h.ended != "" { // somebody else has its members now
		t.end = &errEnd{reason: h.ended}
		return
	}
	if refusals, err := s.recheckParts(ctx, h); err != nil || len(refusals) > 0 {
		s.refused(ctx, t, refusals, err)
		return
	}
	s.event(Event{Kind: PhaseBegan, Run: t.run, Phase: "build"})
	began := time.Now()
	err := s.build(ctx, h, t.run.Replicate)
	if err == nil {
		s.pace.estimate.build(time.Since(began))
		t.started, t.clocks = time.Now(), runClocks() // the build is no part of the run
		return
	}
	s.strike(h)
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, keeper.ErrKeeperDied), cause == nil && s.keeperDead():
		t.end = keeper.ErrKeeperDied
	case cause != nil:
		t.end = cause
	default:
		t.fail(nil, results.NotBuilt.With(err.Error()))
		s.end(h, fmt.Sprintf("it could not be built: %v", err))
	}
}

// recheckParts is the gate before a build: until now they were claimed, and others could only look at them.
func (s *Sweep) recheckParts(ctx context.Context, h *hold) (refusals []sysfs.Refusal, err error) {
	in := s.intent(h)
	in.Siblings = nil
	for _, p := range s.parts {
		more, err := s.host.Recheck(ctx, p.stack, in)
		if err != nil {
			return nil, err
		}
		refusals = append(refusals, more...)
	}
	return refusals, nil
}

// build makes what the target is, and takes hold of it. On an error something may stand: strike takes it down.
func (s *Sweep) build(ctx context.Context, h *hold, replicate int) error {
	spec := s.spec(h.target)
	if spec.Level == "none" && spec.Filesystem == "" {
		return s.standBare(ctx, h, replicate)
	}
	h.standing = &standing{record: spec.Record(), replicate: replicate}
	if err := s.recordArray(ctx, h.standing.record); err != nil {
		return fmt.Errorf("journal what is to be built: %w", err)
	}
	if spec.MountPoint != "" {
		if err := os.MkdirAll(filepath.Dir(spec.MountPoint), 0o700); err != nil {
			return err
		}
	}
	s.dropParts(h.target)
	said := time.Now()
	made, err := s.maker().Build(ctx, s.host, spec, func(p md.Progress) {
		if time.Since(said) >= buildNotes {
			said = time.Now()
			s.note("building %s: %s", h.target.name(), progressText(p))
		}
	})
	if err != nil {
		return err
	}
	if made.Directory != "" {
		h.stack, err = s.host.ResolveDirectory(made.Directory)
	} else {
		h.stack, err = s.host.Resolve(made.Device.Path)
	}
	if err != nil {
		return err
	}
	h.stack.Target = h.target.Stack.Target
	return s.occupy(ctx, h)
}

// recordArray has the keeper journal what is to be built, durably, before anything of it is made.
func (s *Sweep) recordArray(ctx context.Context, r md.Record) error {
	ctx, cancel := context.WithTimeout(ctx, s.keeperPatience())
	defer cancel()
	return s.keeper.Array(ctx, arrayOf(r), true)
}

// standBare drives the first part as it is: raid_level none without a file system.
func (s *Sweep) standBare(ctx context.Context, h *hold, replicate int) error {
	s.dropParts(h.target)
	h.standing = &standing{replicate: replicate}
	h.stack = s.parts[0].stack
	h.stack.Target = h.target.Stack.Target
	return s.occupy(ctx, h)
}

// occupy claims what was built, as existing targets are claimed at the start, and lays out its files.
func (s *Sweep) occupy(ctx context.Context, h *hold) error {
	if _, err := s.claim(ctx, h); err != nil {
		return err
	}
	var above []keeper.Member
	for _, d := range h.stack.Settable() {
		if d.Kind != sysfs.KindDisk {
			above = append(above, memberOf(d))
		}
	}
	if len(above) > 0 {
		if err := s.keeper.Claim(ctx, above, claimPatience); err != nil {
			return err
		}
		h.standing.claimed = above
	}
	if err := h.watchMembers(s.host); err != nil {
		return err
	}
	if s.worker == nil {
		if err := s.startWorker(ctx); err != nil {
			return err
		}
	}
	return s.layOut(ctx, h)
}

// strike takes down what stands of a target. It is not interruptible, and says whether nothing is left; what is left is named, and the journal has it.
func (s *Sweep) strike(h *hold) bool {
	if h.standing == nil {
		return true
	}
	s.event(Event{Kind: PhaseBegan, Phase: "take down"})
	stood := h.standing
	err := s.letGo(h)
	if h.stuck && stood.record.UUID != "" { // mdadm and umount would not come back
		err = errors.Join(err, errors.New("a request to it is stuck in the kernel"))
	}
	h.standing, h.stack = nil, h.target.Stack
	if s.keeperDead() {
		s.replaceKeeper(h)
	}
	released := s.release(stood.claimed)
	if stood.record.UUID == "" || h.stuck {
		err = errors.Join(err, released)
	} else if made := s.unmake(h, stood.record); made != nil {
		err = errors.Join(err, released, made) // what is down was let go of, however long that took
	}
	if err != nil {
		s.unrestored = append(s.unrestored, keeper.Restored{Member: sysfs.Identity("array-" + stood.record.UUID), Name: h.target.name(),
			Err: fmt.Sprintf("it could not be taken down: %v", err), ByHand: []string{"sudo qdsweep restore"}})
		s.endBuilt("what was built could not be taken down")
		return false
	}
	s.unrestored = slices.DeleteFunc(s.unrestored, func(r keeper.Restored) bool { // what could not be put back of the array itself went with it
		return slices.ContainsFunc(stood.claimed, func(m keeper.Member) bool { return m.Name == r.Name })
	})
	if s.closing {
		return true // nobody builds on the members any more
	}
	if h.stuck {
		s.endBuilt("a request to its members is stuck in the kernel")
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), takeDownLimit)
	defer cancel()
	switch waited, err := s.claimParts(ctx); {
	case err != nil:
		s.endBuilt(fmt.Sprintf("its members could not be claimed again: %v", err))
	case waited: // whoever had it may have put something on it, which nobody has judged
		s.endBuilt("somebody else had claimed one of its members when it was taken down")
	}
	return true // nothing of ours is left
}

// replaceKeeper starts another keeper for one that died while something was taken down.
func (s *Sweep) replaceKeeper(h *hold) {
	put, err := s.reviveKeeper()
	s.left(h, false, put, err)
}

// release has the keeper let go of what was built. One that died has.
func (s *Sweep) release(claimed []keeper.Member) error {
	if len(claimed) == 0 { // which would mean all
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreLimit)
	defer cancel()
	if err := s.keeper.Release(ctx, claimed...); !errors.Is(err, keeper.ErrKeeperDied) {
		return err
	}
	return nil
}

// unmake takes down what a record says, and then removes the record. It has a time of its own: a keeper that does not answer takes none of it.
func (s *Sweep) unmake(h *hold, r md.Record) error {
	ctx, cancel := context.WithTimeout(context.Background(), takeDownLimit)
	defer cancel()
	if _, err := s.maker().TakeDown(ctx, s.host, r); err != nil {
		return err
	}
	forget := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), restoreLimit)
		defer cancel()
		if err := s.keeper.Array(ctx, arrayOf(r), false); err != nil {
			return fmt.Errorf("nothing of it is left, but it is still in the journal: %w", err)
		}
		return nil
	}
	err := forget()
	if errors.Is(err, keeper.ErrKeeperDied) { // taking down takes seconds: it need not have lived through them
		s.replaceKeeper(h)
		err = forget()
	}
	return err
}

func (s *Sweep) endBuilt(reason string) {
	for _, h := range s.holds {
		if h.target.Built() {
			s.end(h, reason)
		}
	}
}

func (s *Sweep) maker() maker {
	if s.opt.maker != nil {
		return s.opt.maker
	}
	return mdadm{}
}

// spec is how a target is built now, under an identity of its own.
func (s *Sweep) spec(t *Target) md.Spec {
	spec := t.spec()
	spec.UUID, spec.SyncStall = md.NewUUID(), s.timeout()
	if spec.Filesystem != "" {
		spec.MountPoint = filepath.Join(s.opt.StateDir, "mnt", spec.UUID)
	}
	return spec
}

func progressText(p md.Progress) string {
	text := p.Step
	if p.Done >= 0 {
		text += fmt.Sprintf(", %.0f %%", p.Done*100)
	}
	if p.Left > 0 {
		text += ", " + timeText(p.Left) + " left"
	}
	return text
}

// arrayOf and recordOf turn what md knows of an array into what the journal keeps of it, and back: neither room knows the other.
func arrayOf(r md.Record) keeper.Array {
	a := keeper.Array{UUID: r.UUID, Level: r.Level, Filesystem: r.Filesystem, MountPoint: r.MountPoint}
	for _, m := range r.Members {
		a.Members = append(a.Members, keeper.ArrayMember(m))
	}
	return a
}

func recordOf(a keeper.Array) md.Record {
	r := md.Record{UUID: a.UUID, Level: a.Level, Filesystem: a.Filesystem, MountPoint: a.MountPoint}
	for _, m := range a.Members {
		r.Members = append(r.Members, md.RecordMember(m))
	}
	return r
}
