package sweep

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"qdsweep/workload"
)

// TestSettleEngines: auto becomes an engine once, before the sweep; one that is asked for by name and does not work here refuses the sweep.
func TestSettleEngines(t *testing.T) {
	spec := func(name, typ, engine string) workload.Spec {
		s, wrong := workload.NewSpec(name, typ, map[string]string{"engine": engine})
		assert.Empty(t, wrong)
		return s
	}
	asked := []workload.Spec{spec("a", "io", "auto"), spec("b", "dd", "auto"), spec("c", "io", "io_uring"), spec("d", "io", "null")}
	auto := func(s workload.Spec) string { return map[string]string{"io": "libaio", "dd": "psync"}[s.Type] }
	engines := func(p *Plan) (all []string) {
		for _, w := range p.Profile.Workloads {
			all = append(all, w.Engine)
		}
		return all
	}

	p := &Plan{Profile: &Profile{Workloads: asked}}
	refusals := p.settleEnginesBy(auto, func(name string) error {
		if name == "io_uring" {
			return unix.EPERM
		}
		return nil
	})
	assert.Equal(t, []string{"libaio", "psync", "io_uring", "null"}, engines(p))
	assert.Equal(t, []string{"workload a: engine auto is libaio here, for io_uring does not work: operation not permitted"}, p.Warnings)
	if assert.Len(t, refusals, 1) {
		assert.Equal(t, "workload c: engine io_uring does not work on this kernel: operation not permitted", refusals[0].Reason)
		assert.Equal(t, "let it be engine: auto, which takes the best that does", refusals[0].Fix)
	}
	assert.Equal(t, "auto", asked[0].Engine, "the profile that was read stays as it was")

	p = &Plan{Profile: &Profile{Workloads: asked[:1]}}
	assert.Empty(t, p.settleEnginesBy(func(workload.Spec) string { return "io_uring" }, func(string) error { return nil }))
	assert.Equal(t, []string{"io_uring"}, engines(p))
	assert.Empty(t, p.Warnings)
}
