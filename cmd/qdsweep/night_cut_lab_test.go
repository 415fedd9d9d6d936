//go:build lab

package main

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cutNight is what the boots of TestLabCutAndResumed tell each other.
type cutNight struct {
	nightMemory
	Seed uint64
}

// TestLabCutAndResumed cuts the power in the middle of a sweep, again and again, with state and results on ext4. After each boot `restore` puts the drive's write
// cache back, nothing that was on disk is lost, and the last `resume` completes the sweep.
func TestLabCutAndResumed(t *testing.T) {
	l := &lab{t, os.Getenv("QDLAB_KEPT")}
	boot, cuts := atoi(t, os.Getenv("QDLAB_BOOT")), rounds(3, 20)
	disk, witness := l.sata(1), "/dev/"+l.sata(4)
	t.Cleanup(func() { l.shell("dd if=/dev/zero of=%s bs=512 count=1 2>/dev/null", witness) })
	var n *night
	var memory cutNight
	if boot == 1 {
		n = l.newNight("night", shortRuns("{queue_depth: [1, 4], write_cache: [off]}", 5*cuts), []string{disk}, "--device", "/dev/"+disk)
		memory = cutNight{n.nightMemory, chaosSeed(t)}
		text, err := json.Marshal(memory)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(l.path("memory.json"), text, 0o644))
		l.shell("sync")
	} else {
		text, err := os.ReadFile(l.path("memory.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &memory))
		n = &night{lab: l, out: l.path("night"), nightMemory: memory.nightMemory}
		n.Starts = boot - 1
		entries, _ := filepath.Glob(l.state() + "/journal/*.json")
		if len(entries) > 0 {
			l.shell("hdparm -W0 /dev/%s", disk) // as a drive that remembers it is after a power loss; QEMU's forget
		}
		promised := readWitness(t, witness)
		t.Logf("boot %d, seed %d: the journal has %d entries; %d runs were on disk, and %d are", boot, memory.Seed, len(entries), promised, n.done())
		require.GreaterOrEqual(t, n.done(), promised, "a run whose rows were synced is lost")
		n.putBack()
	}
	u := n.goOn()
	if boot > cuts {
		n.ends(u, map[string]string{"": "QDLAB-SATA-1"})
		return
	}
	rnd := rand.New(rand.NewPCG(memory.Seed, uint64(boot)))
	u.further(n, 2)
	time.Sleep(time.Duration(rnd.Int64N(int64(1500 * time.Millisecond))))
	require.True(t, u.running(), "the sweep ended before the cut: %s", u.text())
	writeWitness(t, witness, n.done()-1)                       // the last one may be written, and not synced yet
	text, err := exec.Command("qdlab", "cut").CombinedOutput() // does not return
	t.Fatalf("the power is still there: %v: %s", err, text)
}

// writeWitness writes a number to a drive without a file system: a sync of the one with the results would sync those, too.
func writeWitness(t *testing.T, device string, n int) {
	f, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	require.NoError(t, err)
}

func readWitness(t *testing.T, device string) int {
	f, err := os.Open(device)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 8)
	_, err = f.Read(b)
	require.NoError(t, err)
	return int(binary.LittleEndian.Uint64(b))
}
