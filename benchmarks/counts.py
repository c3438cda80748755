"""Poisson factorisation of a whole table of counts, side by side with GLM-PCA from PyPI: deviance and time, same offsets.

    python benchmarks/counts.py                         # 17,000 x 4,000 at rank 10, lorank alone
    python benchmarks/counts.py --small --peer          # 2,000 x 500, and glmpca (pip install glmpca) beside it
    python benchmarks/counts.py --device cuda           # on a GPU
    python benchmarks/counts.py --held-out              # which ridge predicts counts that were held back best

The table is drawn: abundances of genes and depths of cells log-normal, about a tenth of the entries not zero, ten directions of
variation. Offsets are the depths of the cells. glmpca fits an intercept for each gene along with its factors; lorank takes the
genes' totals as they are, or learns intercepts as well (``intercepts=True``). Deviances are computed by one function, from the
fitted means.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings

import numpy as np
import scipy.sparse

import lorank as lr


def draw(n1: int, n2: int, rank: int, seed: int, deeper: float = 1.0) -> scipy.sparse.csr_array:
    """A table of counts, row block by row block."""
    rng = np.random.default_rng(seed)
    genes = np.exp(1.8 * rng.standard_normal(n1))
    depth = deeper * 2_000 * n1 / 17_000 * np.exp(0.4 * rng.standard_normal(n2))
    left, right = 0.35 * rng.standard_normal((n1, rank)), rng.standard_normal((n2, rank))
    blocks = []
    for k in range(0, n1, 500):
        mean = np.exp(left[k : k + 500] @ right.T) * genes[k : k + 500, None] / genes.sum() * depth
        blocks.append(scipy.sparse.csr_array(rng.poisson(mean).astype(np.int32)))
    table = scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
    return table[np.flatnonzero(table.sum(1) > 0)]  # genes that were seen


def deviance(table: scipy.sparse.csr_array, left: np.ndarray, right: np.ndarray) -> float:
    """Of the means ``exp(left right^T)``: in double precision, block by block."""
    total = 0.0
    for k in range(0, table.shape[0], 500):
        z = left[k : k + 500] @ right.T
        y = table[k : k + 500].toarray()
        seen = y > 0
        total += 2 * (np.exp(z).sum() - y.sum() + (y[seen] * (np.log(y[seen]) - z[seen])).sum())
    return float(total)


def ours(table: scipy.sparse.csr_array, rank: int, device: str | None, dtype: str, intercepts: bool) -> dict[str, object]:
    problem: lr.Problem = lr.CountTable(table, dtype=dtype, intercepts=intercepts)
    if device is not None:
        problem = problem.to(device)
        lr.solve(problem, rank, stop=lr.stopping.Iterations(1))  # kernels are loaded
    begun = time.perf_counter()
    result = lr.solve(problem, rank)
    seconds = time.perf_counter() - begun
    offsets = problem.learned_offsets(result.X), problem.offsets[1]  # type: ignore[attr-defined]
    X = result.numpy().X
    left = np.column_stack([np.asarray(X.U * X.s, float), offsets[0], np.ones(len(offsets[0]))])
    right = np.column_stack([np.asarray(X.V, float), np.ones(len(offsets[1])), offsets[1]])
    return {
        "package": f"lorank, {dtype}, {problem.backend.name}{', intercepts' if intercepts else ''}",
        "seconds": round(seconds, 2),
        "iterations": result.n_iter,
        "status": str(result.status),
        "deviance": deviance(table, left, right),
        "dispersion": round(result.noise, 3),
        "largest": round(float(np.abs(X.U * X.s).max()), 2),
    }


def peer(table: scipy.sparse.csr_array, rank: int) -> dict[str, object]:
    from importlib.metadata import version

    from glmpca import glmpca

    y = table.toarray().astype(float)
    depth = y.sum(0)
    begun = time.perf_counter()
    found = glmpca.glmpca(y, rank, fam="poi", sz=depth, ctl={"maxIter": 1000, "eps": 1e-4, "optimizeTheta": True})
    seconds = time.perf_counter() - begun
    intercepts, loadings, factors = found["coefX"], np.asarray(found["loadings"]), np.asarray(found["factors"])
    intercepts = np.asarray(intercepts).reshape(len(y), -1)
    # glmpca's offsets are log(sz), less their mean where it says so: the gene intercepts absorb a constant, checked below.
    shift = np.log(depth)
    candidates = [shift, shift - shift.mean(), np.log(depth / depth.mean())]
    left = np.column_stack([loadings, intercepts[:, 0], np.ones(len(y))])
    values = [deviance(table, left, np.column_stack([factors, np.ones(len(shift)), one])) for one in candidates]
    return {
        "package": f"glmpca {version('glmpca')}",
        "seconds": round(seconds, 2),
        "iterations": len(found["dev"]),
        "deviance": min(values),
        "deviance_it_reports": float(found["dev"][-1]),
    }


RIDGES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0)


def held_out(seeds: int) -> None:
    """Counts thinned into two independent tables, four fifths to fit and a fifth to judge: deviance for each ridge over that of
    the best one, on tables of several sizes and depths, at the true rank and at twice that.
    """
    for n1, n2, deeper in ((600, 200, 1.0), (600, 200, 4.0), (1500, 300, 1.0)):
        for rank in (5, 10):
            for intercepts in (False, True):
                found = []
                for seed in range(seeds):
                    table = draw(n1, n2, 5, 7000 + seed, deeper)
                    rng = np.random.default_rng(seed)
                    held = table.copy()
                    held.data = rng.binomial(table.data, 0.2).astype(table.data.dtype)
                    fitted = scipy.sparse.csr_array(table - held)
                    keep = np.flatnonzero((fitted.sum(1) > 0) & (held.sum(1) >= 0))
                    fitted, held = fitted[keep], held[keep]
                    found.append([judged(fitted, held, rank, ridge, intercepts) for ridge in RIDGES])
                mean = np.array(found).mean(axis=0)
                excess = {
                    f"{ridge:g}": f"{100 * (value / mean.min() - 1):.2f} %" for ridge, value in zip(RIDGES, mean, strict=True)
                }
                about = {"shape": [n1, n2], "depth": deeper, "rank": rank, "intercepts": intercepts, "best": float(mean.min())}
                print(json.dumps(about | excess), flush=True)


def judged(fitted: scipy.sparse.csr_array, held: scipy.sparse.csr_array, rank: int, ridge: float, intercepts: bool) -> float:
    """The deviance of counts held back from a fit to the others."""
    problem = lr.CountTable(fitted, ridge=ridge, intercepts=intercepts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = lr.solve(problem, rank, max_iter=300).X
    offsets = problem.learned_offsets(X) + np.log(0.2 / 0.8), problem.offsets[1]
    left = np.column_stack([X.U * X.s, offsets[0], np.ones(len(offsets[0]))])
    return deviance(held, left, np.column_stack([X.V, np.ones(len(offsets[1])), offsets[1]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="2,000 x 500, rank 5")
    parser.add_argument("--middle", action="store_true", help="5,000 x 1,000, rank 10")
    parser.add_argument("--peer", action="store_true", help="glmpca beside it")
    parser.add_argument("--device", help="cuda, for example")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--held-out", action="store_true", help="which ridge predicts best")
    options = parser.parse_args()
    if options.held_out:
        return held_out(max(options.seeds, 4))
    n1, n2, rank = (2_000, 500, 5) if options.small else (5_000, 1_000, 10) if options.middle else (17_000, 4_000, 10)
    print(f"{len(os.sched_getaffinity(0))} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}, lorank {lr.__version__}")
    for seed in range(options.seeds):
        table = draw(n1, n2, rank, seed)
        share = table.nnz / np.prod(table.shape)
        rows, cols = np.asarray(table.sum(1), float), np.asarray(table.sum(0), float)
        null = deviance(
            table,
            np.column_stack([np.log(rows / rows.sum()), np.ones(len(rows))]),
            np.column_stack([np.ones(len(cols)), np.log(cols)]),
        )
        print(
            f"seed {seed}: {table.shape[0]:,} x {table.shape[1]:,}, rank {rank}, {share:.1%} not zero, null deviance {null:.5e}"
        )
        for intercepts in (False, True) if options.peer or options.small else (False,):
            found = ours(table, rank, options.device, options.dtype, intercepts)
            print(json.dumps({"rank": rank} | found), flush=True)
        if options.peer:
            print(json.dumps(peer(table, rank)), flush=True)


if __name__ == "__main__":
    main()
