#!/bin/sh
# The kernel tests on a build with AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   PYTHON=.venv/bin/python sh tools/sanitize.sh
#
# Builds into build/sanitize and leaves the installed package alone. Exits 0 without a test only where the compiler has no
# sanitizers; says so then.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PYTHON=${PYTHON:-$root/.venv/bin/python}
CXX=${CXX:-c++}
build=$root/build/sanitize
flags=-fsanitize=address,undefined

# -- does the compiler have sanitizers, and where is the runtime that must be loaded before Python? --------------------
mkdir -p "$build"
printf 'int main() { return 0; }\n' >"$build/probe.cpp"
"$CXX" "$build/probe.cpp" -o "$build/probe" || { echo "sanitize: FAILED, no working C++ compiler '$CXX'" >&2; exit 1; }
if ! "$CXX" $flags "$build/probe.cpp" -o "$build/probe" 2>"$build/probe.log" || ! "$build/probe"; then
  echo "sanitize: SKIPPED, $CXX has no working $flags (see $build/probe.log)"
  exit 0
fi
runtime=
for name in libasan.so "libclang_rt.asan-$(uname -m).so" libclang_rt.asan.so; do
  found=$("$CXX" -print-file-name="$name")
  if [ -e "$found" ]; then
    runtime=$found
    break
  fi
done
if [ -z "$runtime" ]; then
  echo "sanitize: SKIPPED, $CXX has no shared AddressSanitizer runtime to load into Python"
  exit 0
fi
# libstdc++ too: the sanitizer looks for __cxa_throw when the process starts, and Python itself is no C++ program.
preload=$runtime
for name in libstdc++.so.6 libstdc++.so; do
  found=$("$CXX" -print-file-name="$name")
  if [ -e "$found" ]; then
    preload=$preload:$found
    break
  fi
done

# -- build --------------------------------------------------------------------------------------------------------------
bin=$(dirname "$PYTHON")
PATH=$PATH:$bin
install() { "$PYTHON" -m pip install --quiet --disable-pip-version-check "$@"; }
"$PYTHON" -c 'import nanobind' 2>/dev/null || install 'nanobind>=2.4'
command -v cmake >/dev/null || install cmake
command -v ninja >/dev/null || install ninja

cmake -S "$root" -B "$build/cmake" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER="$CXX" \
  -DPython_EXECUTABLE="$PYTHON" -DLORANK_SANITIZE=ON >"$build/cmake.log" || { cat "$build/cmake.log" >&2; exit 1; }
cmake --build "$build/cmake"

rm -rf "$build/pkg"
mkdir -p "$build/pkg"
cp -R "$root/src/lorank" "$build/pkg/lorank"
cp "$build"/cmake/_kernels*.so "$build/pkg/lorank/"

# -- test ---------------------------------------------------------------------------------------------------------------
# -S: an editable install of lorank hooks into import by a .pth file, before PYTHONPATH; without site it is not read.
site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
sanitized() {
  env LD_PRELOAD="$preload" PYTHONPATH="$build/pkg:$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    "$PYTHON" -S "$@"
}
used=$(sanitized -c 'from lorank import _kernels; print(_kernels.__file__)')
case $used in
  "$build"/pkg/*) echo "sanitize: testing $used" ;;
  *) echo "sanitize: FAILED, the tests would run on $used and not on the sanitized kernels" >&2; exit 1 ;;
esac
# --capture=no: a report is written when the process dies, and must not go down with pytest's capture.
sanitized -m pytest --capture=no -p no:cacheprovider -k "not torch" "$root/tests/backends/test_kernels.py" \
  "$root/tests/backends/test_kernel_arguments.py" "$root/tests/backends/test_mapped_patterns.py" "$root/tests/backends/test_normal_equations.py" \
  "$root/tests/backends/test_normal_steps.py" "$root/tests/backends/test_nonnegative_equations.py" "$root/tests/backends/test_index_pairs.py" \
  "$root/tests/backends/test_blocks.py" "$root/tests/backends/test_row_and_column_sums.py" "$root/tests/backends/test_tall_arrays.py" "$root/tests/tables/test_gaussian.py" "$@"
