// Package profiles is the shipped profiles: sweeps to start from, which run on a drive given by --device and explain every key of
// the format, and the published experiments (docs/experiments). It must not know how a profile is read.
package profiles

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Shipped is one shipped profile as a list shows it.
type Shipped struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Names are the names of the shipped profiles, sorted; the file of one is its name with .yaml.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // cannot happen: the folder is in the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Open is the text of one shipped profile.
func Open(name string) ([]byte, error) {
	text, err := files.ReadFile(path.Base(name) + ".yaml")
	if err != nil || path.Base(name) != name {
		return nil, fmt.Errorf("there is no shipped profile %q", name)
	}
	return text, nil
}

// List is every shipped profile with its description, which in these files is one line.
func List() ([]Shipped, error) {
	var all []Shipped
	for _, name := range Names() {
		text, err := Open(name)
		if err != nil {
			return nil, err
		}
		one := Shipped{Name: name}
		for line := range strings.Lines(string(text)) {
			if d, ok := strings.CutPrefix(line, "description: "); ok {
				one.Description = strings.TrimSpace(d)
				break
			}
		}
		all = append(all, one)
	}
	return all, nil
}
