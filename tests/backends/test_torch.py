"""What is special about tensors: devices, errors, what comes back, and the Triton kernels against their plain twins."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import lorank as lr
from helpers import host
from lorank.backends import get_backend
from lorank.backends.torch_ import TorchBackend

needs_kernels = pytest.mark.needs("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def easy():
    return lr.datasets.random_completion(120, 90, 3, oversampling=6, seed=1)


# -- devices -----------------------------------------------------------------------------------------------------------
def test_solve_on_a_device_gives_tensors_there_and_numpy_brings_them_back(easy):
    problem, truth = easy
    result = lr.solve(problem, 3, device=DEVICE)
    assert result.converged
    for a in (result.X.U, result.X.s, result.X.V):
        assert a.device.type == DEVICE
        assert a.dtype == torch.float64
    back = result.numpy()
    for a in (back.X.U, back.X.s, back.X.V):
        assert isinstance(a, np.ndarray)
    assert truth.distance(back.X) < 1e-5 * truth.norm()
    assert truth.distance(result.X) == pytest.approx(truth.distance(back.X), rel=1e-6)
    assert isinstance(problem.y, np.ndarray)  # the problem stays where it was


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_problems_from_tensors_stay_where_they_are(dtype):
    made, truth = lr.datasets.random_completion(60, 50, 2, oversampling=6, factors="gaussian", dtype=dtype, seed=3)
    shuffled = np.random.default_rng(0).permutation(made.m)
    rows, cols, y = (torch.as_tensor(a[shuffled], device=DEVICE) for a in (made.rows, made.cols, made.y))
    problem = lr.Completion(rows, cols, y, (60, 50))
    assert problem.backend.name.startswith("torch")
    assert problem.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(host(problem.y), made.y)
    result = lr.solve(problem, 2, tol=5e-6, max_iter=300)
    assert result.X.U.dtype == getattr(torch, dtype)
    assert truth.distance(result.X.numpy()) < 1e-4 * truth.norm()


@pytest.mark.parametrize("name", ["auto", "rcg"])
def test_the_same_iterates_as_numpy(name, easy):
    """Same problem, same seed: ten steps, to 1e-8 (and much better) in double precision."""
    problem, _ = easy
    paths = [[], []]
    for path, device in zip(paths, (None, DEVICE), strict=True):
        keep = lambda problem, state, clock, path=path: path.append(state.X.numpy()) and None  # noqa: E731
        lr.solve(problem, 3, name, max_iter=10, tol=0, device=device, callbacks=[keep])
    assert len(paths[0]) == len(paths[1]) == 11
    for a, b in zip(*paths, strict=True):
        assert a.distance(b) < 1e-8 * a.norm()


@pytest.mark.parametrize("make", ["sensing", "phase", "diffraction"])
def test_the_other_models_walk_the_same_path(make):
    problem, rank = {
        "sensing": lambda: (lr.datasets.random_sensing(24, 20, 2, seed=1, dtype=np.complex128)[0], 2),
        "phase": lambda: (lr.datasets.random_phase(40, seed=1, dtype=np.complex128)[0], 1),
        "diffraction": lambda: (lr.datasets.random_diffraction((8, 8), masks=6, seed=1)[0], 1),
    }[make]()
    # Of an array in main memory, auto takes products in single precision where a device does not: another path, below.
    start = "spectral" if make == "phase" else None
    for solver in {"sensing": ["auto"], "phase": ["rcg", "adaptive-prgd"], "diffraction": ["auto", "adaptive-prgd"]}[make]:
        one, two = (lr.solve(problem, rank, solver, max_iter=10, tol=0, start=start, device=d) for d in (None, DEVICE))
        np.testing.assert_allclose(one.history.residual, two.history.residual, rtol=1e-8)
        if rank == 1:
            assert two.signal.device.type == DEVICE
            assert lr.phase.phase_distance(two.signal, one.signal) < 1e-8
    lr.testing.dot_test(problem.to(DEVICE), rank=1)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_auto_finds_the_same_signal(dtype):
    problem, x = lr.datasets.random_phase(40, seed=1, dtype=dtype)
    for device in (None, DEVICE):
        result = lr.solve(problem, 1, tol=1e-10, device=device)
        assert result.converged, result
        assert lr.phase.phase_distance(result.signal, x) < 1e-9


def test_models_from_tensors():
    made, _ = lr.datasets.random_sensing(12, 10, 2, seed=1)
    sensing = lr.Sensing(torch.as_tensor(made.A), torch.as_tensor(made.y), (12, 10))
    assert lr.solve(sensing, 2).converged
    phase, x = lr.datasets.random_phase(20, seed=1)
    again = lr.PhaseRetrieval(torch.as_tensor(phase.linear_map.A), torch.as_tensor(phase.y))
    assert lr.phase.phase_distance(lr.solve(again, 1).signal, x) < 1e-5


def test_functions_of_tensors():
    made, truth = lr.datasets.random_sensing(12, 10, 2, seed=1)
    A = torch.as_tensor(made.A)
    problem = lr.Sensing.from_functions(
        lambda left, right: A @ (left @ right.T).ravel(),
        lambda p: (p @ A).reshape(12, 10),
        torch.as_tensor(made.y),
        (12, 10),
        check=True,
    )
    assert truth.distance(lr.solve(problem, 2).X.numpy()) < 1e-4 * truth.norm()
    with pytest.raises(ValueError, match="cannot be moved to another device"):
        lr.Sensing.from_functions(lambda *a: np.ones(3), lambda p: np.ones((2, 2)), np.ones(3), (2, 2), operator_scale=1.0).to(
            DEVICE
        )


def test_functions_of_numpy_arrays_cannot_run_on_a_gpu():
    """On the CPU they can; where NumPy cannot see the tensors they are refused, not left to fail."""
    backend = TorchBackend(torch.device("cpu"))
    backend.in_main_memory = False
    with pytest.raises(ValueError, match=r"y is a NumPy array.*pass y as a tensor on that device"):
        lr.Sensing.from_functions(lambda *a: np.ones(3), lambda p: np.ones((2, 2)), np.ones(3), (2, 2), backend=backend)
    with pytest.raises(ValueError, match=r"y is a NumPy array.*pass y as a tensor on that device"):
        lr.PhaseRetrieval.from_functions(lambda v: v, lambda w: w, np.ones(3), 3, backend=backend)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_rank_auto_on_the_device(noise):
    problem, truth = lr.datasets.random_completion(120, 100, 3, oversampling=5, noise=noise, factors="gaussian", seed=1)
    one, two = (lr.solve(problem, "auto", device=device, max_iter=30) for device in (None, DEVICE))
    assert two.X.rank == one.X.rank == 3
    assert [t.rank for t in one.rank_path] == [t.rank for t in two.rank_path]
    assert two.X.U.device.type == DEVICE
    np.testing.assert_allclose([t.held_out for t in one.rank_path], [t.held_out for t in two.rank_path], rtol=1e-5)
    assert truth.distance(two.X) < (0.05 if noise else 1e-5) * truth.norm()


def test_the_way_through_irls_and_second_order():
    """Barely sampled: conjugate gradients get stuck, and the solver goes through all of its stages."""
    problem, truth = lr.datasets.random_completion(80, 80, 4, oversampling=1.5, factors="gaussian", seed=1)
    result = lr.solve(problem, 4, device=DEVICE, tol=1e-9)
    assert "IRLS" in result.status.advice
    assert "Gauss-Newton" in result.status.advice
    assert result.converged, result
    assert truth.distance(result.X) < 1e-6 * truth.norm()


def test_a_start_may_be_of_either_kind(easy):
    problem, _ = easy
    first = lr.solve(problem, 3, max_iter=3, tol=0)
    there = lr.solve(problem, 3, max_iter=0, tol=0, start=first.X, device=DEVICE)
    assert there.residual == pytest.approx(first.residual, rel=1e-9)
    back = lr.solve(problem, 3, max_iter=0, tol=0, start=there.X.numpy())
    assert back.residual == pytest.approx(first.residual, rel=1e-9)


def test_problems_on_a_device_can_be_pickled(easy):
    problem = easy[0].to(DEVICE)
    twin = pickle.loads(pickle.dumps(problem))
    assert twin.backend is problem.backend
    assert lr.solve(twin, 3).residual == lr.solve(problem, 3).residual


# -- estimators --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rank": 2, "regularization": "learned", "weighted": True},
        {"rank": 3, "regularization": 2.0, "count_scaling": 0.5, "penalty": "frobenius", "weighted": True},
        {"solver": "alternating", "biases": False},
        {"rank": 0, "regularization": "learned"},
    ],
    ids=str,
)
def test_estimators_give_the_same_on_the_device(options):
    """The same model to 1e-8, whatever is asked for: NumPy arrays in and out."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    options = dict(options)
    weights = rng.random(2500) + 0.5 if options.pop("weighted", False) else None
    pairs = np.stack([rng.integers(0, 90, 2500), rng.integers(0, 60, 2500)], axis=1)  # some occur twice
    truth = 3 + rng.standard_normal((90, 2)) @ rng.standard_normal((2, 60)) + rng.standard_normal(60)
    values = truth[pairs[:, 0], pairs[:, 1]] + 0.3 * rng.standard_normal(2500)
    one, two = (lr.MatrixCompletion(**options, device=device).fit(pairs, values, weights) for device in (None, DEVICE))
    assert isinstance(two.U_, np.ndarray)
    assert one.rank_ == two.rank_
    assert one.n_iter_ == two.n_iter_
    np.testing.assert_allclose([c.error for c in one.curve_], [c.error for c in two.curve_], rtol=1e-8)
    np.testing.assert_allclose(two.predict(pairs), one.predict(pairs), rtol=1e-8, atol=1e-8)
    for a, b in zip(one.model_.arrays().items(), two.model_.arrays().items(), strict=True):
        assert a[0] == b[0]
        assert type(b[1]) is type(a[1])
        if a[0].endswith("counts"):
            np.testing.assert_array_equal(a[1], b[1])
    assert one.diagnosis_ == two.diagnosis_
    np.testing.assert_array_equal(one.recommend([0, 5], 3, by="rating")[0], two.recommend([0, 5], 3, by="rating")[0])


def test_missing_values_are_imputed_the_same_on_the_device():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(1)
    table = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 7)) + 0.1 * rng.standard_normal((60, 7))
    table[rng.random(table.shape) < 0.2] = np.nan
    one, two = (lr.TableImputer(method="low-rank", device=device).fit_transform(table) for device in (None, DEVICE))
    np.testing.assert_allclose(two, one, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("columns", [False, True])
def test_normal_equations_in_pieces_and_chunks(columns, monkeypatch):
    """A row and a column with all observations, others with few or none: pieces, blocks of pieces and chunks of rows."""
    rng = np.random.default_rng(2)
    mask = rng.random((120, 90)) < 0.05
    mask[7], mask[:, 11], mask[3], mask[:, 5] = True, True, False, False
    rows, cols = np.nonzero(mask)
    values = rng.standard_normal(len(rows))
    args = (columns, rng.standard_normal((120 if columns else 90, 3)), np.eye(3), rng.standard_normal(3))
    more = {"weights": rng.random(len(rows)), "fixed": 1, "covariance": True, "noise": 2.0}
    with pytest.warns(UserWarning, match="no observation"):
        one, two = (lr.Completion(rows, cols, values, mask.shape, backend=name).observations for name in ("numpy", "torch"))
    for name in ("CHUNK", "BLOCK"):
        monkeypatch.setattr(f"lorank.backends.torch_.normal_equations.{name}", 200)
    for a, b in zip(one.normal_equations(*args, **more), two.normal_equations(*args, **more), strict=True):
        np.testing.assert_allclose(host(b), a, rtol=1e-10, atol=1e-12)


# -- errors ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "unknown device 'gpu'"), ("meta", "device 'meta'"), ("cuda:99", "device 'cuda:99'")],
)
def test_missing_devices_are_refused(device, message, easy):
    with pytest.raises(ValueError, match=message):
        lr.solve(easy[0], 3, device=device)


def test_too_little_memory_is_refused_before_allocation(monkeypatch, easy):
    monkeypatch.setattr("lorank.backends.torch_.backend.free_bytes", lambda device: 100_000)
    with pytest.raises(MemoryError, match=r"3,\d\d\d observations .* GB .* on c.*, and 0\.0 GB"):
        easy[0].to(DEVICE)
    rows, cols, y = (torch.as_tensor(a) for a in (easy[0].rows, easy[0].cols, easy[0].y))
    with pytest.raises(MemoryError, match="while they are sorted"):
        lr.Completion(rows, cols, y, easy[0].shape)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [0, -1, 1]}, r"rows\[1\] = -1 is not an index: negative"),
        ({"cols": [0, 5, 1]}, r"cols\[1\] = 5 is outside 0 \.\. 2"),
        ({"rows": [0.5, 1, 1]}, "rows\\[0\\] = .* is not a whole number"),
        ({"values": [1.0, float("nan"), 2.0]}, r"values\[1\] = nan \(row 1, column 2\) is not finite"),
        ({"rows": [[0], [1], [1]]}, "rows must be one-dimensional"),
        ({"rows": [1, 1, 1], "cols": [0, 0, 1]}, r"the pair \(row 1, column 0\) is observed more than once"),
    ],
)
def test_bad_tensors_are_refused_like_arrays(change, message):
    given = {"rows": [0, 1, 1], "cols": [0, 2, 1], "values": [1.0, 2.0, 3.0]} | change
    with pytest.raises(ValueError, match=message):
        lr.Completion(*(torch.tensor(given[name], device=DEVICE) for name in ("rows", "cols", "values")), (3, 3))


def test_without_torch_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import lorank as lr\n"
        "p, _ = lr.datasets.random_completion(30, 20, 2, seed=0)\n"
        "assert lr.solve(p, 2).converged\n"
        "try: lr.solve(p, 2, device='cuda')\n"
        "except ValueError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "lorank[gpu]"' in done.stdout


# -- Gram products are kept --------------------------------------------------------------------------------------------
def test_gram_products_follow_changes_in_place():
    backend = get_backend("torch" if DEVICE == "cpu" else "torch:cuda")
    a = torch.ones(5, 2, dtype=torch.float64, device=DEVICE)
    assert backend.gram(a, a)[0, 0] == 5
    a *= 2
    assert backend.gram(a, a)[0, 0] == 20


# -- the Triton kernels ------------------------------------------------------------------------------------------------
@needs_kernels
@pytest.mark.parametrize("longest", [1024, 7])
@pytest.mark.parametrize("width", [1, 3, 10])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_triton_passes_against_plain_pytorch(dtype, width, longest):
    """Also with empty rows, and with rows cut into segments."""
    from lorank.backends.torch_ import kernels, plain

    kind, draw = getattr(torch, dtype), torch.Generator().manual_seed(width)
    mask = torch.rand(21, 15, generator=draw) < 0.6
    mask[4] = False
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(1).cumsum(0)]).to(DEVICE)
    index = mask.nonzero()[:, 1].int().to(DEVICE)
    one = plain.Order(ptr, index)
    two = plain.Order(ptr, index, plain.segments(ptr, longest))
    u, v, y = (
        torch.randn(*shape, dtype=kind, generator=draw).to(DEVICE) for shape in ((21, width), (15, width), (len(index),))
    )
    s = torch.rand(width, dtype=kind.to_real(), generator=draw).to(DEVICE)
    close = {"rtol": 1e-4, "atol": 1e-5} if kind.to_real() == torch.float32 else {"rtol": 1e-11, "atol": 1e-12}
    w = torch.rand(len(index), dtype=kind.to_real(), generator=draw).sub_(0.2).clamp_(min=0).to(DEVICE)
    for weights in (None, w):
        for a, b in zip(kernels.gradient(two, u, s, v, y, weights), plain.gradient(one, u, s, v, y, weights), strict=True):
            torch.testing.assert_close(a, b, **close)
    torch.testing.assert_close(kernels.times(two, y, v), plain.times(one, y, v), **close)
    for values in (None, y):
        torch.testing.assert_close(kernels.sample(two, u, v, values), plain.sample(one, u, v, values), **close)
        for weights in (None, w):
            for a, b in zip(
                kernels.line_sums(two, u, v, values, weights), plain.line_sums(one, u, v, values, weights), strict=True
            ):
                torch.testing.assert_close(a, b, **close)
    torch.testing.assert_close(kernels.row_sums(two, abs(y)), plain.row_sums(one, abs(y)))


@needs_kernels
@pytest.mark.parametrize("longest", [1024, 7])
@pytest.mark.parametrize("width", [1, 3, 16, 20, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_against_dense_sums_and_solutions(dtype, width, longest):
    from lorank.backends.torch_ import block_kernels, plain

    kind, draw = getattr(torch, dtype), torch.Generator().manual_seed(width)
    mask = torch.rand(13, 30, generator=draw) < 0.6
    mask[4] = False
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(1).cumsum(0)]).to(DEVICE)
    order = plain.Order(ptr, mask.nonzero()[:, 1].int().to(DEVICE), plain.segments(ptr, longest))
    v, a = (torch.randn(n, width, dtype=kind, generator=draw) for n in (30, 13))
    w = torch.rand(13, 30, dtype=kind, generator=draw)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-11}
    for weights in (None, w[mask].to(DEVICE)):
        expected = torch.einsum("ij,jk,jl->ikl", mask.to(kind) if weights is None else w * mask, v, v)
        found = block_kernels.blocks(order, v.to(DEVICE), weights)
        torch.testing.assert_close(found.cpu(), expected, **close)
    shifted = expected + 0.5 * torch.eye(width, dtype=kind)
    solved = block_kernels.block_solver(shifted.to(DEVICE))(a.to(DEVICE))
    torch.testing.assert_close(solved.cpu(), torch.linalg.solve(shifted, a[:, :, None])[:, :, 0], **close)


@needs_kernels
@pytest.mark.parametrize("n", [50, 700])
@pytest.mark.parametrize("width", [1, 10, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triton_products_against_plain_pytorch(dtype, width, n):
    from lorank.backends.torch_ import array_kernels, lazy_arrays

    kind, draw = getattr(torch, dtype), torch.Generator().manual_seed(width)
    xs, zs = ([torch.randn(k, width, dtype=kind, generator=draw).to(DEVICE) for _ in range(3)] for k in (n, n + 7))
    pairs = [(xs[0], xs[1]), (xs[1], xs[1]), (zs[0], zs[2])]
    for _ in range(2):  # again: kernels leave their counters as they found them
        for (a, b), product in zip(pairs, array_kernels.products(pairs), strict=True):
            np.testing.assert_allclose(product, host(a.double().T @ b.double()), rtol=1e-5 if dtype == "float32" else 1e-11)
    sums, expected = [], []
    for count, wide in ((1, width), (2, 2 * width), (3, width)):  # of other widths and lengths, in one launch
        small = torch.randn(count * width, wide, dtype=torch.float64, generator=draw)
        tensors = tuple((zs if count == 2 else xs)[:count])
        sums.append((tensors, small.numpy()))
        expected.append(lazy_arrays.plain_combine(tensors, small.to(DEVICE)))
    assert array_kernels.can_combine(sums)
    for one, two in zip(array_kernels.combine(sums), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@needs_kernels
def test_more_transfers_than_staging_slots():
    """More combinations than there are slots, without a look at the results in between."""
    from lorank.backends.torch_ import array_kernels
    from lorank.backends.torch_.staging import SLOTS

    a = torch.ones(40, 3, dtype=torch.float64, device=DEVICE)
    made = [array_kernels.combine([((a,), np.full((3, 2), float(k)))])[0] for k in range(2 * SLOTS + 3)]
    for k, one in enumerate(made):
        np.testing.assert_array_equal(host(one), 3.0 * k)


@pytest.mark.needs("cuda")
def test_triton_launches_where_its_own_launcher_takes_other_arguments(easy, monkeypatch):
    from lorank.backends.torch_ import launch

    problem, refused = easy[0].to("cuda"), []
    expected = lr.solve(problem, 3).numpy()

    def refuse(*_):
        refused.append(True)
        raise TypeError("not the arguments that this version takes")

    known = {key: (made, refuse, *rest) for key, (made, _, *rest) in launch._compiled.items()}
    monkeypatch.setattr(launch, "_compiled", known)
    found = lr.solve(problem, 3).numpy()
    assert refused
    np.testing.assert_array_equal(found.X.U, expected.X.U)
