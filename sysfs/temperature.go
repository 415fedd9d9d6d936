package sysfs

import (
	"context"
	"strconv"
	"strings"
)

// Temperature is how warm a drive is, in °C, as hwmon shows it: of an NVMe drive its controller's composite temperature, of a SATA or
// SAS drive what the module drivetemp asks it for (Documentation/hwmon/drivetemp.rst). ok is false where nobody measures it, or the
// drive does not answer in time.
//
// Reading it is a command to the drive, which on SATA waits until the queue is empty: it has no place in the middle of a measurement.
func (d Device) Temperature(ctx context.Context) (celsius float64, ok bool) {
	for _, sensor := range d.sensors() {
		text, err := d.host.ReadWithin(ctx, sensor+"/temp1_input")
		if err != nil {
			continue
		}
		if millis, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32); err == nil {
			return float64(millis) / 1000, true
		}
	}
	return 0, false
}

// sensors finds the drive's hwmon devices: in the hwmon/ of a SCSI device, and right below an NVMe controller.
func (d Device) sensors() (found []string) {
	if d.Kind != KindDisk {
		return nil
	}
	at := d.host.devicePath(d)
	if d.Transport == "nvme" {
		at = d.host.nvmeController(d, at)
	}
	for _, dir := range []string{at, at + "/hwmon"} {
		for _, name := range d.host.names(dir) {
			if strings.HasPrefix(name, "hwmon") && d.host.exists(dir+"/"+name+"/temp1_input") {
				found = append(found, dir+"/"+name)
			}
		}
	}
	return found
}
