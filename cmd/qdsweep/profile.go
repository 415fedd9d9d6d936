package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qdsweep/profiles"
	"qdsweep/sweep"
)

// planFlags are the flags that plan and run share: the profile's overrides and the consents.
type planFlags struct {
	device, directory string
	repeats           string
	seed              uint64
	timeout, deadline time.Duration
	until             string
	scale             string
	consentFlags      // of the command line only, never a profile's

	given map[string]bool // flags that are on the command line, whatever their value
}

func (o *planFlags) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.device, "device", "", "the target, instead of the profile's: /dev/sdb, a /dev/disk/by-id link, wwid:…, serial:…")
	f.StringVar(&o.directory, "directory", "", "a directory as the target: files in it, settings on the disks below it")
	f.StringVar(&o.repeats, "repeats", "", "replicates, instead of the profile's: a number, or '{min: 6, max: 20, precision: 2%}'")
	f.Uint64Var(&o.seed, "seed", 0, "seed of order and offsets, instead of the profile's")
	f.DurationVar(&o.timeout, "timeout", 0, "what one run may take, instead of the profile's")
	f.DurationVar(&o.deadline, "deadline", 0, "end within so long, instead of the profile's deadline or until: begin no replicate that cannot be finished")
	f.StringVar(&o.until, "until", "", "the same as a `TIME` of day: 07:00, or 'mon 07:00'")
	f.StringVar(&o.scale, "scale", "", "`small`: a try of a minute instead of hours, as the profile's small says it")
	o.consentFlags.addFlags(c)
}

// note remembers which flags were given: 0 and "" are values, too.
func (o *planFlags) note(c *cobra.Command) {
	o.given = map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) { o.given[f.Name] = true })
}

// refuseEmpty refuses what would be taken for a flag that is not there: `--device "$DISK"` with DISK unset must not drive the profile's target.
func (o *planFlags) refuseEmpty() error {
	var wrong []string
	for _, f := range []struct{ name, value string }{{"device", o.device}, {"directory", o.directory}} {
		if o.given[f.name] && f.value == "" {
			wrong = append(wrong, fmt.Sprintf("--%s is empty (a shell variable that is not set?); name one, or leave the flag out", f.name))
		}
	}
	if o.given["scale"] && o.scale == "" {
		wrong = append(wrong, "--scale is empty (a shell variable that is not set?); write --scale small, or leave the flag out")
	}
	if o.given["repeats"] && o.repeats == "" {
		wrong = append(wrong, "--repeats is empty (a shell variable that is not set?); write a number, or leave the flag out for the profile's")
	}
	if o.given["until"] && o.until == "" {
		wrong = append(wrong, "--until is empty (a shell variable that is not set?); write a time of day, or leave the flag out for the profile's")
	}
	if o.given["deadline"] && o.deadline == 0 {
		wrong = append(wrong, "--deadline 0s: nothing can be done in no time; 1s at least, or leave the flag out for the profile's")
	}
	if o.given["timeout"] && o.timeout == 0 {
		wrong = append(wrong, "--timeout 0s: a run cannot be without an end; 1s at least, or leave the flag out for the profile's")
	}
	wrong = append(wrong, o.emptyErase()...)
	if len(wrong) > 0 {
		return &sweep.UsageError{Text: strings.Join(wrong, "\n")}
	}
	return nil
}

// profile reads the profile and puts the flags in.
func (o *planFlags) profile(name string) (*sweep.Profile, error) {
	if err := o.refuseEmpty(); err != nil {
		return nil, err
	}
	p, err := readProfile(name)
	if err != nil {
		return nil, err
	}
	over := sweep.Overrides{Scale: o.scale, Device: o.device, Directory: o.directory, Repeats: o.repeats, Timeout: o.timeout, Deadline: o.deadline, Until: o.until}
	if o.given["seed"] {
		over.Seed = &o.seed
	}
	if err := p.Override(over); err != nil {
		return nil, &sweep.UsageError{Text: err.Error()}
	}
	return p, nil
}

// readProfile takes a name with `/` or `.yaml` (`.yml`) for a file, else for a shipped profile.
func readProfile(name string) (*sweep.Profile, error) {
	if !isFile(name) {
		text, err := openShipped(name)
		if err != nil {
			return nil, err
		}
		return sweep.ReadProfile(name, bytes.NewReader(text))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, &sweep.UsageError{Text: fmt.Sprintf("profile %s: that is a folder; name the file in it, such as %s", name, filepath.Join(name, "profile.yaml"))}
	}
	p, err := sweep.ReadProfile(name, f)
	var wrong *sweep.ProfileErrors
	if err != nil && !errors.As(err, &wrong) {
		return nil, unreadable(name, err)
	}
	return p, err
}

func isFile(name string) bool {
	return strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// unreadable is a profile that is no text to be judged; err's own words for it repeat the name.
func unreadable(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &sweep.UsageError{Text: fmt.Sprintf("profile %s: %v\n  `qdsweep profiles` lists the shipped ones", name, err)}
}

func openShipped(name string) ([]byte, error) {
	text, err := profiles.Open(name)
	if err == nil {
		return text, nil
	}
	said := err.Error()
	switch near := sweep.Closest(name, profiles.Names()); {
	case exists(name):
		said += fmt.Sprintf("; the file of that name here is %s", quoted("./"+name))
	case near != "":
		said += fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, &sweep.UsageError{Text: fmt.Sprintf("%s\n  shipped are %s; a file's name has a `/` or ends in .yaml", said, strings.Join(profiles.Names(), ", "))}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return name != "" && err == nil
}

// ofShipped adds to what is wrong with a shipped profile that it cannot be edited where it is. One that picks its target by an axis names
// examples, and no flag can give others.
func ofShipped(name string, p *sweep.Profile, err error) error {
	if err == nil || isFile(name) {
		return err
	}
	var wrong *sweep.ProfileErrors
	if errors.As(err, &wrong) && !strings.Contains(err.Error(), "names no target") {
		return &sweep.UsageError{Text: fmt.Sprintf("%v\n  to change a shipped profile: qdsweep profiles %s > mine.yaml", err, name)}
	}
	var notHere *sweep.NotHere
	if errors.As(err, &notHere) && (p.Target.Arrays != nil || p.Target.Build != nil) {
		return fmt.Errorf("%w\nthe target of %s is an example\n  to put your own in: qdsweep profiles %[2]s > mine.yaml", err, name)
	}
	return err
}

// values are the flags that take the place of the profile's values, the target aside, as words of a command.
func (o planFlags) values() []string {
	var words []string
	if o.scale != "" {
		words = append(words, "--scale", o.scale)
	}
	if o.repeats != "" {
		words = append(words, "--repeats", quoted(o.repeats))
	}
	if o.given["seed"] {
		words = append(words, "--seed", fmt.Sprint(o.seed))
	}
	if o.timeout != 0 {
		words = append(words, "--timeout", o.timeout.String())
	}
	if o.deadline != 0 {
		words = append(words, "--deadline", o.deadline.String())
	}
	if o.until != "" {
		words = append(words, "--until", quoted(o.until))
	}
	return words
}

// quoted puts a word into single quotes where a shell would take it apart.
func quoted(s string) string { return sweep.ShellQuote(s) }
