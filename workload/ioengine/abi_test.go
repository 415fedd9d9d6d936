package ioengine

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// Sizes and offsets of the kernel's headers, on every 64-bit Linux.
func TestABI(t *testing.T) {
	var (
		cb     iocb
		event  aioEvent
		ring   aioRing
		params uringParams
		sqe    uringSQE
		cqe    uringCQE
	)
	for _, c := range []struct {
		what      string
		want, got uintptr
	}{
		{"struct iocb", 64, unsafe.Sizeof(cb)},
		{"iocb.aio_key", 8, unsafe.Offsetof(cb.key)},
		{"iocb.aio_lio_opcode", 16, unsafe.Offsetof(cb.opcode)},
		{"iocb.aio_fildes", 20, unsafe.Offsetof(cb.fd)},
		{"iocb.aio_buf", 24, unsafe.Offsetof(cb.buffer)},
		{"iocb.aio_nbytes", 32, unsafe.Offsetof(cb.bytes)},
		{"iocb.aio_offset", 40, unsafe.Offsetof(cb.offset)},
		{"iocb.aio_resfd", 60, unsafe.Offsetof(cb.resfd)},
		{"struct io_event", 32, unsafe.Sizeof(event)},
		{"io_event.res", 16, unsafe.Offsetof(event.result)},
		{"struct aio_ring", 32, unsafe.Sizeof(ring)},
		{"aio_ring.tail", 12, unsafe.Offsetof(ring.tail)},
		{"aio_ring.header_length", 28, unsafe.Offsetof(ring.header)},
		{"struct io_uring_params", 120, unsafe.Sizeof(params)},
		{"io_uring_params.features", 20, unsafe.Offsetof(params.features)},
		{"io_uring_params.sq_off", 40, unsafe.Offsetof(params.sqOff)},
		{"io_uring_params.cq_off", 80, unsafe.Offsetof(params.cqOff)},
		{"struct io_uring_sqe", 64, unsafe.Sizeof(sqe)},
		{"io_uring_sqe.off", 8, unsafe.Offsetof(sqe.offset)},
		{"io_uring_sqe.addr", 16, unsafe.Offsetof(sqe.addr)},
		{"io_uring_sqe.len", 24, unsafe.Offsetof(sqe.length)},
		{"io_uring_sqe.user_data", 32, unsafe.Offsetof(sqe.userData)},
		{"io_uring_sqe.buf_index", 40, unsafe.Offsetof(sqe.bufIndex)},
		{"struct io_uring_cqe", 16, unsafe.Sizeof(cqe)},
		{"io_uring_cqe.res", 8, unsafe.Offsetof(cqe.result)},
		{"struct io_uring_rsrc_update", 16, unsafe.Sizeof(uringRSrcUpdate{})},
	} {
		assert.Equal(t, c.want, c.got, c.what)
	}
}
