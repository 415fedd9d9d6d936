package sysfs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ knob, level, want string }{
		{"queue_depth", "1", "1"},
		{"queue_depth", "31", "31"},
		{"queue_depth", "01", ""}, // field case 20: the kernel would read octal
		{"queue_depth", "010", ""},
		{"queue_depth", "0x10", ""}, // and hexadecimal
		{"queue_depth", "8 ", ""},
		{"queue_depth", " 8", ""},
		{"queue_depth", "31abc", ""},
		{"queue_depth", "+8", ""},
		{"queue_depth", "-1", ""},
		{"queue_depth", "1e2", ""},
		{"queue_depth", "8.0", ""},
		{"queue_depth", "٨", ""},
		{"queue_depth", "", ""},
		{"queue_depth", "0", ""},
		{"queue_depth", "99999999999999999999", ""},
		{"max_sectors_kb", "4", "4"},
		{"max_sectors_kb", "3", ""},
		{"max_sectors_kb", "0", ""},
		{"nr_requests", "4", "4"},
		{"nr_requests", "3", ""},
		{"read_ahead_kb", "0", "0"},
		{"read_ahead_kb", "00", ""},
		{"wbt_lat_usec", "0", "0"},
		{"nomerges", "2", "2"},
		{"nomerges", "3", ""},
		{"write_cache", "off", "off"},
		{"write_cache", "no", "off"},
		{"write_cache", "False", "off"},
		{"write_cache", "0", "off"},
		{"write_cache", "ON", "on"},
		{"write_cache", "yes", "on"},
		{"write_cache", "1", "on"},
		{"write_cache", "write back", ""},
		{"write_cache", "2", ""},
		{"scheduler", "mq-deadline", "mq-deadline"},
		{"scheduler", "[none]", ""},
		{"scheduler", "none\n", ""},
		{"scheduler", "", ""},
	} {
		k, ok := sysfs.LookupKnob(c.knob)
		require.True(t, ok)
		got, err := k.Canonical(c.level)
		assert.Equal(t, c.want, got, "%s %q", c.knob, c.level)
		assert.Equal(t, c.want == "", err != nil, "%s %q: %v", c.knob, c.level, err)
		if err != nil {
			assert.ErrorContains(t, err, c.knob)
		}
	}
}

func TestKnobsComeInTheOrderOfApplying(t *testing.T) {
	var names []string
	for _, k := range sysfs.Knobs() {
		names = append(names, k.Name)
	}
	assert.Equal(t, []string{"write_cache", "scheduler", "nr_requests", "queue_depth", "max_sectors_kb", "read_ahead_kb"}, names[:6])
	assert.NotContains(t, names, "iostats")
}

func TestAllowed(t *testing.T) {
	type disk = systest.Disk
	for name, c := range map[string]struct {
		disk   disk
		page   int
		knob   string
		want   string // JSON, "" for unsupported
		reason string
	}{
		"depth, AHCI":               {disk: disk{}, knob: "queue_depth", want: `{"min":1,"max":32}`},
		"depth, drive of 31":        {disk: disk{DriveDepth: 31}, knob: "queue_depth", want: `{"min":1,"max":31}`, reason: "the drive's NCQ depth is 31"},
		"depth, SAS":                {disk: disk{Transport: "sas", CanQueue: 254}, knob: "queue_depth", want: `{"min":1,"max":254}`},
		"depth, now above":          {disk: disk{DriveDepth: 31, QueueDepth: 32}, knob: "queue_depth", want: `{"min":1,"max":32}`},
		"depth, fixed":              {disk: disk{FixedDepth: true}, knob: "queue_depth", reason: "fixed by the driver (ahci)"},
		"depth, NVMe (case 9)":      {disk: disk{Transport: "nvme"}, knob: "queue_depth", reason: "iodepth-ladder"},
		"depth, virtio":             {disk: disk{Transport: "virtio"}, knob: "queue_depth", reason: "a virtio disk has no queue_depth"},
		"sectors":                   {disk: disk{}, knob: "max_sectors_kb", want: `{"min":4,"max":32767}`},
		"sectors, 16k (case 14)":    {disk: disk{MaxHWSectorsKB: 120}, page: 16384, knob: "max_sectors_kb", want: `{"min":16,"max":120}`, reason: "page size"},
		"sectors, 64k":              {disk: disk{}, page: 65536, knob: "max_sectors_kb", want: `{"min":64,"max":32767}`, reason: "page size"},
		"cache, ATA":                {disk: disk{}, knob: "write_cache", want: `{"levels":["off","on"]}`},
		"cache, SAS (case 12)":      {disk: disk{Transport: "sas", WriteCache: true}, knob: "write_cache", want: `{"levels":["off","on"]}`},
		"cache, none":               {disk: disk{NoWriteCache: true}, knob: "write_cache", reason: "word 82"},
		"cache, SAS none":           {disk: disk{Transport: "sas", NoWriteCache: true}, knob: "write_cache", reason: "no caching mode page"},
		"cache, silent":             {disk: disk{Transport: "sas", SilentSG: true}, knob: "write_cache", reason: "no ATA status came back"},
		"cache, NVMe":               {disk: disk{Transport: "nvme"}, knob: "write_cache", want: `{"levels":["off","on"]}`},
		"cache, NVMe none":          {disk: disk{Transport: "nvme", NoWriteCache: true}, knob: "write_cache", reason: "no volatile write cache"},
		"cache, NVMe fixed":         {disk: disk{Transport: "nvme", FixedCache: true}, knob: "write_cache", reason: "feature 06h cannot be changed"},
		"cache, virtio":             {disk: disk{Transport: "virtio"}, knob: "write_cache", want: `{"levels":["off","on"]}`},
		"cache, virtio, the host's": {disk: disk{Transport: "virtio", FixedCache: true}, knob: "write_cache", reason: "the host does not let its cache mode be changed"},
		"cache, USB":                {disk: disk{Transport: "usb"}, knob: "write_cache", want: `{"levels":["off","on"]}`},
		"cache, USB, silent":        {disk: disk{Transport: "usb", SilentSG: true}, knob: "write_cache", reason: "no ATA status came back"},
		"scheduler":                 {disk: disk{}, knob: "scheduler", want: `{"levels":["none","mq-deadline"]}`},
		"scheduler, only one":       {disk: disk{Schedulers: []string{"none"}, Scheduler: "none"}, knob: "scheduler", want: `{"levels":["none"]}`, reason: "no other"},
		"nomerges":                  {disk: disk{}, knob: "nomerges", want: `{"levels":["0","1","2"]}`},
		"nr_requests":               {disk: disk{}, knob: "nr_requests", want: `{"min":4,"max":2048}`},
		"read_ahead_kb":             {disk: disk{}, knob: "read_ahead_kb", want: `{"min":0,"max":1048576}`},
		"raising is for the plan":   {disk: disk{QueueDepth: 1}, knob: "queue_depth", want: `{"min":1,"max":32}`}, // case 2
		"noncq cannot be seen yet":  {disk: disk{NoNCQ: true}, knob: "queue_depth", want: `{"min":1,"max":32}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.disk.Name = map[string]string{"nvme": "nvme0n1", "virtio": "vda"}[c.disk.Transport]
			if c.disk.Name == "" {
				c.disk.Name = "sda"
			}
			parts := []systest.Part{c.disk}
			if c.page != 0 {
				parts = append(parts, systest.PageSize(c.page))
			}
			m := systest.New(t, parts...)
			a, err := m.Device(c.disk.Name).Allowed(context.Background(), c.knob)
			text, jerr := json.Marshal(a)
			require.NoError(t, jerr)
			if c.want == "" {
				require.ErrorIs(t, err, sysfs.ErrUnsupported)
				assert.ErrorContains(t, err, c.reason)
				assert.False(t, a.Writable)
				assert.Equal(t, "{}", string(text))
				return
			}
			require.NoError(t, err)
			assert.True(t, a.Writable)
			assert.Equal(t, c.want, string(text))
			assert.Contains(t, a.Reason, c.reason)
			assert.Empty(t, m.Writes(), "asking writes nothing")
		})
	}
}

func TestAllowedSaysWhichLevels(t *testing.T) { // field case 14
	m := systest.New(t, systest.PageSize(16384), systest.Disk{Name: "sda", MaxHWSectorsKB: 120, HiddenMaxKB: 64})
	a, err := m.Device("sda").Allowed(context.Background(), "max_sectors_kb")
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true, true, false}, []bool{a.Has("8"), a.Has("16"), a.Has("120"), a.Has("128")})
	effective, err := m.Device("sda").Apply(context.Background(), sysfs.Setting{Knob: "max_sectors_kb", Level: "120"})
	require.NoError(t, err)
	assert.Equal(t, "64", effective, "a limit that sysfs does not show clamps at apply")
}

func TestNoFileIsCreated(t *testing.T) { // field case 9
	m := systest.New(t, systest.Disk{Name: "nvme0n1"})
	bare := sysfs.NewHost(m.Root()) // with the real write function
	d, err := bare.Device("nvme0n1")
	require.NoError(t, err)
	before := files(t, m.Root())
	_, err = d.Apply(context.Background(), sysfs.Setting{Knob: "queue_depth", Level: "4"})
	require.ErrorIs(t, err, sysfs.ErrUnsupported)
	assert.ErrorContains(t, err, "iodepth-ladder")
	require.ErrorIs(t, bare.Write(context.Background(), "/sys/block/nvme0n1/device/queue_depth", "4"), unix.ENOENT)
	_, err = d.Current(context.Background(), "queue_depth")
	require.ErrorIs(t, err, sysfs.ErrUnsupported)
	assert.Equal(t, before, files(t, m.Root()))
}

func files(t *testing.T, root string) (all []string) {
	require.NoError(t, filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		all = append(all, p)
		return err
	}))
	return all
}

func TestApply(t *testing.T) {
	type disk = systest.Disk
	for name, c := range map[string]struct {
		kernel    systest.Kernel
		disk      disk
		knob      string
		level     string
		effective string
		err       error
		text      string
		writes    []string
	}{
		"one write (case 1)":      {knob: "queue_depth", level: "1", effective: "1", writes: []string{"1"}},
		"noncq, new (case 7)":     {disk: disk{NoNCQ: true}, knob: "queue_depth", level: "31", effective: "1", writes: []string{"31"}},
		"noncq, old (case 7)":     {kernel: systest.OldKernel, disk: disk{NoNCQ: true}, knob: "queue_depth", level: "4", err: sysfs.ErrUnsupported, writes: []string{"4"}},
		"clamped, old":            {kernel: systest.OldKernel, disk: disk{DriveDepth: 31, QueueDepth: 4}, knob: "queue_depth", level: "32", effective: "31", writes: []string{"32"}},
		"above the host":          {knob: "queue_depth", level: "33", err: sysfs.ErrUnsupported, text: "set queue_depth of sda to 33", writes: []string{"33"}},
		"fixed: nothing written":  {disk: disk{FixedDepth: true}, knob: "queue_depth", level: "4", err: sysfs.ErrUnsupported, text: "fixed by the driver"},
		"not canonical":           {knob: "queue_depth", level: "010", text: "leading zero"},
		"unknown knob":            {knob: "iostats", level: "0", text: "no knob"},
		"sectors, silently less":  {disk: disk{MaxHWSectorsKB: 512}, knob: "max_sectors_kb", level: "1024", effective: "512", writes: []string{"1024"}},
		"sectors, old":            {kernel: systest.OldKernel, disk: disk{MaxHWSectorsKB: 512}, knob: "max_sectors_kb", level: "1024", err: sysfs.ErrUnsupported, writes: []string{"1024"}},
		"scheduler":               {knob: "scheduler", level: "none", effective: "none", writes: []string{"none"}},
		"scheduler, not built in": {knob: "scheduler", level: "kyber", err: sysfs.ErrUnsupported, writes: []string{"kyber"}},
		"requests":                {knob: "nr_requests", level: "256", effective: "256", writes: []string{"256"}},
		"merges":                  {knob: "nomerges", level: "2", effective: "2", writes: []string{"2"}},
		"random":                  {knob: "add_random", level: "1", effective: "1", writes: []string{"1"}},
		"read-ahead, whole pages": {knob: "read_ahead_kb", level: "18", effective: "16", writes: []string{"18"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.disk.Name = "sda"
			m := systest.New(t, c.kernel, c.disk)
			d := m.Device("sda")
			effective, err := d.Apply(context.Background(), sysfs.Setting{Knob: c.knob, Level: c.level})
			assert.Equal(t, c.effective, effective)
			if c.effective == "" {
				require.Error(t, err)
				assert.ErrorContains(t, err, c.text)
				assert.Equal(t, c.err != nil, errors.Is(err, sysfs.ErrUnsupported))
			} else {
				require.NoError(t, err)
				now, err := d.Current(context.Background(), c.knob)
				require.NoError(t, err)
				assert.Equal(t, effective, now)
			}
			assert.Equal(t, c.writes, m.WritesTo(c.knob))
		})
	}
}

func TestApplyAgainAfterItJumpedBack(t *testing.T) { // field case 13, the device's part
	m := systest.New(t, systest.OldKernel, systest.Disk{Name: "sda"})
	d, ctx := m.Device("sda"), context.Background()
	s, err := d.Snapshot(ctx)
	require.NoError(t, err)
	set := sysfs.Setting{Knob: "max_sectors_kb", Level: "8"}
	_, err = d.Apply(ctx, set)
	require.NoError(t, err)
	m.SetDriveCache("sda", false) // the kernel looks at the drive again
	now, err := d.Current(ctx, "max_sectors_kb")
	require.NoError(t, err)
	assert.Equal(t, "1280", now)
	effective, err := d.Apply(ctx, set)
	require.NoError(t, err)
	assert.Equal(t, "8", effective)
	require.NoError(t, d.Restore(ctx, s))
}

func TestApplyThatNeverReturns(t *testing.T) { // field case 16, the device's part
	m := systest.New(t, systest.Disk{Name: "sda"})
	m.Hang("/sys/block/sda/queue/max_sectors_kb")
	ctx, cancel := context.WithCancel(context.Background())
	m.OnWrite(func(string, string) { cancel() })
	_, err := m.Device("sda").Apply(ctx, sysfs.Setting{Knob: "max_sectors_kb", Level: "8"})
	require.ErrorIs(t, err, sysfs.ErrStuck)
	assert.NotErrorIs(t, err, sysfs.ErrUnsupported)
}
