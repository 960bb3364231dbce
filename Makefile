# Every target does its own set-up: git, make and Python 3.11 or newer are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := build/tools
ENGINES := build/engines
WIRE := common/wire
WHEELS := $(wildcard wheels/*/pyproject.toml)

INSTALL := "$(PYTHON)" tools/install.py

.PHONY: install demo wheels test test-merge test-night bench static check wire image base-image compose-demo fuzz docs pictures clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml $(WHEELS) requirements/dev.lock tools/install.py deploy/setup.sh
	@PYTHON="$(PYTHON)" sh deploy/setup.sh $(VENV) dev
	@touch $@

# The demo needs a third of the packages that tests need; what is installed for either serves both.
$(VENV)/.demo: pyproject.toml $(WHEELS) requirements/demo.lock tools/install.py deploy/setup.sh
	@PYTHON="$(PYTHON)" sh deploy/setup.sh $(VENV) demo
	@touch $@

demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo)
	$(BIN)/dppca-simulate demo --output results/demo --replace

# The four wheels, in dist.
wheels: install
	$(BIN)/python tools/install.py pip wheel --quiet --no-deps --no-build-isolation --no-index \
		--wheel-dir dist . $(dir $(WHEELS))

# The image of curator and owners; BASE_IMAGE and BUILD_NETWORK are explained in deploy/compose.sh.
image: install
	sh deploy/compose.sh image

# A base for it where no image can be pulled (root, debootstrap, a Debian mirror).
base-image:
	sh deploy/compose.sh base-image

compose-demo: install
	sh deploy/compose.sh demo

# Tests are in three tiers, by folder (CONTRIBUTING says which is for what). Two workers with one
# BLAS thread each: more threads than cores only get in each other's way.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Every push: needs nothing but Python.
test: install
	$(PYTEST) tests/push

# Every landing: with PostgreSQL, Chromium, Compose and systemd's tools from Debian's packages.
test-merge: install
	$(PYTEST) tests/merge

# Before an issue is done and before a tag: DUE=1 runs all that is due and commits its record,
# SUITES="audits spark" some suites, SUITES="--landing 300" what a landing runs in that many seconds.
# Containers and Spark need a Docker engine and Java 17.
SUITES ?=
DUE ?=
test-night: install
	$(BIN)/python -m tools.night $(if $(DUE),--due --commit) $(SUITES)

# Spark's environment is its own, because pyspark has another pandas. It comes as a source archive:
# setuptools, of the locked bytes too, makes its wheel.
$(ENGINES)/.installed: requirements/spark.lock requirements/build.lock pyproject.toml $(WHEELS)
	$(INSTALL) $(ENGINES) build
	$(INSTALL) $(ENGINES) spark --editable
	touch $@

# The pictures of the documentation, and those that the night compares pages and charts with.
pictures: install
	DPPCA_STORE_PICTURES=1 $(BIN)/python -m pytest -q tests/night/pictures

# Timings beside a reference, written to docs/evidence/performance.json and its page; half an hour.
bench: install
	$(BIN)/python -m benchmarks.performance --write

# Hostile bytes, for ten CPU minutes or MINUTES; every push has a short run of the same.
MINUTES ?= 10
fuzz: install
	$(INSTALL) $(VENV) fuzz
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES)

$(VENV)/.docs: requirements/docs.lock $(VENV)/.installed
	$(INSTALL) $(VENV) docs
	@touch $@

# The site, in build/site: strict about links, and nothing in it loads anything from elsewhere.
docs: $(VENV)/.docs
	$(BIN)/python -m tools.pages --check
	$(BIN)/python -m tools.words
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Style, types, import rules, generated code; the lock files and the form of compose files.
static: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.wire --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) tests/static

# Everything that there is to check.
check: static docs test test-merge test-night

.PHONY: lock audit sbom

# Every package pinned with the digests of its files, for all Pythons and systems, from pyproject.toml.
# Versions that still hold are kept; UPGRADE=1 takes the newest. No file names a registry.
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-package dppca-verify \
	--no-annotate --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade) \
	--custom-compile-command "make lock, for requirements with the SHA-256 $$($(TOOLS)/bin/python -m tools.lock)"

# The demo reads one file of statsmodels and runs none of it, so what statsmodels imports is left out.
UNREAD = $(addprefix --no-emit-package ,formulaic interface-meta pandas patsy wrapt)

lock: $(TOOLS)/.installed
	$(COMPILE) pyproject.toml --extra dev --output-file requirements/dev.lock
	$(COMPILE) pyproject.toml --extra demo --group build --constraints requirements/dev.lock $(UNREAD) --output-file requirements/demo.lock
	$(COMPILE) pyproject.toml --extra curator --constraints requirements/dev.lock --output-file requirements/runtime.lock
	$(COMPILE) pyproject.toml --extra page --extra plots --constraints requirements/dev.lock --output-file requirements/site.lock
	$(COMPILE) --group verify --constraints requirements/dev.lock --output-file requirements/verify.lock
	$(COMPILE) --group build --constraints requirements/dev.lock --output-file requirements/build.lock
	$(COMPILE) --group fuzz --output-file requirements/fuzz.lock
	$(COMPILE) --group tools --output-file requirements/tools.lock
	$(COMPILE) --group docs --constraints requirements/dev.lock --output-file requirements/docs.lock
	$(COMPILE) pyproject.toml --extra spark --extra curator --group engines --constraints requirements/runtime.lock --output-file requirements/spark.lock

# Known weaknesses of what is locked. Fails where the database cannot be reached too, unless
# WHERE_REACHABLE=1: it then says so, and what counts is that no other bytes than those are installed.
audit: $(TOOLS)/.installed
	$(TOOLS)/bin/python -m tools.audit $(if $(WHERE_REACHABLE),--where-reachable)

# What the deployed software is made of, as CycloneDX JSON.
sbom: install
	$(BIN)/python -m tools.sbom dist/sbom.json

$(TOOLS)/.installed: requirements/tools.lock
	$(INSTALL) $(TOOLS) tools
	touch $@

wire: install
	$(BIN)/python -m tools.wire

clean:
	rm -rf $(VENV) $(TOOLS) $(ENGINES) results .mypy_cache .ruff_cache .pytest_cache .hypothesis
