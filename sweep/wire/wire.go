// Package wire is the line between qdsweep's processes: a SOCK_SEQPACKET socket pair that carries JSON messages and
// open descriptors, and the starting of a helper process at its other end.
//
// It knows nothing of what is said over it: keeper and workload each define their own messages.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// packet is the most that goes into one packet. A unix socket takes a packet whole or not at all (EMSGSIZE above
	// SO_SNDBUF, 208 KiB by default, less where an administrator lowered it), so a longer message goes in parts.
	packet = 32 << 10
	// maxFiles is below the kernel's SCM_MAX_FD (253).
	maxFiles = 64
	// maxMessage bounds what a confused peer can make the other end collect: 256 MiB.
	maxMessage = 256 << 20

	// A packet that begins with one of these two is part of a long message; JSON never begins so.
	partMore = 0x01
	partLast = 0x02
)

// Conn is one end of the line. One goroutine may send while another receives.
type Conn struct {
	file *os.File // non-blocking, so that the runtime's poller waits and deadlines and Close wake it

	sending sync.Mutex

	receiving sync.Mutex
	buf       []byte
	oob       []byte
	part      []byte     // of a long message whose Receive was cancelled half way
	files     []*os.File // that came with it
}

// Pair makes both ends in this process, for tests and for Spawn.
func Pair() (ours, theirs *Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return newConn(fds[0]), newConn(fds[1]), nil
}

// Inherited is the helper's end of the line that Spawn made: descriptor 3. It is an error where descriptor 3 is
// something else: somebody typed the hidden subcommand by hand.
func Inherited() (*Conn, error) {
	kind, err := unix.GetsockoptInt(3, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, errors.New("descriptor 3 is not a line to qdsweep: this command is started by qdsweep itself, not by hand")
	}
	unix.CloseOnExec(3)
	if err := unix.SetNonblock(3, true); err != nil {
		return nil, fmt.Errorf("set up descriptor 3: %w", err)
	}
	return newConn(3), nil
}

func newConn(fd int) *Conn {
	return &Conn{
		file: os.NewFile(uintptr(fd), "wire"),
		buf:  make([]byte, packet+1),
		oob:  make([]byte, unix.CmsgSpace(maxFiles*4)),
	}
}

// Close ends the line; a Receive that waits in another goroutine returns os.ErrClosed.
func (c *Conn) Close() error { return c.file.Close() }

// Send is SendContext without an end.
func (c *Conn) Send(v any, files ...*os.File) error {
	return c.SendContext(context.Background(), v, files...)
}

// SendContext sends one message, and descriptors with it (the sender keeps its own). The error is io.EOF, wrapped,
// when the other end is gone. Cancelled in the middle of a long message it closes the line, for the rest would be
// misread.
func (c *Conn) SendContext(ctx context.Context, v any, files ...*os.File) error {
	message, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if len(files) > maxFiles {
		return fmt.Errorf("send: %d descriptors, at most %d go with a message", len(files), maxFiles)
	}
	rights, release, err := descriptors(files)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	defer release()

	c.sending.Lock()
	defer c.sending.Unlock()
	stop := deadline(ctx, c.file.SetWriteDeadline)
	defer stop()
	if len(message) <= packet {
		return c.write(ctx, message, rights)
	}
	part := make([]byte, 0, packet)
	for sent := 0; sent < len(message); {
		n := min(len(message)-sent, packet-1)
		kind := byte(partMore)
		if sent+n == len(message) {
			kind = partLast
		}
		part = append(append(part[:0], kind), message[sent:sent+n]...)
		if err := c.write(ctx, part, rights); err != nil {
			if sent > 0 {
				_ = c.Close()
			}
			return err
		}
		sent, rights = sent+n, nil
	}
	return nil
}

func (c *Conn) write(ctx context.Context, b, rights []byte) error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	var errno error
	err = raw.Write(func(fd uintptr) bool {
		for {
			errno = unix.Sendmsg(int(fd), b, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			if errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("send: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("send: %w", err)
	case errno == unix.EPIPE || errno == unix.ECONNRESET:
		return fmt.Errorf("send: the other process is gone: %w", io.EOF)
	case errno != nil:
		return fmt.Errorf("send %d bytes: %w", len(b), errno)
	}
	return nil
}

// Receive is ReceiveContext without an end.
func (c *Conn) Receive(v any) ([]*os.File, error) {
	return c.ReceiveContext(context.Background(), v)
}

// ReceiveContext waits for one message and decodes it into v. The descriptors that came with it are the caller's to
// close; they are close-on-exec. The error is io.EOF itself when the other end is gone (messages it sent before are
// delivered first), and ctx's when cancelled: nothing is lost then, the next Receive goes on.
func (c *Conn) ReceiveContext(ctx context.Context, v any) ([]*os.File, error) {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	stop := deadline(ctx, c.file.SetReadDeadline)
	defer stop()
	for {
		b, err := c.read(ctx)
		if err != nil {
			return nil, err
		}
		switch b[0] {
		case partMore:
			c.part = append(c.part, b[1:]...)
			if len(c.part) > maxMessage {
				return nil, fmt.Errorf("receive: a message of more than %d bytes", maxMessage)
			}
			continue
		case partLast:
			b = append(c.part, b[1:]...)
		}
		files := c.files
		c.part, c.files = nil, nil
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("receive: %w", err)
		}
		return files, nil
	}
}

// read returns one packet, valid until the next read, and keeps its descriptors in c.files.
func (c *Conn) read(ctx context.Context) ([]byte, error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n, oobn, flags int
	var errno error
	err = raw.Read(func(fd uintptr) bool {
		for resets := 0; ; {
			n, oobn, flags, _, errno = unix.Recvmsg(int(fd), c.buf, c.oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			switch {
			case errno == unix.EINTR:
			case errno == unix.ECONNRESET && resets == 0:
				// The peer closed with something of ours unread. Said once; what it sent before is still to be had.
				resets++
			default:
				return errno != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, os.ErrClosed // RawRead has no errors but the deadline's and this one, and another name for it
	case errno == unix.ECONNRESET:
		return nil, io.EOF
	case errno != nil:
		return nil, fmt.Errorf("receive: %w", errno)
	}
	if err := c.keep(c.oob[:oobn]); err != nil {
		return nil, err
	}
	switch {
	case n == 0:
		return nil, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return nil, errors.New("receive: a packet larger than this program sends")
	}
	return c.buf[:n], nil
}

// keep takes the descriptors out of a packet's control data.
func (c *Conn) keep(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("receive descriptors: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of control data
		}
		for _, fd := range fds {
			c.files = append(c.files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return nil
}

// descriptors are copies for the time of sending: File.Fd may change a file's blocking mode, and a file closed
// meanwhile would send whatever took its number.
func descriptors(files []*os.File) (rights []byte, release func(), err error) {
	var fds []int
	release = func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			release()
			return nil, nil, err
		}
		var fd int
		var errno error
		err = raw.Control(func(n uintptr) { fd, errno = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, 3) })
		if err = errors.Join(err, errno); err != nil {
			release()
			return nil, nil, fmt.Errorf("descriptor of %s: %w", f.Name(), err)
		}
		fds = append(fds, fd)
	}
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return rights, release, nil
}

// deadline makes ctx's end wake a waiting read or write. The returned function must be called when that is done.
func deadline(ctx context.Context, set func(time.Time) error) (stop func()) {
	_ = set(time.Time{})
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = set(time.Unix(1, 0))
	})
	return func() {
		if !cancel() {
			<-done // or it would wake the next one
		}
	}
}
