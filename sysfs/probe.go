package sysfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DiskStat is /sys/block/X/stat (Documentation/block/stat.rst). Sectors are of 512 bytes. Kernels
// before 4.18 have no discard fields, before 5.5 no flush fields: they stay 0.
type DiskStat struct {
	ReadIOs, ReadMerges, ReadSectors, ReadMS             uint64
	WriteIOs, WriteMerges, WriteSectors, WriteMS         uint64
	InFlight                                             int    // in the block layer and below
	BusyMS                                               uint64 // io_ticks
	TimeInQueueMS                                        uint64 // requests × ms, waiting ones included
	DiscardIOs, DiscardMerges, DiscardSectors, DiscardMS uint64
	FlushIOs, FlushMS                                    uint64
}

// Probe keeps a device's statistics open and reads them with one pread each, so that sampling every
// few milliseconds costs little. It is for one goroutine.
type Probe struct {
	name                 string
	stat, busy, inflight int // descriptors, -1 for none
	buf                  [512]byte
}

// OpenProbe opens stat, and device/device_busy (SCSI and libata) or inflight.
func OpenProbe(d Device) (*Probe, error) {
	p := &Probe{name: d.Name, busy: -1, inflight: -1}
	open := func(relative string) (int, error) {
		return openRetry(d.host.path(d.dir+"/"+relative), unix.O_RDONLY|unix.O_CLOEXEC)
	}
	var err error
	if p.stat, err = open("stat"); err != nil {
		return nil, fmt.Errorf("open the statistics of %s: %w", d.Name, err)
	}
	if fd, err := open("device/device_busy"); err == nil {
		p.busy = fd
	} else if fd, err := open("inflight"); err == nil {
		p.inflight = fd
	}
	return p, nil
}

// Busy is how many commands the device has now: device_busy where there is one, else the sum of
// inflight. ok is false where neither can be read, as of a device that is gone.
func (p *Probe) Busy() (n int, ok bool) {
	switch {
	case p.busy >= 0:
		text, err := p.read(p.busy)
		if err != nil {
			return 0, false
		}
		n, err = strconv.Atoi(strings.TrimSpace(text))
		return n, err == nil
	case p.inflight >= 0:
		text, err := p.read(p.inflight)
		if err != nil {
			return 0, false
		}
		return parseInflight(text)
	}
	return 0, false
}

// Stat reads all counters of one instant.
func (p *Probe) Stat() (DiskStat, error) {
	text, err := p.read(p.stat)
	if err == nil {
		var s DiskStat
		if s, err = parseStat(text); err == nil {
			return s, nil
		}
	}
	return DiskStat{}, fmt.Errorf("read the statistics of %s: %w", p.name, err)
}

// Close closes the files.
func (p *Probe) Close() error {
	var errs []error
	for _, fd := range []*int{&p.stat, &p.busy, &p.inflight} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
			*fd = -1
		}
	}
	return errors.Join(errs...)
}

func (p *Probe) read(fd int) (string, error) {
	for {
		n, err := unix.Pread(fd, p.buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", err
		}
		return string(p.buf[:n]), nil
	}
}

// parseStat reads 11, 15 or 17 counters.
func parseStat(text string) (DiskStat, error) {
	var s DiskStat
	var inFlight uint64
	into := []*uint64{
		&s.ReadIOs, &s.ReadMerges, &s.ReadSectors, &s.ReadMS,
		&s.WriteIOs, &s.WriteMerges, &s.WriteSectors, &s.WriteMS,
		&inFlight, &s.BusyMS, &s.TimeInQueueMS,
		&s.DiscardIOs, &s.DiscardMerges, &s.DiscardSectors, &s.DiscardMS,
		&s.FlushIOs, &s.FlushMS,
	}
	fields := strings.Fields(text)
	if len(fields) < 11 {
		return s, fmt.Errorf("stat has %d fields, not 11 or more", len(fields))
	}
	for i, f := range fields[:min(len(fields), len(into))] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return s, fmt.Errorf("stat field %d is %q", i+1, f)
		}
		*into[i] = n
	}
	s.InFlight = int(inFlight)
	return s, nil
}

// parseInflight reads "reads writes".
func parseInflight(text string) (int, bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, false
	}
	sum := 0
	for _, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, false
		}
		sum += n
	}
	return sum, true
}
