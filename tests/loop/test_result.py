"""Views and files of results: plots, HTML, data frames, save and load."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest

import lorank as lr
from lorank.io.archive import FileError


@pytest.fixture(scope="module")
def noisy():
    problem, _ = lr.datasets.random_completion(120, 90, rank=3, oversampling=6, factors="gaussian", noise=0.1, seed=0)
    return lr.solve(problem, rank="auto")


def made_results():
    exact, _ = lr.datasets.random_completion(40, 30, rank=2, oversampling=6, seed=1)
    yield "exact", lr.solve(exact, rank=2)
    yield "unfinished", lr.solve(exact, rank=2, max_iter=2, stop=lr.stopping.Iterations(2))
    outlying = np.outer(np.arange(1.0, 21.0), np.arange(1.0, 16.0))
    outlying[3, 7] = -500.0
    yield "robust", lr.solve(lr.Completion.from_dense(outlying, loss="robust"), rank=1)
    rows, cols = np.divmod(np.arange(400), 20)
    counts = np.random.default_rng(0).poisson(np.outer(np.arange(1, 21), np.arange(1, 21)) / 20.0)[rows, cols]
    yield "poisson", lr.solve(lr.Completion(rows, cols, counts, (20, 20), loss="poisson"), rank=1)
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((120, 12)), rng.standard_normal(12)
    yield "phase", lr.solve(lr.PhaseRetrieval(A, (A @ x) ** 2), rank=1)
    t = np.arange(40)
    sums = np.exp(-0.01 * t) * np.cos(0.3 * t) + 0.5 * np.cos(1.1 * t)
    seen = np.sort(rng.choice(40, 30, replace=False))
    yield "hankel", lr.solve(lr.HankelCompletion(seen, sums[seen], 40), rank=4)
    tensor, _ = lr.datasets.random_tensor((12, 11, 10), 2, oversampling=8, seed=0)
    yield "tensor", lr.solve(tensor, rank=2)
    part = np.full((8, 6), np.nan)
    part[:4, :3], part[4:, 3:] = np.outer(np.arange(1.0, 5), [1.0, 2, 3]), np.outer(np.arange(2.0, 6), [1.0, 2, 3])
    yield "undetermined", lr.solve(lr.Completion.from_dense(part), rank=1)


CASES = dict(made_results())


@pytest.mark.parametrize("name", [*CASES, "noisy"])
def test_a_saved_result_is_the_same(name, tmp_path, request):
    result = request.getfixturevalue("noisy") if name == "noisy" else CASES[name]
    path = result.save(tmp_path / "run.lorank")
    again = lr.load(path)
    assert isinstance(again, lr.Result)
    assert str(again) == str(result)
    assert (again.status, again.status.advice, again.converged) == (result.status, result.status.advice, result.converged)
    for one, other in zip(again.X.manifold.arrays(again.X).values(), result.X.manifold.arrays(result.X).values(), strict=True):
        assert np.array_equal(one, other)
    assert again.X.shape == result.X.shape
    for column in result.history.columns:
        assert np.array_equal(getattr(again.history, column), getattr(result.history, column), equal_nan=True)
    assert again.history.notes == result.history.notes
    assert again.rank_path == result.rank_path or np.isnan([one.held_out for one in result.rank_path]).any()
    assert repr(again.solver) == repr(result.solver)
    assert again.loss == result.loss
    assert np.array_equal(again.noise, result.noise, equal_nan=True)
    for attribute, parts in {
        "outliers": ("mask", "weights"),
        "spectrum": ("values",),
        "undetermined": ("rows", "cols"),
    }.items():
        own, other = getattr(result, attribute), getattr(again, attribute)
        assert (own is None) == (other is None)
        for part in parts if own is not None else ():
            assert np.array_equal(getattr(own, part), getattr(other, part))
    if result.estimate is not None:
        assert type(again.estimate) is type(result.estimate)
        for name, value in vars(result.estimate).items():
            assert np.array_equal(getattr(again.estimate, name), value)
    assert again.save(tmp_path / "again.lorank").read_bytes() == path.read_bytes()  # all of it, then


def test_the_cases_have_all_parts(noisy):
    results = [*CASES.values(), noisy]
    for attribute in ("loss", "outliers", "undetermined", "spectrum", "estimate"):
        assert any(getattr(result, attribute) is not None for result in results), attribute
    assert CASES["undetermined"].undetermined.parts
    assert noisy.rank_path


def test_files_have_no_pickle_and_appear_whole(tmp_path, monkeypatch):
    result = CASES["exact"]
    with zipfile.ZipFile(result.save(tmp_path / "run.lorank")) as archive:
        assert {name.rpartition(".")[2] for name in archive.namelist()} == {"npy", "json", "SHA256SUMS"}
        json.loads(archive.read("meta.json"))

    def fail(*_):
        raise OSError("disk full")

    before = (tmp_path / "run.lorank").read_bytes()
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError, match="disk full"):
        CASES["robust"].save(tmp_path / "run.lorank")
    assert (tmp_path / "run.lorank").read_bytes() == before
    assert os.listdir(tmp_path) == ["run.lorank"]


def test_a_run_goes_on_from_a_saved_result(tmp_path):
    problem, truth = lr.datasets.random_completion(40, 30, rank=2, oversampling=6, seed=1)
    again = lr.load(CASES["unfinished"].save(tmp_path / "run.lorank"))
    assert truth.distance(lr.solve(problem, rank=2, start=again.X).X) < 1e-4 * truth.norm()


@pytest.mark.parametrize("name", ["os:environ", "lorank.loop.result:History", "lorank.plans.result_file:fields"])
def test_only_estimates_are_restored(name, tmp_path):
    from lorank.io.archive import read_archive, write_archive

    path = CASES["phase"].save(tmp_path / "run.lorank")
    kind, meta, arrays = read_archive(path)
    with pytest.raises(FileError, match="estimate of"):
        lr.load(write_archive(path, kind, meta | {"estimate": name}, arrays))


@pytest.mark.parametrize("damage", ["X.U", "history.step"])
def test_incomplete_files_are_refused(damage, tmp_path):
    from lorank.io.archive import read_archive, write_archive

    path = CASES["exact"].save(tmp_path / "run.lorank")
    kind, meta, arrays = read_archive(path)
    del arrays[damage]
    with pytest.raises(FileError, match=r"run\.lorank is incomplete"):
        lr.load(write_archive(path, kind, meta, arrays))


def test_points_of_other_manifolds_are_refused_by_name(tmp_path):
    from dataclasses import replace

    class Sphere:
        pass

    class Point:
        manifold, backend = Sphere(), None

        def numpy(self):
            return self

    with pytest.raises(lr.ParameterError, match="Sphere"):
        replace(CASES["exact"], X=Point()).save(tmp_path / "run.lorank")


def test_html_of_a_result_is_escaped_and_names_the_status(noisy):
    found = noisy._repr_html_()
    assert found.startswith("<table>")
    assert "noise (standard deviation)" in found
    assert f"{noisy.noise:.3g}" in found
    assert str(noisy.X.rank) in found
    from dataclasses import replace

    from lorank.loop.result import Status

    odd = replace(noisy, status=Status("stalled", advice="<script>alert(1)</script>"))
    assert "<script>" not in odd._repr_html_()


@pytest.mark.parametrize("name", [*CASES, "noisy"])
def test_plots_show_the_curves(name, request):
    pytest.importorskip("matplotlib")
    result = request.getfixturevalue("noisy") if name == "noisy" else CASES[name]
    figure = result.plot()
    convergence, spectrum, *more = figure.axes
    assert len(more) == bool(result.rank_path)
    assert np.allclose(convergence.lines[0].get_ydata(), result.history.residual[result.history.residual > 0])
    drawn = np.asarray(spectrum.lines[0].get_ydata())
    if result.spectrum is not None:
        assert np.allclose(drawn, result.spectrum.values)
        assert np.allclose(spectrum.lines[1].get_ydata(), result.spectrum.edge)
        assert np.allclose(more[0].lines[0].get_xdata(), [trial.rank for trial in result.rank_path])
    elif hasattr(result.X, "s"):
        assert np.allclose(drawn, result.X.s[result.X.s > 0])
    else:
        assert len(spectrum.lines) == len(result.X.shape)
        assert np.allclose(np.sum(drawn**2), result.X.norm() ** 2)
    has_floor = any("noise floor" in str(line.get_label()) for line in convergence.lines)
    assert has_floor == (result.status == "noise")
    figure.canvas.draw()
    assert figure.get_facecolor()[3] == 0  # transparent, for light and dark pages


def test_the_residual_of_the_core_is_recorded_and_drawn():
    """Rows and columns with few observations come last: until then the residual of all data stays large."""
    pytest.importorskip("matplotlib")
    rng, shape, rank = np.random.default_rng(0), (1500, 800), 4
    truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
    rows, cols = lr.datasets.uneven_pattern(rng, shape, 40_000, powers=(0.6, 0.8), least=1)
    y, points = truth.entries(rows, cols), []
    problem = lr.Completion(rows, cols, y, shape)
    result = lr.solve(problem, rank, callbacks=[lambda p, state, clock: points.append(state.X) and None])
    core = np.flatnonzero(np.isfinite(result.history.core_residual))
    assert len(core) > 2
    assert core[-1] < result.n_iter
    for k in core[[0, len(core) // 2]]:
        inside = points[k].to_dense()[rows, cols] != 0
        assert 0 < inside.mean() < 1
        off = (points[k].to_dense()[rows, cols] - y)[inside]
        assert np.isclose(np.linalg.norm(off) / np.linalg.norm(y[inside]), result.history.core_residual[k], rtol=1e-6)
    assert result.history.core_residual[core[-1]] < 0.1 * result.history.residual[core[-1]]
    drawn = result.plot().axes[0].lines[1]
    assert drawn.get_label() == "of the well-observed core"
    assert np.allclose(drawn.get_ydata(), result.history.core_residual[core])


def test_plots_go_into_a_given_figure(noisy):
    matplotlib = pytest.importorskip("matplotlib")
    figure = matplotlib.figure.Figure()
    assert noisy.plot(figure) is figure
    assert len(figure.axes) == 3


def test_history_as_a_frame(noisy, monkeypatch):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame = noisy.history.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["iteration", "seconds", "residual", "step", "core_residual", "note"]
    assert frame["residual"].to_numpy().tolist() == noisy.history.residual.tolist()
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    other = noisy.history.to_frame()
    assert isinstance(other, polars.DataFrame)
    assert other.columns == list(frame.columns)
