"""Missing values of tensors: TensorImputer, Tucker completion without priors, MatrixCompletion of an unfolding, and means.

    python benchmarks/imputation.py runs.jsonl --data FOLDER     # tensorly/datasets/data of an installed tensorly
    python benchmarks/imputation.py runs.jsonl                   # the table of docs/benchmarks/tensors.md from stored runs

Errors are root mean squares over all missing entries, in standard deviations of the array, against the values without noise
where these are known. The rank of plain Tucker, the unfolding and the kind of means are chosen on a tenth of the observations.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import lorank as lr

SEEDS, REAL_SEEDS = range(9200, 9205), range(9200, 9203)
SHAPE, RANK = (60, 50, 40), 4  # of made arrays
MADE = itertools.product(("flat", "decaying"), (0.1, 1.0))  # spectrum and noise
PATTERNS = ((0.02, "random"), (0.1, "random"), (0.5, "random"), (0.1, "fibres"), (0.5, "fibres"))  # seen
REAL = {
    "Kinetic": "fluorescence",
    "Indian_pines_corrected": "Indian pines",
    "IL2_Response_Tensor": "IL-2",
    "COVID19_data": "COVID-19",
}
RANKS = (1, 2, 3, 4, 6, 8, 12)  # of plain Tucker


def made(spectrum: str, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An array of multilinear rank 4 with variance 1, and the same with noise; entries of the core decay or not."""
    decay = 1 / np.arange(1, RANK + 1) if spectrum == "decaying" else np.ones(RANK)
    X = rng.standard_normal((RANK,) * 3) * np.multiply.outer(np.multiply.outer(decay, decay), decay)
    for n in SHAPE:
        X = np.tensordot(X, rng.standard_normal((n, RANK)), (0, 1))
    X /= X.std()
    return X, X + noise * rng.standard_normal(X.shape)


def real(name: str, folder: Path) -> np.ndarray:
    a = np.load(folder / f"{name}.npy").astype(float)
    if name == "Kinetic":
        a[np.load(folder / "Kinetic_missing.npy")] = np.nan
        a = a.reshape(64, 120, 60)
    return a


def plain_tucker(a: np.ndarray, rank: int) -> np.ndarray:
    """Tucker completion of centred values; their mean where it fails."""
    index, mean = np.argwhere(~np.isnan(a)), np.nanmean(a)
    try:
        problem = lr.TensorCompletion(index, a[tuple(index.T)] - mean, a.shape)
        return lr.solve(problem, rank=tuple(min(rank, n) for n in a.shape), max_iter=200).X.to_dense() + mean
    except ValueError:
        return np.full(a.shape, mean)


def averages(a: np.ndarray, modes: tuple[int, ...]) -> np.ndarray:
    """The mean of the observed entries over some modes; of all entries where there are none."""
    found = np.nanmean(a, axis=modes, keepdims=True)
    return np.broadcast_to(np.where(np.isnan(found), np.nanmean(a), found), a.shape)


def best_of(fill, options, a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``fill(a, option)`` with the option that predicts a tenth of the observations best."""
    index = np.argwhere(~np.isnan(a))
    held, kept = tuple(index[rng.random(len(index)) < 0.1].T), a.copy()
    kept[held] = np.nan
    return fill(a, min(options, key=lambda one: np.mean((fill(kept, one)[held] - a[held]) ** 2)))


def unfolded(a: np.ndarray) -> np.ndarray:
    """MatrixCompletion of the unfolding with the smallest held-out error."""
    found = []
    for k in range(a.ndim):
        b = np.moveaxis(a, k, 0)
        matrix = b.reshape(len(b), -1)
        pairs = np.argwhere(~np.isnan(matrix))
        model = lr.MatrixCompletion(shape=matrix.shape, handle_unknown="ignore").fit(pairs, matrix[tuple(pairs.T)])
        dense = model.predict(np.argwhere(np.ones(matrix.shape))).reshape(b.shape)
        found.append((np.mean((model.heldout_[0] - model.heldout_[1]) ** 2), k, np.moveaxis(dense, 0, k)))
    return min(found)[2]


def run(setting: tuple, share: float, pattern: str, seed: int, folder: Path | None) -> dict:
    rng = np.random.default_rng(seed)
    truth, noisy = made(*setting, rng) if len(setting) == 2 else (real(*setting, folder),) * 2
    seen = rng.random(truth.shape[:-1] + ((1,) if pattern == "fibres" else truth.shape[-1:])) < share
    a = np.where(seen, noisy, np.nan)
    missing = np.isnan(a) & ~np.isnan(truth)
    modes = [some for n in range(1, a.ndim) for some in itertools.combinations(range(a.ndim), n)]
    imputer = lr.TensorImputer()
    methods = {
        "imputer": imputer.fit_transform,
        "tucker": lambda a: best_of(plain_tucker, RANKS, a, rng),
        "unfolding": unfolded,
        "means": lambda a: best_of(averages, modes, a, rng),
    }
    found = {"setting": setting, "share": share, "pattern": pattern, "seed": seed, "seconds": {}, "errors": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fill in methods.items():
            begin = time.perf_counter()
            filled = fill(a)
            found["seconds"][name] = time.perf_counter() - begin
            found["errors"][name] = float(np.sqrt(np.mean((filled - truth)[missing] ** 2)) / np.nanstd(truth))
    low, high = imputer.predict_interval(a)
    found["coverage"] = float(((low <= noisy) & (noisy <= high))[missing].mean())
    return found | {"method": imputer.method_, "rank": imputer.rank_, "quality": imputer.quality_}


def report(runs: list[dict]) -> None:
    """Medians over the seeds in Markdown; the smallest errors, within 1 %, are bold."""
    print("| data | seen | imputer | plain Tucker | unfolding | means | in 90 % intervals | Tucker selected |")
    print("|" + "---|" * 8)
    key = lambda r: (len(r["setting"]), str(r["setting"]), r["pattern"], r["share"])  # noqa: E731
    for (n, _, pattern, share), group in itertools.groupby(sorted(runs, key=key), key):
        each = list(group)
        errors = [np.median([one["errors"][name] for one in each]) for name in each[0]["errors"]]
        name = "{}, noise {}".format(*each[0]["setting"]) if n == 2 else REAL[each[0]["setting"][0]]
        cells = [name, f"{100 * share:g} %" + (", whole fibres" if pattern == "fibres" else "")]
        cells += [f"**{e:.3f}**" if e <= 1.01 * min(errors) else f"{e:.3f}" for e in errors]
        cells += [f"{100 * np.median([one['coverage'] for one in each]):.0f} %"]
        cells += [f"{sum(one['method'] == 'tucker' for one in each)} of {len(each)}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.data:
        tasks = [((name,), *one, seed) for name, one, seed in itertools.product(REAL, PATTERNS, REAL_SEEDS)]
        tasks = [t for t in tasks if t[0] != ("Indian_pines_corrected",) or t[1] == 0.02]
        tasks = [t for t in tasks if t[0][0] in ("Kinetic", "Indian_pines_corrected") or t[1] > 0.02]  # a few dozen entries
        tasks += [(setting, *one, seed) for setting, one, seed in itertools.product(MADE, PATTERNS, SEEDS)]
        tasks = tasks[-1::-30] if options.quick else tasks
        with ProcessPoolExecutor(options.jobs) as pool, options.out.open("a") as file:
            for done in as_completed([pool.submit(run, *task, options.data) for task in tasks]):
                print(json.dumps(done.result()), file=file, flush=True)
    report([json.loads(line) for line in options.out.read_text().splitlines()])
