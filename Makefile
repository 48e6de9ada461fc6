# Two commands do all the set-up: `make run` and `make test`. Everything else is listed by `make help`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
NODES ?= 4
SETUPTOOLS := 80.9.0
HASHES := $(VENV)/uv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

# zig's C compiler, which compiles for other processors and for the C library of manylinux_2_28.
ZIG := $(CURDIR)/build/wheels-venv/bin/python -m ziglang cc -target aarch64-linux-gnu.2.28

.DEFAULT_GOAL := help
.PHONY: help run test docs docs-picture slow e2e faults faults-real soak hostile tasks-chaos check fmt bench bench-decide bench-base conformance fuzz wakeups audit constraints \
  hashes wheels protobuf openapi clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: $(VENV)/.run ## Start the embedded cluster, schedule the example workloads, show what runs where
	@$(BIN)/pyscheduler up --once --nodes $(NODES) --apply manifests/examples

test: $(VENV)/.dev ## Every quick test that needs nothing but Python, and the share of lines that they run
	@mkdir -p build
	@$(BIN)/slipcover -m pytest -q -n 2 --dist loadscope --ignore tests/faults -m "not slow"
	@awk '$$1 == "(summary)" {print "Line coverage: " $$4 " % without child processes; build/coverage.txt has the lines"}' build/coverage.txt

docs: build/docs-venv/.ready ## Build the docs site into build/docs; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build -q
	@echo "build/docs/index.html"

docs-picture: $(VENV)/.dev ## Renew the picture of `make run` in the README
	@$(BIN)/python -m tools.terminal_picture

slow: $(VENV)/.dev ## What `make test` leaves out: stories in real time on the embedded cluster, floods, the longest searches for planted bugs
	@$(BIN)/pytest -q -n 2 --dist loadscope --ignore tests/faults -m slow

e2e: $(VENV)/.dev ## Build and start the real Kubernetes control plane, run the end-to-end suite against it
	@$(BIN)/python -m tests.controlplane.build
	@$(BIN)/python -m tests.controlplane.build --release 1.36
	@$(BIN)/python -m tests.controlplane.build oracle
	@$(BIN)/python -m tools.protobuf --check
	@$(BIN)/python -m tools.openapi --check
	@$(BIN)/pytest -q -n 2 --dist loadfile tests/e2e tests/conformance tests/cel tests/devices --control-plane=real

faults: $(VENV)/.dev ## The fault matrix on the embedded cluster, and a soak of 45 seconds
	@$(BIN)/pytest -q tests/faults
	@$(BIN)/python -m tests.faults.soak --minutes 0.75

faults-real: $(VENV)/.dev ## The fault matrix on the real control plane
	@$(BIN)/pytest -q tests/faults --control-plane=real

soak: $(VENV)/.dev ## Churn under faults for 20 minutes, then look for leaks; options in SOAK="--minutes 60 --control-plane real ..."
	@$(BIN)/python -m tests.faults.soak $(SOAK)

hostile: $(VENV)/.dev ## The abuses of the threat model at full size: a million pod shapes, bursts of 100,000 pods; options in HOSTILE="--shapes ..."
	@$(BIN)/python -m tests.hostile.scale $(HOSTILE)

tasks-chaos: $(VENV)/.dev ## 5,000 tasks, whose backend is killed ten times, on the real control plane; options in CHAOS="--tasks 500 ..."
	@$(BIN)/python -m tests.tasks.chaos --control-plane real $(CHAOS)

check: $(VENV)/.dev ## Lint, format, types, layers, sizes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy pyscheduler plugins/pyscheduler_plugins tests plugins/tests tools bench docs/examples
	@$(BIN)/lint-imports
	@$(BIN)/python tools/import_cycles.py
	@$(BIN)/python tools/sizes.py
	@$(BIN)/python tools/vocabulary.py

bench: $(VENV)/.dev ## Measure this scheduler beside the real kube-scheduler; options in BENCH="--label performance --rounds 5 ..."
	@$(BIN)/pyscheduler bench compare $(BENCH)

conformance: $(VENV)/.dev ## Compare decisions with the real kube-scheduler's code on random clusters; options in CONFORMANCE="--cases 5000 ..."
	@$(BIN)/python -m tests.conformance $(CONFORMANCE)

fuzz: $(VENV)/.dev ## Play 100,000 random sequences of events through the core; options in FUZZ="--seed 7 --count 1000 ..."
	@$(BIN)/python -m tests.properties.sequences $(FUZZ)

wakeups: $(VENV)/.dev ## Look after each of 100,000 random events for pods that fit and stay parked; options in WAKEUPS="--seed 7 --events 1000 ..."
	@$(BIN)/python -m tests.properties.wakeups $(WAKEUPS)

audit: $(VENV)/.dev ## Look whether dependencies are pinned, installed as published, and not withdrawn
	@$(BIN)/python -m tools.audit

bench-decide: $(VENV)/.dev ## Measure decisions alone, in process; options in BENCH="--nodes 15000 ..."
	@$(BIN)/pyscheduler bench decide $(BENCH)

bench-base: $(VENV)/.dev ## Compare decisions with the base commit, or the previous one, and show what is slower
	@$(BIN)/python -m bench.decide.base

fmt: $(VENV)/.dev ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix -q . ; $(BIN)/ruff format -q .

constraints: $(VENV)/.dev ## Renew constraints.txt from what is installed, and the hashes that the image installs with
	@{ head -1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > constraints.new && mv constraints.new constraints.txt
	@$(MAKE) --no-print-directory hashes

hashes: $(VENV)/.dev ## Renew requirements.txt and requirements-build.txt, which the image is installed with, from constraints.txt
	@$(PYTHON) -m venv $(VENV)/uv && $(VENV)/uv/bin/python -m pip --disable-pip-version-check -q install uv
	@for file in requirements requirements-build; do head -1 $$file.txt > $$file.new; done
	@$(HASHES) -c constraints.txt pyproject.toml >> requirements.new
	@echo 'setuptools==$(SETUPTOOLS)' | $(HASHES) - >> requirements-build.new
	@for file in requirements requirements-build; do mv $$file.new $$file.txt; done

wheels: build/wheels-venv/.ready ## Build the sdist and the wheels for this processor and for aarch64 into dist/
	@build/wheels-venv/bin/python -m build -o dist .
	@CC="$(ZIG)" LDSHARED="$(ZIG) -shared" _PYTHON_HOST_PLATFORM=linux-aarch64 build/wheels-venv/bin/python -m build -o dist .
	@build/wheels-venv/bin/python -m wheel tags --remove --platform-tag manylinux_2_28_aarch64 dist/*-linux_aarch64.whl
	@for wheel in dist/*.whl; do $(PYTHON) -m zipfile -l $$wheel | grep -q 'kernels/compiled.*\.so' || \
	  { echo "$$wheel lacks the compiled kernels: the C compiler failed"; exit 1; }; done

protobuf: $(VENV)/.dev ## Renew the tables of protobuf fields from the .proto files of k8s.io/api; needs Go
	@$(BIN)/python -m tools.protobuf

openapi: $(VENV)/.dev ## Renew the schemas and kinds of the embedded API server from the OpenAPI that Kubernetes publishes; needs Go
	@$(BIN)/python -m tools.openapi

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info pyscheduler/kernels/*.so

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pyscheduler needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up a virtual environment in $(VENV) (once, about half a minute)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.venv pyproject.toml constraints.txt pyscheduler/kernels/compiled.c
	@$(PIP) install -c constraints.txt -e .
	@touch $@

build/docs-venv/.ready: pyproject.toml
	@echo "Setting up a virtual environment for the docs site in build/docs-venv (once, about half a minute)"
	@$(PYTHON) -m venv build/docs-venv
	@build/docs-venv/bin/python -m pip --disable-pip-version-check -q install -c constraints.txt -e '.[docs]'
	@touch $@

build/wheels-venv/.ready:
	@$(PYTHON) -m venv build/wheels-venv
	@build/wheels-venv/bin/python -m pip --disable-pip-version-check -q install build wheel ziglang
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@
