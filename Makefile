# make run     build what is needed and recover a matrix with five solvers
# make test    lint, types, tests (SLOW=--slow: all of them, as in CI)
# make test-variations  the solvers' and kernels' tests as other machines would run them; CI runs this after make test
# make docs    the site, into build/docs/html; warnings are errors
# make docs-test  the built site: links, pictures, and pages in Chromium at two widths
# make bench   timings, on a quiet machine (bench-core, bench-peers, bench-maps)
# make release-check  sdist and wheels: built, checked, installed into bare environments, tried
# make test-oldest    the tests with the oldest versions that are supported, in an environment of their own
# make coverage       what the tests run, kernels included
# make timings        five kernels and five solves, for this commit; build/timings.jsonl keeps them
# make fuzz    random attacks on files, runs and inputs: some CPU minutes (make fuzz FUZZ="csv --seed 7")
# make sanitize  the kernel tests on an AddressSanitizer/UBSan build

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
SOURCES := pyproject.toml CMakeLists.txt $(wildcard src/kernels/*)

.PHONY: run test test-variations lint types docs docs-test bench bench-core bench-peers bench-maps release-check test-oldest coverage timings fuzz sanitize clean

run: $(STAMP)
	$(BIN)/lorank demo

# SLOW=--slow adds the tests that only CI runs.
test: lint types
	$(BIN)/python -m pytest -n auto $(SLOW)

test-variations: $(STAMP)
	$(BIN)/python tools/variations.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Examples of the gallery that have not changed are not run again. LORANK_GALLERY=show builds without running any.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/docs/doctrees docs build/docs/html
	@echo "the site: build/docs/html/index.html"

docs-test: docs
	$(BIN)/python -m pytest -p no:cacheprovider docs/_tests

bench: bench-core bench-peers bench-maps

# Passes, iterations, solves, threads, sizes and memory: some minutes.
bench-core: $(STAMP)
	$(BIN)/python benchmarks/passes.py
	$(BIN)/python benchmarks/iteration.py
	$(BIN)/python benchmarks/solve.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/convergence.py

# lorank beside its peers, in an environment of their own: most of an hour. Cut off, it goes on where it was.
bench-peers: $(STAMP)
	mkdir -p build/bench
	$(BIN)/python benchmarks/peers/run.py all --log build/bench/peers.jsonl

# From how few measurements matrices and signals are recovered, with fewer instances than docs/benchmarks has.
bench-maps: $(STAMP)
	mkdir -p build/bench
	$(BIN)/python benchmarks/recovery.py run --instances 5 --log build/bench/recovery.jsonl
	$(BIN)/python benchmarks/recovery.py report --log build/bench/recovery.jsonl
	$(BIN)/python benchmarks/solver_maps.py --quick
	$(BIN)/python benchmarks/phase_map.py run --trials 5 --log build/bench/phase.jsonl
	$(BIN)/python benchmarks/phase_map.py report --log build/bench/phase.jsonl

release-check:
	PYTHON=$(PYTHON) sh tools/release_check.sh

test-oldest:
	PYTHON=$(PYTHON) sh tools/oldest.sh

coverage: $(STAMP)
	PYTHON=$(CURDIR)/$(BIN)/python sh tools/coverage.sh

timings: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tools/timings.py

# FUZZ="--short" is what CI runs as tests/test_fuzz.py.
fuzz: $(STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tools/fuzz.py $(FUZZ)

sanitize: $(STAMP)
	PYTHON=$(CURDIR)/$(BIN)/python sh tools/sanitize.sh

# Editable: changes to the Python files need no rebuild, changes to the kernels do.
$(STAMP): $(SOURCES)
	@echo "lorank: an environment of its own in $(VENV), once; then its packages, and the kernels compiled: some two minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[dev]"
	touch $@

# lorank is there by now, so that this brings its extra alone and compiles nothing again.
$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "lorank[docs]"
	touch $@

clean:
	rm -rf $(VENV) build docs/api docs/gallery docs/sg_execution_times.rst
