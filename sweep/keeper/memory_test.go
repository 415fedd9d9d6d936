//go:build !race

package keeper

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// peakMiB is the most memory that a process ever had resident.
func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib >> 10
}

// A keeper stays under 30 MiB through a night (design section 13): what it does for one run it holds no longer than that run. The peak is
// looked at and not an average, and this program, with the tests in it, is larger than the keeper that users have. (The race
// detector has memory of its own, so this file is left out with it.)
func TestTheKeeperStaysSmall(t *testing.T) {
	root, ctx := plain(t, "sda", "sdb"), context.Background()
	k, err := Start(ctx, optionsOf(root, stateDir(t)))
	require.NoError(t, err)
	require.NoError(t, k.Claim(ctx, []Member{sda, sdb}, 0))
	for i := range 100 {
		_, err := k.Apply(ctx, orders([]Member{sda, sdb}, depth(strconv.Itoa(1+i%30))))
		require.NoError(t, err)
		_, err = k.Check(ctx)
		require.NoError(t, err)
		_, err = k.Restore(ctx)
		require.NoError(t, err)
	}
	peak := peakMiB(t, k.PID())
	t.Logf("%d MiB", peak)
	require.Less(t, peak, 30)
	require.NoError(t, k.Close())
}
