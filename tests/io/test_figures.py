"""The style of pictures: readable on the grounds of both themes of the site."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.io.figures import EITHER, STYLE, use_style

WHITE, DARK = "#ffffff", "#14181e"  # of pydata-sphinx-theme


def luminance(colour):
    to_rgb = pytest.importorskip("matplotlib.colors").to_rgb
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_texts_and_curves_stand_out_on_white_and_on_black():
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context():
        use_style()
        curves = matplotlib.rcParams["axes.prop_cycle"].by_key()
        assert matplotlib.rcParams["figure.facecolor"] == "none"
        assert matplotlib.rcParams["text.color"] == STYLE["text.color"] == EITHER
    for ground in (WHITE, DARK):
        assert contrast(EITHER, ground) > 4
        assert min(contrast(colour, ground) for colour in curves["color"]) > 2.3
    looks = list(zip(curves["color"], map(str, curves["linestyle"]), strict=True))
    assert len(set(looks)) == len(looks) == 7
