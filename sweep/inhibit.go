package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// inhibitPatience is for logind to answer.
const inhibitPatience = 5 * time.Second

// stayAwake keeps the machine from suspending, by itself or because a lid is shut, as long as the sweep goes on, and says so where it cannot. Where no systemd
// runs nothing suspends a machine behind its user's back. The inhibitor is a process that reads from us: it ends with us, however we end.
func (s *Sweep) stayAwake(ctx context.Context) (release func()) {
	if _, err := os.Stat(filepath.Join(s.host.Root(), "run/systemd/system")); err != nil {
		return func() {}
	}
	release, err := inhibit(ctx, "systemd-inhibit", "the sweep "+s.plan.Profile.Name+" goes on")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return func() {}
	case err != nil:
		s.note("nothing keeps this machine from suspending meanwhile: %v", err)
		return func() {}
	}
	return release
}

func inhibit(ctx context.Context, program, why string) (release func(), err error) {
	cmd := exec.Command(program, "--what=sleep:idle:handle-lid-switch", "--who=qdsweep", "--why="+why, "--mode=block", "sh", "-c", "echo; exec cat >/dev/null")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no Ctrl-C of ours
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	has := make(chan bool, 1) // it is being held
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(out, make([]byte, 1))
		has <- err == nil
		ended <- cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, inhibitPatience)
	defer cancel()
	select {
	case ok := <-has:
		if ok {
			return func() { _ = in.Close() }, nil
		}
	case <-ctx.Done():
		_ = in.Close()
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("%s: no answer: %w", program, context.Cause(ctx))
	}
	_ = in.Close()
	select {
	case err = <-ended:
	case <-ctx.Done(): // it has closed its output, and does not end
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("%s: no answer: %w", program, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%s: %s: %s", program, exitText(err), strings.Join(strings.Fields(said.String()), " "))
}
