"""Phase retrieval against the specialists: successes and time of ``auto``, and of four published flows.

    python benchmarks/phase_peers.py [--sizes 128 500 1000] [--trials 9 5 3] [--threads 1] [--seed 0] [--out docs/benchmarks]

The flows are written here from their papers, in vectorised NumPy, with the settings that the papers (or the authors' scripts)
give:

- AF: amplitude flow, the gradient descent of TAF without truncation.
- TAF: truncated amplitude flow (Wang, Giannakis, Eldar 2016): orthogonality-promoting start from the sixth of largest
  normalised amplitudes, 100 power iterations; step 0.6 (real), 1.0 (complex); gradient terms kept where
  ``|a^H x| >= b / 1.7``.
- RAF: reweighted amplitude flow (Wang, Giannakis, Saad, Chen 2018): start from the 3/13 of largest amplitudes with weights
  ``b^(1/2)``, 200 power iterations; weights ``r / (r + 10)`` for ``r = |a^H x| / b``; step 2 (real), 5 (complex).
- RWF: reweighted Wirtinger flow (Yuan, Wang 2017): truncated spectral start (intensities up to 9 times their mean), 50 power
  iterations; weights ``1 / (||a^H x|^2 - y| + 0.9)`` for intensities of mean 1, chosen anew at each step, and the exact step
  along the gradient of the weighted misfit.

Three things are in their favour. Where the columns of A are uneven, they are given the problem with normalised columns, made
outside the measured time. The residual, which ends a run, is computed from products that are there anyway. And ``auto`` is
timed from the arrays A and y on, checks included. With ``--early``, which no paper has, their power iterations end as soon as
the vector moves by less than 1e-3.

Exact data: a run ends when ``||A x|^2 - y| <= 1e-6 |y|``, the default of ``lr.solve`` (1 000 iterations at most), and is a
success where x is found to 1e-5, relative and up to a global phase, as in the papers. Noise (1 % of the intensities' norm,
normal): a run ends when ``x x^H`` moves by at most 1e-5 of itself, and is a success where x is found to 5 %.

A cell is won where ``auto`` has at least as many successes as each of the others, and a shorter median time. Seeds of the table
begin at ``--seed``; the solver was tuned on seeds from 1000 on.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.linalg.blas  # noqa: F401  (its BLAS must be loaded before threads are limited)
import threadpoolctl

import lorank as lr
from common import RESULTS, markdown, versions, write_csv

TOL, CHANGE, NOISE, MAX_ITER = 1e-6, 1e-5, 0.01, 1000
SUCCESS, SUCCESS_NOISY, SPREAD = 1e-5, 0.05, 30.0

CLOCK, EARLY = time.perf_counter, False

LEGEND = [
    "AF is amplitude flow, TAF its truncated and RAF its reweighted kind, RWF reweighted Wirtinger flow: gradient methods",
    "for phases, written in NumPy from their papers with the papers' settings; *columns*: whether the columns of A are alike",
    "in size. An entry: in how many trials the signal was found, then milliseconds, median and range. Won: at least as many",
    "successes as each of the others, and a shorter median time.",
]

Stop = Callable[[np.ndarray, np.ndarray, np.ndarray], bool]


# -- the peers ---------------------------------------------------------------------------------------------------------
def adjoint(A: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (w.conj() @ A).conj() if np.iscomplexobj(A) else w @ A


def leading(A: np.ndarray, weights: np.ndarray, power_iterations: int, rng: np.random.Generator) -> np.ndarray:
    """The leading eigenvector of ``A^H diag(weights) A``."""
    x = rng.standard_normal(A.shape[1])
    x = x + 1j * rng.standard_normal(len(x)) if np.iscomplexobj(A) else x
    x /= np.linalg.norm(x)
    for _ in range(power_iterations):
        before, x = x, adjoint(A, weights * (A @ x))
        x /= np.linalg.norm(x)
        if EARLY and np.linalg.norm(x - before) < 1e-3:
            break
    return x


def orthogonality_promoting(A: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rows = np.linalg.norm(A, axis=1)
    largest = np.argsort(b / rows)[-math.ceil(len(b) / 6) :]
    part = A[largest] / rows[largest, None]
    return np.sqrt((b**2).mean()) * leading(part, np.ones(len(largest)), 100, rng)


def phases(z: np.ndarray, size: np.ndarray) -> np.ndarray:
    return z / np.maximum(size, 1e-300) if np.iscomplexobj(z) else np.sign(z)


def amplitude_flow(A: np.ndarray, y: np.ndarray, stop: Stop, rng: np.random.Generator, truncate: bool = False) -> np.ndarray:
    b, step = np.sqrt(y), 1.0 if np.iscomplexobj(A) else 0.6
    x = orthogonality_promoting(A, b, rng)
    for _ in range(MAX_ITER):
        z = A @ x
        size = np.abs(z)
        part = z - b * phases(z, size)
        if truncate:
            part *= size >= b / 1.7
        change = step / len(y) * adjoint(A, part)
        if stop(x, change, size):
            break
        x = x - change
    return x


def truncated_amplitude_flow(A: np.ndarray, y: np.ndarray, stop: Stop, rng: np.random.Generator) -> np.ndarray:
    return amplitude_flow(A, y, stop, rng, truncate=True)


def reweighted_amplitude_flow(A: np.ndarray, y: np.ndarray, stop: Stop, rng: np.random.Generator) -> np.ndarray:
    b, step = np.sqrt(y), 5.0 if np.iscomplexobj(A) else 2.0
    largest = np.argsort(b)[-(3 * len(b) // 13) :]
    x = np.sqrt(y.mean()) * leading(A[largest], np.sqrt(b[largest]), 200, rng)
    for _ in range(MAX_ITER):
        z = A @ x
        size = np.abs(z)
        weights = size / (size + 10 * b + 1e-300)
        change = step / len(y) * adjoint(A, weights * (z - b * phases(z, size)))
        if stop(x, change, size):
            break
        x = x - change
    return x


def reweighted_wirtinger_flow(A: np.ndarray, y: np.ndarray, stop: Stop, rng: np.random.Generator) -> np.ndarray:
    mean = y.mean()
    x = np.sqrt(mean) * leading(A, y * (y <= 9 * mean), 50, rng)
    z = A @ x
    for _ in range(MAX_ITER):
        size = np.abs(z)
        d = size**2 - y
        weights = 1 / (np.abs(d) + 0.9 * mean)
        g = adjoint(A, weights * d * z)
        image = A @ g
        # d(t) = d - 2 t c + t^2 e along x - t g: the weighted misfit is a quartic in t
        c, e = (z.conj() * image).real, np.abs(image) ** 2
        w = weights
        cubic = [2 * (w * e) @ e, -6 * (w * c) @ e, 2 * (w * d) @ e + 4 * (w * c) @ c, -2 * (w * d) @ c]
        roots = np.roots(cubic)
        t = min(roots[abs(roots.imag) < 1e-9 * abs(roots)].real, key=lambda t: (w * (d - 2 * t * c + t * t * e) ** 2).sum())
        if stop(x, t * g, size):
            break
        x, z = x - t * g, z - t * image
    return x


PEERS = {
    "AF": amplitude_flow,
    "TAF": truncated_amplitude_flow,
    "RAF": reweighted_amplitude_flow,
    "RWF": reweighted_wirtinger_flow,
}


# -- the cells ---------------------------------------------------------------------------------------------------------
def make(n: int, field: str, ratio: int, columns: str, noisy: bool, seed: int) -> tuple[np.ndarray, ...]:
    """A, y, x and the norms of the columns of A."""
    rng, m = np.random.default_rng([seed, n, ratio, field == "complex", columns == "uneven", noisy]), ratio * n

    def normal(*shape: int) -> np.ndarray:
        if field == "real":
            return rng.standard_normal(shape)
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)

    A, x = normal(m, n), normal(n)
    if columns == "uneven":
        scales = rng.permutation(np.geomspace(1, SPREAD, n))
        A *= scales
        x = x / scales
    y = np.abs(A @ x) ** 2
    if noisy:
        e = rng.standard_normal(m)
        y = np.maximum(y + NOISE * np.linalg.norm(y) / np.linalg.norm(e) * e, 0)
    return A, y, x, np.sqrt((np.abs(A) ** 2).mean(0))


def run_auto(A: np.ndarray, y: np.ndarray, noisy: bool) -> np.ndarray:
    stop = lr.stopping.RelativeChange(CHANGE) if noisy else None
    return lr.solve(lr.PhaseRetrieval(A, y), 1, max_iter=MAX_ITER, stop=stop).signal


def run_peer(name: str, A: np.ndarray, y: np.ndarray, noisy: bool, seed: int) -> np.ndarray:
    norm = np.linalg.norm(y)

    def stop(x: np.ndarray, change: np.ndarray, size: np.ndarray) -> bool:
        if noisy:  # x x^H moves by 2^(1/2) of what x does
            return bool(np.sqrt(2) * np.linalg.norm(change) <= CHANGE * np.linalg.norm(x))
        return bool(np.linalg.norm(size**2 - y) <= TOL * norm)

    return PEERS[name](A, y, stop, np.random.default_rng(seed))


def cell(n: int, field: str, ratio: int, columns: str, noisy: bool, seeds: range) -> list[dict]:
    errors: dict[str, list[float]] = {name: [] for name in ("auto", *PEERS)}
    seconds: dict[str, list[float]] = {name: [] for name in errors}
    for seed in seeds:
        A, y, x, scales = make(n, field, ratio, columns, noisy, seed)
        even = A / scales if columns == "uneven" else A
        names = list(errors)
        for name in names[seed % len(names) :] + names[: seed % len(names)]:  # in turn: A is in the cache for all but the first
            begin = CLOCK()
            signal = run_auto(A, y, noisy) if name == "auto" else run_peer(name, even, y, noisy, seed)
            seconds[name].append(CLOCK() - begin)
            if name != "auto" and columns == "uneven":
                signal = signal / scales
            # in units in which all entries of x count alike
            errors[name].append(lr.phase.phase_distance(signal * scales, x * scales))
    good = {name: sum(e <= (SUCCESS_NOISY if noisy else SUCCESS) for e in found) for name, found in errors.items()}
    medians = {name: float(np.median(found)) for name, found in seconds.items()}
    won = all(good["auto"] >= good[name] and medians["auto"] < medians[name] for name in PEERS)
    rows = []
    for name in errors:
        low, high = np.percentile(seconds[name], [0, 100])
        rows.append(
            {
                "n": n,
                "signal": field,
                "m/n": ratio,
                "columns": columns,
                "noise": "1 %" if noisy else "none",
                "solver": name,
                "trials": len(seeds),
                "successes": good[name],
                "median error": f"{np.median(errors[name]):.1e}",
                "median ms": f"{1e3 * medians[name]:.1f}",
                "range ms": f"{1e3 * low:.1f} to {1e3 * high:.1f}",
                "times auto": f"{medians[name] / medians['auto']:.1f}",
                "won": ("yes" if won else "NO") if name == "auto" else "",
            }
        )
    return rows


def summary(rows: list[dict]) -> list[str]:
    ours = [row for row in rows if row["solver"] == "auto"]
    won = sum(row["won"] == "yes" for row in ours)
    lines = [f"`auto` wins {won} of {len(ours)} cells ({100 * won / len(ours):.0f} %)."]
    for name in PEERS:
        ratios = [float(row["times auto"]) for row in rows if row["solver"] == name]
        lines.append(f"{name} takes {np.median(ratios):.1f} times as long ({min(ratios):.1f} to {max(ratios):.1f}).")
    lost = [f"n = {r['n']}, {r['signal']}, {r['m/n']} n, {r['columns']}, noise {r['noise']}" for r in ours if r["won"] != "yes"]
    return [*lines, f"Not won: {'; '.join(lost) if lost else 'none'}."]


def compact(rows: list[dict]) -> list[dict]:
    """One line a cell: successes, and milliseconds, of each solver."""
    keys, out = ("n", "signal", "m/n", "columns", "noise", "trials"), []
    for _, group in itertools.groupby(rows, key=lambda row: tuple(row[key] for key in keys)):
        group = list(group)
        line = {key: group[0][key] for key in keys}
        line |= {f"{row['solver']}": f"{row['successes']}: {row['median ms']} ({row['range ms']})" for row in group}
        out.append(line | {"won": group[0]["won"]})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[128, 500, 1000])
    parser.add_argument("--trials", type=int, nargs="*", default=[9, 5, 3], help="for each size")
    parser.add_argument("--fields", nargs="*", default=["real", "complex"])
    parser.add_argument("--threads", type=int, help="of BLAS; by default as many as it takes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of wall-clock time, for a busy machine")
    parser.add_argument("--early", action="store_true", help="end the peers' power iterations early")
    args = parser.parse_args()
    global CLOCK, EARLY
    CLOCK, EARLY = time.process_time if args.cpu else time.perf_counter, args.early
    rows = []
    with contextlib.ExitStack() as stack:
        if args.threads:
            stack.enter_context(threadpoolctl.threadpool_limits(args.threads))
        blas = {(d["internal_api"], d["version"], d["num_threads"]) for d in threadpoolctl.threadpool_info()}
        about = f"{versions().rpartition(',')[0]}; {', '.join(f'{a} {v}, {t} thread(s)' for a, v, t in sorted(blas, key=str))}"
        about += f"; {os.cpu_count()} cores; seeds from {args.seed} on; {'CPU' if args.cpu else 'wall-clock'} time; "
        about += f"power iterations {'ended early' if args.early else 'as published'}"
        print(about, flush=True)
        for field in args.fields:  # imports, pages and clocks
            cell(64, field, 6, "even", False, range(2000, 2002))
        cells = itertools.product(
            zip(args.sizes, args.trials, strict=True), args.fields, (4, 6), ("even", "uneven"), (False, True)
        )
        for (n, trials), field, ratio, columns, noisy in cells:
            found = cell(n, field, ratio, columns, noisy, range(args.seed, args.seed + trials))
            rows += found
            print(f"{n} {field} {ratio} {columns} {'noise' if noisy else 'exact'}:", end="")
            for row in found:
                print(f"  {row['solver']} {row['successes']}/{trials} {row['median ms']}", end="")
            print(f"  won {found[0]['won']}", flush=True)
    text = [
        "# Phase retrieval against published flows",
        "",
        *summary(rows),
        "",
        *LEGEND,
        "",
        *markdown(compact(rows)),
        "",
        "Measured by `benchmarks/phase_peers.py` on [the machine](index.md#the-machine) of these pages.",
        f"{about}.",
        "",
    ]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "phase_peers.md").write_text("\n".join(text))
    write_csv(rows, args.out / "phase_peers.csv")
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
