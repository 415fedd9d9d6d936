package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The lab test tier: Go tests with the build tag `lab` (files *_lab_test.go) that run as root in a guest,
// one boot a kind of guest for all packages. A test's name says which kind: TestLabSata… runs in sata.
// Benchmarks (BenchmarkLabSata…) are run instead of the tests with --bench.

const (
	labTestPrefix      = "TestLab"
	labBenchmarkPrefix = "BenchmarkLab"
)

type testOptions struct {
	Guest   string
	Run     string
	Bench   string
	Timeout time.Duration
	Env     []string
	Tools   []string
	Verbose bool
}

func testCommandLine() *cobra.Command {
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:   "test [flags] [PACKAGE…]",
		Short: "run the lab tests of packages (default ./...), each kind of guest booted once",
		Example: `  qdlab test
  qdlab test --guest delay --run Depth ./sweep/...
  qdlab test --bench .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"./..."}
			}
			return runLabTests(cmd, *o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Guest, "guest", "", "only the tests of this kind of guest")
	f.StringVar(&o.Run, "run", "", "only tests whose name matches this regular expression")
	f.StringVar(&o.Bench, "bench", "", "not the tests, but the benchmarks whose name matches this regular expression")
	f.DurationVar(&o.Timeout, "timeout", 20*time.Minute, "of each guest: boot and tests")
	f.StringArrayVar(&o.Env, "env", nil, "NAME=VALUE, added to the tests' environment")
	f.StringArrayVar(&o.Tools, "tool", nil, "a further program of the host, with its libraries")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "the kernel's console on stderr, too")
	return cmd
}

// labPackage is a package with lab tests, compiled.
type labPackage struct {
	ImportPath string
	Dir        string // below the module, as "sysfs/writecache"
	Binary     string
	Tests      []string
}

// guestTests is what one guest runs of one package: guest-tests reads a list of these.
type guestTests struct {
	ImportPath string
	Dir        string // in the guest
	Binary     string // in the guest
	Tests      []string
	Benchmarks bool // Tests are benchmarks
}

const (
	guestSource    = "/src" // the module's source tree, read-only, for testdata
	guestTestsFile = "/etc/qdlab-tests.json"
)

var errTests = errors.New("lab tests failed")

func runLabTests(cmd *cobra.Command, o testOptions, patterns []string) error {
	ctx := cmd.Context()
	l, err := openLab(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	root := moduleRoot()
	if root == "" {
		return errors.New("qdlab test: not inside the source tree of qdsweep")
	}
	prefix, flag, pattern := labTestPrefix, "--run", o.Run
	if o.Bench != "" {
		if o.Run != "" {
			return errors.New("--run picks tests and --bench benchmarks: one of them")
		}
		prefix, flag, pattern = labBenchmarkPrefix, "--bench", o.Bench
	}
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if o.Guest != "" {
		if _, err := lookupGuest(o.Guest); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp("", "qdlab-tests-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	packages, err := compileLabTests(ctx, root, work, patterns, prefix)
	if err != nil {
		return err
	}
	binary := l.projectBinary(ctx)
	var failed, ran []string
	for _, g := range guests() {
		if o.Guest != "" && g.Name != o.Guest {
			continue
		}
		list, added, count, err := testsFor(g, packages, wanted)
		if err != nil {
			return err
		}
		if count == 0 {
			continue
		}
		if binary != "" {
			added = append(added, addedFile{Host: binary, Guest: "/usr/bin/qdsweep"})
		}
		for i := range list {
			list[i].Benchmarks = o.Bench != ""
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		added = append(added, addedFile{Guest: guestTestsFile, Content: text, Mode: 0o644})
		what := "lab test(s)"
		if o.Bench != "" {
			what = "lab benchmark(s)"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "=== guest %s: %d %s\n", g.Name, count, what)
		started := time.Now()
		exit, err := l.run(ctx, job{
			Guest: g, Args: []string{"/usr/bin/qdlab", "guest-tests"}, Env: append(ownEnvironment(os.Environ()), o.Env...), Dir: scratchFolder, Add: added, Tools: o.Tools,
			Shares: []share{{Host: root, Guest: guestSource}}, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
			Timeout: o.Timeout, Verbose: o.Verbose,
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "ok  "
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "qdlab:", err)
		}
		if err != nil || exit != 0 {
			verdict = "FAIL"
			failed = append(failed, g.Name)
		}
		ran = append(ran, g.Name)
		fmt.Fprintf(cmd.OutOrStdout(), "%s\tguest %s\t%.1fs\n", verdict, g.Name, time.Since(started).Seconds())
	}
	switch {
	case len(ran) == 0:
		return fmt.Errorf("%w: none matched, none ran", errTests)
	case len(failed) > 0:
		return fmt.Errorf("%w in: %s", errTests, strings.Join(failed, ", "))
	}
	return nil
}

// ownEnvironment picks what is meant for tests: QDSWEEP_CHAOS=long and its like reach the guest.
func ownEnvironment(all []string) []string {
	var own []string
	for _, pair := range all {
		if strings.HasPrefix(pair, "QDSWEEP_") {
			own = append(own, pair)
		}
	}
	return own
}

// compileLabTests compiles the packages that have lab tests, and lists what begins with prefix.
func compileLabTests(ctx context.Context, root, work string, patterns []string, prefix string) ([]labPackage, error) {
	format := "{{.ImportPath}}\t{{.Dir}}\t{{join .TestGoFiles \" \"}} {{join .XTestGoFiles \" \"}}"
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-tags", "lab", "-f", format}, patterns...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var packages []labPackage
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || !strings.Contains(fields[2], "_lab_test.go") {
			continue
		}
		p := labPackage{ImportPath: fields[0], Binary: filepath.Join(work, fmt.Sprintf("%d.test", i))}
		if p.Dir, err = filepath.Rel(root, fields[1]); err != nil {
			return nil, err
		}
		if err := goStatic(ctx, root, "test", "-c", "-tags", "lab", "-ldflags=-s -w", "-o", p.Binary, p.ImportPath); err != nil {
			return nil, err
		}
		names := exec.CommandContext(ctx, p.Binary, "-test.list", "^"+prefix)
		names.Dir, names.Stderr = fields[1], os.Stderr
		out, err := names.Output()
		if err != nil {
			return nil, fmt.Errorf("list the lab tests of %s: %w", p.ImportPath, err)
		}
		for _, name := range strings.Fields(string(out)) {
			if strings.HasPrefix(name, prefix) {
				p.Tests = append(p.Tests, name)
			}
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// testsFor picks what guest g runs, with the files it needs.
func testsFor(g guest, packages []labPackage, wanted *regexp.Regexp) (list []guestTests, added []addedFile, count int, err error) {
	for _, p := range packages {
		picked := guestTests{ImportPath: p.ImportPath, Dir: filepath.Join(guestSource, p.Dir), Binary: "/usr/libexec/" + filepath.Base(p.Binary)}
		for _, name := range p.Tests {
			kind, err := guestOfTest(name)
			if err != nil {
				return nil, nil, 0, fmt.Errorf("%s: %w", p.ImportPath, err)
			}
			if kind == g.Name && wanted.MatchString(name) {
				picked.Tests = append(picked.Tests, name)
			}
		}
		if len(picked.Tests) > 0 {
			list = append(list, picked)
			added = append(added, addedFile{Host: p.Binary, Guest: picked.Binary})
			count += len(picked.Tests)
		}
	}
	return list, added, count, nil
}

// guestOfTest is the guest that a lab test's name asks for: TestLab (or BenchmarkLab), the guest's name
// with a capital letter, and then something that is not a small letter.
func guestOfTest(name string) (string, error) {
	rest := strings.TrimPrefix(strings.TrimPrefix(name, labTestPrefix), labBenchmarkPrefix)
	var kinds []string
	for _, g := range guests() {
		title := strings.ToUpper(g.Name[:1]) + g.Name[1:]
		after, is := strings.CutPrefix(rest, title)
		if is && (after == "" || after[0] < 'a' || after[0] > 'z') {
			return g.Name, nil
		}
		kinds = append(kinds, labTestPrefix+title+"…")
	}
	return "", fmt.Errorf("lab test %s names no guest: call it %s", name, strings.Join(kinds, " or "))
}
