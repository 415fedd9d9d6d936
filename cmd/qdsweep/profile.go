package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qdsweep/profiles"
	"qdsweep/sweep"
)

// planFlags are the flags that plan and run share: the profile's overrides and the consents.
type planFlags struct {
	device, directory string
	repeats           int
	seed              uint64
	timeout           time.Duration
	erase, allow      []string

	seedGiven bool
}

func (o *planFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.device, "device", "", "the target, instead of the profile's: /dev/sdb, a /dev/disk/by-id link, wwid:…, serial:…")
	f.StringVar(&o.directory, "directory", "", "a directory as the target: files in it, settings on the disks below it")
	f.IntVar(&o.repeats, "repeats", 0, "replicates, instead of the profile's")
	f.Uint64Var(&o.seed, "seed", 0, "seed of order and offsets, instead of the profile's")
	f.DurationVar(&o.timeout, "timeout", 0, "what one run may take, instead of the profile's")
	f.StringArrayVar(&o.erase, "erase", nil, "allow overwriting this very `DEVICE`; repeatable")
	f.StringArrayVar(&o.allow, "allow", nil, "raise, shared-disk or volatile-state; repeatable")
}

// consents are the --allow words as a set; a word that means nothing is an error, for its user believes that it does something.
func (o *planFlags) consents() (map[string]bool, error) {
	known := []string{"raise", "shared-disk", "volatile-state"}
	set := map[string]bool{}
	for _, a := range o.allow {
		found := false
		for _, k := range known {
			found = found || a == k
		}
		if !found {
			return nil, &sweep.UsageError{Text: fmt.Sprintf("--allow %s: there is no such consent; %s", a, strings.Join(known, ", "))}
		}
		set[a] = true
	}
	return set, nil
}

// profile reads the profile and puts the flags in.
func (o *planFlags) profile(name string) (*sweep.Profile, error) {
	p, err := readProfile(name)
	if err != nil {
		return nil, err
	}
	over := sweep.Overrides{Device: o.device, Directory: o.directory, Repeats: o.repeats, Timeout: o.timeout}
	if o.seedGiven {
		over.Seed = &o.seed
	}
	if err := p.Override(over); err != nil {
		return nil, &sweep.UsageError{Text: err.Error()}
	}
	return p, nil
}

// readProfile takes a name with `/` or `.yaml` (`.yml`) for a file, else for a shipped profile.
func readProfile(name string) (*sweep.Profile, error) {
	var r io.Reader
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		f, err := os.Open(name)
		if err != nil {
			return nil, &sweep.UsageError{Text: fmt.Sprintf("profile %s: %v", name, err)}
		}
		defer f.Close()
		r = f
	} else {
		text, err := openShipped(name)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(text)
	}
	return sweep.ReadProfile(name, r)
}

func openShipped(name string) ([]byte, error) {
	text, err := profiles.Open(name)
	if err != nil {
		return nil, &sweep.UsageError{Text: fmt.Sprintf("%v\n  shipped are %s; a file's name has a `/` or ends in .yaml", err, strings.Join(profiles.Names(), ", "))}
	}
	return text, nil
}

// numbers are the flags with a number or duration that were given, as words of a command.
func (o planFlags) numbers() []string {
	var words []string
	if o.repeats != 0 {
		words = append(words, "--repeats", fmt.Sprint(o.repeats))
	}
	if o.seedGiven {
		words = append(words, "--seed", fmt.Sprint(o.seed))
	}
	if o.timeout != 0 {
		words = append(words, "--timeout", o.timeout.String())
	}
	return words
}

// quoted puts a word into single quotes where a shell would take it apart.
func quoted(s string) string { return sweep.ShellQuote(s) }
