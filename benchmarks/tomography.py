"""Pauli tomography: seconds and iterations beside MiFGD, errors with shots, and memory.

python benchmarks/tomography.py recovery [--instances 10]   exact expectations, by qubits, rank and oversampling
python benchmarks/tomography.py speed [--instances 3] [--qubits 10 12] [--device cuda]   seconds, beside MiFGD
python benchmarks/tomography.py shots [--instances 10]      fidelities from counted outcomes, with and without weights
python benchmarks/tomography.py counts [--instances 10]     fidelities from counted bit strings, beside maximum likelihood
python benchmarks/tomography.py size                        iterations and peak memory for 8 to 12 qubits

MiFGD (Kim, Kollias, Kalev, Wei, Kyrillidis 2021) is our own implementation on the same passes. One thread: OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import resource
import statistics
import time
import warnings
from typing import Any

import numpy as np

import lorank as lr
from common import versions

FIRST = 9100  # seed
EXACT = 1e-5  # relative error of the state at which iterations are counted
MOMENTUM = 0.75  # of MiFGD, the best value of its paper's experiments
MAX_ITER = 1000


def mifgd(problem: lr.PauliTomography, truth: lr.FixedRank, start: lr.FixedRank) -> int | None:
    """Iterations of momentum-inspired factored gradient descent until the state is exact; None where it is not."""
    y, scale = problem.y[:-1], 1 / problem.operator_scale
    backend = problem.backend
    U = Z = start.U * start.s**0.5

    def gradient(A: Any) -> Any:
        return scale * problem.sums.times(problem.sums.expectations(A, A) - y, A)

    largest = float(start.s[0])
    basis = start.U
    rest = float(np.linalg.norm(backend.gram(basis, scale * problem.sums.times(problem.forward(Z, Z)[:-1] - y, basis)), 2))
    step = 1 / (4 * (1.1 * largest + rest))
    for iteration in range(1, MAX_ITER + 1):
        new = Z - step * gradient(Z)
        U, Z = new, new + MOMENTUM * (new - U)
        if truth.distance(lr.FixedRank.semidefinite(U)) < EXACT * truth.norm():
            return iteration
    return None


def recovery(instances: int) -> None:
    print("| qubits | rank | expectations per degree of freedom | auto | conjugate gradients | RGD, exact step | MiFGD |")
    print("|---|---|---|---|---|---|---|")
    solvers = {"auto": "auto", "rcg": "rcg", "rgd": lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Exact())}
    for qubits, rank in ((6, 1), (6, 3), (8, 1), (8, 3)):
        for oversampling in (2.0, 3.0, 6.0):
            counts: dict[str, list[int]] = {name: [] for name in (*solvers, "mifgd")}
            for seed in range(FIRST, FIRST + instances):
                problem, truth = lr.datasets.random_pauli(qubits, rank, oversampling=oversampling, seed=seed)
                start = lr.starts.Spectral()(problem, rank, np.random.default_rng(0))
                stop = lr.stopping.TruthDistance(truth, EXACT)
                for name, solver in solvers.items():
                    begin = None if name == "auto" else start
                    result = lr.solve(problem, rank, solver, start=begin, stop=stop, max_iter=MAX_ITER)
                    counts[name] += [result.n_iter] if result.converged else []
                found = mifgd(problem, truth, start)
                counts["mifgd"] += [] if found is None else [found]
            cells = (f"{statistics.median(c) if c else '-'} ({len(c)} of {instances})" for c in counts.values())
            print(f"| {qubits} | {rank} | {oversampling:g} | {' | '.join(cells)} |", flush=True)


def speed(instances: int, qubits: list[int], device: str | None) -> None:
    """CPU seconds (on a GPU: seconds) from expectations to a state that is exact to 1e-5, initial point included."""
    clock = time.process_time if device is None else time.perf_counter
    print("| qubits | rank | expectations | auto: seconds (range) | iterations | MiFGD: seconds (range) | iterations |")
    print("|---|---|---|---|---|---|---|")
    for number in qubits:
        taken: dict[str, list[tuple[float, int]]] = {"auto": [], "mifgd": []}
        for seed in range(FIRST - 1, FIRST + instances):  # the first warms up
            problem, truth = lr.datasets.random_pauli(number, 3, oversampling=3, seed=seed)
            if device == "cuda":
                problem = problem.to("torch:cuda")
                truth = lr.FixedRank(problem.backend.asarray(truth.U), truth.s, problem.backend.asarray(truth.V))
            began = clock()
            result = lr.solve(problem, 3, stop=lr.stopping.TruthDistance(truth, EXACT), max_iter=MAX_ITER)
            taken["auto"].append((clock() - began, result.n_iter if result.converged else -1))
            began = clock()
            start = lr.starts.Spectral()(problem, 3, np.random.default_rng(0))
            found = mifgd(problem, truth, start)
            taken["mifgd"].append((clock() - began, -1 if found is None else found))
        cells = []
        for runs in taken.values():
            seconds, iterations = zip(*runs[1:], strict=True)
            cells.append(f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})")
            cells.append(f"{statistics.median(iterations):g}")
        print(f"| {number} | 3 | {problem.m - 1:,} | {' | '.join(cells)} |", flush=True)


def shots(instances: int) -> None:
    print("| state | shots | infidelity | without weights | trace before the division | noise in standard deviations |")
    print("|---|---|---|---|---|---|")
    d, labels = 32, lr.datasets.random_pauli(5, 1, oversampling=100)[0].labels
    for name in ("GHZ", "W", "random"):
        for number in (100, 1000):
            rows = []
            for seed in range(FIRST, FIRST + instances):
                rng = np.random.default_rng(seed)
                psi = rng.standard_normal(d) + 1j * rng.standard_normal(d)
                if name != "random":
                    psi = np.isin(np.arange(d), [0, d - 1] if name == "GHZ" else [1 << k for k in range(5)]) + 0j
                X = lr.FixedRank.semidefinite(psi[:, None])
                exact = lr.problems.quantum_state.QuantumState.of(X).expectations(labels)
                chosen = rng.permutation(len(labels))[:400]
                y = 2 * rng.binomial(number, ((1 + exact[chosen]) / 2).clip(0, 1)) / number - 1
                names = [labels[k] for k in chosen]
                traces: list[float] = []
                watch = [lambda problem, state, clock, traces=traces: traces.append(float(state.X.s.sum()))]
                result = lr.solve(lr.PauliTomography(names, y, number), 1, callbacks=watch)
                plain = lr.solve(lr.PauliTomography(names, y), 1)
                rows.append([1 - result.fidelity(psi), 1 - plain.fidelity(psi), traces[-1], result.noise])
            a, b, trace, noise = np.median(rows, axis=0)
            print(f"| {name} | {number} | {a:.4f} | {b:.4f} | {trace:.3f} | {noise:.2f} |", flush=True)


def counts(instances: int) -> None:
    """Fits of counted bit strings, whose expectations are weighted one by one, beside maximum likelihood of the counts."""
    print("| state of 4 qubits | shots of each of 81 settings | infidelity | of maximum likelihood | noise |")
    print("|---|---|---|---|---|")
    d, settings = 16, ["".join(letters) for letters in itertools.product("XYZ", repeat=4)]
    bases = {"X": np.array([[1, 1], [1, -1]]) / 2**0.5, "Y": np.array([[1, -1j], [1, 1j]]) / 2**0.5, "Z": np.eye(2)}
    outcomes = np.concatenate([functools.reduce(np.kron, [bases[c] for c in s]) for s in settings])  # rows <b|
    for name in ("GHZ", "random"):
        for shots_ in (20, 200):
            rows = []
            for seed in range(FIRST, FIRST + instances):
                rng = np.random.default_rng(seed)
                psi = rng.standard_normal(d) + 1j * rng.standard_normal(d) if name == "random" else np.eye(d)[0] + np.eye(d)[-1]
                psi = psi / np.linalg.norm(psi)
                p = (np.abs(outcomes @ psi) ** 2).reshape(len(settings), d)
                drawn = rng.multinomial(shots_, p / p.sum(1, keepdims=True))
                named = [{f"{b:04b}": int(k) for b, k in enumerate(row) if k} for row in drawn]
                result = lr.solve(lr.PauliTomography.from_counts(settings, named), 1)
                rho, f = np.eye(d) / d, drawn.ravel()
                for _ in range(500):  # R rho R
                    fitted = np.maximum(((outcomes @ rho) * outcomes.conj()).sum(1).real, 1e-12)
                    R = (outcomes.conj().T * (f / fitted)) @ outcomes
                    rho = R @ rho @ R
                    rho /= np.trace(rho).real
                likely = np.linalg.eigh(rho)[1][:, -1]
                rows.append([1 - result.fidelity(psi), 1 - abs(np.vdot(likely, psi)) ** 2, result.noise])
            a, b, scale = np.median(rows, axis=0)
            print(f"| {name} | {shots_} | {a:.5f} | {b:.5f} | {scale:.2f} |", flush=True)


def size(instances: int) -> None:
    print("| qubits | rank | expectations | iterations | error | peak memory, MB |")
    print("|---|---|---|---|---|---|")
    for qubits in (8, 10, 12):
        problem, truth = lr.datasets.random_pauli(qubits, 3, oversampling=3, seed=FIRST)
        result = lr.solve(problem, 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        off = truth.distance(result.X) / truth.norm()
        print(f"| {qubits} | 3 | {problem.m - 1:,} | {result.n_iter} | {off:.0e} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recovery", "speed", "shots", "counts", "size"])
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--qubits", type=int, nargs="+", default=[10, 12])
    parser.add_argument("--device", choices=["cuda"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{versions()}; seeds from {FIRST}")
    if arguments.what == "speed":
        speed(arguments.instances, arguments.qubits, arguments.device)
    else:
        {"recovery": recovery, "shots": shots, "counts": counts, "size": size}[arguments.what](arguments.instances)
