package sweep

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"qdsweep/sysfs"
)

// start is one entry of environment.json: the machine as it was when the sweep was started (or, later, resumed).
type start struct {
	Sweep   string         `json:"sweep"`
	Started time.Time      `json:"started"`
	Version string         `json:"qdsweep"`
	Command []string       `json:"command"`
	Host    string         `json:"host"`
	Seed    uint64         `json:"seed"`
	Machine map[string]any `json:"machine"`
}

func (s *Sweep) recordEnvironment() error {
	return s.out.saveJSON("environment.json", []start{{Sweep: s.id, Started: time.Now(), Version: s.opt.Version, Command: os.Args, Host: s.hostname,
		Seed: s.plan.Profile.Seed, Machine: s.host.Environment(s.plan.together())}}, 0o644)
}

// consent is consent.json: what the command line allowed, and what it was given for. It is 0600: a list of what may be overwritten is nobody else's business.
type consent struct {
	Sweep   string      `json:"sweep"`
	Erase   []string    `json:"erase,omitempty"`
	Allow   []string    `json:"allow,omitempty"`
	Target  string      `json:"target"`
	Members []consented `json:"members"`
	// What was on each device before the first write, by name. Later they carry what the workloads wrote, which says nothing any more.
	Contents map[string]sysfs.Contents `json:"contents,omitempty"`
}

type consented struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`
	Bytes    int64  `json:"bytes"`
}

func (s *Sweep) recordConsent(ctx context.Context) error {
	c := consent{Sweep: s.id, Erase: s.opt.Erase, Target: s.plan.together().Target}
	for thing, yes := range s.opt.Allow {
		if yes {
			c.Allow = append(c.Allow, thing)
		}
	}
	sort.Strings(c.Allow)
	for _, m := range s.plan.Members() {
		c.Members = append(c.Members, consented{m.Name, string(m.Identity), m.Bytes})
	}
	for _, d := range s.plan.overwritten() {
		found, err := s.host.Contents(ctx, d)
		if err != nil {
			return fmt.Errorf("record what is on %s before it is overwritten: %w", d.Path, err)
		}
		if c.Contents == nil {
			c.Contents = map[string]sysfs.Contents{}
		}
		c.Contents[d.Name] = found
	}
	if err := s.out.saveJSON("consent.json", c, 0o600); err != nil {
		return fmt.Errorf("record the consent: %w", err)
	}
	return nil
}
