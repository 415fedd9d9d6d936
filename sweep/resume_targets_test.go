package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// writing makes the bench's workload one that overwrites the device, with the consent for it.
func (b *bench) writing(erase ...string) {
	b.profile = strings.Replace(b.profile, "mode: randread", "mode: randwrite", 1)
	b.erase = erase
}

// The consent that was given when the sweep began holds on the same drive, and on no other one: it was typed as a name, which is another drive's now.
func TestResumeKeepsTheConsentOnTheDrive(t *testing.T) {
	ours := systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.ours"}
	b := newBench(t, "{queue_depth: [1, 2]}", ours)
	b.writing("sda")
	b.interrupted(2)
	ours.Name = "sdb"
	b.machine = systest.New(t, systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.other"}, ours)
	b.host = b.machine.Host()
	untouched, err := os.ReadFile(b.machine.Root() + "/dev/sda")
	require.NoError(t, err)
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 2)
	after, err := os.ReadFile(b.machine.Root() + "/dev/sda")
	require.NoError(t, err)
	assert.Equal(t, untouched, after, "the one that has the name now")
}

// A consent.json of somebody who is neither root nor the one behind sudo allows nothing: root would overwrite what that user names.
func TestResumeObeysNoStrangersConsent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file away")
	}
	for name, c := range map[string]struct {
		uid  int
		mode os.FileMode
		sudo string
		good bool
	}{
		"root's":                          {0, 0o600, "", true},
		"of the user behind sudo":         {1000, 0o600, "1000", true},
		"a user's, and root typed it":     {1000, 0o600, "", false},
		"a user's, and another is behind": {1000, 0o600, "1001", false},
		"root's, and others may write":    {0, 0o622, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
			b.writing("wwid:naa.one")
			b.interrupted(2)
			t.Setenv("SUDO_UID", c.sudo)
			file := filepath.Join(b.out, "consent.json")
			require.NoError(t, os.Chown(file, c.uid, c.uid))
			require.NoError(t, os.Chmod(file, c.mode))
			volatile := func(o *Options) { o.Allow["volatile-state"] = true }
			o, err := b.again(volatile)
			if c.good {
				require.NoError(t, err)
				assert.Equal(t, ExitOK, o.ExitCode())
				return
			}
			require.Error(t, err)
			assert.Equal(t, ExitNotHere, ExitCode(err))
			assert.Contains(t, err.Error(), "add --erase")
			o, err = b.again(func(o *Options) { volatile(o); o.Erase = []string{"wwid:naa.one"} })
			require.NoError(t, err)
			assert.Equal(t, ExitOK, o.ExitCode())
		})
	}
}

// Since the sweep stopped somebody has made something on the drive that it overwrites.
func TestResumeRefusesWhatItCannotHaveLeft(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.writing("sda")
	b.interrupted(2)
	b.machine.Partition("sda", 1, 1<<20, 1<<20)
	_, err := b.again(nil)
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), "which it cannot have left")
	assert.Contains(t, err.Error(), "--erase /dev/disk/by-id/")
	o, rows := b.resumed(func(o *Options) { o.Erase = []string{"wwid:naa.one"} })
	assert.Equal(t, ExitOK, o.ExitCode())
	b.exactlyOnce(rows, 3)
	text, err := os.ReadFile(filepath.Join(b.out, "consent.json"))
	require.NoError(t, err)
	var c consent
	require.NoError(t, json.Unmarshal(text, &c))
	assert.NotEmpty(t, c.Contents["wwid:naa.one"].PartitionTable, "what is allowed once is not asked again")
}

// What our own workload leaves on the drive is no reason.
func TestResumeAfterItsOwnWrites(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.writing("sda")
	b.interrupted(3)
	found, err := b.host.Contents(t.Context(), b.machine.Device("sda"))
	require.NoError(t, err)
	require.False(t, found.Blank(), "the workload wrote")
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
	b.exactlyOnce(rows, 3)
}

// Each start is an entry of environment.json, with the kernel and the names it had.
func TestResumeIsRecorded(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.interrupted(2)
	b.edit("environment.json", `"kernel": "`, `"kernel": "5.`)
	_, err := b.again(nil)
	require.ErrorContains(t, err, "--allow changed-kernel")
	_, err = b.again(func(o *Options) { o.Allow[ChangedKernel] = true })
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(b.out, "environment.json"))
	require.NoError(t, err)
	var starts []start
	require.NoError(t, json.Unmarshal(text, &starts))
	require.Len(t, starts, 2)
	assert.Equal(t, []bool{false, true}, []bool{starts[0].Resumed, starts[1].Resumed})
	assert.Equal(t, "5."+b.host.KernelRelease(), starts[0].kernel())
	assert.Equal(t, b.host.KernelRelease(), starts[1].kernel())
	assert.Equal(t, starts[0].Profile, starts[1].Profile)
	assert.Equal(t, sysfs.Identity("wwid:naa.one"), starts[1].Targets[0].Members[0].Identity)
	consent, err := os.ReadFile(filepath.Join(b.out, "consent.json"))
	require.NoError(t, err)
	assert.NotContains(t, string(consent), ChangedKernel, "it holds for the kernel it was given for")
	again, err := b.again(nil) // which is one of those that the rows are of
	require.NoError(t, err)
	assert.Equal(t, ExitOK, again.ExitCode())
}

// A device without an identity is known by its name in the same boot, and by nothing in another one.
func TestResumeOfADriveWithoutAnIdentity(t *testing.T) {
	for _, c := range []struct{ name, from, to, saying string }{
		{"the same boot", "{", "{", ""},
		{"another boot", `"boot_id": "`, `"boot_id": "1`, "cannot be told whether it is the one"},
		{"another size", `"bytes": `, `"bytes": 9`, "bytes now, and had"},
		{"another medium", `"diskseq": "7"`, `"diskseq": "6"`, "was taken away and put back since"},
		{"an older kernel", `"diskseq": "7"`, `"diskseq": ""`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "none", Serial: "0"})
			require.Empty(t, b.machine.Device("sda").Identity)
			b.machine.Set("/sys/block/sda/diskseq", "7\n")
			b.interrupted(2)
			for range 2 { // as a device, and as a member
				b.edit("environment.json", c.from, c.to)
			}
			o, err := b.again(nil)
			if c.saying == "" {
				require.NoError(t, err)
				assert.Equal(t, ExitOK, o.ExitCode())
				return
			}
			require.ErrorContains(t, err, c.saying)
			assert.Equal(t, ExitNotHere, ExitCode(err))
		})
	}
}

// A folder of a version that kept neither checksum nor identities: what is not known is said, and the members are compared.
func TestResumeOfAnOlderFolder(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.writing("wwid:naa.one")
	b.interrupted(2)
	b.older()
	var said []string
	b.observe = func(e Event) { said = append(said, e.Text) }
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
	b.exactlyOnce(rows, 2)
	assert.Contains(t, strings.Join(said, "\n"), "whether it was edited since is not known")

	b = newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.interrupted(2)
	b.older()
	b.machine = systest.New(t, systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.other"})
	b.host = b.machine.Host()
	_, err := b.again(nil)
	require.ErrorContains(t, err, "lies on wwid:naa.other now, and lay on wwid:naa.one")
}

// older takes out of a folder what it did not have once.
func (b *bench) older() {
	b.Helper()
	strip := func(name string, keys ...string) {
		path := filepath.Join(b.out, name)
		text, err := os.ReadFile(path)
		require.NoError(b, err)
		one := !strings.HasPrefix(string(text), "[")
		if one {
			text = []byte("[" + string(text) + "]")
		}
		var all []map[string]any
		require.NoError(b, json.Unmarshal(text, &all))
		for _, k := range keys {
			delete(all[0], k)
		}
		var v any = all
		if one {
			v = all[0]
		}
		text, err = json.Marshal(v)
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(path, text, 0o600))
	}
	strip("environment.json", "profile_sha256", "targets", "planned", "state_dir", "boot_id")
	strip("consent.json", "named")
}

// Several targets: the level that is a drive's identity finds it under its new name.
func TestResumeOfSeveralDrives(t *testing.T) {
	one, two := systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"}, systest.Disk{Name: "sdb", QueueDepth: 32, WWID: "naa.two"}
	b := newBench(t, "{queue_depth: [1, 2]}", one, two)
	b.profile = strings.Replace(b.profile, "target: {device: sda}", "target: {devices: [sda, sdb]}", 1)
	b.interrupted(2)
	one.Name, two.Name = "sdb", "sdc"
	b.moved(one, two)
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 4)
	for _, r := range rows[1:] {
		name := "sdb:"
		if strings.Contains(r.Cell, "naa.two") {
			name = "sdc:"
		}
		assert.Contains(t, r.Members, name, r.Run)
	}
}

// An array by its members, a directory by what it lies on.
func TestResumeOfADirectory(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"}, systest.Disk{Name: "sdb", QueueDepth: 32, WWID: "naa.two"})
	dir := t.TempDir()
	b.machine.Mount("sda", dir, "ext4")
	b.profile = strings.Replace(b.profile, "target: {device: sda}", "target: {directory: "+dir+"}", 1)
	b.interrupted(2)
	found, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	assert.Empty(t, found)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "qdsweep-"+b.rows()[0].Sweep), 0o700))
	_, err = b.again(nil)
	require.ErrorContains(t, err, "qdsweep restore", "our folder is still there: restore comes first")
	assert.Equal(t, ExitNotHere, ExitCode(err))
	require.NoError(t, os.Remove(filepath.Join(dir, "qdsweep-"+b.rows()[0].Sweep)))
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 2)
}

// What stood when the sweep stopped has been taken down; the parts are found by what they are, in their order, and built again under their new names.
func TestResumeBuildsAgain(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [0, 5], queue_depth: [1, 4]}")
	b.interrupted(3)
	before := len(p.did)
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 4)
	assert.Greater(t, len(p.did), before)
}
