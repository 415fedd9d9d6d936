package writecache

import (
	"context"

	"qdsweep/sysfs/sgio"
)

// until is the drive with no command sent any more once ctx is done. Who waited has given up by then; when
// the kernel gives a stuck command back at last, the next one must not follow it and change a drive
// that has been restored, or said to be lost, meanwhile.
func (d Drive) until(ctx context.Context) Drive {
	if open := d.Open; open != nil {
		d.Open = func(node string) (sgio.Device, error) {
			sg, err := open(node)
			if err != nil {
				return nil, err
			}
			return untilDevice{sg, ctx}, nil
		}
	}
	if open := d.OpenNVMe; open != nil {
		d.OpenNVMe = func(node string) (sgio.NVMe, error) {
			n, err := open(node)
			if err != nil {
				return nil, err
			}
			return untilNVMe{n, ctx}, nil
		}
	}
	return d
}

type untilDevice struct {
	sgio.Device
	ctx context.Context
}

func (u untilDevice) Do(c *sgio.Command) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	return u.Device.Do(c)
}

type untilNVMe struct {
	sgio.NVMe
	ctx context.Context
}

func (u untilNVMe) Do(c *sgio.NVMeCommand) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	return u.NVMe.Do(c)
}
