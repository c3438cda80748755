#!/bin/sh
# The tests in an environment of their own with the oldest versions that lorank allows: make test-oldest.
#
# Left out are what they do not bear on (the paper's pages, examples, texts) and what needs packages of its own (PyTorch, Dask,
# the server). Arguments go to pytest in place of the selection.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
env=build/oldest
test -x $env/bin/python || "$PYTHON" -m venv $env
$env/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"
$env/bin/python -m pip install --quiet --disable-pip-version-check --constraint tools/oldest.txt ".[files]" pandas pytest hypothesis
$env/bin/python -m pip list --disable-pip-version-check | grep -iE '^(numpy|scipy|threadpoolctl|scikit-learn|polars|pandas|typer|matplotlib) '
if [ $# -eq 0 ]; then
  set -- tests/backends tests/geometry tests/problems tests/metrics tests/loop tests/starts tests/estimators tests/io tests/tables \
    tests/factorization tests/cli tests/test_api.py
fi
# Warnings of old versions about newer ones are nobody's error.
exec $env/bin/python -m pytest -W "default::DeprecationWarning" -W "default::FutureWarning" "$@"
