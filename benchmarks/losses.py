"""Stars as ordered classes, and "four stars or more" as yes and no, on MovieLens-100K: beside least squares.

    LORANK_DATA=folder python benchmarks/losses.py

Five random folds; every model has rank 10 and learned priors, none is tuned. What least squares give for probabilities: the
prediction is the middle of a normal distribution with the standard deviation of the errors on the training ratings that were
held out for it, cut at the middles between stars (and at 3.5 for yes and no).
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

import lorank as lr

CUTS = np.array([1.5, 2.5, 3.5, 4.5])
normal = np.vectorize(lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))))


def below(guess: np.ndarray, sigma: float, cuts: np.ndarray) -> np.ndarray:
    return normal((cuts - guess[:, None]) / sigma)


def fold(pairs: np.ndarray, stars: np.ndarray, test: np.ndarray, rank: int) -> dict[str, float]:
    train, found = ~test, {}
    options = {"rank": rank, "regularization": "learned", "shape": tuple(pairs.max(0) + 1)}
    begun = time.perf_counter()
    squares = lr.MatrixCompletion(**options, bounds=(1, 5), intervals=True).fit(pairs[train], stars[train])
    found["seconds squares"] = time.perf_counter() - begun
    guess, truth = squares.predict(pairs[test]), stars[test]
    held, out, _ = squares.heldout_
    sigma = float(np.sqrt(np.mean((held - out) ** 2)))
    found["rmse squares"] = np.sqrt(np.mean((guess - truth) ** 2))
    edges = np.column_stack([np.zeros(len(guess)), below(guess, sigma, CUTS), np.ones(len(guess))])
    classes = (truth - 1).astype(int)
    place = np.arange(len(truth))
    found["log-likelihood squares"] = np.log(np.diff(edges)[place, classes]).mean()
    begun = time.perf_counter()
    ordinal = lr.MatrixCompletion(**options, loss="ordinal").fit(pairs[train], stars[train])
    found["seconds ordinal"] = time.perf_counter() - begun
    found["rmse ordinal"] = np.sqrt(np.mean((ordinal.predict(pairs[test]) - truth) ** 2))
    found["log-likelihood ordinal"] = np.log(ordinal.predict_proba(pairs[test])[place, classes]).mean()
    shares = np.bincount(classes) / len(classes)
    found["log-likelihood shares"] = (shares * np.log(shares)).sum()
    found["thresholds"] = [round(t, 2) for t in ordinal.loss_.thresholds]  # type: ignore[assignment]
    liked, yes = stars >= 4, truth >= 4
    begun = time.perf_counter()
    logistic = lr.MatrixCompletion(**options, loss="logistic").fit(pairs[train], liked[train])
    found["seconds logistic"] = time.perf_counter() - begun
    zero_one = lr.MatrixCompletion(**options).fit(pairs[train], liked[train].astype(float))
    chances = {
        "logistic": logistic.predict(pairs[test]),
        "ordinal": ordinal.predict_proba(pairs[test])[:, 3:].sum(1),
        "squares of stars": 1 - below(guess, sigma, np.array([3.5]))[:, 0],
        "squares of 0 and 1": zero_one.predict(pairs[test]).clip(0.01, 0.99),
    }
    for name, p in chances.items():
        p = p.clip(1e-6, 1 - 1e-6)
        found[f"yes or no, log-likelihood, {name}"] = np.where(yes, np.log(p), np.log(1 - p)).mean()
        found[f"yes or no, right, {name}"] = ((p > 0.5) == yes).mean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    data = lr.datasets.load_movielens("100k")
    pairs = np.column_stack([data.rows, data.cols])
    label = np.random.default_rng(0).permutation(len(pairs)) % 5
    rows = [fold(pairs, data.ratings, label == k, options.rank) for k in range(options.folds)]
    print(f"MovieLens-100K, {options.folds} of 5 random folds, rank {options.rank}, learned priors, lorank {lr.__version__}")
    for key in rows[0]:
        if key == "thresholds":
            print(f"{key:45s} {rows[0][key]} (first fold)")
            continue
        values = np.array([row[key] for row in rows])
        print(f"{key:45s} {values.mean():9.4f}   between folds {values.std():.4f}")


if __name__ == "__main__":
    main()
