package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// A power cut: something in the guest asks for it, the host kills QEMU with SIGKILL, and boots the same disks
// again. What the drives had taken is there afterwards, what the guest still had in its memory is not. (The drives'
// own write cache is not lost: an image is a file, and the host keeps what QEMU had written to it.)

// maxCuts is how often one test, or one command, may ask: one that always asks would never end.
const maxCuts = 32

// progress is what the host knows of a guest's work over several boots.
type progress struct {
	Test   int  // in the order in which they are run; a cut starts again with this one
	Boot   int  // of this test: 1, and one more for each cut
	Failed bool // a test that ended before the last cut has failed
}

// began is that test i begins now. The one that a cut is for begins again, in its next boot.
func (p *progress) began(i int) {
	if i != p.Test {
		p.Test, p.Boot = i, 1
	}
}

func (p *progress) cut() error {
	if p.Boot > maxCuts {
		return fmt.Errorf("the power was cut %d times for the same test, which asks once more", maxCuts)
	}
	p.Boot++
	return nil
}

// kernelParameters carry the progress into the guest; the kernel passes over what has a dot and no module.
func (p progress) kernelParameters() string {
	return fmt.Sprintf("qdlab.test=%d qdlab.boot=%d", p.Test, p.Boot)
}

// parseProgress reads them in /proc/cmdline.
func parseProgress(line string) progress {
	p := progress{Boot: 1}
	for _, word := range strings.Fields(line) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		switch name {
		case "qdlab.test":
			p.Test = n
		case "qdlab.boot":
			p.Boot = n
		}
	}
	return p
}

// messages is where the second stage listens for what is to be told to the host: it alone can open the port.
// The address is an abstract one, so that no file system matters.
const messages = "@qdlab"

// relay passes on the messages of this guest's programs until the listener is closed. Each is answered once it is
// on its way, so what is told later comes later.
func relay(listener net.Listener, frames *frameWriter) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			line, err := bufio.NewReader(conn).ReadBytes('\n')
			var r guestReport
			if err != nil || json.Unmarshal(line, &r) != nil || report(frames, r) != nil {
				return
			}
			_, _ = conn.Write([]byte("ok\n"))
		}()
	}
}

var errNoCuts = errors.New("the power of this guest cannot be cut: that is for guest cut")

// tellHost sends r by way of whoever listens at address, and waits until it is on its way.
func tellHost(address string, r guestReport) error {
	conn, err := net.Dial("unix", address)
	if err != nil {
		return fmt.Errorf("%w (%w)", errNoCuts, err)
	}
	defer func() { _ = conn.Close() }()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 3))
	return err
}

func cutCommandLine() *cobra.Command {
	return &cobra.Command{
		Use: "cut", Short: "in a guest of kind cut: cut its power now, and boot it again", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if os.Getenv("QDLAB_GUEST") == "" {
				return errors.New("qdlab cut: this is no guest")
			}
			if err := tellHost(messages, guestReport{Cut: true}); err != nil {
				return err
			}
			select {} // until there is no power
		},
	}
}
