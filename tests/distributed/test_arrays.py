"""Distributed arrays and observations in memory (tests/backends/test_partitioned.py tests the backend protocol)."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lorank as lr
from helpers import backend_pair as pair


def test_nodes_stay_pending_after_an_interrupt(monkeypatch):
    """Ctrl-C within a program loses no pending node."""
    _, two, truth = pair("partitions:3")
    sampled = two.observations.sample(truth.U * truth.s, truth.V)
    engine = two.observations.graph.engine
    run = engine.run

    def interrupted(program):
        monkeypatch.setattr(engine, "run", run)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        two.backend.norm(sampled)
    np.testing.assert_allclose(np.asarray(sampled), two.backend.to_numpy(two.y), rtol=1e-10, atol=1e-10)


def test_an_array_that_cannot_be_computed_does_not_fail_the_others():
    """Its error is raised again where it is requested, and only there; arrays made in the same program are computed."""
    _, two, _ = pair("partitions:3")
    observed = two.y

    def broken(a):
        if len(a):  # an empty array shows the shape of the result
            raise ValueError("cannot be computed")
        return a

    bad, good = observed.map(broken), observed + 1.0
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot be computed"):
            np.asarray(bad)
        np.testing.assert_array_equal(np.asarray(good), np.asarray(observed) + 1)
        np.testing.assert_array_equal(np.asarray(observed * 2), np.asarray(observed) * 2)
    assert lr.solve(two, 3).converged


def test_sums_have_the_same_bits_for_every_assignment_of_blocks():
    from lorank.distributed.program import TreeSum, assign_blocks, tree_total

    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 8, 13):
        terms = rng.standard_normal((count, 4)) * 10.0 ** rng.integers(-8, 8, (count, 1))
        expected = tree_total(list(terms))
        for sites in range(1, count + 1):
            shares = assign_blocks(count, sites)
            assert sorted(k for share in shares for k in share) == list(range(count))
            assert all(shares)
            together = TreeSum(count)
            for k in rng.permutation(sites):
                own = TreeSum(count)
                for block in shares[k]:
                    own.add((block, block + 1), (terms[block].copy(),))
                for where, term in own.terms.items():
                    together.add(where, term)
            np.testing.assert_array_equal(together.total[0], expected)


@pytest.mark.needs("torch")
def test_blocks_of_the_torch_backend():
    _, two, truth = pair("partitions:2:torch")
    result = lr.solve(two, 3).numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()


@pytest.mark.parametrize(("solver", "most"), [("rcg", 6), (lr.solvers.RCG(lr.metrics.Blocks(drift=0.99)), 8)])
def test_few_round_trips(solver, most):
    """Gram products, the slope and lengths, bases, the line search and the residual: six trips an iteration. Two more where
    rows and columns have their own equations: how far these have turned, and the projection.
    """
    _, two, _ = pair("partitions:3")
    graph, at = two.observations.graph, []
    lr.solve(
        two,
        3,
        solver,
        stop=lr.stopping.Iterations(4),
        max_iter=4,
        callbacks=[lambda p, s, c: at.append((graph.trips, graph.passes))],
    )
    trips, passes = np.diff(at, axis=0).T
    assert max(trips) <= most
    assert max(passes) <= 4


def test_known_sums_take_no_round_trip():
    _, two, _ = pair("partitions:3")
    graph, y = two.observations.graph, two.y * 2.0
    first = y.sum(), two.backend.norm(y)
    trips = graph.trips
    assert (y.sum(), two.backend.norm(y)) == first
    assert graph.trips == trips
    changed = y.copy()
    changed[:] = 1.0
    assert changed.sum() == len(changed)


@pytest.fixture(scope="module")
def distributed():
    """An array of rows, one of columns (a sum over blocks) and one of observations, each with its host array."""
    _, two, _ = pair("partitions:3", weights=True, noise=0.1)
    rng, observed = np.random.default_rng(4), two.observations
    rows = observed.times(two.y, rng.standard_normal((45, 3)))
    cols = observed.adjoint_times(two.y, rng.standard_normal((60, 3)))
    return two, {"rows": (rows, rows.gather()), "cols": (cols, cols.gather()), "entries": (two.y, two.y.gather())}


SIDES = pytest.mark.parametrize("side", ["rows", "cols", "entries"])
ALL = slice(None)


@SIDES
def test_indexing_agrees_with_numpy(distributed, side):
    a, twin = distributed[1][side]
    keys = [3, -2, slice(2, 30, 4), slice(None, None, -1), np.array([5, -1, 0]), [1, 2], np.arange(len(twin)) % 3 == 0, []]
    if twin.ndim == 2:
        some = np.array([1, -1])
        keys += [(3, 1), (-1, ALL), (slice(2, 9), 1), (some, slice(0, 2)), (some, np.array([2, 0])), (ALL, [0, 2]), (ALL, -1)]
    for key in keys:
        wanted = twin[np.array(key, int) if key == [] else key] if isinstance(key, list) else twin[key]
        np.testing.assert_array_equal(np.asarray(a[key]), wanted, err_msg=str(key))
    flags = (a if twin.ndim == 1 else a[:, 0]) > 0
    np.testing.assert_array_equal(a[flags], twin[flags.gather()])
    for key in (len(twin), -len(twin) - 1, np.array([0, len(twin) + 3])):
        with pytest.raises(IndexError):
            a[key]


@SIDES
def test_assignment_agrees_with_numpy(distributed, side):
    a, twin = distributed[1][side]
    keys = [np.array([1, 4]), np.array([-1]), ALL, np.arange(len(twin)) % 2 == 0, 3]
    keys += [(ALL, 1), (ALL, np.array([0, 2]))] if twin.ndim == 2 else []
    for key in keys:
        one, two = a.copy(), twin.copy()
        one[key], two[key] = 7.0, 7.0
        np.testing.assert_array_equal(one.gather(), two, err_msg=str(key))
    with pytest.raises(IndexError):
        a.copy()[np.array([len(twin)])] = 0.0
    np.testing.assert_array_equal(a.gather(), twin)


@SIDES
def test_functions_agree_with_numpy(distributed, side):
    a, twin = distributed[1][side]
    functions = [
        lambda x: np.where(x > 0, x, 0.0),
        lambda x: np.clip(x, -1, 1),
        lambda x: np.real(x),
        lambda x: np.concatenate([x, x]),
        lambda x: np.median(x, axis=0),
        lambda x: np.stack(arrays=(x, 2 * x)),
        lambda x: x.T,
        lambda x: x.reshape(x.shape),
        lambda x: x.reshape(-1, 1),
        lambda x: x.ravel(),
        lambda x: x.conj().real,
        lambda x: (x * 1j).conj(),
        lambda x: (x * (1 + 2j)).real,
        lambda x: (x > 0).mean(x.ndim - 1),
    ]
    for k, function in enumerate(functions):
        found, wanted = np.asarray(function(a)), function(twin)
        assert found.dtype == np.asarray(wanted).dtype
        np.testing.assert_array_equal(found, wanted, err_msg=str(k))


@SIDES
def test_backend_methods_agree_with_numpy(distributed, side):
    backend, (a, twin) = distributed[0].backend, distributed[1][side]
    flags, known = ((x if twin.ndim == 1 else x[:, 0]) > 1 for x in (a, twin))
    assert backend.first_true(flags) == np.flatnonzero(known)[0]
    np.testing.assert_array_equal(backend.flatnonzero(flags), np.flatnonzero(known))
    assert backend.squared_norm(a) == pytest.approx((twin**2).sum(), rel=1e-13)
    assert backend.max_abs(a) == abs(twin).max()
    torn = a.copy()
    torn[len(twin) - 1] = np.nan  # in the last block alone
    assert np.isnan(backend.max_abs(torn))
    assert np.isnan(torn.max())
    if twin.ndim == 2:
        np.testing.assert_allclose(backend.row_squares(a), (twin**2).sum(1), rtol=1e-13)
        q, k = (backend.to_numpy(x) for x in backend.qr(a))
        np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-13)
        np.testing.assert_allclose(q @ k, twin, atol=1e-12)


def test_a_product_with_a_matrix_of_as_many_rows():
    """A small matrix is not split into blocks, even if the array has as few rows."""
    values = np.random.default_rng(0).standard_normal((3, 4))
    problem = lr.Completion.from_dense(values, backend="partitions:3")
    a, square = problem.observations.times(problem.y, np.eye(4)[:, :3]), np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(a @ square, values[:, :3] @ square, rtol=1e-13)


def test_percentiles_by_histograms(distributed, monkeypatch):
    from lorank.distributed import backend

    monkeypatch.setattr(backend, "MAX_GATHERED", 5)  # more than one round of bins
    heavy = np.exp(6 * distributed[0].y)  # nearly all of them in the first bin
    at = [0, 1, 25, 50, 90, 99.9, 100]
    np.testing.assert_allclose(distributed[0].backend.percentiles(heavy, at), np.percentile(heavy.gather(), at), rtol=1e-12)
    alike = 0 * distributed[0].y + 2.0
    assert distributed[0].backend.median(alike) == 2.0


def test_a_basis_grows_by_nearly_dependent_columns(distributed):
    """By a QR decomposition, if the Gram matrix is too ill-conditioned."""
    two, arrays = distributed
    for side in ("rows", "cols"):
        a, twin = arrays[side]
        basis = two.backend.basis(len(twin), 6, np.float64)
        basis.append(two.backend.qr(a)[0])
        new = two.backend.concat([a[:, :1], a[:, :1] * (1 + 1e-9) + 1e-7 * abs(a[:, 1:2])])
        basis.extend(new)
        q = two.backend.to_numpy(basis.columns)
        np.testing.assert_allclose(q.T @ q, np.eye(5), atol=1e-8)


def test_restrict_empties_unobserved_rows_and_columns():
    rng = np.random.default_rng(2)
    rows, cols = np.nonzero(rng.random((12, 9)) < 0.7)
    seen = (rows != 4) & (cols != 7)
    data = rows[seen], cols[seen], rng.standard_normal(seen.sum()), (12, 9)
    left, right, found = rng.standard_normal((12, 2)), rng.standard_normal((9, 2)), []
    for backend in (None, "partitions:3"):
        with pytest.warns(UserWarning, match="has no observation"):
            problem = lr.Completion(*data, backend=backend)
        a = problem.observations.times(problem.y, right) + 1.0
        b = problem.observations.adjoint_times(problem.y, left) + 1.0
        found.append(problem.project_feasible(lr.FixedRank.from_factors(a, b, backend=problem.backend)).numpy().to_dense())
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)
    assert abs(found[1][4]).max() < 1e-13
    assert abs(found[1][:, 7]).max() < 1e-13
    assert abs(found[1]).max() > 1


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_squares_of_a_robust_gradient(loss):
    """Row and column sums of squares, as used by the row-column metric."""
    one, _, truth = pair("partitions:3", noise=0.1)
    X = lr.FixedRank.from_factors(truth.U + 0.1, truth.V * truth.s)
    data = one.rows, one.cols, one.y, one.shape
    a, b = (lr.Completion(*data, loss=loss, backend=k).gradient(X) for k in (None, "partitions:3"))
    dense = a.problem.observations.matrix(a.dual).toarray()
    np.testing.assert_allclose(b.squared_norms[0], (dense**2).sum(1), rtol=1e-10)
    np.testing.assert_allclose(b.squared_norms[1], (dense**2).sum(0), rtol=1e-10)
    for found, wanted in zip(b.outer(), (dense @ dense.T, dense.T @ dense), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10)
    results = [lr.solve(g.problem, 3, lr.solvers.RCG(lr.metrics.RowColumn()), max_iter=4) for g in (a, b)]
    np.testing.assert_allclose(*(r.history.residual for r in results), rtol=1e-6)


def test_unweighted_agrees_with_memory():
    one, two, _ = pair("partitions:3", weights=True)
    assert two.unweighted().observations.weights is None
    np.testing.assert_allclose(two.unweighted().y.gather(), one.unweighted().y)
    with pytest.raises(ValueError, match="weights"):
        two.observations.with_weights(np.ones(3))


def test_split_refuses_one_entry_per_row():
    for backend in (None, "partitions:3"):
        problem = lr.Completion(np.arange(9), np.arange(9), np.ones(9), backend=backend)
        with pytest.raises(ValueError, match="too few"):
            problem.split(np.random.default_rng(0), 0.1)


def test_host_arrays_are_computed_with_on_the_host():
    from lorank.distributed.arrays import DistributedArray

    backend, rng = lr.backends.get_backend("partitions:3"), np.random.default_rng(1)
    a, b, k, stack = (
        rng.standard_normal((6, 2)),
        rng.standard_normal((6, 2)),
        np.diag([2.0, 3.0]),
        np.eye(2) + np.ones((6, 2, 2)),
    )
    q, r = backend.qr(a)
    pairs = [
        (backend.max_abs(a), abs(a).max()),
        (backend.flatnonzero(a[:, 0] > 0), np.flatnonzero(a[:, 0] > 0)),
        (backend.percentiles(a[:, 0], [10, 50]), np.percentile(a[:, 0], [10, 50])),
        (backend.minus(a, b, k), a - b @ k),
        (backend.plus(a, k, b, 2 * k), a @ k + 2 * b @ k),
        (backend.row_squares(a), (a**2).sum(1)),
        (q @ r, a),
        (backend.block_solver(stack)(a), np.linalg.solve(stack, a[:, :, None])[:, :, 0]),
    ]
    for found, wanted in pairs:
        assert not isinstance(found, DistributedArray)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("side", [0, 1])
def test_the_qr_decomposition_of_arrays_with_more_columns_than_rows(side):
    """On the column side the triangular factor and the width of q follow the number of rows."""
    problem = lr.Completion([0, 0, 1, 2], [0, 1, 1, 2], np.arange(1.0, 5.0), (3, 3), backend="partitions:2:numpy")
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 5))
    observed, b = problem.observations, rng.standard_normal((3, 5))
    tall = observed.times(problem.y, b) if side == 0 else observed.adjoint_times(problem.y, a)
    q, k = problem.backend.qr(tall)
    assert q.shape == (3, 3)
    np.testing.assert_allclose(np.asarray(problem.backend.product(q, k)), np.asarray(tall), atol=1e-12)
    np.testing.assert_allclose(problem.backend.gram(q, q), np.eye(3), atol=1e-12)


@pytest.mark.parametrize("solver", ["rcg", "auto"])
def test_solves_of_one_problem_at_the_same_time_give_the_bits_of_single_ones(solver):
    """Programs of several threads on the same blocks."""
    problem, _ = lr.datasets.random_completion(80, 60, 2, oversampling=4, backend="partitions:3")
    alone = lr.solve(problem, 2, solver, max_iter=15).numpy().X
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: lr.solve(problem, 2, solver, max_iter=15).numpy().X, range(8)))
    finally:
        sys.setswitchinterval(before)
    for X in found:
        np.testing.assert_array_equal(X.U, alone.U)
        np.testing.assert_array_equal(X.V, alone.V)
