package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"qdsweep/cmd/qdlab/drive"
	"qdsweep/cmd/qdlab/drive/scsi"
	"qdsweep/cmd/qdlab/drive/tcmu"
)

const driveSockets = "/run/qdlab-drives" // of each drive that is served a socket, and a log

// driveOrders are what a drive can be told while it is served.
func driveOrders() []string { return []string{"power-cycle", "leave", "return", "release", "end"} }

// startDrive serves a drive in a process of its own, and gives its name when the kernel has it.
func startDrive(o driveOptions) (name string, err error) {
	if err := os.MkdirAll(driveSockets, 0o755); err != nil {
		return "", err
	}
	// What it says goes to a file: who started it may wait for the end of its own streams.
	log, err := os.Create(filepath.Join(driveSockets, o.Serial+".log"))
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("/proc/self/exe", append([]string{"drive", "serve"}, o.arguments()...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("serve drive %s: %w", o.Serial, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		err = errors.Join(err, cmd.Wait())
		said, _ := os.ReadFile(log.Name())
		return "", fmt.Errorf("drive %s (%s) did not come up: %w\n%s", o.Serial, o.Model, err, said)
	}
	return strings.TrimSpace(line), cmd.Process.Release()
}

// servedDrive is a drive in the process that serves it.
type servedDrive struct {
	disk   tcmu.Disk
	server *tcmu.Server
	tags   int
}

// serveDrive serves a drive until it is told to end.
func serveDrive(o driveOptions, out io.Writer) error {
	m, media, identity, err := o.prepare()
	if err != nil {
		return err
	}
	if err := mountOn("configfs", "configfs", "/sys/kernel/config", 0, ""); err != nil {
		return err
	}
	d := servedDrive{disk: tcmu.NewDisk("/", o.Serial, m.SizeMB<<20), tags: m.Queue.Tags}
	device, memory, err := d.disk.Create()
	if err != nil {
		return err
	}
	d.server, err = tcmu.NewServer(device, memory, scsi.New(m, media, identity, o.Seed), m.Speed)
	if err != nil {
		return err
	}
	ended := make(chan error, 3)
	go func() { ended <- d.server.Serve() }()
	// Without a server the kernel would wait for its first INQUIRY for minutes.
	var name string
	up := make(chan struct{})
	go func() {
		if name, err = d.appear(); err != nil {
			ended <- err
			return
		}
		close(up)
	}()
	select {
	case err := <-ended:
		return errors.Join(err, d.remove())
	case <-up:
	}
	listener, err := net.Listen("unix", filepath.Join(driveSockets, o.Serial))
	if err != nil {
		return fmt.Errorf("listen for drive %s: %w", o.Serial, err)
	}
	defer func() { _ = listener.Close() }()
	go func() { ended <- d.listen(listener) }()
	fmt.Fprintln(out, name)
	return <-ended
}

var serialForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,20}$`)

// check gives the model with all options.
func (o driveOptions) check() (drive.Model, error) {
	m, err := drive.FindModel(o.Model)
	if err == nil {
		m, err = m.With("--with", o.With)
	}
	if err != nil {
		return m, err
	}
	if o.Speed != 0 {
		m.Speed = o.Speed
	}
	if m.Speed <= 0 || !serialForm.MatchString(o.Serial) {
		return m, fmt.Errorf("--serial %q must be 1 to 20 of A-Z a-z 0-9 _ -, and --speed %g above 0", o.Serial, m.Speed)
	}
	return m, nil
}

// prepare is the model, and what it keeps of an earlier life.
func (o driveOptions) prepare() (drive.Model, drive.Media, scsi.Identity, error) {
	identity := scsi.Identity{Serial: o.Serial}
	m, err := o.check()
	if err != nil {
		return m, nil, identity, err
	}
	if o.Folder == "" {
		return m, drive.NewPlatters(), identity, nil
	}
	// What the drive calls written must survive a cut of the guest's power, so the file is written through.
	media, err := os.OpenFile(filepath.Join(o.Folder, "media"), os.O_RDWR|os.O_CREATE|unix.O_DSYNC, 0o600)
	if err == nil {
		err = media.Truncate(m.SizeMB << 20)
	}
	if err != nil {
		return m, nil, identity, fmt.Errorf("drive %s: %w", o.Serial, err)
	}
	saved := filepath.Join(o.Folder, "saved")
	identity.Save = func(on bool) error { return writeThrough(saved, fmt.Sprintf("%t\n", on)) }
	text, err := os.ReadFile(saved)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, nil, identity, err
	}
	if err == nil {
		on := strings.TrimSpace(string(text)) == "true"
		identity.Saved = &on
	}
	return m, media, identity, nil
}

// writeThrough replaces a small file, so that a power cut leaves the old or the new one.
func writeThrough(name, text string) error {
	file, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_SYNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// appear plugs it in. The loop takes 1024 commands; the depth that a drive has is its driver's to set, and here that
// is us.
func (d servedDrive) appear() (name string, err error) {
	if name, err = d.disk.Appear(); err != nil {
		return "", err
	}
	depth := fmt.Sprintf("/sys/block/%s/device/queue_depth", name)
	if err := os.WriteFile(depth, fmt.Append(nil, d.tags), 0o644); err != nil {
		return "", fmt.Errorf("set the first queue_depth of %s to %d: %w", name, d.tags, err)
	}
	return name, nil
}

// listen does what it is told, a connection each, until one says end.
func (d servedDrive) listen(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		order, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			_ = conn.Close()
			continue
		}
		order = strings.TrimSpace(order)
		answer, err := d.obey(order)
		if err != nil {
			answer = "failed: " + err.Error()
		}
		_, _ = fmt.Fprintln(conn, answer)
		_ = conn.Close()
		if order == "end" {
			return err
		}
	}
}

func (d servedDrive) obey(order string) (answer string, err error) {
	switch order {
	case "power-cycle":
		return "", d.server.PowerCycle()
	case "release":
		return "", d.server.Release()
	case "leave":
		return "", d.disk.Disappear()
	case "return":
		return d.appear()
	case "end":
		return "", d.remove()
	}
	return "", fmt.Errorf("a drive is told one of %s, not %q", strings.Join(driveOrders(), ", "), order)
}

// remove takes it away, as long as it is still served: a disk that nobody serves makes the kernel wait for minutes.
func (d servedDrive) remove() error {
	if err := d.disk.Disappear(); err != nil {
		return err
	}
	return d.disk.Remove()
}

// tellDrive tells a served drive something, and gives what it answers: the new name where it returns.
func tellDrive(serial, order string) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(driveSockets, serial))
	if err != nil {
		return "", fmt.Errorf("drive %s is not served here: %w", serial, err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintln(conn, order); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	answer := strings.TrimLeft(string(text), "\n")
	if wrong, is := strings.CutPrefix(answer, "failed: "); is {
		return "", fmt.Errorf("drive %s: %s", serial, strings.TrimSpace(wrong))
	}
	return answer, nil
}
