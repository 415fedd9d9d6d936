package keeper

import (
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Whoever of two comes back from killWorker, the worker has been killed: the one that restores and ends the process must not be ahead of the kill.
func TestKillWorkerIsDoneWhenItReturns(t *testing.T) {
	for range 50 {
		c := exec.Command("sleep", "600")
		c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		require.NoError(t, c.Start())
		p, err := identify(c.Process.Pid)
		require.NoError(t, err)
		s := &server{worker: p}
		alive := make(chan bool, 2)
		var start, done sync.WaitGroup
		start.Add(1)
		for range 2 {
			done.Go(func() {
				start.Wait()
				s.killWorker()
				alive <- !dying(p)
			})
		}
		start.Done()
		done.Wait()
		close(alive)
		for left := range alive {
			require.False(t, left, "it came back before the kill")
		}
		require.Error(t, c.Wait())
	}
}
