"""Plots of the report of a model."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.report.model_page import _outliers, _plots


def test_every_outlier_stands_in_its_place():
    plot = _outliers(np.array([3, 5]), np.array([7, 1]), np.array([9.0, -2.5]), 100)
    points = plot["data"][0]
    assert (points["x"], points["y"], points["text"]) == ([7, 1], [3, 5], ["9", "-2.5"])
    assert "2 of 100" in plot["caption"]
    many = _outliers(np.arange(9000), np.arange(9000), np.ones(9000), 10**6)["data"][0]
    assert len(many["x"]) == 2000


def test_convergence_falls_and_the_spectrum_has_one_bar_a_factor():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.6)
    values = (rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)))[rows, cols] + 0.3 * rng.standard_normal(len(rows))
    model = lr.MatrixCompletion(2, "learned").fit(np.column_stack([rows, cols]), values)
    plots = _plots(model, rows, cols, values)
    curve = plots["convergence"]["data"][0]["y"]
    assert len(curve) > 1
    assert curve == sorted(curve, reverse=True)
    assert plots["convergence"]["layout"]["yaxis"]["type"] == "log"
    assert plots["spectrum"]["data"][0]["x"] == [1, 2]
    low, high = plots["spectrum"]["layout"]["xaxis"]["range"]
    assert 0 < low < 1
    assert 2 < high < 3
