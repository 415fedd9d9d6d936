package systest

import (
	"fmt"
	"os"
	"strings"

	"github.com/stretchr/testify/require"
)

// freshRing is what libata shows of a drive that never had an error.
const freshRing = "[17179571.524000000]Unknown\n"

// KernelSays adds a message of the kernel's to /dev/kmsg.
func (m *Machine) KernelSays(message string) { m.record(6, message) }

// ProgramSays adds a message that a program wrote into the kernel's log.
func (m *Machine) ProgramSays(message string) { m.record(1<<3|6, message) }

// record appends to the file: programs keep it open.
func (m *Machine) record(priority int, message string) {
	m.t.Helper()
	f, err := os.OpenFile(m.path("/dev/kmsg"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(m.t, err)
	m.mu.Lock()
	m.records++
	n := m.records
	m.mu.Unlock()
	_, err = fmt.Fprintf(f, "%d,%d,%d,-;%s\n SUBSYSTEM=systest\n", priority, n, 1000*n, message)
	require.NoError(m.t, err)
	require.NoError(m.t, f.Close())
}

// CommandFailed has libata handle an error of a drive: its error record grows, the link is reset, the kernel says so.
func (m *Machine) CommandFailed(name string) {
	m.t.Helper()
	port := m.ata(name)
	m.KernelSays(fmt.Sprintf("ata%d.00: exception Emask 0x0 SAct 0x1 SErr 0x0 action 0x6 frozen", port))
	m.KernelSays(fmt.Sprintf("ata%d.00: failed command: READ FPDMA QUEUED", port))
	m.KernelSays(fmt.Sprintf("ata%d: hard resetting link", port))
	m.KernelSays(fmt.Sprintf("ata%d.00: configured for UDMA/133", port))
	m.KernelSays(fmt.Sprintf("ata%d: EH complete", port))
	ring := fmt.Sprintf("/sys/class/ata_device/dev%d.0/ering", port)
	m.Set(ring, strings.TrimRight("[ 1234.567890000]timeout\n"+m.Get(ring), "\n")+"\n")
}

// GiveUpNCQ has libata switch NCQ off after too many errors. queue_depth reads what it read before.
func (m *Machine) GiveUpNCQ(name string) {
	m.t.Helper()
	m.CommandFailed(name)
	m.KernelSays(fmt.Sprintf("ata%d.00: NCQ disabled due to excessive errors", m.ata(name)))
}

// SlowDown has libata limit the speed of a drive's link.
func (m *Machine) SlowDown(name string) {
	m.t.Helper()
	port := m.ata(name)
	m.KernelSays(fmt.Sprintf("ata%d: limiting SATA link speed to 1.5 Gbps", port))
	m.Set(fmt.Sprintf("/sys/class/ata_device/dev%d.0/spdn_cnt", port), "1\n")
	m.Set(fmt.Sprintf("/sys/class/ata_link/link%d/sata_spd", port), "1.5 Gbps\n")
}

func (m *Machine) ata(name string) int {
	m.t.Helper()
	d := m.disk(name)
	require.Equal(m.t, "ata", d.Transport, name)
	return d.index + 1
}

// Warm has hwmon show a drive's temperature in °C: the driver's own of NVMe, drivetemp's of any other.
func (m *Machine) Warm(name string, celsius float64) {
	m.t.Helper()
	d := m.disk(name)
	at := fmt.Sprintf("%s/hwmon/hwmon%d", d.device, d.index)
	if d.Transport == "nvme" {
		at = fmt.Sprintf("%s/hwmon%d", d.device, d.index)
	}
	m.put(at+"/name", map[bool]string{true: "nvme\n", false: "drivetemp\n"}[d.Transport == "nvme"], 0o444)
	m.put(at+"/temp1_input", fmt.Sprintln(int(1000*celsius)), 0o444)
}
