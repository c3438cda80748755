"""Poisson and ordinal completion beside a Poisson GLM of statsmodels and a multinomial logit of scikit-learn.

    LORANK_DATA=folder python benchmarks/class_models.py [--quick]      # folder has ml-100k.zip

Peers have effects of rows and columns (indicators): statsmodels' GLM without a penalty, scikit-learn's PoissonRegressor and
LogisticRegression with the ridge that is best on a fifth of the training data. lorank selects its rank. Figures are of held-out
entries: half of the Poisson deviance, or log-likelihood of the classes, per entry.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse
from scipy.special import xlogy

import lorank as lr
from common import markdown, versions


def half_deviance(y: np.ndarray, mean: np.ndarray) -> float:
    mean = np.maximum(mean, 1e-9)
    return float(np.mean(xlogy(y, y / mean) - y + mean))


def indicators(pairs: np.ndarray, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """Of rows and columns: a one in each part of a line."""
    n = len(pairs)
    places = np.column_stack([pairs[:, 0], shape[0] + pairs[:, 1]]).ravel()
    return scipy.sparse.csr_array((np.ones(2 * n), places, np.arange(0, 2 * n + 1, 2)), shape=(n, sum(shape)))


def split(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    held = np.zeros(n, bool)
    held[rng.permutation(n)[: int(share * n)]] = True
    return held


def chosen(make, options: list[float], X, y, score, rng: np.random.Generator):
    """The model with the best of the options, by a fifth of the data, fitted to all of them."""
    held = split(len(y), 0.2, rng)
    values = [score(make(option).fit(X[~held], y[~held]), X[held], y[held]) for option in options]
    return make(options[int(np.argmin(values))]).fit(X, y)


# -- counts ------------------------------------------------------------------------------------------------------------
def ratings(zipped: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User and film, stars, and the hour of the day."""
    with zipfile.ZipFile(zipped) as archive:
        data = np.array([line.split() for line in archive.read("ml-100k/u.data").decode().splitlines()], int)
    return data[:, :2] - 1, data[:, 2].astype(float), data[:, 3] // 3600 % 24


def tables(zipped: Path, seed: int) -> dict[str, np.ndarray]:
    """Complete tables of counts."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    left, right = 0.7 * rng.standard_normal((300, 3)), 0.7 * rng.standard_normal((60, 3))
    pairs, _, hours = ratings(zipped)
    users = np.zeros((943, 24))
    np.add.at(users, (pairs[:, 0], hours), 1)
    pixels = load_digits().data
    return {
        "made, rank 3": rng.poisson(np.exp(0.5 + left @ right.T)).astype(float),
        "digits": pixels[rng.permutation(len(pixels))[:300]][:, pixels.max(axis=0) > 1],
        "ratings of users by hour": users[rng.permutation(943)[:300]],
    }


def counts(name: str, table: np.ndarray, seed: int, share: float) -> dict:
    """Held-out half deviances and CPU seconds of one table."""
    from sklearn.linear_model import PoissonRegressor

    rng = np.random.default_rng(seed)
    pairs, y = np.argwhere(np.ones_like(table)), table.ravel()
    known = split(len(y), share, rng)
    X = indicators(pairs, table.shape)
    row: dict = {"table": name, "shape": f"{table.shape[0]} x {table.shape[1]}", "observed": f"{share:.0%}", "seed": seed}

    def judge(which: str, fit: Callable[[], np.ndarray]) -> None:
        start = time.process_time()
        mean = fit()
        row[which] = round(half_deviance(y[~known], mean), 4)
        row[f"{which}: CPU s"] = round(time.process_time() - start, 2)

    judge("lorank", lambda: lr.MatrixCompletion(loss="poisson").fit(pairs[known], y[known]).predict(pairs[~known]))
    judge("mean of the column", lambda: _column_means(table, known.reshape(table.shape))[~known])
    if importlib.util.find_spec("statsmodels"):
        import statsmodels.api as sm

        A = X.toarray()[:, 1:]
        poisson = sm.families.Poisson()
        try:
            judge("statsmodels GLM", lambda: sm.GLM(y[known], A[known], family=poisson).fit().predict(A[~known]))
        except ValueError:  # its weights overflow
            row |= {"statsmodels GLM": "fails", "statsmodels GLM: CPU s": "-"}

    def ridge() -> np.ndarray:
        model = chosen(
            lambda alpha: PoissonRegressor(alpha=alpha, max_iter=500),
            [1e-5, 1e-4, 1e-3, 1e-2],
            X[known],
            y[known],
            lambda model, A, b: half_deviance(b, model.predict(A)),
            rng,
        )
        return model.predict(X[~known])

    judge("GLM with ridge", ridge)
    return row


def _column_means(table: np.ndarray, known: np.ndarray) -> np.ndarray:
    mean = np.where(known, table, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.broadcast_to(mean, table.shape).ravel()


# -- classes -----------------------------------------------------------------------------------------------------------
def classes(zipped: Path, seed: int, number: int) -> dict:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    pairs, stars, _ = ratings(zipped)
    some = rng.permutation(len(stars))[:number]
    pairs, stars = pairs[some], stars[some]
    held = split(len(stars), 0.2, rng)
    X, place = indicators(pairs, (943, 1682)), (stars[held] - 1).astype(int)
    row: dict = {"ratings": len(stars), "seed": seed}

    def judge(which: str, fit: Callable[[], np.ndarray]) -> None:
        start = time.process_time()
        chances = fit()
        row[which] = round(float(np.log(np.maximum(chances[np.arange(len(place)), place], 1e-12)).mean()), 4)
        row[f"{which}: CPU s"] = round(time.process_time() - start, 2)

    shape = (943, 1682)
    ordinal = lr.MatrixCompletion(loss="ordinal", shape=shape)
    judge("lorank ordinal", lambda: ordinal.fit(pairs[~held], stars[~held]).predict_proba(pairs[held]))
    shares = np.bincount((stars[~held] - 1).astype(int)) / (~held).sum()
    judge("frequencies", lambda: np.tile(shares, (len(place), 1)))
    judge(
        "multinomial logit",
        lambda: chosen(
            lambda C: LogisticRegression(C=C, max_iter=300),
            [0.03, 0.1, 0.3, 1.0],
            X[~held],
            stars[~held],
            lambda model, A, b: -np.log(model.predict_proba(A)[np.arange(len(b)), (b - 1).astype(int)]).mean(),
            rng,
        ).predict_proba(X[held]),
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    zipped = Path(os.environ.get("LORANK_DATA", ".")) / "ml-100k.zip"
    print(versions(), flush=True)
    warnings.simplefilter("ignore")
    seeds = options.seeds[:1] if options.quick else options.seeds
    shares = (0.2,) if options.quick else (0.2, 0.5)
    rows = [
        counts(name, table, seed, share) for seed in seeds for share in shares for name, table in tables(zipped, seed).items()
    ]
    print("\n".join(markdown(rows)), flush=True)
    print("\n".join(markdown([classes(zipped, seed, 20_000 if options.quick else 100_000) for seed in seeds])))


if __name__ == "__main__":
    main()
