package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// job is one command to run in one guest.
type job struct {
	Guest   guest
	Args    []string
	Env     []string // NAME=VALUE, added to the guest's own
	Dir     string
	Shares  []share
	Add     []addedFile
	Tools   []string // further programs of the host
	TTY     bool
	Stdin   io.Reader // nil: none
	Stdout  io.Writer
	Stderr  io.Writer
	Timeout time.Duration // of all: boot and command
	Verbose bool          // the console goes to the log
}

// guestError is a machine that did not come to the command's end.
type guestError struct {
	Reason  string
	Console string // the end of what the kernel printed
}

func (e *guestError) Error() string {
	return fmt.Sprintf("the guest %s; the end of its console:\n%s", e.Reason, e.Console)
}

var (
	errDeadline = errors.New("deadline")
	errPowerCut = errors.New("power cut") // the guest has asked for it, and has got it
)

// run boots the guest, runs the command in it and returns its exit status. An error means that the
// command did not come to an end (*guestError) or was never reached. After a power cut the same disks are
// booted again and the same command is run.
func (l *lab) run(ctx context.Context, j job) (exit int, err error) {
	if runtime.GOARCH != "amd64" {
		return 0, fmt.Errorf("the lab emulates x86-64 PCs with this machine's programs: it needs linux/amd64, this is %s", runtime.GOARCH)
	}
	if missing := missingTools(); len(missing) > 0 {
		return 0, fmt.Errorf("the lab needs packages that are not installed: apt-get install --no-install-recommends %s", joined(missing))
	}
	release, err := l.lock()
	if err != nil {
		return 0, err
	}
	defer release()
	k, err := findKernel(ctx, l.cache, l.log)
	if err != nil {
		return 0, err
	}
	dir, remove, err := l.runFolder()
	if err != nil {
		return 0, err
	}
	defer remove()
	accelerator := l.accelerator(ctx, k, dir)
	m, err := l.machine(dir, k, j)
	if err != nil {
		return 0, err
	}
	m.Accelerator = accelerator
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, errDeadline)
	defer cancel()
	p := progress{Boot: 1}
	for {
		m.Progress = p
		exit, err := l.boot(ctx, m, j, &p)
		if errors.Is(err, errPowerCut) {
			if err := p.cut(); err != nil {
				return 0, err
			}
			_, _ = fmt.Fprintf(j.Stdout, "=== power cut, boot %d\n", p.Boot)
			continue
		}
		if err == nil && exit == 0 && p.Failed {
			exit = exitTests
		}
		return exit, err
	}
}

// machine writes the initramfs and the disks into dir.
func (l *lab) machine(dir string, k kernel, j job) (machine, error) {
	load, err := modulesToLoad(k, j.Guest)
	if err != nil {
		return machine{}, err
	}
	config := bootConfig{
		Guest: j.Guest.Name, Modules: load, Drives: j.Guest.drives(), Scratch: scratchSerial, Root: j.Guest.RootDisk, Shares: j.Shares,
		Cuts: j.Guest.Cuts, Modelled: j.Guest.Modelled, Args: j.Args, Env: append(guestEnvironment(j.Guest), j.Env...), Dir: j.Dir, TTY: j.TTY, Stdin: j.Stdin != nil,
	}
	if j.TTY {
		config.Rows, config.Columns = terminalSize(os.Stdin)
	}
	m := machine{
		Guest: j.Guest, Kernel: k.Image, Initramfs: filepath.Join(dir, "initramfs"), Images: map[string]string{},
		Shares: j.Shares, Socket: filepath.Join(dir, "port"),
	}
	if err := writeInitramfsFile(m.Initramfs, k, config, j.Tools, j.Add); err != nil {
		return machine{}, err
	}
	for _, d := range append([]disk{{Serial: scratchSerial, MiB: scratchMiB}}, j.Guest.Disks...) {
		image := filepath.Join(dir, d.Serial)
		if err := makeImage(image, d.MiB); err != nil {
			return machine{}, err
		}
		if d.Faults != nil {
			if err := writeRules(image, d.Faults); err != nil {
				return machine{}, err
			}
		}
		m.Images[d.Serial] = image
	}
	mkfs, err := findProgram("mkfs.ext4")
	if err != nil {
		return machine{}, err
	}
	if out, err := exec.Command(mkfs, "-q", "-F", "-L", "scratch", m.Images[scratchSerial]).CombinedOutput(); err != nil {
		return machine{}, fmt.Errorf("mkfs.ext4 of the scratch disk: %w\n%s", err, out)
	}
	return m, nil
}

func writeInitramfsFile(name string, k kernel, config bootConfig, tools []string, add []addedFile) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := writeInitramfs(file, k, config, tools, add); err != nil {
		return err
	}
	return file.Close()
}

// makeImage makes a sparse file: it takes room only where the guest writes.
func makeImage(name string, mib int64) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("make a disk of %d MiB: %w", mib, err)
	}
	defer func() { _ = file.Close() }()
	if err := file.Truncate(mib << 20); err != nil {
		return fmt.Errorf("make a disk of %d MiB: %w", mib, err)
	}
	return file.Close()
}

// guestEnvironment is what every command in the guest finds. Temporary files go to ext4, as they do on
// most machines: qdsweep refuses its state in memory.
func guestEnvironment(g guest) []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "TERM=linux", "LANG=C.UTF-8", "TZ=UTC",
		"DM_DISABLE_UDEV=1", // lvm, dmsetup and cryptsetup make their nodes themselves instead of waiting for it
		"TMPDIR=" + scratchFolder + "/tmp", "QDLAB_GUEST=" + g.Name,
	}
}

// boot starts QEMU and serves the port until the guest's report, a power cut (errPowerCut), QEMU's end, or
// ctx's. It keeps p up to date. When it returns, QEMU is gone and all that the guest had written is written.
func (l *lab) boot(ctx context.Context, m machine, j job, p *progress) (exit int, err error) {
	listener, err := net.Listen("unix", m.Socket)
	if err != nil {
		return 0, fmt.Errorf("listen for the guest: %w", err)
	}
	defer func() { _ = listener.Close() }()
	console := newTail(64 << 10)
	qemu := newQEMU(m, console)
	if j.Verbose {
		qemu.Stdout = io.MultiWriter(console, l.log)
	}
	ended, err := startBound(qemu)
	if err != nil {
		return 0, fmt.Errorf("start qemu: %w", err)
	}
	reports, quit, received := make(chan guestReport), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(received)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if j.Stdin != nil {
			go sendStdin(&frameWriter{w: conn}, j.Stdin)
		}
		receive(newFrameReader(conn), j, func(r guestReport) {
			select {
			case reports <- r:
			case <-quit:
			}
		})
	}()
	stop := func() {
		_ = qemu.Process.Kill()
		<-ended
		close(quit)
		_ = listener.Close()
		<-received
	}
	defer stop()
	for {
		select {
		case r := <-reports:
			if r.Ready && j.Verbose {
				l.say("guest %s is up after %.1f s (%s)", m.Guest.Name, r.Boot, m.Accelerator)
			}
			if r.Test != nil {
				p.began(r.Test.Test)
				p.Failed = p.Failed || r.Test.Failed
			}
			if r.Cut {
				return 0, errPowerCut
			}
			if r.Done {
				if r.Error != "" {
					l.say("in the guest: %s", r.Error)
				}
				return r.Exit, nil
			}
		case <-ended:
			return 0, &guestError{"went down before the command ended", console.String()}
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errDeadline) {
				return 0, &guestError{fmt.Sprintf("was not done after %v", j.Timeout), console.String()}
			}
			return 0, context.Cause(ctx)
		}
	}
}

func newQEMU(m machine, console io.Writer) *exec.Cmd {
	qemu := exec.Command("qemu-system-x86_64", m.arguments()...)
	qemu.Stdout, qemu.Stderr = console, console
	// Its own group: Ctrl-C goes to us, and we end it. Pdeathsig: however we end, so does it.
	qemu.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return qemu
}

// startBound starts cmd from a thread that lives as long as cmd: Pdeathsig is sent when the *thread* that
// forked ends, and Go ends idle threads.
func startBound(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	started, over := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // why it ended is on its console
			close(over)
		}
	}()
	return over, <-started
}

// receive hands out the guest's frames until the guest is gone.
func receive(frames *frameReader, j job, tell func(guestReport)) {
	for {
		s, payload, err := frames.Next()
		if err != nil {
			return
		}
		switch s {
		case streamStdout:
			_, _ = j.Stdout.Write(payload)
		case streamStderr:
			_, _ = j.Stderr.Write(payload)
		case streamControl:
			var r guestReport
			if json.Unmarshal(payload, &r) == nil {
				tell(r)
			}
		}
	}
}

func sendStdin(frames *frameWriter, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && frames.Send(streamStdin, buffer[:n]) != nil {
			return
		}
		if err != nil {
			_ = frames.Send(streamStdin, nil)
			return
		}
	}
}
