package writecache

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// bridge plays a USB bridge: do is what becomes of a command.
type bridge struct {
	do func(*sgio.Command) error

	mu  sync.Mutex // a command that was given up on is still its goroutine's
	log []string
}

func (b *bridge) sent() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}

func (b *bridge) Close() error { return nil }
func (b *bridge) Do(c *sgio.Command) error {
	b.mu.Lock()
	b.log = append(b.log, c.Name)
	b.mu.Unlock()
	return b.do(c)
}

func (b *bridge) drive() Drive {
	return Drive{Node: "/dev/sdx", Transport: "usb", Open: func(string) (sgio.Device, error) { return b, nil }}
}

func TestABridgeThatKeepsACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{do: func(*sgio.Command) error {
			time.Sleep(time.Minute) // whatever time-out it was given: then come the kernel's resets
			return unix.EIO
		}}
		start := time.Now()
		s, err := b.drive().State(context.Background())
		require.NoError(t, err, "the rest of the drive can be swept")
		assert.Equal(t, 10*time.Second, time.Since(start))
		assert.Empty(t, s.Level, "unknown, never off")
		assert.False(t, s.Absent)
		assert.Equal(t, "the USB bridge did not answer within 10s", s.Reason)

		start = time.Now()
		_, err = b.drive().Set(context.Background(), Off)
		require.ErrorIs(t, err, ErrBridge)
		assert.Equal(t, 10*time.Second, time.Since(start))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []string{"IDENTIFY DEVICE", "IDENTIFY DEVICE"}, b.sent(), "nothing follows what was given up on")
	})
}

func TestABridgeThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{}
		b.do = func(c *sgio.Command) error {
			assert.LessOrEqual(t, c.Timeout, 10*time.Second)
			time.Sleep(min(4*time.Second, c.Timeout))
			c.HostStatus = 3
			if c.Name == "IDENTIFY DEVICE" {
				c.HostStatus, c.Status, c.Sense = 0, 2, []byte{0x72, 5, 0x20, 0, 0, 0, 0, 0}
			}
			return nil
		}
		start := time.Now()
		s, err := b.drive().State(context.Background())
		require.NoError(t, err)
		assert.Less(t, time.Since(start), 10*time.Second)
		assert.Equal(t, []string{"IDENTIFY DEVICE", "MODE SENSE(10)"}, b.sent(), "ATA first, then the mode page")
		assert.Empty(t, s.Level)
		assert.Contains(t, s.Reason, "the USB bridge does not say: MODE SENSE(10): the adapter says timed out")
	})
}

func TestWhoWaitsForABridgeMayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{do: func(*sgio.Command) error { time.Sleep(time.Hour); return unix.EIO }}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := b.drive().State(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, ErrBridge)
		time.Sleep(2 * time.Hour)
	})
}

func TestABridgeThatOneMayNotAsk(t *testing.T) {
	d := Drive{Node: "/dev/sdx", Transport: "usb", Open: func(string) (sgio.Device, error) { return nil, fs.ErrPermission }}
	_, err := d.State(context.Background())
	assert.ErrorIs(t, err, fs.ErrPermission, "that says nothing of the bridge")
}

// A stick that answers MODE SENSE with a header and nothing: kernels skip the page of many, for good reason.
func TestAStickWithoutTheMode(t *testing.T) {
	b := &bridge{}
	b.do = func(c *sgio.Command) error {
		if c.Name == "IDENTIFY DEVICE" {
			c.Status, c.Sense = 2, []byte{0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0}
			return nil
		}
		clear(c.Data)
		c.Data[1] = 6
		return nil
	}
	s, err := b.drive().State(context.Background())
	require.NoError(t, err)
	assert.Empty(t, s.Level, "zeros are not off")
	assert.False(t, s.Switchable)
	assert.Contains(t, s.Reason, "caching mode page is no use")
	_, err = b.drive().Set(context.Background(), Off)
	require.ErrorIs(t, err, ErrUnsupported)
	assert.NotContains(t, b.sent(), "MODE SELECT(10)")
}
