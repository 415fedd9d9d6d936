//go:build lab

package sysfs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
)

// The write cache of every kind of drive before a real kernel, looked at from outside by the programs that people use for it:
// hdparm, sdparm, nvme.

func TestLabSataWriteCacheIsTheDrives(t *testing.T) {
	d, ctx := labDrive(t, "QDLAB-SATA-1"), context.Background()
	before := labSettings(t, d)
	s := take(t, d)
	require.Equal(t, "on", s.WriteCache)
	require.False(t, s.CacheOverridden)
	for _, level := range []string{"off", "off", "on", "off"} {
		var effective string
		timed(t, "write_cache="+level, func() {
			var err error
			effective, err = d.Apply(ctx, set("write_cache", level))
			require.NoError(t, err)
		})
		assert.Equal(t, level, effective)
		assert.Equal(t, level, hdparmCache(t, d))
		assert.Empty(t, d.CacheDisagreement(ctx))
		require.NoError(t, d.Flush(ctx))
	}
	timed(t, "restoring the write cache", func() { require.NoError(t, d.Restore(ctx, s)) })
	assert.Equal(t, before, labSettings(t, d))
}

// sdparmCache asks for WCE of the caching mode page. The exit status is no guide: it is 5 where there are no saved values, as on
// scsi_debug's drives.
func sdparmCache(t *testing.T, d sysfs.Device) string {
	t.Helper()
	out, _ := exec.Command("sdparm", "--get=WCE", d.Path).CombinedOutput()
	m := regexp.MustCompile(`WCE\s+([01])\s`).FindStringSubmatch(string(out)) // "WCE           1  [cha: y, def:  1]"
	require.NotNil(t, m, string(out))
	return map[string]string{"1": "on", "0": "off"}[m[1]]
}

// nvmeCache asks a controller for feature 06h.
func nvmeCache(t *testing.T, node string) string {
	t.Helper()
	out := output(t, "nvme", "get-feature", node, "--feature-id=6")
	m := regexp.MustCompile(`value:\s*(?:0x)?0*([01])\b`).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	return map[string]string{"1": "on", "0": "off"}[m[1]]
}

func cacheTypeOf(t *testing.T, d sysfs.Device) string {
	t.Helper()
	types, _ := filepath.Glob(d.SysDir() + "/device/scsi_disk/*/cache_type")
	require.Len(t, types, 1)
	return types[0]
}

func attributeText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// An override that somebody made is told from the drive's own state, and is there again after a sweep, as an override: not in the
// drive, and not saved.
func overridden(t *testing.T, d sysfs.Device, drive func() string) {
	ctx := context.Background()
	types, fresh := cacheTypeOf(t, d), take(t, d)
	opposite := map[string]string{"on": "write through", "off": "write back"}[fresh.WriteCache]
	require.NotEmpty(t, opposite)
	require.NoError(t, os.WriteFile(types, []byte("temporary "+opposite), 0))
	require.Equal(t, fresh.WriteCache, drive(), "an override does not reach the drive")
	before := labSettings(t, d)
	s := take(t, d)
	assert.Equal(t, fresh.WriteCache, s.WriteCache)
	assert.True(t, s.CacheOverridden)
	assert.Contains(t, d.CacheDisagreement(ctx), "the drive says "+fresh.WriteCache+", the kernel believes")
	for _, level := range []string{"off", "on", "off"} {
		effective, err := d.Apply(ctx, set("write_cache", level))
		require.NoError(t, err)
		assert.Equal(t, level, effective)
		assert.Equal(t, level, drive())
	}
	// As a program does that knows sd only, or an older sweep: the override must not become the drive's state.
	require.NoError(t, d.Restore(ctx, s))
	assert.Equal(t, before, labSettings(t, d))
	assert.Equal(t, opposite, attributeText(t, types))
	assert.Equal(t, fresh.WriteCache, drive())
	require.NoError(t, os.WriteFile(d.SysDir()+"/device/rescan", []byte("1"), 0))
	assert.Equal(t, opposite, attributeText(t, types), "it is an override still: sd has looked, and keeps it")
	// A plain write ends the override, and sets the drive, to what it is.
	require.NoError(t, os.WriteFile(types, []byte(fresh.CacheType), 0))
	_, err := d.Apply(ctx, set("write_cache", map[string]string{"on": "off", "off": "on"}[fresh.WriteCache]))
	require.NoError(t, err)
	assert.Empty(t, d.CacheDisagreement(ctx), "sd follows the drive again")
}

func TestLabSataTemporaryCacheType(t *testing.T) {
	d := labDrive(t, "QDLAB-SATA-1")
	overridden(t, d, func() string { return hdparmCache(t, d) })
}

func TestLabDelayTemporaryCacheType(t *testing.T) {
	d := delayDrive(t)
	overridden(t, d, func() string { return sdparmCache(t, d) })
}

func TestLabDelayModeSelect(t *testing.T) {
	d, ctx := delayDrive(t), context.Background()
	wce := func() string { return sdparmCache(t, d) }
	before := labSettings(t, d)
	s := take(t, d)
	require.NotEmpty(t, s.WriteCache, s.WriteCacheReason)
	require.Equal(t, s.WriteCache, wce())
	for _, level := range []string{"off", "on", "off"} {
		effective, err := d.Apply(ctx, set("write_cache", level))
		require.NoError(t, err)
		assert.Equal(t, level, effective)
		assert.Equal(t, level, wce())
		assert.Empty(t, d.CacheDisagreement(ctx), "sd has looked again")
	}
	require.NoError(t, d.Flush(ctx))
	for _, level := range []string{"1", "31", "64"} {
		effective, err := d.Apply(ctx, set("queue_depth", level))
		require.NoError(t, err)
		assert.Equal(t, level, effective)
	}
	_, err := d.Apply(ctx, set("queue_depth", "65"))
	assert.ErrorIs(t, err, sysfs.ErrUnsupported)
	require.NoError(t, d.Restore(ctx, s))
	assert.Equal(t, s.WriteCache, wce())
	assert.Equal(t, before, labSettings(t, d))
}

func TestLabAllNVMeWriteCache(t *testing.T) {
	d, ctx := labDrive(t, "QDLAB-NVME-1"), context.Background()
	controller := strings.TrimSuffix(d.Path, "n1")
	before, s := labSettings(t, d), take(t, d)
	require.NotEmpty(t, s.WriteCache, s.WriteCacheReason)
	require.Equal(t, s.WriteCache, nvmeCache(t, controller))
	view := attributeText(t, d.SysDir()+"/queue/write_cache")
	for _, level := range []string{"off", "off", "on", "off"} {
		var effective string
		timed(t, "write_cache="+level, func() {
			var err error
			effective, err = d.Apply(ctx, set("write_cache", level))
			require.NoError(t, err)
		})
		assert.Equal(t, level, effective)
		assert.Equal(t, level, nvmeCache(t, controller))
		assert.Equal(t, view, attributeText(t, d.SysDir()+"/queue/write_cache"), "the kernel says only that there is a cache")
		assert.Empty(t, d.CacheDisagreement(ctx))
		require.NoError(t, d.Flush(ctx))
	}
	require.NoError(t, d.Restore(ctx, s))
	assert.Equal(t, s.WriteCache, nvmeCache(t, controller))
	assert.Equal(t, before, labSettings(t, d))

	// The command that a message gives is the one that does it.
	_, err := d.Apply(ctx, set("write_cache", map[string]string{"on": "off", "off": "on"}[s.WriteCache]))
	require.NoError(t, err)
	output(t, "nvme", "set-feature", controller, "--feature-id=6", "--value="+map[string]string{"on": "1", "off": "0"}[s.WriteCache])
	now, err := d.Current(ctx, "write_cache")
	require.NoError(t, err)
	assert.Equal(t, s.WriteCache, now)
}

func TestLabAllVirtioWriteCache(t *testing.T) {
	d, ctx := labDrive(t, "QDLAB-VIRTIO-1"), context.Background()
	before, s := labSettings(t, d), take(t, d)
	require.NotEmpty(t, s.WriteCache, s.WriteCacheReason)
	for _, level := range []string{"off", "off", "on", "off"} {
		effective, err := d.Apply(ctx, set("write_cache", level))
		require.NoError(t, err)
		assert.Equal(t, level, effective)
		text := map[string]string{"on": "write back", "off": "write through"}[level]
		assert.Equal(t, text, attributeText(t, d.SysDir()+"/cache_type"))
		assert.Equal(t, text, attributeText(t, d.SysDir()+"/queue/write_cache"), "the kernel goes by it")
		assert.Empty(t, d.CacheDisagreement(ctx))
	}
	require.NoError(t, d.Restore(ctx, s))
	assert.Equal(t, before, labSettings(t, d))
}

// The overview leaves a USB bridge in peace; whoever names it has it asked, and a sweep with a write_cache axis sets it. This one
// (QEMU's) knows no ATA command and has a mode page.
func TestLabAllUSBWriteCache(t *testing.T) {
	h, ctx := sysfs.NewHost("/"), context.Background()
	all, err := h.Devices()
	require.NoError(t, err)
	at := slices.IndexFunc(all, func(d sysfs.Device) bool { return d.Transport == "usb" }) // a stick has no serial that sd knows
	require.GreaterOrEqual(t, at, 0, "no USB disk")
	d := all[at]
	infos, err := h.Inventory(ctx)
	require.NoError(t, err)
	for _, i := range infos {
		if i.Name == d.Name {
			assert.Empty(t, i.Knobs["write_cache"].Value)
			assert.Contains(t, i.Knobs["write_cache"].Reason, "not asked")
		}
	}
	info, err := h.Describe(ctx, d.Path)
	require.NoError(t, err)
	assert.Equal(t, sysfs.KnobState{Value: "on", Allowed: info.Knobs["write_cache"].Allowed, Writable: true, By: "MODE SELECT", Kernel: info.Knobs["write_cache"].Kernel},
		info.Knobs["write_cache"])
	t.Logf("the kernel believes %s: %s", info.Knobs["write_cache"].Kernel, info.Disagreement)

	before := labSettings(t, d)
	s, err := d.Snapshot(ctx, cacheOff)
	require.NoError(t, err)
	require.Equal(t, "on", s.WriteCache, s.WriteCacheReason)
	t.Cleanup(func() { assert.NoError(t, d.Restore(ctx, s)) })
	for _, level := range []string{"off", "on", "off"} {
		var effective string
		timed(t, "write_cache="+level, func() { effective, err = d.Apply(ctx, set("write_cache", level)) })
		require.NoError(t, err)
		assert.Equal(t, level, effective)
		assert.Equal(t, level, sdparmCache(t, d))
	}
	require.NoError(t, d.Flush(ctx))
	require.NoError(t, d.Restore(ctx, s))
	assert.Equal(t, "on", sdparmCache(t, d))
	assert.Equal(t, before, labSettings(t, d))
}
