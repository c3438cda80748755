"""Checkpoints: resuming runs, and refusing files of other runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import lorank as lr
from lorank.io.archive import FileError, read_archive, write_archive

CODE = """
import sys, time
import lorank as lr
problem, truth = lr.datasets.random_completion(300, 200, rank=3, oversampling=5, seed=1)
stays = [lambda problem, state, clock: time.sleep(3600 if state.iteration == 5 else 0)]
lr.solve(problem, 3, "rcg", tol=1e-13, max_iter=300, callbacks=stays, checkpoint=sys.argv[1], checkpoint_every=0)
"""


def problem_of(seed=1):
    return lr.datasets.random_completion(300, 200, rank=3, oversampling=5, seed=seed)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_run_ends_where_an_unbroken_one_does(tmp_path):
    path = tmp_path / "run.lorank"
    process = subprocess.Popen([sys.executable, "-c", CODE, str(path)])
    try:
        while not (path.exists() and read_archive(path)[1]["iteration"] >= 3):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    _, meta, arrays = read_archive(path, "checkpoint")
    problem, _ = problem_of()
    whole = lr.solve(problem, 3, "rcg", tol=1e-13, max_iter=300)
    assert 3 <= meta["iteration"] < whole.n_iter
    half = lr.FixedRank(arrays["U"], arrays["s"], arrays["V"])
    assert half.distance(whole.X) > 1e-6 * whole.X.norm()  # it was killed on the way
    rest = lr.solve(problem, 3, "rcg", tol=1e-13, max_iter=300, checkpoint=path)
    assert rest.history.residual[0] == pytest.approx(meta["residual"], rel=1e-6)  # not from the start
    assert rest.X.distance(whole.X) < 1e-10 * whole.X.norm()


def test_a_finished_run_is_not_run_again(tmp_path):
    problem, truth = problem_of()
    path = tmp_path / "c"
    first = lr.solve(problem, 3, checkpoint=path)
    again = lr.solve(problem, 3, checkpoint=path)
    assert (first.n_iter > 0, again.n_iter, again.converged) == (True, 0, True)
    np.testing.assert_allclose(again.X.to_dense(), first.X.to_dense(), atol=1e-12)
    assert os.listdir(tmp_path) == ["c"]
    assert truth.distance(again.X) < 1e-4 * truth.norm()


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    path = tmp_path / "c"
    problem, _ = problem_of()
    lr.solve(problem, 3, max_iter=3, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(FileError, match="another problem: delete it"):
        lr.solve(problem_of(seed=2)[0], 3, checkpoint=path)
    with pytest.raises(FileError, match=r"another rank.*rank 3, this run 2"):
        lr.solve(problem, 2, checkpoint=path)
    with pytest.raises(FileError, match="another solver"):
        lr.solve(problem, 3, "prgd", checkpoint=path)
    path.write_bytes(before[:-50])
    with pytest.raises(FileError, match="lorank file"):
        lr.solve(problem, 3, checkpoint=path)


def test_bad_arguments(tmp_path):
    problem, _ = problem_of()
    with pytest.raises(ValueError, match="checkpoint_every"):
        lr.solve(problem, 3, checkpoint=tmp_path / "c", checkpoint_every=-1)
    with pytest.raises(ValueError, match="does not exist"):
        lr.solve(problem, 3, checkpoint=tmp_path / "nowhere" / "c")


def test_a_run_survives_a_checkpoint_that_cannot_be_written(tmp_path):
    problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    folder = tmp_path / "gone"
    folder.mkdir()

    def remove(problem, state, timer):
        if folder.exists() and state.iteration == 2:
            shutil.rmtree(folder)

    with pytest.warns(UserWarning, match="run.lorank"):
        result = lr.solve(problem, 2, checkpoint=folder / "run.lorank", checkpoint_every=0, callbacks=[remove])
    assert result.converged
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_a_resumed_run_with_a_redescending_loss_has_the_same_advice(tmp_path):
    problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=8, factors="gaussian", noise=0.01)
    problem = lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, loss="tukey")
    first = lr.solve(problem, 2, checkpoint=tmp_path / "run.lorank")
    resumed = lr.solve(problem, 2, checkpoint=tmp_path / "run.lorank")
    assert ("outliers" in resumed.status.advice) == ("outliers" in first.status.advice)


def test_a_sensing_problem_with_other_matrices_is_another_problem(tmp_path):
    problem, _ = lr.datasets.random_sensing(8, 6, 1, m=80)
    path = tmp_path / "run.lorank"
    lr.solve(problem, 1, "rcg", checkpoint=path)
    A = problem.A.copy()
    assert lr.Sensing(A, problem.y, problem.shape).fingerprint() == problem.fingerprint()
    changed = A.copy()
    changed[3, 7] *= 1.5
    for other in (A[::-1], A[:, ::-1], -A, changed):
        with pytest.raises(FileError, match="another problem"):
            lr.solve(lr.Sensing(other, problem.y, problem.shape), 1, "rcg", checkpoint=path)


@pytest.mark.parametrize("change", ["shape", "nan", "order", "columns"])
def test_a_damaged_point_in_a_checkpoint_is_refused(tmp_path, change):
    problem, _ = lr.datasets.random_completion(30, 20, 2, oversampling=4)
    path = tmp_path / "run.lorank"
    lr.solve(problem, 2, "rcg", checkpoint=path)
    _, meta, arrays = read_archive(path, "checkpoint")
    arrays = {name: np.array(a) for name, a in arrays.items()}
    if change == "shape":
        arrays["U"] = arrays["U"][:-1]
    elif change == "nan":
        arrays["V"][0, 0] = np.nan
    elif change == "order":
        arrays["s"] = arrays["s"][::-1]
    else:
        arrays["U"][:, 1] = arrays["U"][:, 0]
    write_archive(path, "checkpoint", meta, arrays)
    with pytest.raises(FileError, match="checkpoint"):
        lr.solve(problem, 2, "rcg", checkpoint=path)
