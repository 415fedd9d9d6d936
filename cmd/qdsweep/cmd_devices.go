package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

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
	c.Flags().StringVar(&o.sysroot, "sysroot", "/", "read /sys, /proc and /dev of a captured machine below this folder")
	return c
}

func runDevices(ctx context.Context, o devicesOptions, names []string, stdout io.Writer) error {
	h := sysfs.NewHost(o.sysroot)
	var infos []sysfs.Info
	for _, name := range names {
		info, err := h.Describe(ctx, name)
		if err != nil {
			return err
		}
		infos = append(infos, info)
	}
	if len(names) == 0 {
		var err error
		if infos, err = h.Inventory(ctx); err != nil {
			return err
		}
	}
	return o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			if infos == nil {
				infos = []sysfs.Info{}
			}
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(infos)
		}
		return sysfs.WriteInventory(w, infos, width(stdout), o.verbose)
	})
}
