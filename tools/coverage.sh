#!/bin/sh
# What the tests run: Python files by coverage, kernels by gcov. make coverage; the pages are build/coverage/python and kernels.
#
#   sh tools/coverage.sh                   all tests
#   sh tools/coverage.sh tests/backends    these
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PYTHON=${PYTHON:-$root/.venv/bin/python}
build=$root/build/coverage
mkdir -p "$build"
PATH=$PATH:$(dirname "$PYTHON")
test -x "$build/env/bin/python" || "$PYTHON" -m venv "$build/env"
"$build/env/bin/python" -m pip install --quiet --disable-pip-version-check coverage gcovr cmake ninja "nanobind>=2.4"
tools=$build/env/bin

# -- kernels that count, in a copy of the package ------------------------------------------------------------------------
PATH=$tools:$PATH cmake -S "$root" -B "$build/cmake" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE="$tools/python" \
  -DLORANK_COVERAGE=ON >"$build/cmake.log" || { cat "$build/cmake.log" >&2; exit 1; }
PATH=$tools:$PATH cmake --build "$build/cmake" >"$build/build.log" || { tail -40 "$build/build.log" >&2; exit 1; }
rm -rf "$build/pkg" "$build/python" "$build/kernels"
mkdir -p "$build/pkg" "$build/kernels"
cp -R "$root/src/lorank" "$build/pkg/lorank"
rm -f "$build"/pkg/lorank/_kernels*.so
cp "$build"/cmake/_kernels*.so "$build/pkg/lorank/"
find "$build/cmake" -name '*.gcda' -delete

# -- the tests. -S: an editable install hooks into import before PYTHONPATH; without site it is not read ------------------------
site=$("$PYTHON" -c 'import sys; print(":".join(p for p in sys.path if p.endswith("site-packages")))')
own=$("$tools/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
test $# -gt 0 || set -- tests
# Each instruction set has passes of its own: those that this machine can run are run.
for isa in $(PYTHONPATH="$build/pkg:$site" "$PYTHON" -S -c 'from lorank import _kernels as k; print(*k.instruction_sets())'); do
  echo "coverage: kernels for $isa"
  LORANK_INSTRUCTION_SET=$isa PYTHONPATH="$build/pkg:$site:$own" "$PYTHON" -S -m pytest -q -p no:cacheprovider tests/backends/test_kernels.py \
    tests/backends/test_kernel_arguments.py tests/backends/test_normal.py tests/backends/test_blocks.py tests/backends/test_tall.py
done
PYTHONPATH="$build/pkg:$site:$own" COVERAGE_FILE="$build/data" "$PYTHON" -S -m coverage run --source="$build/pkg/lorank" \
  -m pytest -q -p no:cacheprovider "$@"

# -- the pages -------------------------------------------------------------------------------------------------------------
COVERAGE_FILE="$build/data" "$tools/python" -m coverage html --quiet --directory "$build/python" --title "lorank"
COVERAGE_FILE="$build/data" "$tools/python" -m coverage report --skip-covered --sort=cover | tail -25
"$tools/gcovr" --root "$root" --filter 'src/kernels/' --object-directory "$build/cmake" --merge-mode-functions=merge-use-line-min \
  --html-details "$build/kernels/index.html" --print-summary
echo "coverage: $build/python/index.html and $build/kernels/index.html"
