"""Figures drawn from tables."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import made_up
from made_up import load

pytest.importorskip("matplotlib")

from lorank.experiments.figures import AT_LEAST, FAILED, FEWER, MEDIAN, STATED, mark, spaced, success_map
from lorank.experiments.styles import METHODS, label, looks, ordered_methods
from lorank.experiments.tables import average
from lorank.paper.panels import PANELS, draw_all, panels

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return made_up.everything(tmp_path_factory.mktemp("everything"))


def pixels_like(path, colour) -> int:
    from matplotlib import colors, image

    pixels = image.imread(path)[80:, :, :3]  # below the legend
    return int((np.abs(pixels - colors.to_rgb(colour)).max(axis=2) < 0.02).sum())


@pytest.mark.slow
def test_a_figure_for_each_experiment(everything):
    written = draw_all(load(everything), everything)
    assert [path.stem for path in written] == list(PANELS)
    assert sorted(os.listdir(everything / "figures")) == sorted(f"{name}.png" for name in PANELS)
    assert all(path.read_bytes().startswith(PNG) for path in written)

    def seen(name, *methods):
        return [pixels_like(everything / "figures" / f"{name}.png", METHODS[method].colour) > 40 for method in methods]

    assert all(seen("completion-size", "prgd", "rgd", "shampoo", "niht"))
    assert not any(seen("completion-size", "auto"))  # not a method of the paper: on the page, on request
    assert all(seen("completion-oversampling", "prgd", "rgd", "shampoo", "niht"))
    assert all(seen("completion-noise", "rgd", "shampoo", "niht"))
    assert all(seen("movielens", "prgd", "rgd", "shampoo", "niht"))
    assert all(seen("sensing-oversampling", "prgd", "adaptive-rgd", "niht", "shampoo"))
    assert all(seen("phase-real", "prgd", "adaptive-prgd", "rgd", "adaptive-rgd"))
    assert not any(seen("phase-real", "shampoo", "niht"))


def test_experiments_without_rows_are_skipped(tmp_path):
    assert draw_all(load(tmp_path), tmp_path) == []
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="no runs of the experiment 'phase-real': the experiments with runs are none"):
        panels(load(tmp_path), "phase-real")
    made_up.write(tmp_path, made_up.runs("sensing-oversampling", "prgd", 50, n1=150, rank=10, oversampling=1.2))
    assert [path.stem for path in draw_all(load(tmp_path), tmp_path)] == ["sensing-oversampling"]


def test_runs_without_traces_draw_no_curves(tmp_path):
    made_up.write(tmp_path, made_up.runs("phase-real", "rgd", 50, n1=128))
    assert draw_all(load(tmp_path), tmp_path) == []


@pytest.mark.parametrize(
    "more", [{"error": float("nan")}, {"error": 0.0}, {"reached": False}, {"iterations": 0, "seconds": 0.0}]
)
def test_odd_numbers_can_be_drawn(more, tmp_path):
    where = {"n1": 1000, "rank": 10, "oversampling": 5.0}
    rows = [made_up.run("completion-noise", "prgd", 50, noise=1e-3, **where) | more]
    rows += made_up.runs("completion-noise", "an unknown method", 70, noise=1e-2, **where)
    assert len(draw_all(load(made_up.write(tmp_path, rows)), tmp_path)) == 1


def test_points_are_marked(tmp_path):
    where = {"n1": 1000}
    rows = [
        *made_up.runs("completion-size", "prgd", 50, **where),
        *made_up.runs("completion-size", "rgd", 50, tests=2, **where),
        *made_up.runs("completion-size", "niht", 50, reached=False, capped=True, **where),
        *made_up.runs("completion-size", "shampoo", 50, reached=False, **where),
    ]
    (means,) = average(load(made_up.write(tmp_path, rows)).results).values()
    assert [mark(means[name], 5) for name in ("prgd", "rgd", "niht", "shampoo")] == ["", FEWER, AT_LEAST, FAILED]
    some = [row | {"reached": False, "capped": True} if row["seed"] == 1 else row for row in rows[:5]]
    (few,) = average(load(made_up.write(tmp_path, some)).results).values()
    assert mark(few["prgd"], 5) == MEDIAN
    assert mark(means["niht"], 5, "error") == ""  # the error of a run cut short is no lower bound


def test_the_map_of_success_rates(everything):
    points = average(load(everything).of("sensing-success"))
    found = success_map(points, "prgd")
    grid, ranks, numbers = found.grid, found.rows, found.columns
    assert ranks == [2, 4, 6, 8, 10, 12]
    assert numbers == list(range(100, 1001, 100))
    assert grid[0, -1] == 100
    assert grid[-1, 0] == 0
    assert set(np.unique(grid)) <= set(range(0, 101, 10))


def test_labels_keep_apart():
    assert spaced([1000, 2000, 4000, 6000, 8000, 10_000, 15_000, 20_000]) == [1000, 2000, 4000, 6000, 10_000, 20_000]
    assert spaced([5, 5]) == [5]


def test_every_method_has_its_own_look():
    assert len({(look.colour, look.dash) for look in METHODS.values()}) == len(METHODS)
    assert len({look.colour for look in METHODS.values()}) == len(METHODS)
    assert ordered_methods(["zzz", "auto", "prgd"]) == ["prgd", "auto", "zzz"]
    assert label("zzz") == "zzz"
    own = looks([f"method {k}" for k in range(7)])
    assert len({(look.colour, look.dash) for look in own.values()}) == 7


def test_runs_beyond_a_time_limit_leave_the_panels_of_iterations(tmp_path):
    where = {"n1": 1000, **made_up.SIZED}
    rows = [*made_up.runs("completion-size", "prgd", 50, **where), *made_up.runs("completion-size", "rgd", 80, **where)]
    rows += made_up.runs("completion-size", "niht", 70, reached=False, capped=True, **where)
    by_time, by_iterations = ({"status": "time"}, {"status": "max_iter"})
    for change, shown in ((by_time, False), (by_iterations, True)):
        changed = [row | change if row["method"] == "niht" else row for row in rows]
        seconds, iterations = panels(load(made_up.write(tmp_path, changed)), "completion-size")
        assert "niht" in seconds.keys
        assert ("niht" in iterations.keys) is shown


def test_the_factors_of_the_paper_are_drawn(tmp_path):
    rows = [row for m in ("prgd", "rgd") for row in made_up.runs("completion-size", m, 50, n1=20_000, **made_up.SIZED)]
    seconds, iterations = panels(load(made_up.write(tmp_path, rows)), "completion-size")
    stated = {line.key: list(line.y) for line in seconds.lines if STATED in line.marks}
    assert {key: y[0] for key, y in stated.items()} == pytest.approx({"niht": 100.0, "rgd": 50.0, "shampoo": 25.0})
    assert STATED not in iterations.marks  # the paper states factors of time there


def test_no_global_state_and_no_window(tmp_path):
    made_up.write(tmp_path, made_up.runs("sensing-oversampling", "prgd", 50, n1=150, rank=10, oversampling=1.2))
    code = (
        "import sys, pathlib, lorank.paper.panels as figures\n"
        "from lorank.experiments.tables import stored, tables\n"
        "assert 'matplotlib' not in sys.modules and 'plotly' not in sys.modules\n"
        f"out = pathlib.Path({str(tmp_path)!r})\n"
        "assert len(figures.draw_all(tables(stored(out, ['sensing-oversampling'])), out)) == 1\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
