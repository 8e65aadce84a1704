# Lockstep: every target sets up what it needs. Nothing outside this folder is written.
# Needs Python 3.11 to 3.13 and a C++ compiler; `make PYTHON=python3.12 ...` picks the interpreter.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile
INPUTS := pyproject.toml constraints.txt

CODE   := accel asic bench compiler examples fpga lockstep runtime tests

# A file's tests share what they build. Files go as they stand: by default those with few tests would
# come last, and among them are the longest. Three processes on two cores: one of them often waits.
SPREAD := -n 3 --dist loadfile --no-loadscope-reorder

# Python keeps what it compiles (`make clean` removes it): tests start many processes, and each would
# compile hundreds of files again. pip compiles nothing: most files of packages are never imported.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-slow lint docs bench scoreboard clean

help:            ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.stamp   ## set up .venv (once; again when pyproject.toml or constraints.txt change)

demo: venv       ## compile a small network and run it on the simulated accelerator
	@$(PY) -m examples.digits.demo

# Each process reads all tests. So what Python compiles is compiled before, once, and asserts stay as they
# are: to rewrite them takes as long as all else. Tests that failed run again, for what asserts compared.
test: $(VENV)/.stamp-test       ## run the tests, the slow ones excepted; OPTIONS="--durations=15" for pytest
	@$(PY) -m compileall -q -j 2 $(CODE)
	@$(PY) -m pytest tests -m "not slow" $(SPREAD) --assert=plain $(OPTIONS) || { test $$? -eq 1 && \
	  $(PY) -m pytest tests -m "not slow" --last-failed --last-failed-no-failures=none; exit 1; }

test-slow: $(VENV)/.stamp-dev   ## run the slow tests too, and those that need torch or FPGA tools
	@$(PY) -m pytest tests $(SPREAD)

lint: $(VENV)/.stamp-lint   ## check style (ruff) and types (pyright)
	@$(PY) -m ruff check .
	@$(PY) -m pyright

docs: $(VENV)/.stamp-docs   ## make the pages and the API reference a site, build/site
	@$(PY) -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs/site . build/site
	@echo "build/site/index.html"

bench: $(VENV)/.stamp-test   ## measure the figures of FIGURES="name ..." (all without it) and print them
	@$(PY) -m bench.scoreboard measure $(FIGURES)

scoreboard: $(VENV)/.stamp-test   ## measure every figure; fail when a floor once reached is lost
	@$(PY) -m bench.scoreboard

clean:           ## remove what tests, tools and builds left behind; .venv stays
	@rm -rf build *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(VENV)/.stamp-dev: $(INPUTS) | $(VENV)/.stamp-test
	@echo "Installing what the other tests need into $(VENV): torch, FPGA tools, trained networks (a few GB)"
	@$(PIP) --editable '.[dev,real]' --constraint constraints.txt
	@touch $@

# An interpreter that is already there is kept, whoever made it.
$(PY):
	@$(PYTHON) -c 'import sys; v = sys.version_info; (3, 11) <= v[:2] <= (3, 13) or sys.exit( \
	  f"PYTHON must be Python 3.11 to 3.13, not {v[0]}.{v[1]} ($(PYTHON)): try make PYTHON=python3.12")'
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp: $(INPUTS) | $(PY)
	@echo "Installing Lockstep and its tools into $(VENV) (once; less than a minute)"
	@$(PIP) --editable . --constraint constraints.txt
	@touch $@

$(VENV)/.stamp-test: $(INPUTS) | $(VENV)/.stamp
	@echo "Installing what the tests need into $(VENV)"
	@$(PIP) --editable '.[test]' --constraint constraints.txt
	@touch $@

$(VENV)/.stamp-lint: $(INPUTS) | $(VENV)/.stamp-test
	@echo "Installing the linters into $(VENV)"
	@$(PIP) --editable '.[lint]' --constraint constraints.txt
	@touch $@

$(VENV)/.stamp-docs: $(INPUTS) | $(VENV)/.stamp
	@echo "Installing what makes the site into $(VENV)"
	@$(PIP) --editable '.[docs]' --constraint constraints.txt
	@touch $@
