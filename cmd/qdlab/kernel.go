package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel is a bootable kernel with its modules.
type kernel struct {
	Release string
	Image   string // vmlinuz
	Modules *kernelModules
}

// kernelPackage is the meta package whose dependency is the newest kernel of the distribution.
const kernelPackage = "linux-image-amd64"

// findKernel takes, in this order: what QDLAB_KERNEL names (a folder with boot/ and lib/modules/), the
// host's own, one fetched before, the distribution's package fetched now into the cache. Nothing is
// installed on the host. A kernel without one of the modules is passed over, with the reason.
func findKernel(ctx context.Context, cache string, log io.Writer) (kernel, error) {
	if dir := os.Getenv("QDLAB_KERNEL"); dir != "" {
		k, err := kernelIn(dir, "")
		if err != nil {
			return kernel{}, fmt.Errorf("QDLAB_KERNEL=%s: %w", dir, err)
		}
		return k, nil
	}
	if k, err := kernelIn("/", hostRelease()); err == nil {
		return k, nil
	}
	fetched := filepath.Join(cache, "kernel")
	if k, err := kernelIn(fetched, ""); err == nil {
		return k, nil
	}
	if err := fetchKernel(ctx, fetched, log); err != nil {
		return kernel{}, fmt.Errorf("fetch a kernel for the lab: %w", err)
	}
	return kernelIn(fetched, "")
}

// kernelIn looks below root for boot/vmlinuz-RELEASE and its modules; an empty release takes any.
// Every module that some guest loads must be there.
func kernelIn(root, release string) (kernel, error) {
	if release == "" {
		images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
		if len(images) == 0 {
			return kernel{}, fmt.Errorf("no boot/vmlinuz-* in %s", root)
		}
		release = strings.TrimPrefix(filepath.Base(images[len(images)-1]), "vmlinuz-")
	}
	image := filepath.Join(root, "boot", "vmlinuz-"+release)
	file, err := os.Open(image) // Ubuntu's is readable by root alone
	if err != nil {
		return kernel{}, err
	}
	_ = file.Close()
	modules, err := openModules(filepath.Join(root, "lib", "modules", release))
	if err != nil {
		return kernel{}, err
	}
	for _, g := range guests() {
		for _, m := range g.modules() {
			if _, err := modules.Order(m.Name); err != nil {
				return kernel{}, err
			}
		}
	}
	return kernel{Release: release, Image: image, Modules: modules}, nil
}

func hostRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// fetchKernel downloads the distribution's kernel with apt, which checks its signature, and unpacks it.
func fetchKernel(ctx context.Context, into string, log io.Writer) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("the host's own kernel or its modules are not readable and there is no apt-get: set QDLAB_KERNEL to a folder with boot/vmlinuz-RELEASE and lib/modules/RELEASE")
	}
	name, err := realKernelPackage(ctx)
	if err != nil && os.Geteuid() == 0 {
		fmt.Fprintln(log, "qdlab: no package lists here: apt-get update")
		if out, updateErr := exec.CommandContext(ctx, "apt-get", "-q", "update").CombinedOutput(); updateErr != nil {
			return fmt.Errorf("apt-get update: %w\n%s", updateErr, out)
		}
		name, err = realKernelPackage(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w (as root: apt-get update)", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(into), "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	_ = os.Chmod(work, 0o755) // apt's own user must be able to enter it
	uris, err := aptGet(ctx, work, "download", "--print-uris", name)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "qdlab: fetching %s (%d MB, about 400 MB unpacked) into %s; it is not installed\n",
		name, (downloadSize(uris)+500_000)/1_000_000, into)
	if _, err := aptGet(ctx, work, "download", name); err != nil {
		return err
	}
	packages, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	if len(packages) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages in %s", name, len(packages), work)
	}
	unpacked := filepath.Join(work, "kernel")
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", packages[0], unpacked).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", packages[0], err, out)
	}
	if err := os.RemoveAll(into); err != nil {
		return err
	}
	return os.Rename(unpacked, into)
}

// realKernelPackage is the package that the meta package stands for.
func realKernelPackage(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", kernelPackage).Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache depends %s: %w", kernelPackage, err)
	}
	return parseDepends(out)
}

// parseDepends takes the kernel out of what `apt-cache depends linux-image-amd64` prints.
func parseDepends(out []byte) (string, error) {
	found := regexp.MustCompile(`(?m)^\s*Depends: (linux-image-[0-9]\S*)$`).FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("apt knows no kernel behind %s", kernelPackage)
	}
	return string(found[1]), nil
}

// downloadSize is the third word of `apt-get download --print-uris`, in bytes; 0 when it is not there.
func downloadSize(uris []byte) int64 {
	words := strings.Fields(string(uris))
	if len(words) < 3 {
		return 0
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return 0
	}
	return size
}

func aptGet(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var failed bytes.Buffer
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, &failed
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, failed.Bytes())
	}
	return out, nil
}
