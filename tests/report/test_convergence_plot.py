"""Convergence plots."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from lorank.cli.solver_demo import speedup
from lorank.io.archive import FileError
from lorank.io.figures import blank_figure, save_figure
from lorank.loop.result import Status
from lorank.report import Run
from lorank.report.convergence_plot import draw_convergence
from lorank.report.html import write_text

pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"


def make_run(solver="prgd", errors=(0.5, 1e-2, 1e-4), *, reached=True, time=1.0) -> Run:
    error = np.array(errors, float)
    status = Status("recovered" if reached else "max_iter", success=reached)
    final = float(error[-1]) if len(error) else float("nan")
    iteration = np.arange(len(error))
    return Run(solver, f"{solver}()", status, len(error), time, final, iteration, np.linspace(0.1, time, len(error)), error)


def convergence_plot(runs, path, **options):
    return save_figure(draw_convergence(runs, blank_figure(9, 4.2), **options), path)


def png_size(data: bytes) -> tuple[int, int]:
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize(
    "runs",
    [
        [make_run(name) for name in ("prgd", "rgd", "shampoo", "niht", "auto", "iht", "mine", "yours", "ours")],
        [make_run(reached=False)],
        [make_run(errors=[0.3])],
        [make_run(errors=[0.0])],
        [make_run(errors=[0.5, np.inf, np.nan], reached=False), make_run(errors=[])],
        [],
    ],
    ids=["many", "unreached", "point", "zero", "diverged-and-empty", "none"],
)
@pytest.mark.parametrize("tol", [1e-4, None])
def test_draws_whatever_runs_there_are(runs, tol, tmp_path):
    path = convergence_plot(runs, tmp_path / "plot.png", tol=tol, title="a title")
    data = path.read_bytes()
    assert data.startswith(PNG)
    width, height = png_size(data)
    assert 900 <= width <= 1600
    assert 300 <= height <= 900
    assert os.listdir(tmp_path) == ["plot.png"]


def test_curves_are_seen(tmp_path):
    """Each solver's colour is in the picture, in both panels."""
    from matplotlib import colors, image

    from lorank.io.figures import STYLES

    runs = [make_run(name, (0.5, 10.0 ** -(k + 1), 1e-4)) for k, name in enumerate(("prgd", "rgd", "shampoo", "niht"))]
    pixels = image.imread(convergence_plot(runs, tmp_path / "plot.png", tol=1e-4))[90:, :, :3]
    for colour, _ in STYLES[: len(runs)]:
        near = np.abs(pixels - colors.to_rgb(colour)).max(axis=2) < 0.02
        for half in np.array_split(near, 2, axis=1):
            assert half.sum() > 50


def test_no_global_state_and_no_window():
    code = (
        "import sys, lorank.report.convergence_plot as plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.draw_convergence([]).savefig(sys.stdout.buffer)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "plot.png"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError, match="disk full"):
        write_text(path, "new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["plot.png"]


def test_speedup():
    base, fast = make_run("rgd", time=10.0), make_run(time=2.0)
    assert speedup(fast, base) == 5.0
    assert speedup(base, base) == 1.0
    assert speedup(make_run(reached=False), base) is None
    assert speedup(fast, None) is None
