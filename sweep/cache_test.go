package sweep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs/systest"
)

// Field case 11: an NVMe drive takes Set Features and goes on as before. There is never a row that says off.
func TestNVMeThatIgnoresSetFeatures(t *testing.T) {
	for unsupported, want := range map[string]string{"refuse": "failed", "skip": "skipped", "record": "ok"} {
		t.Run(unsupported, func(t *testing.T) {
			b := newBench(t, "{write_cache: [off, on]}", systest.Disk{Name: "nvme0n1", WriteCache: true, CacheForced: true})
			b.on("nvme0n1")
			b.profile += "unsupported: " + unsupported + "\n"
			before := b.machine.Settings("nvme0n1")
			o, rows := b.run()
			require.Len(t, rows, 2)
			assert.Equal(t, []string{"off", "on"}, []string{rows[0].WriteCache, rows[1].WriteCache})
			assert.Equal(t, want, rows[0].Status, rows[0].Reason)
			assert.Contains(t, rows[0].Reason, "write_cache off → on")
			assert.NotEqual(t, "off", rows[0].WriteCacheEffective)
			assert.Equal(t, []string{"ok", "on", ""}, []string{rows[1].Status, rows[1].WriteCacheEffective, rows[1].Reason})
			assert.Equal(t, before, b.machine.Settings("nvme0n1"))
			assert.Empty(t, o.Unrestored)
		})
	}
}

// Field case 11, the restore: what moved by itself does not go back, which is loud, and the journal stays.
func TestNVMeThatIsNotRestored(t *testing.T) {
	b := newBench(t, "{write_cache: [on], iodepth: [1, 2]}", systest.Disk{Name: "nvme0n1", WriteCache: true, CacheForced: true})
	b.on("nvme0n1")
	b.observe = once(working(1), func() { b.machine.SetDriveCache("nvme0n1", false) })
	o, rows := b.run()
	assert.Equal(t, ExitNotRestored, o.ExitCode())
	require.Len(t, rows, 1, "no further run on it")
	assert.Equal(t, "suspect", rows[0].Status)
	assert.Contains(t, rows[0].Reason, "nvme0n1: write_cache moved: on → off")
	assert.False(t, rows[0].Restored)
	require.Len(t, o.Unrestored, 1)
	assert.Equal(t, []string{"nvme set-feature /dev/nvme0 --feature-id=6 --value=1"}, o.Unrestored[0].ByHand)
	journal, err := filepath.Glob(filepath.Join(b.state, "journal", "*.json"))
	require.NoError(t, err)
	require.Len(t, journal, 1)
	text, err := os.ReadFile(journal[0])
	require.NoError(t, err)
	assert.Contains(t, string(text), `"write_cache": "on"`)
}

// Every kind of drive in one profile: asked, set, verified in the drive, put back.
func TestWriteCacheOfEveryKind(t *testing.T) {
	for name, disk := range map[string]systest.Disk{
		"SATA": {Name: "sda"}, "SAS": {Name: "sda", Transport: "sas"}, "SATA behind SAS": {Name: "sda", Transport: "sas", SAT: true},
		"NVMe": {Name: "nvme0n1"}, "virtio": {Name: "vda"}, "USB, mode page": {Name: "sda", Transport: "usb"},
		"USB, SAT": {Name: "sda", Transport: "usb", SAT: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk.WriteCache = true
			b := newBench(t, "{write_cache: [off, on]}", disk)
			b.on(disk.Name)
			before := b.machine.Settings(disk.Name)
			var seen []bool
			b.observe = func(e Event) {
				if e.Kind == PhaseBegan && e.Phase == "r" {
					seen = append(seen, b.machine.DriveCache(disk.Name))
				}
			}
			o, rows := b.run()
			assert.Equal(t, ExitOK, o.ExitCode())
			require.Len(t, rows, 2)
			for i, level := range []string{"off", "on"} {
				assert.Equal(t, []string{level, level, "ok", ""}, []string{rows[i].WriteCache, rows[i].WriteCacheEffective, rows[i].Status, rows[i].Reason})
			}
			assert.Equal(t, []bool{false, true}, seen)
			assert.Equal(t, before, b.machine.Settings(disk.Name))
			assert.Zero(t, b.machine.Saved(disk.Name))
		})
	}
}

// A USB bridge that says nothing keeps its drive from a write_cache axis and from nothing else; without such an axis it is sent no command.
func TestBridgeThatSaysNothing(t *testing.T) {
	disk := systest.Disk{Name: "sda", Transport: "usb", SilentSG: true, WriteCache: true}
	b := newBench(t, "{write_cache: [off]}", disk)
	_, err := b.execute(t.Context())
	require.ErrorContains(t, err, "no ATA status came back")

	b = newBench(t, "{max_sectors_kb: [8, 64]}", disk)
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Len(t, rows, 2)
	assert.Empty(t, b.machine.Commands())
}
