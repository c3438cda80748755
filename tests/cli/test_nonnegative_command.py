"""``lorank complete --nonnegative``, on small files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import run

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("sklearn")


import lorank as lr


def written(path, shift):
    rng = np.random.default_rng(0)
    X = 3 * rng.random((40, 2)) @ rng.random((2, 30)) + 0.05 * rng.random((40, 30)) + shift
    rows, cols = np.nonzero(rng.random(X.shape) < 0.6)
    lines = [f"u{i},m{j},{X[i, j]:.3f}" for i, j in zip(rows, cols, strict=True)]
    path.write_text("user,movie,amount\n" + "\n".join(lines) + "\n")
    return path


def test_complete_writes_a_model_of_parts(tmp_path):
    file, model = written(tmp_path / "amounts.csv", 0.0), tmp_path / "m.lorank"
    done = run("complete", file, "--nonnegative", "--rank", "3", "-o", model, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["rank"] == 3
    assert said["heldout"]["rmse"] < 0.3 * said["heldout"]["rmse_of_the_mean"] < 0.5  # that of the values, not 0
    found = lr.load(model)
    assert found.nonnegative
    assert (found.row_factors_ >= 0).all()
    assert (found.col_factors_ >= 0).all()
    done = run("inspect", model)
    assert done.exit_code == 0, done.output


def test_negative_amounts_are_refused_with_the_remedy(tmp_path):
    done = run("complete", written(tmp_path / "amounts.csv", -1.0), "--nonnegative")
    assert done.exit_code == 1
    assert "not negative" in done.stderr
    assert "shift them" in done.stderr


def test_it_is_for_ratings(tmp_path):
    done = run("complete", written(tmp_path / "amounts.csv", 0.0), "--nonnegative", "--implicit")
    assert done.exit_code == 2
    assert "--nonnegative is for ratings" in done.stderr
