package workload

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/workload/ioengine"
)

func TestNewSpecFillsInDefaults(t *testing.T) {
	s, wrong := NewSpec("rnd", "io", map[string]string{"iodepth": "32", "runtime": "90s"})
	require.Empty(t, wrong)
	assert.Equal(t, Spec{Name: "rnd", Type: "io", Mode: "randread", Engine: "auto", BlockSize: 4096, IODepth: 32, Threads: 1,
		ReadPercent: 50, Runtime: 90 * time.Second, Sync: "none", Direct: true}, s)
	assert.Equal(t, "type=io;mode=randread;runtime=1m30s;warmup=0s;sync=none;direct=true", s.Parameters())

	s, wrong = NewSpec("seq", "dd", map[string]string{"size": "10g"})
	require.Empty(t, wrong)
	assert.Equal(t, Spec{Name: "seq", Type: "dd", Mode: "write", Engine: "auto", BlockSize: 1 << 20, Size: 10 << 30, Processes: 1, Sync: "fsync"}, s)
	assert.Equal(t, "type=dd;mode=write;processes=1;size=10g;sync=fsync;direct=false", s.Parameters())
}

func TestNewSpecReportsEveryWrongKeyAtOnce(t *testing.T) {
	_, wrong := NewSpec("x", "io", map[string]string{
		"iodepth": "010", "threads": "0x10", "block_size": "8 ", "engine": "mmap", "verify": "maybe", "seeks": "8192", "mode": "append", "size": "0",
	})
	var texts []string
	for _, e := range wrong {
		texts = append(texts, e.Error())
	}
	require.Len(t, texts, 8)
	assert.Contains(t, texts[0], `block_size: "8 " is not allowed: 512 to 1g`)
	assert.Contains(t, texts[1], `engine: "mmap" is not allowed: auto, psync, libaio, io_uring, sg, null`)
	assert.Contains(t, texts[2], `iodepth: "010" is not allowed: 1 to 4096`)
	assert.Contains(t, texts[3], `mode: "append" is not allowed: read, write`)
	assert.Contains(t, texts[4], `seeks: "8192" is of a key that type io does not have: its keys are name, type, mode`)
	assert.Contains(t, texts[5], `size: "0" is not allowed`)
	assert.Contains(t, texts[6], `threads: "0x10" is not allowed`)
	assert.Contains(t, texts[7], `verify: "maybe" is not allowed`)
}

func TestNewSpecKnowsTypes(t *testing.T) {
	_, wrong := NewSpec("x", "fio", nil)
	require.Len(t, wrong, 1)
	assert.Equal(t, `type: "fio" is not allowed: io, dd, bonnie`, wrong[0].Error())
	assert.Nil(t, Params("fio"))
}

func TestCanonicalParam(t *testing.T) {
	for _, c := range []struct{ name, value, want, err string }{
		{"block_size", "4096", "4k", ""},
		{"block_size", "1024k", "1m", ""},
		{"block_size", "4K", "4k", ""},
		{"block_size", "1536", "1536", ""},
		{"block_size", "4kb", "", "not allowed"},
		{"block_size", "100", "", "not allowed"},
		{"iodepth", "32", "32", ""},
		{"iodepth", "032", "", "not allowed"},
		{"iodepth", "0", "", "not allowed"},
		{"iodepth", "+1", "", "not allowed"},
		{"read_percent", "0", "0", ""},
		{"read_percent", "101", "", "not allowed"},
		{"mode", "randread", "randread", ""},
		{"mode", "write-read", "write-read", ""},
		{"mode", "nope", "", "randwrite"},
		{"processes", "20", "20", ""},
		{"engine", "psync", "", "cannot be an axis"},
		{"runtime", "3s", "", "is not a parameter that can be an axis"},
	} {
		got, err := CanonicalParam(c.name, c.value)
		if c.err != "" {
			if c.name == "engine" {
				c.err = "is not a parameter that can be an axis"
			}
			assert.ErrorContains(t, err, c.err, c.name+"="+c.value)
			continue
		}
		assert.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
}

func TestWith(t *testing.T) {
	io, _ := NewSpec("rnd", "io", nil)
	dd, _ := NewSpec("seq", "dd", nil)
	got, err := io.With("iodepth", "8")
	require.NoError(t, err)
	assert.Equal(t, 8, got.IODepth)
	assert.Equal(t, 1, io.IODepth, "the original is left alone")
	_, err = dd.With("iodepth", "8")
	assert.EqualError(t, err, "workload seq: type dd has no parameter iodepth")
	_, err = io.With("runtime", "8s")
	assert.EqualError(t, err, "workload rnd: runtime cannot be an axis")
	_, err = dd.With("mode", "randread")
	assert.ErrorContains(t, err, `mode: "randread" is not allowed: write, read`)
	assert.True(t, io.Has("threads"))
	assert.False(t, dd.Has("threads"))
}

// Field case 24: several iodepths × block sizes × modes give exactly the product, each once.
func TestParametersOfACellAreItsOwn(t *testing.T) {
	base, _ := NewSpec("rnd", "io", nil)
	seen := map[Spec]bool{}
	for _, d := range []string{"1", "8", "32"} {
		for _, b := range []string{"4k", "64k"} {
			for _, m := range []string{"read", "randread", "randwrite"} {
				s, err := base.With("iodepth", d)
				require.NoError(t, err)
				s, err = s.With("block_size", b)
				require.NoError(t, err)
				s, err = s.With("mode", m)
				require.NoError(t, err)
				require.False(t, seen[s])
				seen[s] = true
			}
		}
	}
	assert.Len(t, seen, 18)
}

func TestOfferedAndPhases(t *testing.T) {
	for _, c := range []struct {
		typ     string
		values  map[string]string
		offered int
		phases  []string
		writes  bool
	}{
		{"io", map[string]string{"iodepth": "8", "threads": "4"}, 32, []string{"randread"}, false},
		{"io", map[string]string{"iodepth": "8", "threads": "4", "engine": "psync"}, 4, []string{"randread"}, false},
		{"io", map[string]string{"iodepth": "8", "direct": "no"}, 1, []string{"randread"}, false},
		{"io", map[string]string{"mode": "randread+randwrite", "threads": "2", "iodepth": "3"}, 12, []string{"randread+randwrite/r", "randread+randwrite/w"}, true},
		{"io", map[string]string{"mode": "rw"}, 1, []string{"rw"}, true},
		{"dd", map[string]string{"mode": "read", "processes": "20"}, 20, []string{"read"}, false},
		{"dd", map[string]string{"mode": "write-read-remove"}, 1, []string{"write", "read", "remove"}, true},
		{"dd", nil, Unlimited, []string{"write"}, true},
		{"dd", map[string]string{"direct": "true", "processes": "3"}, 3, []string{"write"}, true},
	} {
		s, wrong := NewSpec("w", c.typ, c.values)
		require.Empty(t, wrong)
		assert.Equal(t, c.offered, s.Offered(), "%v", c.values)
		assert.Equal(t, c.phases, s.Phases(), "%v", c.values)
		assert.Equal(t, c.writes, s.Writes(), "%v", c.values)
	}
}

func TestCheckTarget(t *testing.T) {
	for _, c := range []struct {
		name, typ string
		values    map[string]string
		bytes     int64
		block     int
		directory bool
		want      []string // none: fits
	}{
		{"fits", "io", nil, 1 << 30, 512, false, nil},
		{"beyond the device", "io", map[string]string{"size": "2g"}, 1 << 30, 512, false, []string{"size: 2g is more than the device's 1g bytes"}},
		{"processes beyond the device", "dd", map[string]string{"size": "1g", "processes": "20"}, 8 << 30, 512, false, []string{"20 × 1g is more than the device's 8g"}},
		{"4Kn", "io", map[string]string{"block_size": "512"}, 1 << 30, 4096, false, []string{"block_size: 512 is not a multiple of the device's block of 4096"}},
		{"a tail", "dd", map[string]string{"size": "1000", "direct": "true"}, 1 << 30, 512, false, []string{"size", "direct I/O needs"}},
		{"a buffered tail is fine", "dd", map[string]string{"size": "1000"}, 1 << 30, 512, false, nil},
		{"directory without size", "io", nil, 0, 4096, true, []string{"size: a directory needs one"}},
		{"removing a device", "dd", map[string]string{"mode": "write-read-remove", "size": "1m"}, 1 << 30, 512, false, []string{"a device cannot be removed"}},
		{"no medium", "io", nil, 0, 512, false, []string{"no size"}},
		{"memory", "io", map[string]string{"block_size": "1g", "iodepth": "4", "threads": "2"}, 1 << 40, 512, false,
			[]string{"makes buffers of 8g with 4 operations in each of 2 threads: at most 4g"}},
		{"all at once", "io", map[string]string{"size": "2g", "block_size": "512", "warmup": "1s", "runtime": "0"}, 1 << 30, 4096, false,
			[]string{"warmup", "more than the device", "not a multiple"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, wrong := NewSpec("w", c.typ, c.values)
			require.Empty(t, wrong)
			err := s.CheckTarget(c.bytes, c.block, c.directory)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			for _, w := range c.want {
				assert.ErrorContains(t, err, w)
			}
		})
	}
}

func TestLeftOutByRule(t *testing.T) {
	s, _ := NewSpec("w", "io", map[string]string{"mode": "read", "regions": "4", "threads": "2"})
	assert.Contains(t, s.LeftOut(1<<30), "2 threads are fewer than 4 regions")
	s.Threads = 4
	assert.Empty(t, s.LeftOut(1<<30))
	assert.Contains(t, s.LeftOut(8192), "a region of 2k is smaller than a block of 4k")
}

func TestDurations(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"30s", "30s"}, {"90s", "1m30s"}, {"1h", "1h"}, {"60m", "1h"}, {"0", "0s"}, {"500ms", "500ms"}, {"1h30m", "1h30m"}, {"0.5s", "500ms"},
	} {
		d, ok := ParseDuration(c.in)
		require.True(t, ok, c.in)
		assert.Equal(t, c.out, FormatDuration(d))
	}
	for _, bad := range []string{"", "30", "3 s", "-1s", "1d", "0x3s", "s", "1e3s"} {
		_, ok := ParseDuration(bad)
		assert.False(t, ok, bad)
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"4k", "010", "1m", "9223372036854775807", "8 ", "0x10", "4T", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := ParseSize(text)
		if !ok {
			return
		}
		again, ok := ParseSize(FormatSize(n))
		if !ok || again != n || n < 0 {
			t.Fatalf("%q is %d is %q is %d", text, n, FormatSize(n), again)
		}
	})
}

// Whatever text is given for any parameter: it is refused and leaves the workload alone, or its canonical
// text is accepted and means the same.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{"4k", "010", "0x10", "8 ", "true", "randread", "30s", "1h30m", "off", "-1", "1e3", "90m0s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, typ := range Types() {
			for _, p := range Params(typ) {
				s, _ := NewSpec("w", typ, nil)
				before := s
				if e := p.put(&s, text); e != nil {
					if s != before || e.Error() == "" {
						t.Fatalf("%s: %q was refused and changed something", p.Name, text)
					}
					continue
				}
				again, wrong := NewSpec("w", typ, map[string]string{p.Name: p.get(s)})
				if len(wrong) > 0 || again != s {
					t.Fatalf("%s: %q is %q, which is another thing", p.Name, text, p.get(s))
				}
			}
		}
	})
}

// The page for users lists every parameter with its default, and every engine.
func TestTheDocsKnowEveryParameter(t *testing.T) {
	page, err := os.ReadFile("../docs/workloads.md")
	require.NoError(t, err)
	for _, typ := range Types() {
		for _, p := range Params(typ) {
			line := "| `" + p.Name + "` | " + typ + " |"
			if p.Default != "" {
				line += " `" + p.Default + "` |"
			}
			assert.Contains(t, string(page), line)
		}
	}
	for _, engine := range ioengine.Names() {
		assert.Contains(t, string(page), "| `"+engine+"` |")
	}
}
