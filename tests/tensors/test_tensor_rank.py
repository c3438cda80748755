"""Rank selection for tensors: one number for all modes."""

from __future__ import annotations

import pytest

import lorank as lr

TENSORS = {"tucker": ((20, 18, 16), 15), "train": ((9,) * 4, 15)}


@pytest.fixture(params=TENSORS)
def made(request):
    shape, oversampling = TENSORS[request.param]
    return lambda **options: lr.datasets.random_tensor(
        shape, 2, oversampling=oversampling, factors="uniform", seed=1, format=request.param, **options
    )


def test_the_first_rank_that_fits_exact_data_is_selected(made):
    problem, truth = made()
    result = lr.solve(problem, "auto")
    assert result.converged
    assert result.X.rank == truth.rank
    assert [trial.rank for trial in result.rank_path] == [1, 2]
    assert "rank 2 is the smallest that fits" in result.status.advice


def test_the_rank_of_noisy_data_has_the_smallest_held_out_error(made, tmp_path):
    problem, truth = made(noise=0.02)
    result = lr.solve(problem, "auto")
    assert result.X.rank == truth.rank
    assert min(result.rank_path, key=lambda trial: trial.held_out).rank == 2
    assert truth.distance(result.X) < 0.05 * truth.norm()
    result.save(tmp_path / "tensor.lorank")
    assert lr.load(tmp_path / "tensor.lorank").rank_path == result.rank_path


def test_an_interrupted_search_returns_a_point(made, monkeypatch):
    problem, _ = made()

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(lr.TensorCompletion, "initial_point", interrupted)
    assert lr.solve(problem, "auto").status == "interrupted"
