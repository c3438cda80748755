"""Losses against plain formulas and finite differences; majorizers, scales, thresholds, registration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lorank as lr
from lorank.backends import backend_of, entrywise, total
from lorank.losses import (
    LOSSES,
    Absolute,
    Cauchy,
    Huber,
    Logistic,
    Loss,
    Objective,
    Ordinal,
    Poisson,
    Tukey,
    loss_from,
    register_loss,
    resolve_loss,
)
from lorank.losses.discrete import MAJORIZER_REACH
from lorank.losses.robust import HALF, m_scale
from lorank.problems.testing import check_gradient

FITTED = [
    Huber(scale=0.7),
    Absolute(scale=0.7),
    Tukey(scale=0.7),
    Cauchy(scale=0.7),
    Logistic(),
    Ordinal((1.0, 2.0, 4.0, 5.0), (-1.5, 0.2, 1.0)),
    Poisson(),
]
ROBUST = FITTED[:4]
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


NUMPY = backend_of(np.zeros(1))


def value(loss, d, y, weights=None, backend=NUMPY):
    return Objective(loss, weights).value(d, y, backend)


def at(loss, z, y):
    z, y = np.array([float(z)]), np.array([float(y)])
    return z - y, y


@pytest.mark.parametrize("loss", FITTED, ids=lambda loss: loss.name)
@given(z=NUMBERS, u=st.floats(0, 0.999))
def test_value_slope_and_curvature(loss, z, u):
    y, h = data_of(loss, u), 1e-5
    d, data = at(loss, z, y)
    found, objective = value(loss, d, data), Objective(loss)
    assert found == pytest.approx(plain(loss, z, y), rel=1e-7, abs=1e-9)
    assert found >= 0
    slope = (plain(loss, z + h, y) - plain(loss, z - h, y)) / (2 * h)
    assert objective.slope(d, data)[0] == pytest.approx(slope, rel=1e-4, abs=1e-4)
    if loss.discrete:  # the second derivative itself
        up, down = (objective.slope(*at(loss, z + s, y))[0] for s in (h, -h))
        assert objective.curvature(d, data)[0] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)
    else:  # the weight of reweighted least squares
        assert objective.curvature(d, data)[0] * d[0] == pytest.approx(objective.slope(d, data)[0], abs=1e-12)


@pytest.mark.parametrize("loss", FITTED, ids=lambda loss: loss.name)
@given(z=NUMBERS, other=NUMBERS, u=st.floats(0, 0.999))
def test_majorizers_lie_above_the_loss_and_touch_it(loss, z, other, u):
    y = data_of(loss, u)
    if loss.name == "poisson" and other > max(z, math.log(y) if y else z) + MAJORIZER_REACH:
        return  # no parabola lies above an exponential function everywhere
    d, data = at(loss, z, y)
    weight, response = (float(a[0]) for a in Objective(loss).majorizer(d, data))
    assert weight >= 0

    def parabola(x):
        return weight * ((x - response) ** 2 - (z - response) ** 2) / 2

    if weight == 0:  # nothing pulls here, and from here the loss can only fall
        assert Objective(loss).slope(d, data)[0] == 0
    rise = value(loss, *at(loss, other, y)) - value(loss, d, data)
    room = 1e-10 * (1 + abs(parabola(other)) + value(loss, *at(loss, other, y)) + value(loss, d, data) + weight * response**2)
    assert rise <= parabola(other) + room
    assert weight * (z - response) == pytest.approx(Objective(loss).slope(d, data)[0], abs=1e-9 * (1 + weight * abs(response)))


@pytest.mark.parametrize("loss", FITTED, ids=lambda loss: loss.name)
def test_vectors_of_every_backend_give_the_same(loss, backend):
    """Pieces of NumPy's, torch's tensors, and blocks: one loss for all, weights included."""
    from partitioned import PartitionedVector

    rng = np.random.default_rng(0)
    m = 20_000  # more than one piece
    y = np.array([data_of(loss, u) for u in rng.random(m)])
    d, w = 2 * rng.standard_normal(m) - (y if loss.discrete else 0), rng.uniform(0.5, 2, m)
    kinds = [backend.asarray, lambda a: PartitionedVector(np.split(a, [10, 9_000]))]
    plain, heavy = Objective(loss), Objective(loss, w)
    weights, responses = heavy.majorizer(d, y)
    for kind in kinds:
        one, two, three = kind(d), kind(y), kind(w)
        same = Objective(loss, three)
        assert same.value(one, two, backend) == pytest.approx(heavy.value(d, y, NUMPY), rel=1e-12)
        assert same.at_zero(two, backend) == pytest.approx(heavy.at_zero(y, NUMPY), rel=1e-12)
        assert plain.line_curvature(one, two, three, 3.0) == pytest.approx(plain.line_curvature(d, y, w, 3.0), rel=1e-9)
        assert plain.loss.noise(one, two, 5.0) == pytest.approx(plain.loss.noise(d, y, 5.0), rel=1e-9)
        pairs = [(plain.slope(one, two), plain.slope(d, y)), (same.curvature(one, two), heavy.curvature(d, y))]
        pairs += list(zip(same.majorizer(one, two), (weights, responses), strict=True))
        for a, b in pairs:
            a = np.concatenate(a.parts) if isinstance(a, PartitionedVector) else backend_of(a).to_numpy(a)
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("loss", FITTED, ids=lambda loss: loss.name)
def test_line_curvature_gives_exact_steps(loss):
    """The slope over the energy is where the loss along the line is as good as level, also where the first try is far off."""
    rng = np.random.default_rng(3)
    y = np.array([data_of(loss, u) for u in rng.random(500)])
    z, image = rng.standard_normal(500), -rng.uniform(0.5, 1.5, 500)
    objective = Objective(loss)
    first = objective.slope(z - y, y) @ image
    for energy in (1e-6, 1.0, 1e6) if loss.discrete else (1.0 * 500,):
        found = objective.line_curvature(z - y, y, image, energy)
        step = -first / found
        left = objective.slope(z + step * image - y, y) @ image
        assert value(loss, z + step * image - y, y) <= value(loss, z - y, y)
        assert abs(left) <= 1.01 * abs(first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_do_not_overflow(dtype):
    z = np.array([-1e4, -90, 0, 90, 1e4], dtype)
    for loss in FITTED:
        for y in (np.zeros(5, dtype), np.ones(5, dtype)):
            with np.errstate(all="raise", under="ignore"):
                objective = Objective(loss)
                found = [objective.slope(z - y, y), objective.curvature(z - y, y), *objective.majorizer(z - y, y)]
            assert all(np.isfinite(a).all() for a in found)
            assert math.isfinite(value(loss, z - y, y))


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_scale_resists_outliers(share):
    rng = np.random.default_rng(1)
    d = 0.3 * rng.standard_normal(20_000)
    bad = rng.random(len(d)) < share
    d[bad] += 100 * rng.standard_normal(bad.sum())
    assert m_scale(d) == pytest.approx(0.3, rel=0.02 if share == 0 else 0.4)
    assert m_scale(d, kind=HALF) == pytest.approx(0.3, rel=0.02 if share == 0 else 0.2)
    assert m_scale(7 * d) == pytest.approx(7 * m_scale(d), rel=0.01)
    assert m_scale(d, None, 1e-3) == pytest.approx(m_scale(d), rel=0.01)  # wherever it begins
    assert m_scale(0 * d) == 0
    loss = Huber().fit_parameters(d, 0 * d + 5)
    assert loss.scale == pytest.approx(m_scale(d), rel=0.01)
    assert Huber().fit_parameters(2 * d, d, near=loss).scale == loss.scale  # it never rises,
    assert Huber().fit_parameters(d / 100, d + 5, near=loss).scale >= 0.5 * loss.scale  # and does not fall at once
    assert Huber(scale=2.0).fit_parameters(d, d).scale == 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64])
def test_the_scale_of_residuals_of_which_most_are_zero_is_zero(dtype):
    """Or next to it: the iteration leaves the range of single precision without a warning."""
    d = np.zeros(20, dtype)
    d[:2] = 1e3
    for start in (1e-20, 1e-30):
        assert 0 <= m_scale(d, None, start) < start


@pytest.mark.parametrize("loss", ROBUST, ids=lambda loss: loss.name)
def test_a_smaller_scale_never_increases_the_loss(loss):
    d = np.linspace(-5, 5, 101)
    values = [value(type(loss)(scale=s), d, d) for s in np.geomspace(10, 1e-3, 30)]
    assert (np.diff(values) <= 1e-12).all()


def test_fitted_thresholds_minimize_the_loss():
    rng = np.random.default_rng(2)
    z = rng.standard_normal(20_000)
    cuts = np.array([-2.0, -0.5, 0.4, 2.0])
    y = np.digitize(z + rng.logistic(size=len(z)), cuts).astype(float)
    loss = Ordinal(tuple(range(5))).fit_parameters(z - y, y)
    np.testing.assert_allclose(loss.thresholds, cuts, atol=0.1)
    best = value(loss, z - y, y)
    for k in range(4):
        for h in (-0.01, 0.01):
            moved = list(loss.thresholds)
            moved[k] += h
            assert value(Ordinal(loss.classes, tuple(moved)), z - y, y) > best
    warm = Ordinal(tuple(range(5))).fit_parameters(z - y, y, near=loss)
    np.testing.assert_allclose(warm.thresholds, loss.thresholds, atol=1e-4)
    heavy = Ordinal(tuple(range(5))).fit_parameters(z - y, y, None, np.full(len(z), 3.0))
    np.testing.assert_allclose(heavy.thresholds, loss.thresholds, atol=1e-4)


def test_means_are_inverse_links():
    z = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(Logistic().mean(z), 1 / (1 + np.exp(-z)))
    np.testing.assert_allclose(Poisson().mean(z), np.exp(z))
    np.testing.assert_allclose(Huber().mean(z), z)
    loss = FITTED[5]
    p = loss.probabilities(z)
    np.testing.assert_allclose(p.sum(-1), 1)
    for k in range(4):
        y = np.full(7, float(k))
        losses = [plain(loss, a, b) - loss.ridge * a * a / 2 for a, b in zip(z, y, strict=True)]
        np.testing.assert_allclose(p[:, k], np.exp(-np.array(losses)))
    np.testing.assert_allclose(loss.mean(z), p @ [1, 2, 4, 5])
    assert (np.diff(loss.mean(z)) > 0).all()


@pytest.mark.parametrize("loss", [*FITTED, *(kind() for kind in LOSSES.values())], ids=repr)
def test_parameters_round_trip(loss):
    import json

    again = loss_from(json.loads(json.dumps(loss.parameters())))
    assert again == loss


class LogCosh(Loss):
    """A loss with nothing but the three functions that are required."""

    name = "log-cosh"

    def value(self, xp, d, y):
        return abs(d) + xp.log1p(xp.exp(-2 * abs(d))) - math.log(2)

    def slope(self, xp, d, y):
        return xp.tanh(d)

    def curvature(self, xp, d, y):
        return 1 - xp.tanh(d) ** 2


def test_a_user_defined_loss_needs_no_registration(backend):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 1)), rng.standard_normal((15, 1))
    rows, cols = np.nonzero(rng.random((20, 15)) < 0.7)
    problem = lr.Completion(rows, cols, (a @ b.T)[rows, cols], (20, 15), loss=LogCosh(), backend=backend)
    check_gradient(problem, rank=1)
    result = lr.solve(problem, 1, "rcg", max_iter=500)
    assert result.converged
    np.testing.assert_allclose(result.numpy().X.to_dense(), a @ b.T, atol=1e-4)


def test_a_loss_is_registered_by_one_call(monkeypatch):
    monkeypatch.setattr("lorank.losses.registry.LOSSES", dict(LOSSES))
    with pytest.raises(ValueError, match="log-cosh"):
        resolve_loss("log-cosh")
    with pytest.raises(ValueError, match="log-cosh"):
        loss_from(LogCosh().parameters())
    assert register_loss(LogCosh) is LogCosh
    assert isinstance(lr.Completion([0, 1], [0, 0], [1.0, 2.0], loss="log-cosh").loss, LogCosh)
    assert isinstance(loss_from(LogCosh().parameters()), LogCosh)
    with pytest.raises(ValueError, match="huber"):
        register_loss(type("Other", (LogCosh,), {"name": "huber"}))
    with pytest.raises(ValueError, match="Loss"):
        register_loss(Huber())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [float, complex])
def test_the_shortcuts_for_squares_agree_with_the_pointwise_loss(dtype, weighted, backend):
    class General(Objective):
        is_quadratic = False

    rng = np.random.default_rng(0)
    d, y = (rng.standard_normal(50) + (1j * rng.standard_normal(50) if dtype is complex else 0) for _ in range(2))
    d, y, w = backend.asarray(d), backend.asarray(y), backend.asarray(rng.random(50)) if weighted else None
    fast, slow = Objective(weights=w), General(weights=w)
    assert fast.value(d, y, backend) == pytest.approx(slow.value(d, y, backend))
    assert fast.at_zero(y, backend) == pytest.approx(slow.at_zero(y, backend))
    assert fast.typical_curvature(y, 0.0) == pytest.approx(slow.typical_curvature(y, 0.0))
    assert fast.line_curvature(d, y, y, 2.0) == 2.0
    np.testing.assert_allclose(backend.to_numpy(fast.slope(d, y)), backend.to_numpy(slow.slope(d, y)))
    ones = np.ones(50) if w is None else backend.to_numpy(fast.curvature(d, y))
    assert (fast.curvature(d, y) is None) == (not weighted)
    np.testing.assert_allclose(backend.to_numpy(slow.curvature(d, y)), ones)


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
        (lambda: Ordinal((3.0, 2.0, 1.0)), "classes must"),
        (lambda: Ordinal(thresholds=(1.0, 1.0)), "thresholds must"),
        (lambda: Ordinal((1.0, 2.0), (1.0, 2.0)), "2 classes need 1 thresholds"),
        (lambda: value(Huber(), np.ones(2), np.ones(2)), "Huber has no scale yet"),
        (lambda: value(Ordinal((1.0, 2.0)), np.ones(2), np.ones(2)), "Ordinal has no thresholds yet"),
    ],
)
def test_invalid_parameters_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_entrywise_and_total_of_long_vectors():
    a = np.arange(50_000.0)
    np.testing.assert_array_equal(entrywise(lambda xp, a, b: a + b, a, a), 2 * a)
    assert total(lambda xp, a: (a, 0 * a + 1), a).tolist() == [a.sum(), len(a)]
    assert total(lambda xp, a: (a,), a[:0]).tolist() == [0.0]
