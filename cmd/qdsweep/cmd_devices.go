package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sysfs"
)

type devicesOptions struct {
	output
	sysroot string
	verbose bool
}

func newDevices(g *globals) *cobra.Command {
	var o devicesOptions
	c := &cobra.Command{
		Use:   "devices [DEVICE…]",
		Short: "what is here, and what it can be set to",
		Long:  "Lists every block device with its settings, what they can be, what it is used by, and whether it can be a target. Changes nothing." + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			o.verbose = g.verbose
			return runDevices(c.Context(), o, args, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	addSysroot(c, &o.sysroot)
	return c
}

func runDevices(ctx context.Context, o devicesOptions, names []string, stdout io.Writer) error {
	// Whether a device can be a target does not depend on who looks: `run` needs root, and says so.
	h, err := captured(o.sysroot, sysfs.WithEUID(0))
	if err != nil {
		return err
	}
	var infos []sysfs.Info
	for _, name := range names {
		info, err := h.Describe(ctx, name)
		if errors.Is(err, sysfs.ErrNoDevice) {
			return fmt.Errorf("%w\n  qdsweep devices     lists what there is", err)
		}
		if err != nil {
			return err
		}
		infos = append(infos, info)
	}
	if len(names) == 0 {
		if infos, err = h.Inventory(ctx); err != nil {
			return err
		}
	}
	return o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			if infos == nil {
				infos = []sysfs.Info{}
			}
			return writeJSON(w, infos)
		}
		if err := sysfs.WriteInventory(w, infos, width(stdout), o.verbose); err != nil {
			return err
		}
		if o.sysroot == "/" && os.Geteuid() != 0 {
			fmt.Fprintln(w, "Seen without root: not what others have open, nor every write cache. All:  sudo qdsweep devices")
		}
		return nil
	})
}

func addSysroot(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "sysroot", "/", "read /sys, /proc and /dev of a captured machine below this folder")
}

// captured is the host below a folder. A folder without /sys/block is no machine, and would otherwise be one without drives.
func captured(sysroot string, opt ...sysfs.Option) (sysfs.Host, error) {
	if st, err := os.Stat(filepath.Join(sysroot, "sys/block")); sysroot != "/" && (sysroot == "" || err != nil || !st.IsDir()) {
		return sysfs.Host{}, &sweep.UsageError{Text: fmt.Sprintf("--sysroot %q: no captured machine: there is no folder sys/block in it", sysroot)}
	}
	return sysfs.NewHost(sysroot, opt...), nil
}
