#!/bin/sh
# What the tests run: the Python files by coverage, the kernels by gcov. make coverage; docs/project/coverage.md is written from it.
#
#   sh tools/coverage.sh                   all of it
#   sh tools/coverage.sh kernels           kernels that count are built, and the tests that call them run, per instruction set
#   sh tools/coverage.sh python            all tests run, folder by folder, with the installed kernels; cut off, it goes on
#   sh tools/coverage.sh page              what the last two found, as pages
#
# The kernels that count are many times slower, and so run the tests that were written for them alone; all other tests run once.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PYTHON=${PYTHON:-$root/.venv/bin/python}
build=$root/build/coverage
mkdir -p "$build"
PATH=$PATH:$(dirname "$PYTHON")
test -x "$build/env/bin/python" || "$PYTHON" -m venv "$build/env"
tools=$build/env/bin
"$tools/python" -m pip install --quiet --disable-pip-version-check "coverage>=7.6" gcovr cmake ninja "nanobind>=2.4"

kernels() {
  PATH=$tools:$PATH cmake -S "$root" -B "$build/cmake" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DPython_EXECUTABLE="$tools/python" -DLORANK_COVERAGE=ON >"$build/cmake.log" || { cat "$build/cmake.log" >&2; exit 1; }
  PATH=$tools:$PATH cmake --build "$build/cmake" >"$build/build.log" || { tail -40 "$build/build.log" >&2; exit 1; }
  rm -rf "$build/pkg"
  mkdir -p "$build/pkg"
  cp -R "$root/src/lorank" "$build/pkg/lorank"
  rm -f "$build"/pkg/lorank/_kernels*.so
  cp "$build"/cmake/_kernels*.so "$build/pkg/lorank/"
  find "$build/cmake" -name '*.gcda' -delete
  # -S: an editable install hooks into import before PYTHONPATH; without site it is not read.
  site=$("$PYTHON" -c 'import sys; print(":".join(p for p in sys.path if p.endswith("site-packages")))')
  # Each instruction set has passes of its own: those that this machine can run are run.
  for isa in $(PYTHONPATH="$build/pkg:$site" "$PYTHON" -S -c 'from lorank import _kernels as k; print(*k.instruction_sets())'); do
    echo "coverage: kernels for $isa"
    OMP_NUM_THREADS=2 LORANK_INSTRUCTION_SET=$isa PYTHONPATH="$build/pkg:$site" "$PYTHON" -S -m pytest -q -p no:cacheprovider -k "not torch" \
      --hypothesis-profile=quick tests/backends tests/tables/test_gaussian.py tests/solvers/test_exact_als.py
  done
}

python() {
  # What was counted is kept as long as it is the same commit.
  commit=$(git rev-parse HEAD 2>/dev/null || echo none)
  test "$(cat "$build/data/commit" 2>/dev/null)" = "$commit" || rm -rf "$build/data"
  mkdir -p "$build/data"
  echo "$commit" >"$build/data/commit"
  # sitecustomize is how processes that tests start (commands, workers, servers) are counted, too.
  rm -rf "$build/lib"
  "$tools/python" -m pip install --quiet --disable-pip-version-check --target "$build/lib" "coverage>=7.6"
  printf 'import coverage\n\ncoverage.process_startup()\n' >"$build/lib/sitecustomize.py"
  cat >"$build/settings" <<SETTINGS
[run]
source_pkgs = lorank
data_file = $build/data/lines
parallel = true
sigterm = true
[report]
exclude_also =
    if TYPE_CHECKING:
    class .*\bProtocol\b.*:
    @overload
    raise NotImplementedError
SETTINGS
  for folder in tests/*/ tests; do
    name=$(echo "$folder" | tr / _)
    case $folder in *__pycache__*) continue ;; tests) set -- tests/test_*.py ;; *) set -- "$folder" ;; esac
    test -e "$build/data/$name.done" && continue
    echo "coverage: $*"
    COVERAGE_PROCESS_START=$build/settings PYTHONPATH="$build/lib" "$PYTHON" -m pytest -q -p no:cacheprovider \
      --hypothesis-profile=quick "$@" && touch "$build/data/$name.done" || failed=$?
  done
}

page() {
  rm -rf "$build/python" "$build/kernels"
  mkdir -p "$build/kernels"
  counted() { (cd "$root" && COVERAGE_RCFILE=$build/settings COVERAGE_FILE=$build/data/all "$tools/python" -m coverage "$@"); }
  counted combine --quiet --keep "$build"/data/lines.*
  counted html --quiet --directory "$build/python" --title lorank
  counted json --quiet -o "$build/python.json"
  "$tools/gcovr" --root "$root" --filter 'src/kernels/' --object-directory "$build/cmake" --merge-mode-functions=merge-use-line-min \
    --html-details "$build/kernels/index.html" --json "$build/kernels.json"
  "$PYTHON" tools/coverage_page.py "$build"
  echo "coverage: docs/project/coverage.md; line by line $build/python/index.html and $build/kernels/index.html"
}

failed=0
test $# -gt 0 || set -- kernels python page
for part in "$@"; do
  case $part in kernels | python | page) "$part" ;; *) echo "coverage: kernels, python or page, not $part" >&2; exit 2 ;; esac
done
exit $failed
