package md

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunProgram(t *testing.T) {
	ctx := context.Background()
	t.Setenv("MKE2FS_CONFIG", "/somewhere")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	s, err := runProgram(ctx, "sh", "-c", `read line; echo "$LC_ALL,$MKE2FS_CONFIG,$line"; echo a >&2; echo b >&2; exit 3`)
	require.NoError(t, err)
	assert.Equal(t, said{out: "C,,\n", err: "a\nb\n", code: 3}, s)

	_, err = runProgram(ctx, "no-such-program-anywhere")
	assert.ErrorContains(t, err, "not installed")

	m := machine{run: runProgram}
	_, err = m.try(ctx, time.Minute, "sh", "-c", `printf 'one\n\n  two\r\nUsage: x\n' >&2; exit 3`)
	assert.EqualError(t, err, "sh -c printf 'one\\n\\n  two\\r\\nUsage: x\\n' >&2; exit 3: exit 3: one; two")
	out, err := m.try(ctx, time.Minute, "sh", "-c", "echo x")
	assert.NoError(t, err)
	assert.Equal(t, "x\n", out)

	began := time.Now()
	_, err = m.try(ctx, 50*time.Millisecond, "sleep", "60")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 30*time.Second)

	_, err = m.try(ctx, time.Minute, "sh", "-c", "kill -9 $$")
	assert.ErrorContains(t, err, "killed")
}

// What this process runs dies with it: whoever cleans up after it must not race with an mdadm that goes on.
func TestProgramsDieWithUs(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "it runs")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		require.True(t, time.Now().Before(end), "%s", stat)
	}
}

const childEnv = "QDSWEEP_MD_TEST_CHILD"

// child is the process that runs a program for as long as it lives; the program says its pid on its behalf.
func child() {
	_, err := runProgram(context.Background(), "sh", "-c", fmt.Sprintf("echo $$ >/proc/%d/fd/1; exec sleep 600", os.Getpid()))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
