# `make demo` and `make test` need nothing but Python 3.11 or later and make; both set up .venv themselves.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# What was installed last; a change of either file installs again.
STAMP := $(VENV)/.installed

.PHONY: help setup demo test check bench clean

help:  ## show what can be made
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with everything that development and the demo need

$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit("loadgen needs Python 3.11 or later") if sys.version_info < (3, 11) else None'
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'torch==2.13.0'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[target,dev]'
	@touch $@

demo: $(STAMP)  ## record the sample log, start the bundled target, replay with a doubled peak, show the report
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh traces/demo.sh

check: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check  ## style, types and every test
	$(BIN)/python -m pytest -n 3 --dist loadfile

bench: $(STAMP)  ## measure speed: ratios within one run
	$(BIN)/python benchmarks/client_speed.py

clean:  ## remove what was made, save run folders
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist demo *.egg-info
