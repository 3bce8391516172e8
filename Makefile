# Every target sets up what it needs in .venv and node_modules; the second time that costs nothing. `make run` needs a
# third of the packages that the tests need, and installs no more.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two at a time: the Python and the Node packages of a new checkout are fetched together.
MAKEFLAGS += --no-builtin-rules --jobs=2

# What a shell has set for its own Python would change what is imported and how fast it starts.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONWARNINGS
# A make that a test runs is not a part of this one.
unexport MAKEFLAGS MFLAGS

PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
INSTALL := $(PY) -m tools.installing
# Stamps: everything that the tests need is there; what the program itself needs is there; the program is installed.
VENV := .venv/.ready
RUNTIME := .venv/.runtime
PACKAGE := .venv/.installed
NODE := node_modules/.ready
# The web page: what builds it, what its tests need as well, and the page.
WEB_RUNTIME := web/node_modules/.runtime
WEB := web/node_modules/.ready
PAGE := src/dragoman/host/serving/page/table.json
PAGE_SOURCES := web/build.mjs $(wildcard web/src/* web/src/*/* web/src/*/*/*)
REQUIREMENTS := $(wildcard requirements/*.txt)
RUNTIME_REQUIREMENTS := $(addprefix requirements/,agent.txt base.txt build.txt remote.txt tui.txt)
# With any other target than `run` all is fetched at once.
NEEDED := $(if $(filter-out run,$(or $(MAKECMDGOALS),help)),$(VENV),$(RUNTIME))
PINNED := tests/interop/agents/packages
FRAMEWORKS := .agents/frameworks/.ready
AGENTS := $(patsubst $(PINNED)/%/package-lock.json,.agents/%/.ready,$(wildcard $(PINNED)/*/package-lock.json))

TSC := web/node_modules/.bin/tsc
TYPES := .venv/bin/mypy && $(PY) -m tools.pythons && if [ -x $(TSC) ]; then $(TSC) --noEmit -p web; \
	  else echo "the types of the web page are not checked: make $(WEB) fetches what that needs"; fi

NODE_RUNS := command -v npm >/dev/null && node -e 'process.exit(+(parseInt(process.versions.node) < 20))' 2>/dev/null
# Fetches the packages of a lock file: $(call FETCH,what,folder,options of npm).
FETCH = echo "fetching the Node packages of $(1) into $(2)"; \
	( while sleep 8 &>/dev/null; do echo "  $(2): npm has run for $$SECONDS s"; done ) & ticks=$$!; \
	trap 'kill $$ticks' EXIT; \
	( cd $(dir $(2)) && npm ci --silent $(3) ); \
	echo "  $(2) is ready after $$SECONDS s: $$(du -sm $(2) | cut -f1) MB"

# The first interpreter that runs, is of a supported version, and can make an environment. PYTHON=... goes first.
FIND_PYTHON = for python in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3; do \
	  "$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	    >/dev/null 2>&1 && break; python=; done

# A new environment, after a line that says so.
MAKE_VENV = $(FIND_PYTHON); \
	if [ -z "$$python" ]; then \
	  echo "make: Python 3.11, 3.12, 3.13 or 3.14 with its venv module is needed; install one, or name it: make PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi; \
	echo "making .venv with $$("$$python" --version)"; \
	rm -rf .venv; \
	"$$python" -m venv .venv

.PHONY: help run no-page test check lint types package bench soak interop mutants sample paths agents docs screenshots clean

help: ## show this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 18

run: $(PACKAGE) $(if $(shell $(NODE_RUNS) && echo yes),$(PAGE),no-page) ## a tour with a scripted model: the terminal client, or a full turn without a terminal
	@if [ -e $(PAGE) ]; then echo "the same in a browser: $(PY) -m dragoman demo --web"; fi
	@if [ -t 0 ] && [ -t 1 ]; then exec $(PY) -m dragoman demo --talk; else exec $(PY) -m dragoman demo; fi

# Types are checked while the tests start: the type checker uses one core only, and so does the search for tests. Tests wait
# for programs, terminals and pages for much of their time, so there are five processes for two cores.
test: lint $(NODE) $(WEB) $(PAGE) ## the whole gate: make check, and every test
	@{ $(TYPES); } >.venv/types.log 2>&1 & checking=$$!; \
	echo "types are checked meanwhile; their result stands at the end"; \
	echo "tests, in five processes for two cores"; \
	workers=$$(( $$(nproc 2>/dev/null || echo 2) * 5 / 2 )); \
	together=0; $(PY) -m pytest -n $$workers --maxprocesses 5 --dist worksteal -m "not alone" || together=$$?; \
	types=0; wait $$checking || types=$$?; \
	echo "tests that need the machine to themselves"; \
	alone=0; $(PY) -m pytest -m alone || alone=$$?; \
	echo "$$(<.venv/types.log)"; \
	if [ $$types != 0 ]; then echo "make: the types are wrong; the last lines name them" >&2; exit $$types; fi; \
	if [ $$together != 0 ]; then echo "make: tests failed; the first list above names them" >&2; exit $$together; fi; \
	exit $$alone

check: lint types ## linter, formatting, types, and the schema on every supported Python

lint: $(PACKAGE)
	@echo "linter and formatting"
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check

types: $(PACKAGE)
	@echo "types, which takes a minute the first time"
	@$(TYPES)

package: $(PACKAGE) $(PAGE) ## build the wheel and the sdist in dist/, and check them
	@$(PY) -m tools.package dist

bench: $(PACKAGE) $(NODE) $(WEB) $(PAGE) ## compare with the official SDKs and with raw pipes
	@$(PY) -m benchmarks
	@$(PY) -m benchmarks.sandbox
	@$(PY) -m benchmarks.judging
	@$(PY) -m benchmarks.guard
	@$(PY) -m benchmarks.remote
	@$(PY) -m benchmarks.streaming
	@$(PY) -m benchmarks.local_host
	@$(PY) -m benchmarks.snapshots
	@$(PY) -m benchmarks.terminal
	@$(PY) -m benchmarks.web

soak: $(PACKAGE) $(NODE) $(WEB) $(PAGE) ## long faults, many connections, many examples, and the role tests over every transport; minutes
	@DRAGOMAN_SOAK=1 $(PY) -m pytest -m soak
	@DRAGOMAN_SOAK=1 $(PY) -m pytest -n auto --maxprocesses 4 -m "hypothesis and not soak"
	@DRAGOMAN_SOAK=1 $(PY) -m pytest -n auto --maxprocesses 4 -m "not soak" tests/agent
	@for link in unix ws http; do \
	  DRAGOMAN_CLIENT_LINK=$$link $(PY) -m pytest -n auto --maxprocesses 4 tests/client || exit; done

interop: $(PACKAGE) $(NODE) $(AGENTS) $(FRAMEWORKS) ## the official SDKs as peers, both ways, real agents and frameworks
	@DRAGOMAN_REAL_AGENTS=1 $(PY) -m pytest tests/interop

mutants: $(PACKAGE) ## how many of a fixed list of mistakes the judge catches
	@$(PY) -m tests.conformance.mutation_run

sample: $(PACKAGE) ## how many of 60 small mistakes in src, made one at a time in a copy, the tests notice
	@$(PY) -m tools.source_mutants

paths: $(PACKAGE) ## how many functions and modules the work of users passes through
	@$(PY) -m tools.paths

agents: $(AGENTS) ## install the real agents that make interop drives (2.4 GB)

docs: $(PACKAGE) ## rewrite the generated pages of docs/, and the pictures of commands
	@$(PY) -m tools.pages
	@$(PY) -m tools.screenshots

screenshots: $(PACKAGE) ## rewrite all pictures of docs/images, those of web pages too (needs Chromium)
	@$(PY) -m tools.screenshots --pages

clean: ## remove what make made
	rm -rf dist .venv node_modules web/node_modules $(dir $(PAGE)) .agents .mypy_cache .pytest_cache .ruff_cache .hypothesis

# What `make run` installed is kept if its pins are still the same.
$(VENV): $(REQUIREMENTS)
	@keep=; if [ -e $(RUNTIME) ] && [ ! -e $@ ]; then keep=1; fi; \
	for file in $(RUNTIME_REQUIREMENTS); do if [ "$$file" -nt $(RUNTIME) ]; then keep=; fi; done; \
	if [ -z "$$keep" ]; then $(MAKE_VENV); fi; \
	$(INSTALL) $(REQUIREMENTS); \
	touch $(RUNTIME) $@

# An environment for the tests has all of it. Its time stays, or the program would be installed again.
$(RUNTIME): $(RUNTIME_REQUIREMENTS)
	@keep=; if [ -e $(VENV) ]; then keep=1; fi; \
	for file in $(RUNTIME_REQUIREMENTS); do if [ "$$file" -nt $(VENV) ]; then keep=; fi; done; \
	if [ -n "$$keep" ]; then touch -r $(VENV) $@; exit; fi; \
	$(MAKE_VENV); \
	$(INSTALL) $(RUNTIME_REQUIREMENTS); \
	touch $@

$(PACKAGE): $(NEEDED) pyproject.toml src/dragoman/_version.py
	@echo "installing dragoman itself, from src"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(NODE): package.json package-lock.json
	@if ! { $(NODE_RUNS); }; then \
	  echo "make: Node.js 20 or newer with npm is needed for the TypeScript peer of the interop tests; install it" >&2; \
	  exit 1; \
	fi
	@$(call FETCH,the TypeScript peer,node_modules)
	@touch $@

no-page:
	@echo "the page of dragoman web is left out: Node.js 20 or newer with npm is needed to build it"

# What the tests fetched serves `make run` as well.
$(WEB_RUNTIME): web/package.json web/package-lock.json
	@if ! { $(NODE_RUNS); }; then \
	  echo "make: Node.js 20 or newer with npm is needed to build the web page; install it" >&2; \
	  exit 1; \
	fi
	@if [ -e $(WEB) ] && [ $(WEB) -nt web/package-lock.json ]; then touch $@; exit; fi; \
	$(call FETCH,the web page,web/node_modules,--omit=dev); \
	touch $@

$(WEB): web/package.json web/package-lock.json
	@if ! { $(NODE_RUNS); }; then \
	  echo "make: Node.js 20 or newer with npm is needed to build and test the web page; install it" >&2; \
	  exit 1; \
	fi
	@$(call FETCH,the web page and its tests,web/node_modules)
	@touch $(WEB_RUNTIME) $@

$(PAGE): $(PAGE_SOURCES) $(if $(filter-out run package,$(or $(MAKECMDGOALS),help)),$(WEB),$(WEB_RUNTIME))
	@node web/build.mjs

.agents/frameworks/.ready: tests/interop/frameworks/requirements.txt $(VENV)
	@echo "installing the frameworks that adapters wrap (300 MB)"
	@rm -rf $(@D)
	@$(PIP) install --target $(@D) -r $<
	@touch $@

.agents/%/.ready: $(PINNED)/%/package.json $(PINNED)/%/package-lock.json | $(NODE)
	@echo "installing the agent $*"
	@rm -rf $(@D)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@cd $(@D) && npm ci --silent --ignore-scripts
	@touch $@
