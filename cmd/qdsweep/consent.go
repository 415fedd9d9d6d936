package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
)

// consentFlags are what only somebody who types it can allow.
type consentFlags struct {
	erase, allow []string

	things []string // what --allow knows besides things()
}

func things() []string { return []string{"raise", "shared-disk", "volatile-state", "hooks"} }

func (o *consentFlags) addFlags(c *cobra.Command) {
	known := o.known()
	last := len(known) - 1
	c.Flags().StringArrayVar(&o.erase, "erase", nil, "allow overwriting this very `DEVICE`; repeatable")
	c.Flags().StringArrayVar(&o.allow, "allow", nil, strings.Join(known[:last], ", ")+" or "+known[last]+"; repeatable")
}

func (o *consentFlags) known() []string { return append(things(), o.things...) }

// consents are the --allow words as a set; a word that means nothing is an error, for its user believes that it does something.
func (o *consentFlags) consents() (map[string]bool, error) {
	set := map[string]bool{}
	for _, a := range o.allow {
		if !slices.Contains(o.known(), a) {
			return nil, &sweep.UsageError{Text: fmt.Sprintf("--allow %s: there is no such consent; there are %s, each with an --allow of its own", a, strings.Join(o.known(), ", "))}
		}
		set[a] = true
	}
	return set, nil
}

// emptyErase is what is wrong with an --erase that names nothing.
func (o *consentFlags) emptyErase() (wrong []string) {
	for _, e := range o.erase {
		if e == "" {
			wrong = append(wrong, "--erase is empty (a shell variable that is not set?); name the very device that may be overwritten")
		}
	}
	return wrong
}
