"""The scripts in examples/ run as they stand, and each draws a picture.

``make docs`` runs all of them; those that take more than a moment are left to it.
"""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path

import pytest

LONGER = (
    "blind_deconvolution",
    "distances",
    "figure_one",
    "gpu",
    "image",
    "outliers",
    "phase_image",
    "ratings",
    "tensor",
    "traffic",
    "uneven",
    "your_own_operator",
)
SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))
EXAMPLES = [path for path in SCRIPTS if path.stem.removeprefix("plot_") not in LONGER]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    monkeypatch.delenv("LORANK_DATA", raising=False)
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("default")  # as for a user
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        drawn = []
        monkeypatch.setattr(plt, "show", lambda: drawn.append(len(plt.gcf().axes)))
        runpy.run_path(str(path))
        plt.close("all")
    assert drawn
    assert min(drawn) > 0
    assert capsys.readouterr().out
    assert path.read_text(encoding="utf-8").startswith(('"""\n', 'r"""\n'))


def test_each_example_has_its_place_in_the_gallery():
    groups = (Path(__file__).parents[1] / "docs" / "_ext" / "gallery_groups.py").read_text(encoding="utf-8")
    placed = re.findall(r'^        "(\w+)": \(', groups, re.MULTILINE)
    assert sorted(placed) == sorted(path.stem.removeprefix("plot_") for path in SCRIPTS)
