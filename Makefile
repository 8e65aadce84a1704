# Lockstep: every target sets up what it needs. Nothing outside this folder is written.
# Needs Python 3.11 to 3.13 and a C++ compiler; `make PYTHON=python3.12 ...` picks the interpreter.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check
INPUTS := pyproject.toml constraints.txt

CODE   := accel bench compiler examples fpga lockstep runtime tests

# A file's tests share what they build. Files go as they stand: by default those with few tests would
# come last, and among them are the longest.
SPREAD := -n 2 --dist loadfile --no-loadscope-reorder

# Python keeps what it compiles (`make clean` removes it): tests start many processes, and each would
# compile hundreds of files again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-slow lint bench scoreboard clean

help:            ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.stamp-test   ## set up .venv (once; again when pyproject.toml or constraints.txt change)

demo: venv       ## compile a small network and run it on the simulated accelerator
	@$(PY) -m examples.digits.demo

# Both processes read all tests. So what Python compiles is compiled before, once, and asserts stay as they
# are: to rewrite them takes as long as all else. Tests that failed run again, for what asserts compared.
test: venv       ## run the tests, the slow ones excepted; OPTIONS="--durations=15" for pytest
	@$(PY) -m compileall -q -j 2 $(CODE)
	@$(PY) -m pytest tests -m "not slow" $(SPREAD) --assert=plain $(OPTIONS) || { test $$? -eq 1 && \
	  $(PY) -m pytest tests -m "not slow" --last-failed --last-failed-no-failures=none; exit 1; }

test-slow: $(VENV)/.stamp-dev   ## run the slow tests too, and those that need torch or FPGA tools
	@$(PY) -m pytest tests $(SPREAD)

lint: $(VENV)/.stamp-lint   ## check style (ruff) and types (pyright)
	@$(PY) -m ruff check .
	@$(PY) -m pyright

bench: venv      ## measure the figures of FIGURES="name ..." (all without it) and print them
	@$(PY) -m bench.scoreboard measure $(FIGURES)

scoreboard: venv ## measure every figure; fail when a floor once reached is lost
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

$(VENV)/.stamp-test: $(INPUTS) | $(PY)
	@echo "Installing Lockstep and its tools into $(VENV) (once; about a minute)"
	@$(PIP) --editable '.[test]' --constraint constraints.txt
	@touch $@

$(VENV)/.stamp-lint: $(INPUTS) | $(VENV)/.stamp-test
	@echo "Installing the linters into $(VENV)"
	@$(PIP) --editable '.[lint]' --constraint constraints.txt
	@touch $@
