# `make help` lists the targets. Each installs what it misses (apt, as root or through sudo), and says first
# what and how much.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build unit test race lint fuzz fuzz-short calibrate bench demo lab lab-full chaos night trees clean go lab-tools

# The version comes from git, the date is the commit's: the same commit gives the same bytes.
GIT     = git -c safe.directory='*'
VERSION = $(shell $(GIT) describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  = $(shell $(GIT) rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    = $(shell TZ=UTC $(GIT) log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
LDFLAGS = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# The go command must not ask git as well: it refuses a tree that is somebody else's.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

LINT_VERSION := v2.15.0
LINT         := .cache/golangci-lint-$(LINT_VERSION)/golangci-lint

LAB_TIMEOUT ?= 30m# of one guest
FUZZ_TIME   ?= 1m#  of one target
BENCH       ?= .#   a regular expression of benchmarks

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

build: go ## bin/qdsweep and bin/qdlab, static
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

test: build lab-tools ## unit tests, the lab tier, each fuzz target for 10 s; a summary
	@.ci/install bonnie++ # its programs read what --format bonnie prints
	mkdir -p .cache; failed=0; summary=
	for part in unit lab fuzz-short; do
		echo "== $$part"; start=$$SECONDS; verdict='ok  '
		$(MAKE) --no-print-directory $$part 2>&1 | tee .cache/test-$$part.log || { verdict=FAIL; failed=1; }
		summary+="$$verdict"$$'\t'"$$part"$$'\t'"$$((SECONDS - start))s"$$'\n'
	done
	echo; echo "== summary"
	grep -hE '^(ok|FAIL| *--- FAIL|panic:)[^a-z]' .cache/test-{unit,lab,fuzz-short}.log || true
	printf '%s' "$$summary"
	exit $$failed

unit: go ## unit tests alone (V=-v shows each)
	go test $(V) ./...

race: go ## unit tests under the race detector
	@.ci/install gcc libc6-dev
	go test -race ./...

lint: go $(LINT) ## golangci-lint, with the import rules of the layout
	$(LINT) run ./...

fuzz: go ## each fuzz target for a minute (FUZZ_TIME)
	.ci/fuzz $(FUZZ_TIME)

fuzz-short: go
	.ci/fuzz 10s

calibrate: go ## 2,000 made-up sweeps for each promise of the statistics: how often effects and comparisons are right; 3 minutes
	QDSWEEP_CALIBRATE=full go test ./sweep/stats -run Simulated -v -timeout 1h

bench: build lab-tools ## the engines against fio, a run's own overhead (in the lab, too), plans, rows; into docs/benchmarks.md
	@.ci/install fio bonnie++
	mkdir -p .cache
	{
		go test -run '^$$' -bench '$(BENCH)' -timeout 1h ./workload/... ./sweep/...
		case '$(BENCH)' in .|*Lab*) bin/qdlab test --timeout $(LAB_TIMEOUT) --tool fio --bench '$(BENCH)' ./cmd/qdsweep ./sweep ./workload ;; esac
	} 2>&1 | tee .cache/bench.log
	[ '$(BENCH)' != . ] || .ci/bench-page .cache/bench.log docs/benchmarks.md

demo: build lab-tools ## the project's main job on emulated drives, two minutes; output in ./demo
	bin/qdlab demo

lab: build lab-tools ## the lab tier alone: tests as root under a real kernel
	bin/qdlab test --timeout $(LAB_TIMEOUT) $(LAB)

lab-full: build lab-tools ## the lab tier with the long variants of chaos: an hour or two
	QDSWEEP_CHAOS=long bin/qdlab test --timeout 3h $(LAB)

chaos: build lab-tools ## only these: 200 kills of main, keeper, worker, 20 power cuts, pulled drives, full disks, a night (RUN=, QDSWEEP_SEED=)
	QDSWEEP_CHAOS=long bin/qdlab test --timeout 3h --run '$(or $(RUN),(?i)kill|crash|resumed|night)' $(LAB)

night: build lab-tools ## a sweep of 300 runs with five misfortunes, ended by one resume; into docs/a-night.md
	@mkdir -p .cache
	QDSWEEP_CHAOS=long bin/qdlab test --timeout 1h --run '^TestLabCutANight$$' ./cmd/qdsweep | tee .cache/night.log
	.ci/bench-page .cache/night.log docs/a-night.md

trees: build lab-tools ## capture the guests that unit tests look at anew (sysfs/testdata/trees), and write the goldens; look at these
	for setup in sysfs/testdata/trees/*.sh; do
		guest=$$(sed -n 's/^# Guest \([a-z]*\):.*/\1/p' "$$setup")
		bin/qdlab capture --setup "$$setup" "$$guest" "$${setup%.sh}.tar.gz"
	done
	go test ./sysfs -run Captured -update-trees

clean: ## what make has built (not the lab's kernel in ~/.cache/qdsweep-lab)
	rm -rf bin .cache demo bench

go:
	@.ci/go-version

lab-tools: build
	@packages=$$(bin/qdlab packages); [ -z "$$packages" ] || .ci/install $$packages

$(LINT): | go
	@echo "building golangci-lint $(LINT_VERSION) into .cache (once: about 4 minutes on two cores, 300 MB of modules)"
	GOFLAGS= GOBIN=$(CURDIR)/$(dir $(LINT)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

# A recipe is one script: conditions and loops need no backslashes.
.ONESHELL:
