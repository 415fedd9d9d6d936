package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// The name of a sweep becomes part of paths in the state folder, where root makes and removes links. What a user wrote in its place into a folder of his
// must not lead out of it: here /bin, a link, would come to point into that folder.
func TestResumeTakesNoPathForTheNameOfASweep(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.interrupted(1)
	elsewhere := filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.Symlink("usr/bin", elsewhere))
	path, err := filepath.Rel(filepath.Join(b.state, "sweeps"), elsewhere)
	require.NoError(t, err)
	var starts []start
	text, err := os.ReadFile(filepath.Join(b.out, "environment.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &starts))
	b.edit("environment.json", starts[0].Sweep, path)
	_, err = b.again(nil)
	to, linkErr := os.Readlink(elsewhere)
	require.NoError(t, linkErr)
	assert.Equal(t, "usr/bin", to)
	require.ErrorContains(t, err, "names no sweep")
	assert.Equal(t, ExitUsage, ExitCode(err))
}

func TestSweepIDs(t *testing.T) {
	for _, scaled := range []bool{false, true} {
		assert.True(t, isSweepID(newSweepID(time.Now(), scaled)))
	}
	for _, text := range []string{"", ".", "..", "../x", "a/b", "a b", "a\x00", "x.csv"} {
		assert.False(t, isSweepID(text), text)
	}
}

// In a user's folder a name of ours may be another name of root's file: what is added to is not given away with it.
func TestResumeGivesNoFileAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file away")
	}
	for _, name := range []string{"log.jsonl", results.FileName, results.FileName + results.TornSuffix} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
			b.interrupted(2)
			file := filepath.Join(b.out, results.FileName)
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.WriteString("1,torn")
			require.NoError(t, err)
			require.NoError(t, f.Close())
			victim := filepath.Join(filepath.Dir(b.out), "shadow")
			require.NoError(t, os.WriteFile(victim, nil, 0o600))
			_ = os.Remove(filepath.Join(b.out, name))
			require.NoError(t, os.Link(victim, filepath.Join(b.out, name)))
			require.NoError(t, os.Chown(b.out, 1000, 1000))
			_, err = b.again(func(o *Options) { o.Allow["volatile-state"] = true })
			require.ErrorContains(t, err, "belongs to user id 0 and has 2 names")
			var st unix.Stat_t
			require.NoError(t, unix.Stat(victim, &st))
			assert.Equal(t, uint32(0), st.Uid)
			assert.Equal(t, uint32(0o600), st.Mode&0o777)
			assert.Zero(t, st.Size, "nor written to")
		})
	}
}

// A backup that was made of links holds nothing up.
func TestResumeOfAFolderWithABackupOfLinks(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.interrupted(2)
	for _, name := range []string{"log.jsonl", results.FileName} {
		require.NoError(t, os.Link(filepath.Join(b.out, name), filepath.Join(t.TempDir(), name)))
	}
	o, _ := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
}

// The consents are those of this sweep: another's would allow its drives.
func TestResumeObeysNoOtherSweepsConsent(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.writing("wwid:naa.one")
	b.interrupted(2)
	b.edit("consent.json", `"sweep": "2`, `"sweep": "1`)
	require.NoError(t, os.Chmod(filepath.Join(b.out, "consent.json"), 0o600))
	_, err := b.again(func(o *Options) { o.Allow["volatile-state"] = true })
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), "add --erase")
}

// A name that was typed to --erase and meant none of the sweep's drives means one of them once names have moved: it was never allowed.
func TestResumeForgetsANameThatMeantNothing(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"}, systest.Disk{Name: "sdb", WWID: "naa.two"})
	b.erase = []string{"sdb"}
	b.interrupted(2)
	s := &Sweep{host: b.host, opt: Options{Out: b.out, StateDir: b.state}}
	var err error
	s.before, err = readBegun(b.out)
	require.NoError(t, err)
	s.consentAgain()
	assert.Empty(t, s.opt.Erase)
}

// A sweep of which every run has rows, and whose settings are not back all the same: that is not "nothing is left to do", 0.
func TestResumeOfAFinishedSweepThatLeftSettings(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.observe = once(working(1), func() { b.machine.Fail("/sys/block/sda/device/queue_depth", unix.EIO) })
	o, _ := b.run()
	require.Equal(t, ExitNotRestored, o.ExitCode())
	require.Zero(t, o.Audit.Remaining)
	b.observe = nil
	_, err := b.again(nil)
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), "sda")
	assert.Contains(t, err.Error(), "qdsweep restore --state-dir")
}

// A number in a status.json is that of whatever process has it now, perhaps: nobody is told to kill that.
func TestResumeNamesNoProcessThatIsAnothers(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.interrupted(2)
	var starts []start
	text, err := os.ReadFile(filepath.Join(b.out, "environment.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &starts))
	text, err = os.ReadFile(filepath.Join(b.out, StatusFile))
	require.NoError(t, err)
	var status Status
	require.NoError(t, json.Unmarshal(text, &status))
	b.edit(StatusFile, `"since": "`+status.Since, `"since": "1`+status.Since)
	busy, err := results.Open(b.out, starts[0].Sweep)
	require.NoError(t, err)
	defer busy.Close()
	_, err = b.again(nil)
	require.ErrorContains(t, err, "another qdsweep is at work")
	assert.NotContains(t, err.Error(), "kill")
}

func TestForeignContents(t *testing.T) {
	ext4, other := sysfs.Contents{Signatures: []string{"ext4"}, IDs: []string{"ext4 1"}}, sysfs.Contents{Signatures: []string{"ext4"}, IDs: []string{"ext4 2"}}
	older := sysfs.Contents{Signatures: []string{"ext4"}}
	for name, c := range map[string]struct {
		was, now sysfs.Contents
		fresh    string
	}{
		"the same":                {ext4, ext4, ""},
		"gone":                    {ext4, sysfs.Contents{FirstNonZero: true}, ""},
		"another of the kind":     {ext4, other, "another ext4 (2)"},
		"of a version without":    {older, other, ""},
		"one where none was":      {sysfs.Contents{}, ext4, "a signature of ext4"},
		"a table":                 {ext4, sysfs.Contents{PartitionTable: "gpt", IDs: []string{"gpt 7"}}, "a partition table (gpt)"},
		"another table":           {sysfs.Contents{PartitionTable: "gpt", IDs: []string{"gpt 6"}}, sysfs.Contents{PartitionTable: "gpt", IDs: []string{"gpt 7"}}, "another gpt (7)"},
		"the kernel's partitions": {ext4, sysfs.Contents{PartitionTable: "unknown kind"}, "a partition table (unknown kind)"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.fresh, strings.Join(freshContents(c.was, c.now), " and "))
		})
	}
}
