//go:build lab

package sysfs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
)

// The knobs before a real kernel and drives that obey, looked at from outside by other programs.

func labDrive(t *testing.T, serial string) sysfs.Device {
	t.Helper()
	s, err := sysfs.NewHost("/").Resolve("serial:" + serial)
	require.NoError(t, err)
	afterwards(t, s.Device)
	return s.Device
}

// afterwards puts the drive back even where the test fails.
func afterwards(t *testing.T, d sysfs.Device) {
	s := take(t, d)
	t.Cleanup(func() { assert.NoError(t, d.Restore(context.Background(), s)) })
}

// delayDrive is one of scsi_debug's.
func delayDrive(t *testing.T) sysfs.Device {
	t.Helper()
	all, err := sysfs.NewHost("/").Devices()
	require.NoError(t, err)
	for _, d := range all {
		if d.Driver == "scsi_debug" || strings.Contains(d.Model, "scsi_debug") {
			afterwards(t, d)
			return d
		}
	}
	require.FailNow(t, "no scsi_debug drive")
	return sysfs.Device{}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}

// hdparmCache asks the drive by another program: "on" or "off".
func hdparmCache(t *testing.T, d sysfs.Device) string {
	t.Helper()
	words := strings.Fields(output(t, "hdparm", "--Istdout", d.Path))
	words = words[len(words)-256:]
	word, err := strconv.ParseUint(words[85], 16, 16)
	require.NoError(t, err)
	if word&(1<<5) != 0 {
		return "on"
	}
	return "off"
}

// labSettings is everything writable below the device, read without the package's help.
func labSettings(t *testing.T, d sysfs.Device) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, _ := filepath.Glob(d.SysDir() + "/queue/*")
	more, _ := filepath.Glob(d.SysDir() + "/queue/iosched/*")
	cacheType, _ := filepath.Glob(d.SysDir() + "/device/scsi_disk/*/cache_type")
	paths = append(append(append(paths, more...), cacheType...), d.SysDir()+"/cache_type", d.SysDir()+"/device/queue_depth", d.SysDir()+"/device/queue_ramp_up_period")
	for _, p := range paths {
		if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if b, err := os.ReadFile(p); err == nil {
			all[strings.TrimPrefix(p, d.SysDir()+"/")] = string(b)
		}
	}
	if d.Libata() {
		all["drive"] = hdparmCache(t, d)
	}
	return all
}

func byHand(t *testing.T, d sysfs.Device, attribute, value string) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.SysDir()+"/"+attribute, []byte(value), 0))
}

// timed logs how long a step takes: docs/ quote these.
func timed(t *testing.T, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	t.Logf("%s took %v", what, time.Since(start).Round(time.Millisecond))
}

func TestLabSataQueueDepth(t *testing.T) {
	d, ctx := labDrive(t, "QDLAB-SATA-2"), context.Background()
	before := labSettings(t, d)
	s := take(t, d)
	a, err := d.Allowed(ctx, "queue_depth")
	require.NoError(t, err)
	assert.Equal(t, 1, a.Min)
	assert.Equal(t, 32, a.Max)
	for _, level := range []string{"1", "2", "31", "32"} {
		effective, err := d.Apply(ctx, set("queue_depth", level))
		require.NoError(t, err)
		assert.Equal(t, level, effective)
	}
	for _, level := range []string{"33", "64"} {
		_, err := d.Apply(ctx, set("queue_depth", level))
		assert.ErrorIs(t, err, sysfs.ErrUnsupported, level)
	}
	_, err = d.Apply(ctx, set("queue_depth", "4"))
	require.NoError(t, err)
	require.NoError(t, d.Restore(ctx, s))
	assert.Equal(t, before, labSettings(t, d))
}

func TestLabSataMaxSectors(t *testing.T) {
	d, ctx := labDrive(t, "QDLAB-SATA-3"), context.Background()
	before := labSettings(t, d)
	s := take(t, d)
	a, err := d.Allowed(ctx, "max_sectors_kb")
	require.NoError(t, err)
	assert.Equal(t, 4, a.Min)
	effective, err := d.Apply(ctx, set("max_sectors_kb", "8"))
	require.NoError(t, err)
	assert.Equal(t, "8", effective)
	timed(t, "restoring max_sectors_kb", func() { require.NoError(t, d.Restore(ctx, s)) })
	assert.Equal(t, before, labSettings(t, d))
}

func TestLabSataEverythingComesBack(t *testing.T) {
	d, ctx := labDrive(t, "QDLAB-SATA-4"), context.Background()
	fresh := take(t, d)
	// As somebody had tuned it.
	byHand(t, d, "queue/nr_requests", "24")
	byHand(t, d, "queue/read_ahead_kb", "16")
	byHand(t, d, "queue/iosched/read_expire", "336")
	before := labSettings(t, d)
	s := take(t, d)
	for _, x := range []sysfs.Setting{
		set("write_cache", "off"), set("scheduler", "none"), set("nr_requests", "8"), set("queue_depth", "2"), set("max_sectors_kb", "16"),
		set("read_ahead_kb", "64"), set("nomerges", "2"), set("rq_affinity", "2"), set("add_random", "1"), set("rotational", "0"),
	} {
		effective, err := d.Apply(ctx, x)
		require.NoError(t, err)
		assert.Equal(t, x.Level, effective, x.Knob)
	}
	moved, err := d.Differences(ctx, s)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(moved), 10)
	timed(t, "restoring everything", func() { require.NoError(t, d.Restore(ctx, s)) })
	assert.Equal(t, before, labSettings(t, d))
	require.NoError(t, d.Restore(ctx, fresh))
}

func TestLabAllNVMeAndVirtio(t *testing.T) {
	ctx := context.Background()
	for _, serial := range []string{"QDLAB-NVME-1", "QDLAB-VIRTIO-1"} {
		d := labDrive(t, serial)
		before := labSettings(t, d)
		s := take(t, d)
		_, err := d.Apply(ctx, set("queue_depth", "4"))
		assert.ErrorIs(t, err, sysfs.ErrUnsupported)
		effective, err := d.Apply(ctx, set("max_sectors_kb", "16"))
		require.NoError(t, err)
		assert.Equal(t, "16", effective)
		p, err := sysfs.OpenProbe(d)
		require.NoError(t, err)
		_, ok := p.Busy()
		assert.True(t, ok)
		_, err = p.Stat()
		assert.NoError(t, err)
		require.NoError(t, p.Close())
		require.NoError(t, d.Restore(ctx, s))
		assert.Equal(t, before, labSettings(t, d))
	}
}
