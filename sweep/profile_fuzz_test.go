package sweep

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whatever the bytes, ReadProfile returns: a profile that YAML writes out again as the same, or errors with their places.
func FuzzReadProfile(f *testing.F) {
	for _, pattern := range []string{"testdata/profile/*.yaml", "../profiles/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(source)
		}
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		p, err := ReadProfile("fuzz.yaml", bytes.NewReader(source))
		var wrong *ProfileErrors
		switch {
		case errors.As(err, &wrong):
			if len(wrong.Errors) == 0 {
				t.Fatal("refused without an error")
			}
			for _, e := range wrong.Errors {
				if e.Line < 1 || e.Column < 1 || e.Allowed == "" {
					t.Fatalf("an error without its place or reason: %+v", e)
				}
			}
		case err != nil:
			t.Fatalf("not a ProfileErrors: %v", err)
		default:
			again, err := ReadProfile("again.yaml", bytes.NewReader(p.YAML()))
			if err != nil {
				t.Fatalf("written out it cannot be read:\n%s\n%v", p.YAML(), err)
			}
			if !bytes.Equal(again.YAML(), p.YAML()) {
				t.Fatalf("written out it is another:\n%s\n%s", p.YAML(), again.YAML())
			}
		}
	})
}
