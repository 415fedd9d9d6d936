//go:build lab

package sysfs

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What a real kernel does behind our back, and how it shows.

func TestLabAllTemperature(t *testing.T) {
	ctx := context.Background()
	celsius, ok := labDisk(t, "QDLAB-NVME-1").Temperature(ctx)
	assert.True(t, ok)
	assert.InDelta(t, 49.85, celsius, 1e-9, "QEMU's 323 K")
	for _, serial := range []string{"QDLAB-SATA-3", "QDLAB-VIRTIO-1"} {
		_, ok = labDisk(t, serial).Temperature(ctx)
		assert.False(t, ok, serial)
	}
	health := labDisk(t, "QDLAB-NVME-1").Health(ctx)
	assert.Equal(t, "live", health.State)
}

// Field case 3: the drive's sectors from here on fail, and libata gives NCQ up. queue_depth does not tell.
func TestLabSataSignsOfADriveWithoutNCQ(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	bad, err := h.Resolve("serial:QDLAB-SATA-BAD")
	require.NoError(t, err)
	d, good := bad.Device, labDisk(t, "QDLAB-SATA-1")
	again := func() { // a depth above 1 that is another one switches NCQ on again
		for _, depth := range []string{"31", "32"} {
			require.NoError(t, h.Write(ctx, d.SysDir()+"/device/queue_depth", depth))
		}
	}
	again()
	t.Cleanup(again)
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	before, goodBefore := d.Health(ctx), good.Health(ctx)
	assert.Equal(t, "running", before.State)
	assert.NotEmpty(t, before.Errors)
	assert.Equal(t, "0", before.SpeedDowns)
	assert.Regexp(t, ` Gbps$`, before.LinkSpeed)

	// What a sweep does is no sign.
	labApply(t, good, "write_cache", "off")
	labApply(t, good, "queue_depth", "1")
	labApply(t, good, "queue_depth", "32")
	labApply(t, good, "write_cache", "on")
	messages, lost := log.Messages()
	assert.False(t, lost)
	assert.Empty(t, h.Signs(good, goodBefore, good.Health(ctx), messages), messages)

	file, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer file.Close()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(page) }()
	_, err = file.ReadAt(page, 112<<20)
	require.ErrorIs(t, err, unix.EIO)

	messages, lost = log.Messages()
	assert.False(t, lost)
	signs := h.Signs(d, before, d.Health(ctx), messages)
	t.Logf("%q", signs)
	require.Len(t, signs, 2)
	assert.Equal(t, NCQOff, signs[0].Kind)
	assert.Regexp(t, `^ata\d+\.00: NCQ disabled due to excessive errors$`, signs[0].Text)
	assert.Equal(t, ErrorHandling, signs[1].Kind)
	assert.Equal(t, "32", h.text(d.SysDir()+"/device/queue_depth"))
	assert.Empty(t, h.Signs(good, goodBefore, good.Health(ctx), messages))
	signs = h.Signs(d, before, d.Health(ctx), nil)
	require.Len(t, signs, 1, "without the log the error record tells of errors")
	assert.Contains(t, signs[0].Text, "(ering)")
}

// A medium error of one of four drives on the same driver.
func TestLabDelaySignsOfAMediumError(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	all, err := h.Devices()
	require.NoError(t, err)
	var drives []Device
	for _, d := range all {
		if d.Driver == "scsi_debug" {
			drives = append(drives, d)
		}
	}
	require.Len(t, drives, 4)
	const options = "/sys/bus/pseudo/drivers/scsi_debug/opts"
	was, err := os.ReadFile(options)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(options, []byte("2"), 0)) // a medium error at sector 0x1234
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(options, was[:len(was)-1], 0)) })
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	before := drives[2].Health(ctx)
	file, err := os.OpenFile(drives[2].Path, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer file.Close()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(page) }()
	_, err = file.ReadAt(page, 0x1230*512)
	require.Error(t, err)
	messages, _ := log.Messages()
	for i, d := range drives {
		signs := h.Signs(d, before, d.Health(ctx), messages)
		if i != 2 {
			assert.Empty(t, signs, d.Name)
			continue
		}
		require.Len(t, signs, 1, "%q", messages)
		assert.Equal(t, ErrorHandling, signs[0].Kind)
		assert.Contains(t, signs[0].Text, "["+d.Name+"]")
	}
}

// The log begins now, holds what the kernel says and no program, and says when something was overwritten.
func TestLabSataKernelLog(t *testing.T) {
	h := NewHost("/")
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	help := func() { require.NoError(t, os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0)) }
	require.NoError(t, os.WriteFile("/dev/kmsg", []byte("ata1.00: NCQ disabled due to excessive errors"), 0))
	help()
	messages, lost := log.Messages()
	assert.False(t, lost)
	require.Len(t, messages, 1, "%q", messages)
	assert.Contains(t, messages[0], "sysrq: HELP")
	messages, lost = log.Messages()
	assert.False(t, lost)
	assert.Empty(t, messages)

	const limit = "/proc/sys/kernel/printk_devkmsg"
	was, err := os.ReadFile(limit)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(limit, []byte("on\n"), 0))
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(limit, was, 0)) })
	writer, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer writer.Close()
	for range 2000 { // more than fits
		_, err := writer.Write([]byte("<15>" + strings.Repeat("x", 900)))
		require.NoError(t, err)
	}
	help()
	start := time.Now()
	messages, lost = log.Messages()
	t.Logf("reading a full log took %v", time.Since(start).Round(time.Millisecond))
	assert.True(t, lost)
	require.NotEmpty(t, messages)
	assert.Contains(t, messages[len(messages)-1], "sysrq: HELP")
}
