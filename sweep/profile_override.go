package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Overrides are the flags of plan and run that take the place of a profile's values; zero values change nothing.
type Overrides struct {
	Scale     string // --scale: SmallScale
	Device    string // --device
	Directory string // --directory; made absolute
	Repeats   string // --repeats, as the profile says it
	Seed      *uint64
	Timeout   time.Duration // --timeout
	Deadline  time.Duration // --deadline; takes the place of until as well
	Until     string        // --until; takes the place of deadline as well
}

// Override puts the flags in. An error is the user's (exit 2) and names the flag.
func (p *Profile) Override(o Overrides) error {
	var errs []error
	if err := p.scale(o.Scale); err != nil {
		errs = append(errs, err)
	}
	switch {
	case o.Device != "" && o.Directory != "":
		errs = append(errs, errors.New("--device and --directory: a target is one of them; leave one out"))
	case (o.Device != "" || o.Directory != "") && p.Target.several():
		errs = append(errs, errors.New(overrideFlag(o)+": this profile's target is picked by an axis ("+p.Target.form()+"), and a flag cannot take the place of several; change the profile"))
	case o.Device != "":
		if !goodDevice(o.Device) {
			errs = append(errs, fmt.Errorf("--device %q: %s", o.Device, deviceAllowed))
		}
		p.Target = TargetSpec{Device: o.Device}
	case o.Directory != "":
		absolute, err := filepath.Abs(o.Directory)
		if err != nil {
			errs = append(errs, fmt.Errorf("--directory %q: %w", o.Directory, err))
		}
		p.Target = TargetSpec{Directory: absolute}
	}
	if o.Repeats != "" {
		if err := p.parseRepeats(o.Repeats); err != nil {
			errs = append(errs, err)
		}
	}
	if err := p.parseEnd(o.Deadline, o.Until); err != nil {
		errs = append(errs, err)
	}
	if o.Seed != nil {
		p.Seed, p.SeedGiven = *o.Seed, true
	}
	if o.Timeout != 0 {
		if o.Timeout < time.Second {
			errs = append(errs, fmt.Errorf("--timeout %s: at least 1s", o.Timeout))
		}
		p.Timeout, p.TimeoutGiven = o.Timeout, true
	}
	return errors.Join(errs...)
}

func overrideFlag(o Overrides) string {
	if o.Device != "" {
		return "--device " + o.Device
	}
	return "--directory " + o.Directory
}
