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
	for _, target := range []string{
		"{devices: [sda, /dev/disk/by-id/x, 'serial:S;1=%']}\nmatrix:\n  iodepth: [1, 2]\n  exclude: [{device: sda, iodepth: 2}]",
		"{arrays: {none: sda, 5: /dev/md5, 10: /mnt/r10}}\nmatrix:\n  raid_level: [5, none]\n  include: [{raid_level: 10}]",
		"{build: {members: [a, b, c, d], chunk_kb: 64, layout: {5: left-symmetric, 10: f2}, bitmap: internal, initial_sync: yes, filesystem: ext4, mkfs_options: -b 4096, mount_options: [noatime]}}\nmatrix: {raid_level: [5, 10, 1]}",
		"{build: {members: [a, b], layout: n2}}\nmatrix: {raid_level: [10]}",
	} {
		f.Add([]byte("version: 1\nname: a\nsmall: {repeats: 1, workloads: {a: {size: 1m}}}\ntarget: " + target + "\nworkloads: [{name: a, type: io, size: 1g}]\n"))
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
			writtenOut(t, p)
			if p.Small != nil {
				writtenOut(t, p.Small)
			}
		}
	})
}

func writtenOut(t *testing.T, p *Profile) {
	again, err := ReadProfile("again.yaml", bytes.NewReader(p.YAML()))
	if err != nil {
		t.Fatalf("written out it cannot be read:\n%s\n%v", p.YAML(), err)
	}
	if !bytes.Equal(again.YAML(), p.YAML()) {
		t.Fatalf("written out it is another:\n%s\n%s", p.YAML(), again.YAML())
	}
}
