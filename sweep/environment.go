package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"qdsweep/sysfs"
)

// start is one entry of environment.json: the machine as it was when the sweep was started, or resumed.
type start struct {
	Sweep       string         `json:"sweep"`
	Started     time.Time      `json:"started"`
	Resumed     bool           `json:"resumed,omitempty"`
	RetryFailed bool           `json:"retry_failed,omitempty"`
	Version     string         `json:"qdsweep"`
	Command     []string       `json:"command"`
	Host        string         `json:"host"`
	BootID      string         `json:"boot_id,omitempty"`
	Seed        uint64         `json:"seed"`
	StateDir    string         `json:"state_dir,omitempty"` // where journal and locks are
	Planned     int            `json:"planned,omitempty"`
	Profile     string         `json:"profile_sha256,omitempty"` // of profile.yaml
	Targets     []begunTarget  `json:"targets,omitempty"`
	Machine     map[string]any `json:"machine"`
}

// kernel is the release that the start was under, "" unknown.
func (s start) kernel() string {
	k, _ := s.Machine["kernel"].(string)
	return k
}

// begunTarget is one target as the sweep found it, by what it is known again: names change with a boot.
type begunTarget struct {
	Level     *Level        `json:"level,omitempty"`     // that picks it
	Target    string        `json:"target"`              // as the profile names it
	Directory string        `json:"directory,omitempty"` // where files are driven
	Device    *begunDevice  `json:"device,omitempty"`    // that is driven, or holds the directory; none of what is built
	Parts     []begunDevice `json:"parts,omitempty"`     // of what is built, in their order
	Members   []begunDevice `json:"members"`
	BootID    string        `json:"boot_id,omitempty"` // in which it was there last, of one that this start does without
}

type begunDevice struct {
	Name     string         `json:"name"`
	Identity sysfs.Identity `json:"identity,omitempty"`
	Bytes    int64          `json:"bytes"`
	Sequence string         `json:"diskseq,omitempty"` // of one without an identity: tells it from another that had its name in the same boot
}

func begunDevices(devices []sysfs.Device) (all []begunDevice) {
	for _, d := range devices {
		b := begunDevice{Name: d.Name, Identity: d.Identity, Bytes: d.Bytes}
		if d.Identity == "" {
			b.Sequence = d.Sequence()
		}
		all = append(all, b)
	}
	return all
}

// key names a device in a refusal: "sdb (wwid:naa.…)".
func (d begunDevice) key() string {
	if d.Identity == "" {
		return fmt.Sprintf("%s (%d bytes, without WWID and serial number)", d.Name, d.Bytes)
	}
	return fmt.Sprintf("%s (%s)", d.Name, d.Identity)
}

// argument is what names the device beyond doubt to --erase.
func (d begunDevice) argument() string {
	if d.Identity == "" {
		return fmt.Sprintf("%s:%d", d.Name, d.Bytes)
	}
	return string(d.Identity)
}

func begunTargets(targets []*Target) (all []begunTarget) {
	for _, t := range targets {
		b := begunTarget{Target: t.Stack.Target, Directory: t.Stack.Directory, Parts: begunDevices(t.Parts), Members: begunDevices(t.Stack.Members)}
		if t.Level != (Level{}) {
			level := t.Level
			b.Level = &level
		}
		if !t.Built() && t.Stack.Device.Name != "" {
			b.Device = &begunDevices([]sysfs.Device{t.Stack.Device})[0]
		}
		all = append(all, b)
	}
	return all
}

// recordEnvironment adds this start to those before it.
func (s *Sweep) recordEnvironment() error {
	boot, _ := s.host.BootID() // "" of a captured machine
	profile := s.plan.Profile.YAML()
	now := start{Sweep: s.id, Started: time.Now(), Version: s.opt.Version, Command: os.Args, Host: s.hostname, BootID: boot,
		Seed: s.plan.Profile.Seed, StateDir: s.opt.StateDir, Planned: s.audit.Planned, Profile: profileHash(profile), Targets: s.begunNow(),
		Machine: s.host.Environment(s.plan.together())}
	var starts []start
	if s.before != nil {
		now.Resumed, now.RetryFailed, now.Profile = true, s.opt.RetryFailed, s.before.hash
		starts = slices.Clone(s.before.starts)
	}
	return s.out.saveJSON("environment.json", append(starts, now), 0o644)
}

func profileHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// consent is consent.json: what the command line allowed, and what it was given for. It is 0600: a list of what may be overwritten is nobody else's business.
type consent struct {
	Sweep   string        `json:"sweep"`
	Erase   []string      `json:"erase,omitempty"` // as typed
	Allow   []string      `json:"allow,omitempty"`
	Target  string        `json:"target"`
	Members []begunDevice `json:"members"`
	Named   []begunDevice `json:"named,omitempty"` // what Erase named then: for resume, when names may mean something else
	// What was on each device before the first write, by what names it to --erase beyond doubt; of older versions by its name. Later they carry what
	// the workloads wrote, which says nothing any more.
	Contents map[string]sysfs.Contents `json:"contents,omitempty"`
}

// contents is what was on a device before the sweep's first write, where that is known.
func (c consent) contents(d begunDevice) (sysfs.Contents, bool) {
	found, ok := c.Contents[d.argument()]
	if !ok {
		found, ok = c.Contents[d.Name]
	}
	return found, ok
}

// recordConsent writes down what was allowed, with what the sweep before this start was allowed; what was on a device is what was on it at first.
func (s *Sweep) recordConsent(ctx context.Context) error {
	c := consent{Sweep: s.id, Erase: slices.Clone(s.opt.Erase), Target: s.plan.together().Target, Members: begunDevices(s.plan.Members())}
	for thing, yes := range s.opt.Allow {
		if yes && !forOnce(thing) {
			c.Allow = append(c.Allow, thing)
		}
	}
	sort.Strings(c.Allow)
	for _, t := range s.plan.Targets {
		named := slices.Clone(t.Parts)
		if !t.Built() && t.Stack.Directory == "" {
			named = append(named, t.Stack.Device)
		}
		for _, d := range begunDevices(slices.DeleteFunc(named, func(d sysfs.Device) bool { return s.host.Consent(d, s.opt.Erase) == sysfs.NotNamed })) {
			if !slices.Contains(c.Named, d) {
				c.Named = append(c.Named, d)
			}
		}
	}
	s.keepConsents(&c)
	for _, d := range s.plan.overwritten() {
		device := begunDevices([]sysfs.Device{d})[0]
		found, known := sysfs.Contents{}, false
		if s.before != nil {
			found, known = s.before.consent.contents(device)
		}
		if !known {
			var err error
			if found, err = s.host.Contents(ctx, d); err != nil {
				return fmt.Errorf("record what is on %s before it is overwritten: %w", d.Path, err)
			}
		}
		if c.Contents == nil {
			c.Contents = map[string]sysfs.Contents{}
		}
		c.Contents[device.argument()] = found
	}
	if err := s.out.saveJSON("consent.json", c, 0o600); err != nil {
		return fmt.Errorf("record the consent: %w", err)
	}
	return nil
}
