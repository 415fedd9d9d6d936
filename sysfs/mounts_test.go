package sysfs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseMount(t *testing.T) {
	for _, c := range []struct {
		line string
		want Mount
	}{
		{`36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`,
			Mount{36, 35, 98, 0, "/mnt1", "/mnt2", "rw,noatime", "ext3", "/dev/root", "rw,errors=continue"}},
		{`40 1 8:17 / /mnt/a\040!b\134\011 rw shared:2 master:1 propagate_from:3 - xfs /dev/sdb1 rw`,
			Mount{40, 1, 8, 17, "/", "/mnt/a !b\\\t", "rw", "xfs", "/dev/sdb1", "rw"}},
		{`41 1 0:50 / /run rw - tmpfs  rw,size=10k`,
			Mount{41, 1, 0, 50, "/", "/run", "rw", "tmpfs", "", "rw,size=10k"}},
		{`42 1 0:51 / /mnt/- rw - nfs4 server:/a - rw`,
			Mount{42, 1, 0, 51, "/", "/mnt/-", "rw", "nfs4", "server:/a", "- rw"}},
	} {
		got, err := parseMount(c.line)
		require.NoError(t, err, c.line)
		assert.Equal(t, c.want, got)
	}
	for _, line := range []string{"x", "1 2 8:0 / /", "1 2 8:0 / / rw", "1 2 8:0 / / rw - ext4", "a 2 8:0 / / rw - ext4 x rw", "1 2 8 / / rw - ext4 x rw", "1 2 8:0 / mnt rw - ext4 x rw", "1 2 -8:0 / /mnt rw - ext4 x rw"} {
		_, err := parseMount(line)
		assert.Error(t, err, line)
	}
	_, err := parseMountinfo(strings.NewReader("36 35 98:0 / / rw - ext3 x rw\nbad\n"))
	assert.ErrorContains(t, err, "line 2")
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`a\040b`: "a b", `a\040!`: "a !", `\134040`: `\040`, `\09`: `\09`, `\999`: `\999`, `x\`: `x\`, `\777`: `\777`, `\303\244`: "ä", "": "",
	} {
		assert.Equal(t, want, unescape(in), in)
	}
}

func TestMountOf(t *testing.T) {
	const table = `1 0 8:1 / / rw - ext4 /dev/sda1 rw
20 1 8:17 / /mnt/a rw - ext4 /dev/sdb1 rw
21 20 8:33 / /mnt/a/deep rw - ext4 /dev/sdc1 rw
22 1 8:49 / /mnt/ab rw - ext4 /dev/sdd1 rw
30 1 8:65 / /over rw - ext4 /dev/sde1 rw
31 30 8:81 / /over rw - ext4 /dev/sdf1 rw
40 1 8:97 / /hide/x rw - ext4 /dev/sdg1 rw
41 1 8:113 / /hide rw - ext4 /dev/sdh1 rw
50 1 8:17 /sub /bind rw - ext4 /dev/sdb1 rw
60 1 8:129 / /twice rw - ext4 /dev/sdi1 rw
61 1 8:145 / /twice rw - ext4 /dev/sdj1 rw
`
	mounts, err := parseMountinfo(strings.NewReader(table))
	require.NoError(t, err)
	for path, want := range map[string]string{
		"/":             "/dev/sda1",
		"/mnt":          "/dev/sda1",
		"/mnt/a":        "/dev/sdb1",
		"/mnt/a/file":   "/dev/sdb1",
		"/mnt/a/deep/x": "/dev/sdc1",
		"/mnt/abc":      "/dev/sda1",
		"/mnt/ab/c":     "/dev/sdd1",
		"/over/x":       "/dev/sdf1", // mounted over: the last one
		"/hide/x/y":     "/dev/sdh1", // hidden by a later mount on its parent
		"/bind/x":       "/dev/sdb1",
		"/twice":        "/dev/sdj1",
	} {
		m, ok := mountOf(mounts, path)
		require.True(t, ok)
		assert.Equal(t, want, m.Source, path)
	}
	_, ok := mountOf(nil, "/")
	assert.False(t, ok)
	// A chroot: the root mount's parent is not listed, and there is no mount at "/".
	m, ok := mountOf([]Mount{{ID: 7, Parent: 3, Point: "/srv", Source: "a"}, {ID: 8, Parent: 7, Point: "/srv/x", Source: "b"}}, "/srv/x/y")
	assert.True(t, ok)
	assert.Equal(t, "b", m.Source)
	// A circle of parents ends.
	_, _ = mountOf([]Mount{{ID: 1, Parent: 0, Point: "/"}, {ID: 2, Parent: 1, Point: "/"}, {ID: 1, Parent: 2, Point: "/"}}, "/")
}

func TestParseSwaps(t *testing.T) {
	swaps, err := parseSwaps("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" +
		"/dev/sdb2                               partition\t1048572\t\t0\t\t-2\n" +
		"/swap\\040file                           file\t\t524284\t\t0\t\t-3\n" +
		"/gone\\040(deleted)                      file\t\t524284\t\t0\t\t-3\n")
	require.NoError(t, err)
	assert.Equal(t, []Swap{{"/dev/sdb2", false}, {"/swap file", true}, {"/gone (deleted)", true}}, swaps)
	_, err = parseSwaps("Filename\nnonsense here\n")
	assert.ErrorContains(t, err, "line 2")
	swaps, err = parseSwaps("")
	require.NoError(t, err)
	assert.Empty(t, swaps)
}

func FuzzMountinfo(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n", "/mnt2/x")
	f.Add("1 0 0:1 / / rw - rootfs rootfs rw\n2 1 8:1 / /a\\040! rw shared:1 - ext4 /dev/sda1 rw\n", "/a !")
	f.Add("1 1 8:1 / / rw - ext4  \n", "/")
	f.Fuzz(func(t *testing.T, text, path string) {
		mounts, err := parseMountinfo(strings.NewReader(text))
		if err != nil {
			return
		}
		if m, ok := mountOf(mounts, path); ok && !within(path, m.Point) {
			t.Fatalf("%q is not on %q", path, m.Point)
		}
		for _, m := range mounts {
			if !strings.HasPrefix(m.Point, "/") || m.Major < 0 || m.Minor < 0 {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func FuzzSwaps(f *testing.F) {
	f.Add("Filename Type Size Used Priority\n/dev/sdb2 partition 1048572 0 -2\n")
	f.Add("/swap\\040file file 1 0 -2\n")
	f.Fuzz(func(t *testing.T, text string) {
		swaps, err := parseSwaps(text)
		if err != nil {
			return
		}
		for _, s := range swaps {
			if !strings.HasPrefix(s.Name, "/") {
				t.Fatalf("%+v of %q", s, text)
			}
		}
	})
}

// What a drive says of itself is not ours to trust.
func FuzzVPD(f *testing.F) {
	f.Add([]byte{0, 0x83, 0, 12, 1, 3, 0, 8, 0x50, 0, 0xc5, 0, 1, 2, 3, 4})
	f.Add([]byte{0, 0x80, 0, 4, 'A', 'B', 0, 0x1b})
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, s := range []string{parseVPD80(page), parseVPD83(page)} {
			for _, c := range []byte(s) {
				if c < 0x20 || c > 0x7e {
					t.Fatalf("%q is not printable", s)
				}
			}
		}
	})
}

func FuzzBlkid(f *testing.F) {
	f.Add("DEVNAME=/dev/sdb\nTYPE=ext4\nPTTYPE=gpt\nPART_ENTRY_SCHEME=gpt\n")
	f.Fuzz(func(t *testing.T, out string) {
		var c Contents
		parseBlkid(out, &c)
		if c.Blank() && strings.HasPrefix(out, "TYPE=ext4\n") {
			t.Fatal("a signature was lost")
		}
	})
}
