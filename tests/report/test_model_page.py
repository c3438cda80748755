"""The report's picture of outliers."""

from __future__ import annotations

import numpy as np

from lorank.report.model_page import _outliers


def test_every_outlier_stands_in_its_place():
    plot = _outliers(np.array([3, 5]), np.array([7, 1]), np.array([9.0, -2.5]), 100)
    points = plot["data"][0]
    assert (points["x"], points["y"], points["text"]) == ([7, 1], [3, 5], ["9", "-2.5"])
    assert "2 of 100" in plot["caption"]
    many = _outliers(np.arange(9000), np.arange(9000), np.ones(9000), 10**6)["data"][0]
    assert len(many["x"]) == 2000
