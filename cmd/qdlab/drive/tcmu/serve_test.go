package tcmu

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/cmd/qdlab/drive"
	"qdsweep/cmd/qdlab/drive/scsi"
)

// play serves a model to a kernel that is played, over a socket in the place of the uio device.
func play(t *testing.T, name, with string) (k *kernel, uio *os.File, s *Server) {
	t.Helper()
	m, err := drive.FindModel(name)
	require.NoError(t, err)
	m, err = m.With("with", with)
	require.NoError(t, err)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	ours := os.NewFile(uintptr(ends[1]), "uio")
	uio = os.NewFile(uintptr(ends[0]), "kernel")
	k = newKernel(64)
	s, err = NewServer(ours, k.memory, scsi.New(m, drive.NewPlatters(), scsi.Identity{Serial: "S"}, 1), m.Speed)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	t.Cleanup(func() {
		require.NoError(t, unix.Shutdown(ends[0], unix.SHUT_RDWR))
		assert.Error(t, <-ended)
		_ = uio.Close()
		_ = ours.Close()
	})
	return k, uio, s
}

// Every command of a busy host comes back, in a ring that is always nearly full.
func TestServe(t *testing.T) {
	for _, name := range []string{"ncq-2007", "wcache-tagging-1999", "tagged-depth-1999"} {
		k, uio, _ := play(t, name, "speed: 50")
		random := rand.New(rand.NewPCG(1, 1))
		sent, back := 0, 0
		require.NoError(t, uio.SetReadDeadline(time.Now().Add(20*time.Second)))
		for back < 2000 {
			for sent < 2000 {
				operation := []byte{0x28, 0x28, 0x2a, 0x35, 0x12, 0x00, 0x1a}[random.IntN(7)]
				// The rest of the CDB: transfers of one block, somewhere.
				rest := []byte{0, 0, byte(random.IntN(7)), byte(random.IntN(256)), 0, 0, 0, 1}
				if operation == 0x12 || operation == 0x1a || operation == 0x00 {
					rest = []byte{0, 0, 0, 64}
				}
				if _, ok := k.send(operation, 8, rest...); !ok {
					break
				}
				sent++
				_, err := uio.Write([]byte{1, 0, 0, 0})
				require.NoError(t, err)
			}
			_, err := uio.Read(make([]byte, 4))
			require.NoError(t, err, "%s: %d sent, %d came back: %d wait", name, sent, back, len(k.sent))
			back += len(k.collect(t))
		}
	}
}
