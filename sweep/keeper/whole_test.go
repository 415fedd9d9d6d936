package keeper

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// Field case 10: a RAID adapter that refuses MODE SELECT. It is known before any other knob is touched, on any member.
func TestCase10NothingElseIsTouched(t *testing.T) {
	m, k, _ := machine(t, Options{}, disk("sda"), systest.Disk{Name: "sdb", Transport: "sas", WriteCache: true, RefuseModeSelect: true}, disk("sdc"))
	rows, err := k.ApplyWhole(context.Background(), k.orders(everything))
	require.NoError(t, err)
	require.Len(t, rows, 3*len(everything))
	for _, r := range rows {
		if r.Knob == "write_cache" {
			assert.Equal(t, r.Name == "sdb", r.Unsupported, "%+v", r)
			assert.False(t, r.NotTried)
			continue
		}
		assert.True(t, r.NotTried, "%+v", r)
		assert.Contains(t, r.Err, "write_cache of sdb")
	}
	assert.Empty(t, m.WritesTo("queue/max_sectors_kb"))
	assert.Empty(t, m.WritesTo("device/queue_depth"))
	_, err = k.Restore(context.Background())
	require.NoError(t, err)
	assert.True(t, m.DriveCache("sda"))
}

// The same for a write that fails: the run is lost, so nothing more is changed for it.
func TestWholeStopsAtAFailure(t *testing.T) {
	m, k, _ := machine(t, Options{}, disk("sda"), disk("sdb"))
	m.Fail("/sys/block/sdb/queue/nr_requests", unix.EIO)
	_, err := k.ApplyWhole(context.Background(), k.orders([]sysfs.Setting{{Knob: "nr_requests", Level: "16"}, {Knob: "max_sectors_kb", Level: "8"}}))
	require.NoError(t, err)
	assert.Empty(t, m.WritesTo("queue/max_sectors_kb"))
	m.Fail("/sys/block/sdb/queue/nr_requests", 0)
	rows, err := k.ApplyWhole(context.Background(), k.orders(everything))
	require.NoError(t, err)
	for _, r := range rows {
		assert.Equal(t, r.Level, r.Effective, "%+v", r)
		assert.Empty(t, r.Err)
	}
}

// A drive that did not answer within all of its time does not get as much again from Close: nobody is there to wait for it.
func TestCloseDoesNotWaitAgain(t *testing.T) {
	m, k, state := machine(t, Options{WriteTimeout: time.Second, RestoreTimeout: 8 * time.Second}, disk("sda"))
	k.apply(t, []sysfs.Setting{{Knob: "max_sectors_kb", Level: "8"}})
	m.Hang("/sys/block/sda/queue/max_sectors_kb")
	var not *NotRestoredError
	_, err := k.Restore(context.Background())
	require.ErrorAs(t, err, &not)
	require.True(t, not.Members[0].Stuck)
	began := time.Now()
	require.ErrorAs(t, k.Close(), &not)
	assert.Less(t, time.Since(began), 4*time.Second)
	assert.Len(t, entries(t, state), 1)
	m.Release("/sys/block/sda/queue/max_sectors_kb")
}

// A state folder that takes no entry refuses the claim.
func TestClaimTriesTheJournal(t *testing.T) {
	m, j := systest.New(t, disk("sda")), openJournal(t, stateDir(t))
	var full atomic.Bool
	full.Store(true)
	j.Hook = func(op string) error {
		if op == "try" && full.Load() {
			return unix.ENOSPC
		}
		return nil
	}
	k := serve(t, m.Host(), j, Options{})
	var state *StateError
	err := k.Claim(context.Background(), members(t, m), 0)
	require.ErrorAs(t, err, &state)
	assert.ErrorContains(t, err, "no space left")
	full.Store(false)
	require.NoError(t, k.Claim(context.Background(), members(t, m), 0), "and lets the locks go")
}
