package systest

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// openNVMe is the command end of a namespace's node.
func (m *Machine) openNVMe(node string) (sgio.NVMe, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.disks {
		if "/dev/"+d.Name != node || d.pulled {
			continue
		}
		if d.Transport != "nvme" {
			return nil, fmt.Errorf("open %s for NVMe commands: %w", node, unix.ENOTTY)
		}
		return &nvmeHandle{m, d}, nil
	}
	return nil, fmt.Errorf("open %s for NVMe commands: %w", node, unix.ENOENT)
}

type nvmeHandle struct {
	m *Machine
	d *disk
}

func (h *nvmeHandle) Close() error      { return nil }
func (h *nvmeHandle) Namespace() uint32 { return 1 }

func (h *nvmeHandle) Do(c *sgio.NVMeCommand) error {
	m, d := h.m, h.d
	if err := m.received(d, c.Name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.pulled {
		return unix.ENODEV
	}
	c.Status, c.Result = d.nvmeCommand(c), 0
	if c.Status == 0 {
		c.Result = d.nvmeResult(c)
	}
	return nil
}

const (
	opIdentify, opSetFeatures, opGetFeatures = 0x06, 0x09, 0x0a
	writeCacheFeature                        = 0x06
)

// nvmeCommand carries a command out, and gives the status.
func (d *disk) nvmeCommand(c *sgio.NVMeCommand) uint16 {
	switch {
	case c.IO && c.Opcode == 0: // Flush
	case c.IO:
		return 0x001
	case c.Opcode == opIdentify && c.CDW10 == 1 && len(c.Data) == 4096:
		clear(c.Data)
		copy(c.Data[4:24], fmt.Sprintf("%-20s", d.Serial))
		copy(c.Data[24:64], fmt.Sprintf("%-40s", strings.TrimSpace(d.Model)))
		c.Data[520] = 0x10 // ONCS: save and select
		if !d.NoWriteCache {
			c.Data[525] = 0x07
		}
	case c.Opcode == opIdentify, c.CDW10&0xff != writeCacheFeature, d.NoWriteCache:
		return 0x002
	case c.Opcode == opGetFeatures:
	case c.Opcode == opSetFeatures && d.FixedCache:
		return 0x10e
	case c.Opcode == opSetFeatures && c.NSID != 0:
		return 0x10f
	case c.Opcode == opSetFeatures:
		if c.CDW10>>31 != 0 {
			d.saved++
		}
		if !d.CacheForced {
			d.wce = c.CDW11&1 != 0
		}
	default:
		return 0x001
	}
	return 0
}

// nvmeResult is dword 0 of the completion.
func (d *disk) nvmeResult(c *sgio.NVMeCommand) uint32 {
	switch {
	case c.IO || c.Opcode != opGetFeatures:
		return 0
	case c.CDW10>>8&7 == 3 && d.FixedCache:
		return 0
	case c.CDW10>>8&7 == 3:
		return 1 | 1<<2 // savable and changeable
	case d.wce:
		return 1
	}
	return 0
}
