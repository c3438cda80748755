"""Each loss against what it promises, entry by entry: plain formulas, finite differences, parabolas above that touch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorank.backends import backend_of, entrywise, total
from lorank.losses import LOSSES, Absolute, Cauchy, Huber, Logistic, Ordinal, Poisson, Tukey, Weighted, loss_from, resolve_loss
from lorank.losses.poisson import REACH
from lorank.losses.scaled import HALF, m_scale

SETTLED = [
    Huber(scale=0.7),
    Absolute(scale=0.7),
    Tukey(scale=0.7),
    Cauchy(scale=0.7),
    Logistic(),
    Ordinal((1.0, 2.0, 4.0, 5.0), (-1.5, 0.2, 1.0)),
    Poisson(),
]
ROBUST = SETTLED[:4]
NUMBERS = st.floats(-8, 8, allow_nan=False)


def data_of(loss, u):
    """A value that the loss takes, from a number between 0 and 1."""
    if loss.name == "logistic":
        return float(u < 0.5)
    if loss.name == "ordinal":
        return float(int(4 * u) % 4)
    return float(int(8 * u)) if loss.name == "poisson" else 6 * u - 3


def plain(loss, z, y):
    """The loss as one would write it down, for one entry; the ridge included."""
    d, ridge = abs(z - y), loss.ridge * z * z / 2
    if loss.name == "logistic":
        p = 1 / (1 + math.exp(-z))
        return -math.log(p if y == 1 else 1 - p) + ridge
    if loss.name == "poisson":
        return math.exp(z) - y * z - (y - y * math.log(y) if y else 0) + ridge
    if loss.name == "ordinal":
        edges = [-math.inf, *loss.thresholds, math.inf]
        below = [1 / (1 + math.exp(min(z - edge, 700))) for edge in edges]
        return -math.log(below[int(y) + 1] - below[int(y)]) + ridge
    k = loss.threshold * loss.scale
    return {
        "huber": d * d / 2 if d <= k else k * d - k * k / 2,
        "absolute": k * (math.sqrt(d * d + k * k) - k),
        "tukey": k * k / 6 * (1 - (1 - min(d / k, 1) ** 2) ** 3),
        "cauchy": k * k / 2 * math.log(1 + (d / k) ** 2),
    }[loss.name]


def at(loss, z, y):
    z, y = np.array([float(z)]), np.array([float(y)])
    return z - y, y


@pytest.mark.parametrize("loss", SETTLED, ids=lambda loss: loss.name)
@given(z=NUMBERS, u=st.floats(0, 0.999))
def test_value_slope_and_curvature(loss, z, u):
    y, h = data_of(loss, u), 1e-5
    d, data = at(loss, z, y)
    value = loss.value(d, data)
    assert value == pytest.approx(plain(loss, z, y), rel=1e-7, abs=1e-9)
    assert value >= 0
    slope = (plain(loss, z + h, y) - plain(loss, z - h, y)) / (2 * h)
    assert loss.slope(d, data)[0] == pytest.approx(slope, rel=1e-4, abs=1e-4)
    if loss.discrete:  # the second derivative itself
        up, down = (loss.slope(*at(loss, z + s, y))[0] for s in (h, -h))
        assert loss.curvature(d, data)[0] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)
    else:  # the weight of reweighted least squares
        assert loss.curvature(d, data)[0] * d[0] == pytest.approx(loss.slope(d, data)[0], abs=1e-12)


@pytest.mark.parametrize("loss", SETTLED, ids=lambda loss: loss.name)
@given(z=NUMBERS, other=NUMBERS, u=st.floats(0, 0.999))
def test_a_parabola_lies_above_and_touches(loss, z, other, u):
    y = data_of(loss, u)
    if loss.name == "poisson" and other > max(z, math.log(y) if y else z) + REACH:
        return  # no parabola lies above an exponential function everywhere
    d, data = at(loss, z, y)
    weight, response = (float(a[0]) for a in loss.majorizer(d, data))
    assert weight >= 0

    def parabola(x):
        return weight * ((x - response) ** 2 - (z - response) ** 2) / 2

    if weight == 0:  # nothing pulls here, and from here the loss can only fall
        assert loss.slope(d, data)[0] == 0
    rise = loss.value(*at(loss, other, y)) - loss.value(d, data)
    room = 1e-10 * (1 + abs(parabola(other)) + loss.value(*at(loss, other, y)) + loss.value(d, data) + weight * response**2)
    assert rise <= parabola(other) + room
    assert weight * (z - response) == pytest.approx(loss.slope(d, data)[0], abs=1e-9 * (1 + weight * abs(response)))


@pytest.mark.parametrize("loss", SETTLED, ids=lambda loss: loss.name)
def test_vectors_of_every_kind_give_the_same(loss, backend):
    """Pieces of NumPy's, torch's tensors, and blocks: one loss for all, weights included."""
    from partitioned import PartitionedVector

    rng = np.random.default_rng(0)
    m = 20_000  # more than one piece
    y = np.array([data_of(loss, u) for u in rng.random(m)])
    d, w = 2 * rng.standard_normal(m) - (y if loss.discrete else 0), rng.uniform(0.5, 2, m)
    kinds = [backend.asarray, lambda a: PartitionedVector(np.split(a, [10, 9_000]))]
    weights, responses = loss.majorizer(d, y, w)
    for kind in kinds:
        one, two, three = kind(d), kind(y), kind(w)
        assert loss.value(one, two, None, three) == pytest.approx(loss.value(d, y, None, w), rel=1e-12)
        assert Weighted(loss, three).at_zero(two) == pytest.approx(loss.at_zero(y, None, w), rel=1e-12)
        assert loss.line_energy(one, two, three, 3.0) == pytest.approx(loss.line_energy(d, y, w, 3.0), rel=1e-9)
        assert loss.noise(one, two, 5.0) == pytest.approx(loss.noise(d, y, 5.0), rel=1e-9)
        pairs = [(loss.slope(one, two), loss.slope(d, y)), (loss.curvature(one, two, three), loss.curvature(d, y, w))]
        pairs += list(zip(loss.majorizer(one, two, three), (weights, responses), strict=True))
        for a, b in pairs:
            a = np.concatenate(a.parts) if isinstance(a, PartitionedVector) else backend_of(a).to_numpy(a)
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("loss", SETTLED, ids=lambda loss: loss.name)
def test_exact_steps_along_a_line(loss):
    """The slope over the energy is where the loss along the line is as good as level, also where the first try is far off."""
    rng = np.random.default_rng(3)
    y = np.array([data_of(loss, u) for u in rng.random(500)])
    z, image = rng.standard_normal(500), -rng.uniform(0.5, 1.5, 500)
    first = loss.slope(z - y, y) @ image
    for energy in (1e-6, 1.0, 1e6) if loss.discrete else (1.0 * 500,):
        found = loss.line_energy(z - y, y, image, energy)
        step = -first / found
        left = loss.slope(z + step * image - y, y) @ image
        assert loss.value(z + step * image - y, y) <= loss.value(z - y, y)
        assert abs(left) <= 1.01 * abs(first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_do_not_overflow(dtype):
    z = np.array([-1e4, -90, 0, 90, 1e4], dtype)
    for loss in SETTLED:
        for y in (np.zeros(5, dtype), np.ones(5, dtype)):
            with np.errstate(all="raise", under="ignore"):
                found = [loss.slope(z - y, y), loss.curvature(z - y, y), *loss.majorizer(z - y, y)]
            assert all(np.isfinite(a).all() for a in found)
            assert math.isfinite(loss.value(z - y, y))


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_scale_is_that_of_the_usual_residuals(share):
    rng = np.random.default_rng(1)
    d = 0.3 * rng.standard_normal(20_000)
    bad = rng.random(len(d)) < share
    d[bad] += 100 * rng.standard_normal(bad.sum())
    assert m_scale(d) == pytest.approx(0.3, rel=0.02 if share == 0 else 0.4)
    assert m_scale(d, kind=HALF) == pytest.approx(0.3, rel=0.02 if share == 0 else 0.2)
    assert m_scale(7 * d) == pytest.approx(7 * m_scale(d), rel=0.01)
    assert m_scale(d, None, 1e-3) == pytest.approx(m_scale(d), rel=0.01)  # wherever it begins
    assert m_scale(0 * d) == 0
    loss = Huber().settled(d, 0 * d + 5)
    assert loss.scale == pytest.approx(m_scale(d), rel=0.01)
    assert Huber().settled(2 * d, d, near=loss).scale == loss.scale  # it never rises,
    assert Huber().settled(d / 100, d + 5, near=loss).scale >= 0.5 * loss.scale  # and does not fall at once
    assert Huber(scale=2.0).settled(d, d).scale == 2.0


@pytest.mark.parametrize("loss", ROBUST, ids=lambda loss: loss.name)
def test_a_smaller_scale_never_raises_the_loss(loss):
    d = np.linspace(-5, 5, 101)
    values = [type(loss)(scale=s).value(d, d) for s in np.geomspace(10, 1e-3, 30)]
    assert (np.diff(values) <= 1e-12).all()


def test_thresholds_are_those_that_fit_best():
    rng = np.random.default_rng(2)
    z = rng.standard_normal(20_000)
    cuts = np.array([-2.0, -0.5, 0.4, 2.0])
    y = np.digitize(z + rng.logistic(size=len(z)), cuts).astype(float)
    loss = Ordinal(tuple(range(5))).settled(z - y, y)
    np.testing.assert_allclose(loss.thresholds, cuts, atol=0.1)
    value = loss.value(z - y, y)
    for k in range(4):
        for h in (-0.01, 0.01):
            moved = list(loss.thresholds)
            moved[k] += h
            assert Ordinal(loss.classes, tuple(moved)).value(z - y, y) > value
    warm = Ordinal(tuple(range(5))).settled(z - y, y, near=loss)
    np.testing.assert_allclose(warm.thresholds, loss.thresholds, atol=1e-4)
    heavy = Ordinal(tuple(range(5))).settled(z - y, y, None, np.full(len(z), 3.0))
    np.testing.assert_allclose(heavy.thresholds, loss.thresholds, atol=1e-4)


def test_links():
    z = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(Logistic().mean(z), 1 / (1 + np.exp(-z)))
    np.testing.assert_allclose(Poisson().mean(z), np.exp(z))
    np.testing.assert_allclose(Huber().mean(z), z)
    loss = SETTLED[5]
    p = loss.probabilities(z)
    np.testing.assert_allclose(p.sum(-1), 1)
    for k in range(4):
        y = np.full(7, float(k))
        losses = [plain(loss, a, b) - loss.ridge * a * a / 2 for a, b in zip(z, y, strict=True)]
        np.testing.assert_allclose(p[:, k], np.exp(-np.array(losses)))
    np.testing.assert_allclose(loss.mean(z), p @ [1, 2, 4, 5])
    assert (np.diff(loss.mean(z)) > 0).all()


@pytest.mark.parametrize("loss", [*SETTLED, *(kind() for kind in LOSSES.values())], ids=repr)
def test_from_parameters_and_back(loss):
    import json

    again = loss_from(json.loads(json.dumps(loss.parameters())))
    assert again == loss


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: resolve_loss("hubert"), "loss must be one of 'squares', 'huber'.*got 'hubert'"),
        (lambda: resolve_loss(Huber), r"write Huber\(\)"),
        (lambda: resolve_loss(3), "got 3"),
        (lambda: Huber(scale=-1.0), "Huber: scale must be positive"),
        (lambda: Tukey(threshold=0), "Tukey: threshold must be positive"),
        (lambda: Logistic(ridge=-1), "Logistic: ridge must"),
        (lambda: Poisson(ridge=float("nan")), "Poisson: ridge must"),
        (lambda: Ordinal((3.0, 2.0, 1.0)), "classes must be a tuple of at least two finite numbers that rise"),
        (lambda: Ordinal(thresholds=(1.0, 1.0)), "thresholds must be a tuple of finite numbers that rise"),
        (lambda: Ordinal((1.0, 2.0), (1.0, 2.0)), "2 classes have 1 thresholds"),
        (lambda: Huber().value(np.ones(2), np.ones(2)), "Huber has no scale yet"),
        (lambda: Ordinal((1.0, 2.0)).value(np.ones(2), np.ones(2)), "Ordinal has no thresholds yet"),
    ],
)
def test_what_a_loss_refuses(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_pieces_are_put_together():
    a = np.arange(50_000.0)
    np.testing.assert_array_equal(entrywise(lambda xp, a, b: a + b, a, a), 2 * a)
    assert total(lambda xp, a: (a, 0 * a + 1), a).tolist() == [a.sum(), len(a)]
    assert total(lambda xp, a: (a,), a[:0]).tolist() == [0.0]
