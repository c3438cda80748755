"""Accuracy on real data: MovieLens against cmfrec in the same run and on the same folds, and tables against scikit-learn.

    python benchmarks/accuracy.py ratings     # 1M, five folds, and 100K, u1; the ratings lie in the folder LORANK_DATA
    python benchmarks/accuracy.py tables      # digits, breast cancer and wine with 30 % of the entries hidden
    python benchmarks/accuracy.py noise       # matrices of rank 4 with noise: estimators against a plain solve

Times are CPU seconds of a fit on one thread, which a busy machine changes less than it does the clock on the wall.
cmfrec has its own environment, whose Python is named by LORANK_CMFREC: python -m venv env && env/bin/pip install cmfrec.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import lorank as lr
from common import versions

CMFREC = """
import sys, time
import numpy as np, pandas as pd
from cmfrec import CMF
d = np.load(sys.argv[1])
frame = pd.DataFrame({"UserId": d["rows"], "ItemId": d["cols"], "Rating": d["values"]})
model = CMF(k=10, lambda_=8.0, method="als", use_cg=False, nthreads=1, verbose=False, random_state=0)
t = time.process_time()
model.fit(frame)
seconds = time.process_time() - t
np.savez(sys.argv[2], guess=model.predict(d["test_rows"], d["test_cols"]), seconds=seconds)
"""


def ratings(name: str, member: str) -> np.ndarray:
    """Users, movies, ratings and times, as published."""
    archive = Path(os.environ["LORANK_DATA"]) / f"{name}.zip"
    text = zipfile.ZipFile(archive).read(f"{name}/{member}").decode().replace("::", " ")
    return np.array(text.split(), np.int64).reshape(-1, 4)


def rmse(guess: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.clip(guess, 1, 5) - truth) ** 2)))


def cmfrec(train: np.ndarray, values: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Predictions and seconds of a fit in the other environment."""
    python = os.environ.get("LORANK_CMFREC")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as folder:
        into, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(into, rows=train[:, 0], cols=train[:, 1], values=values, test_rows=test[:, 0], test_cols=test[:, 1])
        subprocess.run([python, "-c", CMFREC, into, out], check=True)
        found = np.load(out)
        return found["guess"], float(found["seconds"])


def fit(rank: int | str, pairs: np.ndarray, values: np.ndarray, **options: object) -> tuple[lr.MatrixCompletion, float]:
    begin = time.process_time()
    strength = "auto" if rank == "auto" else "learned"  # "auto" is the default fit
    model = lr.MatrixCompletion(rank, strength, bounds=(1, 5), **options).fit(pairs, values)
    return model, time.process_time() - begin


def covered(model: lr.MatrixCompletion, pairs: np.ndarray, values: np.ndarray) -> float:
    low, high = model.predict_interval(pairs, 0.9)
    return float(np.mean((low <= values) & (values <= high)))


def million(ranks: list[int | str], folds: int) -> None:
    data = ratings("ml-1m", "ratings.dat")
    pairs = np.column_stack([np.unique(data[:, k], return_inverse=True)[1] for k in (0, 1)])
    values = data[:, 2].astype(float)
    parts = np.array_split(np.random.default_rng(0).permutation(len(values)), 5)
    print(f"MovieLens-1M, five folds (seed 0), test RMSE of predictions clipped to 1 .. 5; {folds} run")
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for k, test in enumerate(parts[:folds]):
        train = np.setdiff1d(np.arange(len(values)), test)
        peer = cmfrec(pairs[train], values[train], pairs[test])
        if peer is not None:
            lines.setdefault("cmfrec ALS, k = 10, lambda = 8", []).append((rmse(peer[0], values[test]), peer[1], float("nan")))
        for rank in ranks:
            model, seconds = fit(rank, pairs[train], values[train])
            error = rmse(model.predict(pairs[test]), values[test])
            share = covered(model, pairs[test], values[test]) if len(model.state_.calibration) else float("nan")
            lines.setdefault("lorank, the default" if rank == "auto" else f"lorank, rank {rank}, learned", []).append(
                (error, seconds, share)
            )
        print(
            f"  fold {k + 1}: " + "; ".join(f"{name} {runs[-1][0]:.4f} ({runs[-1][1]:.1f} s)" for name, runs in lines.items())
        )
    for name, runs in lines.items():
        error, seconds, share = np.mean(runs, axis=0)
        middle = np.median([r[1] for r in runs])
        said = "" if np.isnan(share) else f"  90 % intervals cover {share:.1%}"
        print(f"{name:>32}  RMSE {error:.4f}  fit {middle:.2f} s (mean {seconds:.2f}){said}")


def small(ranks: list[int | str]) -> None:
    train, test = ratings("ml-100k", "u1.base"), ratings("ml-100k", "u1.test")
    print("MovieLens-100K, u1.base and u1.test")
    for rank in ranks:
        model, seconds = fit(rank, train[:, :2] - 1, train[:, 2].astype(float), intervals=True)
        error = rmse(model.predict(test[:, :2] - 1), test[:, 2])
        share = covered(model, test[:, :2] - 1, test[:, 2])
        print(f"  rank {rank} ({model.rank_}): RMSE {error:.4f}, fit {seconds:.1f} s, 90 % intervals cover {share:.1%}")


def tables(seeds: int) -> None:
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    print(f"30 % of the entries hidden at random, {seeds} seed(s); RMSE in units of each column's standard deviation")
    for name, load in (("wine", load_wine), ("breast cancer", load_breast_cancer), ("digits", load_digits)):
        whole = load().data
        whole = whole[:, whole.std(axis=0) > 0]
        size = whole.std(axis=0)
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            hidden = np.random.default_rng(seed).random(whole.shape) < 0.3
            gaps = np.where(hidden, np.nan, whole)
            rivals = {
                "mean": SimpleImputer(keep_empty_features=True),
                "nearest neighbours": KNNImputer(keep_empty_features=True),
                "iterative": IterativeImputer(random_state=0, keep_empty_features=True),
                "lorank": lr.TableImputer(method="low-rank"),
            }
            for label, imputer in rivals.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the iterative imputer's, that it has not converged
                    filled = imputer.fit_transform(gaps)
                found.setdefault(label, []).append(float(np.sqrt(np.mean((((filled - whole) / size)[hidden]) ** 2))))
        print(f"{name:>14} {whole.shape}: " + ", ".join(f"{label} {np.mean(e):.3f}" for label, e in found.items()), flush=True)


def noise(seeds: int) -> None:
    """R^2 on held-out entries: 400 x 300, rank 4, four observations per degree of freedom; these seeds were kept back."""
    n1, n2, rank = 400, 300, 4
    print(f"R^2 on held-out entries, medians (least) of {seeds} seeds from 1000 on")
    for factors in ("uniform", "gaussian"):
        for ratio in (0.01, 0.3):
            found: dict[str, list[float]] = {}
            for seed in range(1000, 1000 + seeds):
                rng = np.random.default_rng(seed)
                draw = rng.random if factors == "uniform" else rng.standard_normal
                X = draw((n1, rank)) @ draw((n2, rank)).T
                m = 4 * rank * (n1 + n2 - rank)
                rows, cols = np.divmod(rng.permutation(n1 * n2), n2)
                pairs, values = np.column_stack([rows, cols]), X[rows, cols] + ratio * X.std() * rng.standard_normal(n1 * n2)
                held = slice(m, m + 20_000)
                fits: dict[str, lr.MatrixCompletion] = {
                    "rank=4": lr.MatrixCompletion(4, shape=(n1, n2)),
                    "rank=4, learned": lr.MatrixCompletion(4, "learned", shape=(n1, n2)),
                    "the default": lr.MatrixCompletion(shape=(n1, n2)),
                    "rank=4, biases=False": lr.MatrixCompletion(4, biases=False, shape=(n1, n2)),
                }
                guesses = {name: one.fit(pairs[:m], values[:m]).predict(pairs[held]) for name, one in fits.items()}
                problem = lr.Completion(rows[:m], cols[:m], values[:m], (n1, n2))
                plain = lr.solve(problem, rank, stop=lr.stopping.RelativeChange(1e-6), max_iter=500)
                guesses["solve(rank=4)"] = plain.X.entries(rows[held], cols[held])
                for name, guess in guesses.items():
                    off = float(np.mean((guess - values[held]) ** 2) / np.var(values[held]))
                    found.setdefault(name, []).append(1 - off)
            said = ", ".join(f"{name} {np.median(r):.4f} ({min(r):.4f})" for name, r in found.items())
            print(f"{factors:>9} factors, noise {ratio}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ratings", "tables", "noise"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ranks", nargs="+", default=["10", "auto"])
    chosen = parser.parse_args()
    print(versions())
    warnings.filterwarnings("ignore", ".*never observed")
    ranks = [int(r) if r.isdigit() else r for r in chosen.ranks]
    if chosen.what == "noise":
        warnings.simplefilter("ignore")
        noise(chosen.seeds if chosen.seeds != 3 else 12)
    elif chosen.what == "ratings":
        fit(1, np.argwhere(np.ones((20, 20))), np.arange(400.0))  # what is imported at first use is no part of a fit
        small(ranks)
        million(ranks, chosen.folds)
    else:
        tables(chosen.seeds)


if __name__ == "__main__":
    main()
