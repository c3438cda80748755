"""Pauli tomography against dense Pauli matrices: passes, gradient, recovery, states, counts, refusals."""

from __future__ import annotations

import functools
import itertools
import warnings

import numpy as np
import pytest

import lorank as lr
from helpers import assert_close, host, random_array
from lorank.geometry import FixedRank
from lorank.problems.pauli_labels import expectations_of_counts, label_of, parse_labels
from lorank.problems.quantum_state import QuantumState

MATRICES = {"I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1.0, -1.0])}


def dense(label):
    """The Kronecker product of the letters."""
    return functools.reduce(np.kron, (MATRICES[letter] for letter in label), np.eye(1)).astype(complex)


def all_labels(qubits):
    return ["".join(letters) for letters in itertools.product("IXYZ", repeat=qubits)][1:]


def made(qubits, count, backend=None, seed=0, **options):
    rng = np.random.default_rng(seed)
    labels = [all_labels(qubits)[k] for k in rng.permutation(4**qubits - 1)[:count]]
    problem = lr.PauliTomography(labels, rng.uniform(-1, 1, count), backend=backend, **options)
    return problem, np.stack([*map(dense, labels), np.eye(2**qubits)])


@pytest.fixture(params=[(1, 3), (3, 40), (6, 300)], ids=str)
def case(request, backend):
    return made(*request.param, backend)


def test_passes_are_those_of_dense_matrices(case):
    problem, P = case
    backend, rng, d = problem.backend, np.random.default_rng(1), len(P[0])
    left, right = (random_array(rng, (d, 3), complex) for _ in range(2))
    p = rng.standard_normal(len(P))
    expected = np.einsum("kij,jl,il->k", P, left, right.conj(), optimize=True).real
    assert_close(problem.forward(backend.asarray(left), backend.asarray(right)), expected, float, 200)
    G = np.tensordot(p, P, 1)
    for times in problem.products(backend.asarray(p)):
        assert_close(times(backend.asarray(left)), G @ left, float, 200)
    squares = problem.sums.row_squares(backend.asarray(p[:-1]), p[-1])
    assert_close(squares, (abs(G) ** 2).sum(1), float, 200)


def test_the_gradient_is_that_of_the_dense_objective(case):
    problem, P = case
    backend, d = problem.backend, len(P[0])
    X = FixedRank.semidefinite(backend.asarray(random_array(np.random.default_rng(2), (d, 2), complex)), backend=backend)
    G = problem.gradient(X)
    residual = np.einsum("kij,ji->k", P, X.numpy().to_dense()).real - host(problem.y)
    w = host(problem.objective.weights)
    expected = np.tensordot(w * residual, P, 1)
    assert G.residual_norm == pytest.approx(np.sqrt((w * residual**2).sum()))
    assert_close(G.GV, expected @ host(X.U), float, 500)
    assert_close(G.squared_norms[0], (abs(expected) ** 2).sum(1), float, 500)
    xi = X.manifold.gradient(X, G, lr.geometry.Weights())
    image = np.einsum("kij,ji->k", P, host(xi.to_dense())).real
    assert G.squared_image_norm(xi) == pytest.approx((w * image**2).sum())


def test_forward_and_adjoint_match_and_the_gradient_is_the_derivative(case):
    problem, P = case
    assert lr.testing.dot_test(problem) < 1e-12
    if len(P[0]) > 2:
        assert abs(lr.testing.check_gradient(problem, 2) - 2) < 0.1


def test_passes_in_blocks_are_those_at_once(monkeypatch):
    problem, P = made(5, 200, "numpy")
    monkeypatch.setattr("lorank.backends.pauli_sums.BLOCK", 100)
    v = random_array(np.random.default_rng(0), (32, 2), complex)
    p = np.random.default_rng(1).standard_normal(201)
    assert_close(problem.times(p, v), np.tensordot(p, P, 1) @ v, float, 200)
    assert_close(problem.forward(v, v), np.einsum("kij,jl,il->k", P, v, v.conj(), optimize=True).real, float, 200)


def test_labels_are_bit_masks_with_the_last_letter_at_qubit_0():
    flips, signs, qubits = parse_labels(["XIZ", "YYI"])
    assert (flips.tolist(), signs.tolist(), qubits) == ([0b100, 0b110], [0b001, 0b110], 3)
    for label in all_labels(3):
        assert label_of(*(int(a[0]) for a in parse_labels([label])[:2]), 3) == label


@pytest.mark.parametrize("rank", [1, 3])
def test_exact_expectations_give_the_state(rank, backend):
    problem, truth = lr.datasets.random_pauli(5, rank, oversampling=3, seed=1, backend=backend)
    result = lr.solve(problem, rank, tol=1e-10)
    assert result.converged
    assert result.X.hermitian
    assert truth.distance(result.X.numpy()) < 1e-8 * truth.norm()
    assert np.linalg.norm(result.state - truth.to_dense()) < 1e-8 * truth.norm()
    assert result.purity == pytest.approx(float((truth.s**2).sum()))
    assert result.fidelity(truth) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("solver", ["auto", "rcg", "gauss-newton", "prgd", "adaptive-prgd", "rgd", "niht"])
def test_solvers(solver):
    problem, truth = lr.datasets.random_pauli(5, 2, oversampling=4, seed=2)
    result = lr.solve(problem, 2, solver, max_iter=3000)
    assert result.converged
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_the_rank_is_found():
    problem, truth = lr.datasets.random_pauli(5, 2, oversampling=5, seed=3)
    result = lr.solve(problem, "auto")
    assert result.X.rank == 2
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_shots_are_weights_and_the_trace_is_one():
    """Of the expectations of a GHZ state many are 0, and the others 1 or -1, with little variance."""
    ghz = np.zeros(32)
    ghz[[0, 31]] = 0.5**0.5
    lost, labels = [], all_labels(5)
    exact = QuantumState.of(FixedRank.semidefinite(ghz[:, None])).expectations(labels)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(labels))[:300]
        y = 2 * rng.binomial(100, ((1 + exact[chosen]) / 2).clip(0, 1)) / 100 - 1
        problems = [lr.PauliTomography([labels[k] for k in chosen], y, shots) for shots in (100, None)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lr.ConvergenceWarning)
            result, plain = (lr.solve(problem, 1) for problem in problems)
        assert float(result.X.s.sum()) == pytest.approx(1, abs=1e-12)
        assert result.noise == pytest.approx(1, abs=0.2)  # standard deviations of the counts
        lost.append([1 - result.fidelity(ghz), 1 - plain.fidelity(ghz)])
    weighted, equal = np.median(lost, axis=0)  # of few matrices that tell its sign some draws have hardly any
    assert weighted < 0.8 * equal


def test_a_ghz_state_is_determined_by_its_stabilizers():
    """Its generators give it from any initial point; matrices without flips of all qubits do not tell its sign."""
    plus, minus = np.zeros((2, 32))
    plus[[0, 31]] = minus[0] = 0.5**0.5
    minus[31] = -(0.5**0.5)
    states = [QuantumState.of(FixedRank.semidefinite(psi[:, None])) for psi in (plus, minus)]
    rng = np.random.default_rng(0)
    generators = ["XXXXX", "ZZIII", "IZZII", "IIZZI", "IIIZZ"]
    others = [label for label in all_labels(5) if label not in [*generators, "IIIII"]]
    labels = generators + [others[k] for k in rng.permutation(len(others))[:145]]
    y = 2 * rng.binomial(100, ((1 + states[0].expectations(labels)) / 2).clip(0, 1)) / 100 - 1
    problem = lr.PauliTomography(labels, y, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.ConvergenceWarning)  # few measurements: no test of the residual
        for seed in range(4):
            U = np.random.default_rng(seed).standard_normal((32, 2)) @ np.array([[1], [1j]])
            start = FixedRank.semidefinite(U / np.linalg.norm(U))
            assert lr.solve(problem, 1, start=start).fidelity(plus) > 0.9
    silent = [label for label in others if set(label) - set("XY")]
    np.testing.assert_allclose(states[0].expectations(silent), states[1].expectations(silent), atol=1e-12)


def test_the_trace_is_near_one_before_the_division():
    problem, _ = lr.datasets.random_pauli(5, 3, oversampling=3, shots=100, seed=0)
    traces = []
    lr.solve(
        problem,
        3,
        "rcg",
        stop=lr.stopping.Iterations(60),
        callbacks=[lambda p, state, c: traces.append(float(state.X.s.sum()))],
    )
    assert abs(traces[-1] - 1) < 0.05


def test_the_variance_of_an_expectation_is_its_posterior_mean():
    from lorank.problems.pauli import _mean_variance

    t = np.linspace(-1, 1, 200_001)
    for y, shots in ((1.0, 50), (0.2, 10), (-0.9, 200)):
        density = (1 + t) ** (shots * (1 + y) / 2) * (1 - t) ** (shots * (1 - y) / 2)
        expected = ((1 - t**2) * density).sum() / density.sum()
        assert _mean_variance(np.array([y]), np.array([shots]))[0] == pytest.approx(expected, rel=1e-3)


def simulated(state, settings, shots, rng):
    """Counts of outcomes in the bases of the settings."""
    bases = {"X": np.array([[1, 1], [1, -1]]) / 2**0.5, "Y": np.array([[1, -1j], [1, 1j]]) / 2**0.5, "Z": np.eye(2)}
    found = []
    for setting in settings:
        B = functools.reduce(np.kron, (bases[letter] for letter in setting))
        chances = np.einsum("ij,jk,ik->i", B, state, B.conj()).real.clip(0)
        drawn = rng.multinomial(shots, chances / chances.sum())
        found.append({f"{k:0{len(setting)}b}": int(n) for k, n in enumerate(drawn) if n})
    return found


def test_counts_give_the_expectations_of_all_compatible_matrices():
    rng = np.random.default_rng(0)
    factor = random_array(rng, (8, 2), complex)
    state = factor @ factor.conj().T
    state /= np.trace(state).real
    settings = ["".join(letters) for letters in itertools.product("XYZ", repeat=3)]
    counts = simulated(state, settings, 1_000_000, rng)
    masks, values, shots = expectations_of_counts(settings, counts)
    labels = [label_of(int(f), int(z), 3) for f, z in zip(masks.flips, masks.signs, strict=True)]
    assert sorted(labels) == sorted(all_labels(3))
    expected = [np.trace(dense(label) @ state).real for label in labels]
    np.testing.assert_allclose(values, expected, atol=5e-3)
    assert shots.tolist() == [1_000_000 * 3 ** label.count("I") for label in labels]
    result = lr.solve(lr.PauliTomography.from_counts(settings, counts), 2, stop=lr.stopping.RelativeChange(1e-7))
    assert np.linalg.norm(result.state - state) < 0.01


def test_states():
    rng = np.random.default_rng(0)
    factor, other = random_array(rng, (8, 2), complex), random_array(rng, (8, 8), complex)
    X = FixedRank.semidefinite(factor)
    state = QuantumState.of(X)
    rho = X.to_dense() / X.s.sum()
    np.testing.assert_allclose(state.state, rho, atol=1e-12)
    assert state.purity == pytest.approx(np.trace(rho @ rho).real)
    psi = other[:, 0]
    assert state.fidelity(psi) == pytest.approx((psi.conj() @ rho @ psi).real / np.linalg.norm(psi) ** 2)
    sigma = other @ other.conj().T
    sigma /= np.trace(sigma).real
    values, vectors = np.linalg.eigh(rho)
    root = vectors * np.sqrt(values.clip(min=0)) @ vectors.conj().T
    expected = np.sqrt(np.linalg.eigvalsh(root @ sigma @ root).clip(min=0)).sum() ** 2
    assert state.fidelity(sigma) == pytest.approx(expected)
    assert state.fidelity(FixedRank.semidefinite(other)) == pytest.approx(expected)
    labels = ["XYZ", "III", "IIZ", "XYZ"]
    np.testing.assert_allclose(state.expectations(labels), [np.trace(dense(one) @ rho).real for one in labels], atol=1e-12)
    assert "purity" in repr(state)


def test_the_identity_is_left_out_and_zero_results_are_mixed():
    problem = lr.PauliTomography(["II", "XX", "ZZ"], [1, 0.5, 0.5], shots=[10, 20, 30])
    assert problem.labels == ["XX", "ZZ"]
    assert problem.shots.tolist() == [20, 30]
    assert "2 qubits, 2 expectations" in repr(problem)


def test_checkpoints(tmp_path):
    problem, _ = lr.datasets.random_pauli(4, 1, oversampling=4)
    path = tmp_path / "run.lorank"
    lr.solve(problem, 1, "rcg", stop=lr.stopping.Iterations(2), checkpoint=path, checkpoint_every=0)
    assert lr.solve(problem, 1, "rcg", checkpoint=path).converged
    with pytest.raises(ValueError, match="checkpoint"):
        lr.solve(lr.datasets.random_pauli(4, 1, oversampling=4, seed=1)[0], 1, "rcg", checkpoint=path)


@pytest.mark.needs("torch")
def test_a_device_gives_the_same_state():
    problem, truth = lr.datasets.random_pauli(4, 2, oversampling=4)
    result = lr.solve(problem, 2, device="cpu").numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()
    assert result.fidelity(truth) > 1 - 1e-6


XX = {"labels": ["XX", "ZZ"], "expectations": [0.0, 0.5]}


@pytest.mark.parametrize(
    ("changed", "name", "match"),
    [
        ({"labels": "XX"}, "labels", "list of labels"),
        ({"labels": []}, "labels", "list of labels"),
        ({"labels": ["XX", "ZZZ"]}, "labels", "one letter per qubit"),
        ({"labels": ["XX", 3]}, "labels", "one letter per qubit"),
        ({"labels": ["XX", "ZA"]}, "labels", "letter 'A'"),
        ({"labels": ["XX", "xx"]}, "labels", "letter 'x'"),
        ({"labels": ["XX", "XX"]}, "labels", "repeat 'XX', at positions 0 and 1"),
        ({"labels": ["II"], "expectations": [1.0]}, "labels", "other than the identity"),
        ({"labels": ["X" * 30, "Z" * 30]}, "labels", "30 qubits"),
        ({"expectations": [0.0]}, "expectations", "one number per label"),
        ({"expectations": [0.0, 1.2]}, "expectations", "beyond -1 to 1"),
        ({"expectations": [0.0, 1j]}, "expectations", "complex"),
        ({"labels": ["XX", "II"]}, "expectations", "identity"),
        ({"shots": 0}, "shots", "1 or more"),
        ({"shots": [10, -1]}, "shots", "1 or more"),
        ({"shots": [10]}, "shots", "one per label"),
    ],
)
def test_invalid_data_are_refused_by_name(changed, name, match):
    with pytest.raises(lr.ParameterError, match=match) as error:
        lr.PauliTomography(**(XX | changed))
    assert error.value.name == name


@pytest.mark.parametrize(
    ("settings", "counts", "name", "match"),
    [
        (["XI"], [{"00": 3}], "settings", "letter 'I'"),
        (["XX"], {"00": 3}, "counts", "list of dictionaries"),
        (["XX", "ZZ"], [{"00": 3}], "counts", "each of the 2 settings"),
        (["XX"], [{"000": 3}], "counts", "bit string of 2 digits"),
        (["XX"], [{"02": 3}], "counts", "bit string"),
        (["XX"], [{0: 3}], "counts", "bit string"),
        (["XX"], [{"00": -1}], "counts", "0 or more"),
        (["XX"], [{"00": 1.5}], "counts", "0 or more"),
        (["XX"], [{}], "counts", "no shots"),
        (["XX"], [[3, 4]], "counts", "dictionary"),
    ],
)
def test_invalid_counts_are_refused_by_name(settings, counts, name, match):
    with pytest.raises(lr.ParameterError, match=match) as error:
        lr.PauliTomography.from_counts(settings, counts)
    assert error.value.name == name


def test_other_refusals():
    problem, _ = lr.datasets.random_pauli(3, 1, oversampling=4)
    with pytest.raises(lr.ParameterError, match="rank"):
        lr.solve(problem, 9)
    result = lr.solve(problem, 1)
    for other in (np.ones(3), np.ones((3, 3)), np.zeros(8)):
        with pytest.raises(lr.ParameterError, match="other"):
            result.fidelity(other)
    with pytest.raises(lr.ParameterError, match="labels"):
        result.expectations(["X"])
    with pytest.raises(lr.ParameterError, match="solver IRLS needs"):
        lr.solve(problem, 1, lr.solvers.IRLS())
    for options in ({"rank": 9}, {"rank": 0}, {"rank": 1, "shots": 0}, {"rank": 1, "oversampling": 0}):
        with pytest.raises(lr.ParameterError):
            lr.datasets.random_pauli(3, **options)


@pytest.mark.needs("native")
@pytest.mark.parametrize(
    "wrong",
    [
        {"flips": np.array([0, 8])},
        {"flips": np.array([-1, 1])},
        {"signs": np.array([1, 2, 8])},
        {"indptr": np.array([0, 2, 4])},
        {"indptr": np.array([0, 4, 3])},
        {"phases": np.zeros(2, np.int8)},
        {"left": np.ones((2, 12))},
        {"left": np.ones((4, 8))},
        {"out": np.zeros(2)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_kernels_check_their_arguments(wrong):
    from lorank import _kernels

    good = {
        "flips": np.array([0, 3]),
        "indptr": np.array([0, 1, 3]),
        "signs": np.array([1, 2, 7]),
        "phases": np.zeros(3, np.int8),
        "left": np.ones((2, 8)),
        "right": np.ones((2, 8)),
        "out": np.zeros(3),
    }
    _kernels.pauli_expectations(**good)
    with pytest.raises((ValueError, TypeError)):
        _kernels.pauli_expectations(**(good | wrong))
    v = wrong.get("left", good["right"])
    arguments = {k: a for k, a in (good | wrong).items() if k in ("flips", "indptr", "signs", "phases")}
    if "out" not in wrong and "left" not in wrong:
        with pytest.raises((ValueError, TypeError)):
            _kernels.pauli_times(**arguments, p=np.zeros(3), v=v, out=np.zeros((2, 8)))
