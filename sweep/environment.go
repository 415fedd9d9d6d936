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
		Seed: s.plan.Profile.Seed, Machine: s.host.Environment(s.plan.Targets[0].Stack)}}, 0o644)
}

// consent is consent.json: what the command line allowed, and what it was given for. It is 0600: a list of what may be overwritten is nobody else's business.
type consent struct {
	Sweep   string      `json:"sweep"`
	Erase   []string    `json:"erase,omitempty"`
	Allow   []string    `json:"allow,omitempty"`
	Target  string      `json:"target"`
	Members []consented `json:"members"`
	// What was on the target before the first write. Later the target carries what the workloads wrote, which says nothing any more.
	Contents *sysfs.Contents `json:"contents,omitempty"`
}

type consented struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`
	Bytes    int64  `json:"bytes"`
}

func (s *Sweep) recordConsent(ctx context.Context) error {
	c := consent{Sweep: s.id, Erase: s.opt.Erase, Target: s.plan.Targets[0].Stack.Target}
	for thing, yes := range s.opt.Allow {
		if yes {
			c.Allow = append(c.Allow, thing)
		}
	}
	sort.Strings(c.Allow)
	for _, m := range s.plan.Targets[0].Stack.Members {
		c.Members = append(c.Members, consented{m.Name, string(m.Identity), m.Bytes})
	}
	if s.plan.Writes() && s.plan.Targets[0].Stack.Directory == "" {
		found, err := s.host.Contents(ctx, s.plan.Targets[0].Stack.Device)
		if err != nil {
			return fmt.Errorf("record what is on %s before it is overwritten: %w", s.plan.Targets[0].Stack.Device.Path, err)
		}
		c.Contents = &found
	}
	if err := s.out.saveJSON("consent.json", c, 0o600); err != nil {
		return fmt.Errorf("record the consent: %w", err)
	}
	return nil
}
