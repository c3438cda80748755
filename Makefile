# make run     build what is needed and recover a matrix with five solvers
# make test    lint, types, tests: what CI runs
# make bench   timings, on a quiet machine
# make sanitize  the kernel tests on an AddressSanitizer/UBSan build

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := pyproject.toml CMakeLists.txt $(wildcard src/kernels/*)

.PHONY: run test lint types bench sanitize clean

run: $(STAMP)
	$(BIN)/lorank demo

test: lint types
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/iteration.py
	$(BIN)/python benchmarks/solve.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/convergence.py

sanitize: $(STAMP)
	PYTHON=$(CURDIR)/$(BIN)/python sh tools/sanitize.sh

# Editable: changes to the Python files need no rebuild, changes to the kernels do.
$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build
