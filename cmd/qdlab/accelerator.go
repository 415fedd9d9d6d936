package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// probeAnswer is what a guest prints that was booted only to see whether KVM works.
const probeAnswer = "QDLAB-PROBE-OK"

// probePatience is far more than a KVM guest needs to reach its init, and far less than a hung one takes.
const probePatience = 20 * time.Second

// accelerator is "kvm" where a guest really boots with it, else "tcg" (emulation). /dev/kvm being there
// proves nothing: nested virtualisation that is switched off, or half works, shows only in a boot. The
// answer is kept until the host's next boot. QDLAB_ACCEL sets it by hand.
func (l *lab) accelerator(ctx context.Context, k kernel, dir string) string {
	if forced := os.Getenv("QDLAB_ACCEL"); forced != "" {
		return forced
	}
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg"
	}
	_ = device.Close()
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	kept := filepath.Join(l.cache, "kvm-"+strings.TrimSpace(string(bootID)))
	if err == nil {
		if answer, err := os.ReadFile(kept); err == nil {
			return string(answer)
		}
	}
	l.say("/dev/kvm is there: trying whether a guest boots with it")
	answer := "tcg"
	if l.probe(ctx, k, dir) {
		answer = "kvm"
	}
	l.say("guests run with %s", answer)
	_ = os.WriteFile(kept, []byte(answer), 0o644)
	return answer
}

// probe boots a guest without disks that prints the answer.
func (l *lab) probe(ctx context.Context, k kernel, dir string) bool {
	m := machine{
		Guest: guest{Name: "probe"}, Kernel: k.Image, Initramfs: filepath.Join(dir, "probe"), Accelerator: "kvm",
		Socket: filepath.Join(dir, "no-port"),
	}
	if err := writeInitramfsFile(m.Initramfs, k, bootConfig{Probe: true}, nil, nil); err != nil {
		return false
	}
	console := newTail(64 << 10)
	qemu := newQEMU(m, console)
	qemu.Args = append(qemu.Args[:1], m.probeArguments()...)
	ended, err := startBound(qemu)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = qemu.Process.Kill()
		<-ended
	}
	return strings.Contains(console.String(), probeAnswer)
}
