# `make` alone lists the targets. All of them need Go 1.26, the web UI Node 20.19; PostgreSQL is installed by
# scripts/postgres.sh if it is missing.
SHELL := /bin/sh
.DEFAULT_GOAL := help

TOOL    := go tool -modfile=scripts/tools/go.mod
SQLC    := CGO_ENABLED=0 $(TOOL) sqlc# its C library takes minutes to build, the same as WebAssembly seconds
VERSION ?= $(shell git describe --tags --always --dirty=-modified --abbrev=12 2>/dev/null)
# The race detector needs a C compiler, and so does nothing else: without one, tests run without the other.
RACE     = $(if $(filter 1,$(shell go env CGO_ENABLED 2>/dev/null)),-race)

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-10s %s\n", $$1, $$2 }'

.PHONY: site
site: ## Build the web UI into site/dist, where Node 20.19 or newer is there
	scripts/site.sh

.PHONY: site-test
site-test: build postgres ## Check the web UI, and test it in Chromium against bin/prewarm
	scripts/site.sh test

.PHONY: site-scale
site-scale: build postgres ## Measure the pages with PRESETS=1000 presets of EACH=100 workspaces, ROUNDS=5 times each
	PREWARM_SCALE_PRESETS=$(or $(PRESETS),1000) PREWARM_SCALE_EACH=$(or $(EACH),100) PREWARM_SCALE_ROUNDS=$(or $(ROUNDS),5) \
		scripts/site.sh scale

.PHONY: first-hour
first-hour: build postgres docker ## Do all of docs/first-hour.md in a terminal and in Chromium, in two minutes
	PREWARM_FIRST_HOUR=full scripts/site.sh first-hour

.PHONY: screenshots
screenshots: build postgres docker ## Make the pictures in docs/images anew, of a server that has something to tell
	scripts/site.sh screenshots

.PHONY: build
build: toolchain site ## Build bin/prewarm, one static binary with the web UI in it
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X main.release=$(VERSION)' -o bin/prewarm ./cmd/prewarm

.PHONY: run
run: build postgres ## Build, and start a server with a first pool of 3; ARGS='--listen :8080' adds arguments
	bin/prewarm server --quickstart $(ARGS)

# Each of these is a plan of scripts/suitetest: a fixed list of steps on one PostgreSQL and one build of the binary.
SUITES = go run ./scripts/suitetest

.PHONY: quick
quick: toolchain ## Check what needs no server, in a minute: vet, pure packages, rules; ARGS=./coderd/claim for some packages
	$(SUITES) quick $(ARGS)

.PHONY: test
test: build postgres haproxy sshd docker ## Run every test that a change must pass, in half an hour; ARGS='-only unit,race' for some
	$(if $(RACE),,@echo 'no C compiler: the tests run without the race detector')
	@scripts/k8s.sh --look
	$(SUITES) -race=$(if $(RACE),true,false) -binary bin/prewarm $(ARGS) test

.PHONY: test-long
test-long: build postgres haproxy sshd docker debian chromium helm ## Run the long suites in full, in two to three hours; ARGS='-only faults,chaos' for some
	PREWARM_KUBERNETES=$$(scripts/k8s.sh) $(SUITES) -binary bin/prewarm $(ARGS) long

.PHONY: test-ci
test-ci: build postgres haproxy sshd docker debian chromium helm ## Run the long suites in short, as CI does after `make test`; ARGS='-only e2e' for some
	PREWARM_KUBERNETES=$$(scripts/k8s.sh) $(SUITES) -binary bin/prewarm $(ARGS) ci

.PHONY: sim
sim: postgres ## Simulate replicas deterministically: SEEDS=200 of STEPS=500 each and those that once fell, or SEEDS from FIRST=n on
	PREWARM_RECORD=$(CURDIR)/docs/reliability/record.md PREWARM_SIM_SEEDS=$(or $(SEEDS),200) PREWARM_SIM_STEPS=$(or $(STEPS),500) PREWARM_SIM_FIRST=$(FIRST) PREWARM_SIM_FRESH=$(FRESH) \
		go test -count=1 -v -timeout 0 -run '^TestSeeds$$' ./coderd/simulation

.PHONY: sim-mutants
sim-mutants: postgres ## Take out one safeguard at a time, and show that an invariant of the simulation notices
	scripts/sim-mutants.sh $(ARGS)

.PHONY: upgrade
upgrade: build postgres chromium ## Run the release before beside this one on one database, with commands, claims and the old page
	$(SUITES) -binary bin/prewarm -only upgrade ci

.PHONY: tofu-test
tofu-test: toolchain postgres ## Test the provider terraform with OpenTofu, which it builds the first time, in some minutes; ARGS='-run Coder'
	program=$$(scripts/tofu.sh) && dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && chmod 0755 "$$dir" && install -m 0755 "$$program" "$$dir/tofu" && \
		CI=true PREWARM_TERRAFORM=$$dir/tofu go test -count=1 -timeout 30m ./coderd/provider/terraform $(ARGS)

.PHONY: gitea-e2e
gitea-e2e: build postgres ## Run jobs of a real Gitea, which it builds the first time, in ten minutes; ARGS=-update records its answers
	folder=$$(scripts/gitea.sh) && PREWARM_GITEA=$$folder go test -count=1 -v -timeout 30m ./coderd/e2e/gitea $(ARGS)

.PHONY: k8s-binaries
k8s-binaries: toolchain ## Build the parts of a Kubernetes cluster for `make k8s-e2e`, once for a machine, in 20 minutes
	@scripts/k8s.sh >/dev/null

.PHONY: k8s-e2e
k8s-e2e: toolchain postgres ## Test the provider kubernetes on a real cluster, as root, which `make k8s-binaries` builds the first time; ARGS='-run Causes'
	folder=$$(scripts/k8s.sh) && PREWARM_KUBERNETES=$$folder go test -count=1 -v -timeout 30m -parallel 8 ./coderd/e2e/kubernetes $(ARGS)

.PHONY: k8s-scale
k8s-scale: toolchain postgres ## Fill a pool with 5,000 pods on simulated nodes, and measure claims of them next to those of sim; PODS=300
	folder=$$(scripts/k8s.sh) && PREWARM_KUBERNETES=$$folder PREWARM_PODS=$(or $(PODS),5000) go test -count=1 -v -timeout 1h ./coderd/e2e/kubernetes/scale $(ARGS)

.PHONY: chart-e2e
chart-e2e: toolchain postgres docker helm ## Install the chart into a real cluster by Helm, as root, and upgrade it under claims
	folder=$$(scripts/k8s.sh) && PREWARM_KUBERNETES=$$folder go test -count=1 -v -timeout 30m -run '^TestClusterChart$$' ./deploy $(ARGS)

.PHONY: chaos
chaos: postgres ## Make faults of all kinds on three replicas and their database; MINUTES=10 SEED=n ARGS=-race
	PREWARM_RECORD=$(CURDIR)/docs/reliability/record.md \
		PREWARM_CHAOS=$(or $(MINUTES),2)m PREWARM_SEED=$(SEED) PREWARM_CHAOS_COMPLETE=1 \
		go test -count=1 -v -timeout $$(($(or $(MINUTES),2) + 20))m $(ARGS) ./coderd/chaos/storm

.PHONY: image
image: build ## Build the image prewarm:local of that binary; ENGINE=podman takes another builder than docker
	deploy/image.sh

.PHONY: chart
chart: helm ## Package the Helm chart into build/chart under VERSION=0.2.0
	"$$(scripts/helm.sh)" package deploy/helm/prewarm --version $(VERSION) --app-version $(VERSION) --destination build/chart

.PHONY: release
release: toolchain site ## Make build/release: archives for Linux and macOS, checksums, and lists of what is in them; VERSION=0.2.0
	scripts/release.sh $(VERSION)

.PHONY: sizing
sizing: toolchain ## Judge autosize on four weeks of traces: the table of docs/SIZING.md, in four minutes
	PREWARM_ROUNDS=20 go test -count=1 -v -timeout 1h -run '^Test(Judged|Promised|HeldOut)$$' ./coderd/sizing

.PHONY: bench
bench: postgres ## Measure beside yardsticks, 42 minutes; ARGS='-only claims -quick' for less, ARGS=-list for what there is
	go build -o bin/bench ./scripts/benchtest
	bin/bench $(ARGS)

.PHONY: mutants
mutants: postgres ## Take out one safeguard at a time, and show that a test notices
	scripts/mutants.sh $(ARGS)

.PHONY: mutate
mutate: postgres ## Try changes of operators, constants and conditions, and list those that no test notices; ARGS='-n 400 -seed 1 -rooms claim'
	go run ./scripts/mutatetest $(ARGS)

.PHONY: alerts
alerts: toolchain ## Evaluate the alert rules of deploy/ over time, with Prometheus' own engine (fetches it the first time)
	cd scripts/promql && go test -count=1 ./...

.PHONY: rules-mutants
rules-mutants: postgres ## Take out each of the rules C1 to C16, and show the test that fails then; RULES=C8 for one
	scripts/mutants.sh $(addprefix rules/,$(or $(RULES),$(shell ls scripts/mutants/rules | sed 's/\.patch$$//' | sort -V)))

.PHONY: lint
lint: toolchain ## Run golangci-lint (built the first time, in minutes); ARGS=--fix mends what it can
	$(TOOL) golangci-lint run $(ARGS)

.PHONY: fmt
fmt: toolchain ## Format all Go files as lint wants them
	$(TOOL) golangci-lint fmt

.PHONY: vet
vet: toolchain
	go vet ./...

.PHONY: gen
gen: toolchain ## Make the code of the statements, the site's types, docs/cli.md and the diagram in docs/STATE_MACHINE.md anew
	scripts/gen-sql.sh . $(SQLC)
	go test ./scripts/sitetypes -count=1 -run '^TestTypesAreCurrent$$' -update
	go test ./cmd/prewarm ./coderd/prebuilds -count=1 -run '^(TestReferenceIsCurrent|TestDocument)$$' -update

.PHONY: gen-check
gen-check: toolchain ## Fail if what is generated is not current (the documents have tests of their own)
	scripts/gen-check.sh $(SQLC)

.PHONY: clean
clean: ## Remove what was built; data directories stay
	rm -rf bin build site/node_modules
	find site/dist -mindepth 1 ! -name .gitkeep -delete

.PHONY: toolchain
toolchain:
	@command -v go >/dev/null || { echo 'make: Go 1.26 or newer is needed: https://go.dev/dl/' >&2; exit 1; }

.PHONY: postgres
postgres:
	scripts/postgres.sh

.PHONY: chromium
chromium:
	@scripts/chromium.sh >/dev/null

.PHONY: debian
debian:
	@scripts/debian.sh >/dev/null || echo 'The tests of instances that boot a Debian are left out, but on CI.'

.PHONY: docker
docker:
	scripts/docker.sh

.PHONY: docs
docs: ## Build the site of docs/ into build/docs, with search, where Node 20.19 or newer is there
	scripts/docs.sh

.PHONY: example-docker
example-docker: build postgres ## Start a server with a pool of containers, of an image that is made here
	examples/docker.sh

.PHONY: helm
helm:
	@scripts/helm.sh >/dev/null

.PHONY: haproxy
haproxy:
	scripts/haproxy.sh

.PHONY: sshd
sshd:
	scripts/sshd.sh
