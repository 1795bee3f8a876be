# One entry point: build, test, demo, bench. CI runs what people run (.ci/run).
#
#   make build        a release build in .venv, whose command is .venv/bin/farfield
#   make check        formatters, linters and type checkers of both languages, licences of dependencies
#   make quick        after each change: make check, unit tests of the crates that differ from HEAD, the tests of Python that are not slow
#   make test         make check and all tests of both languages
#   make demo         a flow larger than the limit: convert, trace, draw
#   make bench        all experiments; make bench-NAME one of them (.venv/bin/farfield-bench list)
#   make bench-setup  an environment for each peer that the experiments run, in .peers (Parcels compiles by gcc)
#   make soak         the tests that look for trouble at random, about SOAK_S seconds for each group of them
#   make clean        removes what these make, except the demo's data

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PEERS := h5py obstore tensorstore vtk zarr zarrs
ENVIRONMENTS := .peers
CARGO := cargo
SOAK_S ?= 3600
# Files of Python tests that run at the same time.
TEST_JOBS ?= 2
DEMO_DIR ?= farfield-demo

# The first Python that is new enough; version managers leave names behind that do not run.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock .cargo/config.toml

# Extensions link to whatever Python loads them, so they have no test binaries of their own; their tests are in tests/.
CRATES := --workspace --exclude farfield-python --exclude farfield-bench-python --exclude farfield-python-calls

.PHONY: build check quick test test-rust test-python demo bench bench-setup soak clean
build: $(VENV)/.built

# The packages of some of the extras of both projects, "farfield" for what the first itself needs, without building it a second time;
# into another environment if one is named.
define install
$(BIN)/python -c "import sys, tomllib; own, bench = (tomllib.load(open(f, 'rb'))['project'] for f in ('pyproject.toml', 'bench/pyproject.toml')); \
	of = {'farfield': own['dependencies'], **own['optional-dependencies'], **bench['optional-dependencies']}; \
	print(*(r for n in sys.argv[1:] for r in of[n]), sep='\n')" $(1) \
	| $(or $(2),$(VENV))/bin/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin
endef

$(VENV)/.made: pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "Farfield needs Python 3.11 or newer, and no python3 here is: install one, or say make PYTHON=..." >&2; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo "Farfield needs Rust (cargo) to build: install it with rustup, or from your distribution (1.89 or newer)" >&2; exit 1; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(call install,dev)
	touch $@

$(VENV)/.built: $(VENV)/.made $(RUST)
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet
	touch $@

# The experiments are an extension and a package of their own.
$(VENV)/.bench: $(VENV)/.built bench/pyproject.toml
	cd bench && VIRTUAL_ENV=$(abspath $(VENV)) $(abspath $(BIN))/maturin develop --release --quiet
	touch $@

$(VENV)/.peers: $(VENV)/.made
	$(call install,peers $(PEERS))
	touch $@

$(ENVIRONMENTS)/parcels/.made: $(VENV)/.made
	@command -v gcc >/dev/null || { echo "Parcels compiles its kernel by gcc, and none is here: install it from your distribution" >&2; exit 1; }
	$(BIN)/python -m venv $(@D)
	$(call install,parcels,$(@D))
	touch $@

# The experiments run our own module there, which needs what Farfield needs.
$(ENVIRONMENTS)/%/.made: $(VENV)/.made
	$(BIN)/python -m venv $(@D)
	$(call install,farfield $*,$(@D))
	touch $@

bench-setup: $(patsubst %,$(ENVIRONMENTS)/%/.made,$(PEERS) parcels)

check: $(VENV)/.bench $(VENV)/.peers
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --offline --log-level error check licenses bans sources; \
		else echo "cargo-deny is not installed: licences of dependencies are not compared with deny.toml"; fi
	$(BIN)/ruff format --check python bench tests tools conftest.py
	$(BIN)/ruff check python bench tests tools conftest.py
	$(BIN)/mypy
	$(BIN)/mypy tools/compare_builds
	$(BIN)/stubtest farfield._native farfield_bench._native

# Crates with files that differ from HEAD, or are new.
CHANGED = $(shell { git diff --name-only HEAD; git ls-files --others --exclude-standard; } \
	| sed -n 's,^crates/\([^/]*\)/.*,\1,p' | sort -u | grep -v '^bench-python\|^python' | sed 's/^/--package farfield-/')

quick: check
	$(if $(CHANGED),$(CARGO) test --release --quiet --lib $(CHANGED))
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile -m "not slow"

test: check test-rust test-python

test-rust: $(VENV)/.built
	$(CARGO) test --release --quiet $(CRATES)

test-python: $(VENV)/.bench $(VENV)/.peers
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --durations=30

demo: build
	$(BIN)/farfield demo --dir $(DEMO_DIR)

bench: $(VENV)/.bench $(VENV)/.peers
	$(BIN)/farfield-bench run all
	$(BIN)/farfield-bench report

bench-%: $(VENV)/.bench $(VENV)/.peers
	$(BIN)/farfield-bench run $*
	$(BIN)/farfield-bench report

# The pager's random tests count cases, of which it does about sixty a second.
soak: $(VENV)/.bench $(VENV)/.peers
	FARFIELD_SOAK_S=$(SOAK_S) FARFIELD_CASES=$$(( $(SOAK_S) * 60 )) $(CARGO) test --release $(CRATES)
	FARFIELD_SOAK_S=$(SOAK_S) $(BIN)/python -m pytest

clean:
	rm -rf $(VENV) $(ENVIRONMENTS) target compare-data .mypy_cache .ruff_cache .pytest_cache bench-data
	find python bench tests -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/farfield/_native*.so bench/python/farfield_bench/_native*.so
