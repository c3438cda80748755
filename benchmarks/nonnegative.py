"""Non-negative factors: lorank, scikit-learn's NMF on full tables, and cmfrec with nonneg=True on ratings.

    python benchmarks/nonnegative.py tables --log nonnegative.jsonl
    python benchmarks/nonnegative.py ratings --folder FOLDER --log nonnegative.jsonl --methods lorank
    python benchmarks/nonnegative.py ratings --folder FOLDER --log nonnegative.jsonl --methods cmfrec   # another Python
    python benchmarks/nonnegative.py show --log nonnegative.jsonl

``tables``: scikit-learn's pictures of digits and a made-up table, all entries known, no penalty; the relative error that is
left when each thinks that it is done, after 200 iterations at the most. ``ratings``: MovieLens-100K (``ml-100k/u.data`` in
FOLDER), a tenth held out, three times; cmfrec is tuned on a tenth of the rest, lorank's settings choose themselves. Seconds
are processor time, of one fit with given settings and (lorank) of the fit that chooses them. One thread: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

SEEDS, SWEEPS = (0, 1, 2), 200


def write(log, line):
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


def timed(function, *arguments, **options):
    begin = time.process_time()
    found = function(*arguments, **options)
    return found, time.process_time() - begin


# -- full tables -------------------------------------------------------------------------------------------------------
def made_up():
    rng = np.random.default_rng(0)
    parts = [rng.random((n, 10)) * (rng.random((n, 10)) < 0.4) for n in (1500, 400)]
    return np.maximum(parts[0] @ parts[1].T + 0.05 * rng.standard_normal((1500, 400)), 0)


def ours(X, rank, seed):
    import lorank as lr

    pairs = np.argwhere(np.ones(X.shape, bool))
    model = lr.MatrixCompletion(rank, 0.0, nonnegative=True, random_state=seed, max_iter=SWEEPS).fit(pairs, X.ravel())
    return model.row_factors_ @ model.col_factors_.T, model.n_iter_


def theirs(X, rank, seed):
    from sklearn.decomposition import NMF

    model = NMF(rank, init="nndsvda", random_state=seed, max_iter=SWEEPS)
    return model.fit_transform(X) @ model.components_, model.n_iter_


def tables(arguments):
    from sklearn.datasets import load_digits

    for name, X in (("digits", load_digits().data), ("made up", made_up())):
        for rank, seed, (method, fit) in itertools.product((10, 20), SEEDS, (("lorank", ours), ("scikit-learn", theirs))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (found, sweeps), seconds = timed(fit, X, rank, seed)
            error = float(np.linalg.norm(X - found) / np.linalg.norm(X))
            line = {"kind": "table", "data": name, "rank": rank, "seed": seed, "method": method}
            write(arguments.log, line | {"error": error, "seconds": seconds, "sweeps": int(sweeps)})


# -- ratings -----------------------------------------------------------------------------------------------------------
def split(folder, seed):
    """Pairs and values, and which are held out."""
    data = np.loadtxt(folder / "ml-100k" / "u.data")
    pairs = data[:, :2].astype(np.int64) - 1
    return pairs, data[:, 2], np.random.default_rng(seed).random(len(data)) < 0.1


def rmse(predictions, values):
    return float(np.sqrt(np.mean((np.clip(predictions, 1, 5) - values) ** 2)))


def cmfrec_fit(pairs, values, seed, k, strength, offsets):
    import scipy.sparse
    from cmfrec import CMF

    shape = 943, 1682
    model = CMF(
        k=k, lambda_=strength, method="als", use_cg=False, nonneg=True, user_bias=offsets, item_bias=offsets, center=offsets,
        niter=30, nthreads=1, verbose=False, random_state=seed, precompute_for_predictions=False,
    )  # fmt: skip
    model.fit(scipy.sparse.coo_matrix((values, pairs.T), shape))
    return lambda pairs: model.predict(user=pairs[:, 0], item=pairs[:, 1])


def lorank_fit(pairs, values, seed, **options):
    import lorank as lr

    model = lr.MatrixCompletion(nonnegative=True, shape=(943, 1682), random_state=seed, handle_unknown="ignore", **options).fit(
        pairs, values
    )
    return model, model.predict


def cmfrec_settings(pairs, values, seed):
    """Those that predict a tenth of the data best."""
    out, tried = np.random.default_rng(100 + seed).random(len(values)) < 0.1, []
    for k, strength, offsets in itertools.product((8, 16), (1.0, 3.0, 5.0, 10.0, 20.0, 40.0), (False, True)):
        predict = cmfrec_fit(pairs[~out], values[~out], seed, k, strength, offsets)
        tried.append((rmse(predict(pairs[out]), values[out]), {"k": k, "strength": strength, "offsets": offsets}))
    return min(tried, key=lambda one: one[0])[1]


def ratings(arguments):
    for seed, method in itertools.product(SEEDS, arguments.methods):
        pairs, values, out = split(arguments.folder, seed)
        kept = pairs[~out], values[~out], seed
        line = {"kind": "ratings", "method": method, "seed": seed}
        if method == "cmfrec":
            best = cmfrec_settings(*kept)
            predict, seconds = timed(cmfrec_fit, *kept, **best)
            found = {"rmse": rmse(predict(pairs[out]), values[out]), "seconds": seconds, "settings": best}
            write(arguments.log, line | found)
            continue
        for rank in ("auto", 8):
            (model, predict), choosing = timed(lorank_fit, *kept, rank=rank)
            given = {"rank": model.rank_, "regularization": model.regularization_}
            _, seconds = timed(lorank_fit, *kept, **given)
            found = {"rmse": rmse(predict(pairs[out]), values[out]), "seconds": seconds, "choosing": choosing}
            write(arguments.log, line | found | {"method": f"lorank, rank={rank}", "settings": given})


def show(arguments):
    lines = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    print("| data | factors | method | relative error | seconds | sweeps |\n|---|---|---|---|---|---|")
    some = [line for line in lines if line["kind"] == "table"]
    for key in dict.fromkeys((one["data"], one["rank"], one["method"]) for one in some):
        own = [one for one in some if (one["data"], one["rank"], one["method"]) == key]
        error, seconds, sweeps = (np.median([one[name] for one in own]) for name in ("error", "seconds", "sweeps"))
        print(f"| {key[0]} | {key[1]} | {key[2]} | {error:.4f} | {seconds:.2f} | {sweeps:.0f} |")
    print("\n| method | RMSE, three splits | seconds of a fit | with the choice |\n|---|---|---|---|")
    some = [line for line in lines if line["kind"] == "ratings"]
    for method in dict.fromkeys(one["method"] for one in some):
        own = [one for one in some if one["method"] == method]
        errors = ", ".join(f"{one['rmse']:.4f}" for one in own)
        choosing = f"{np.median([one['choosing'] for one in own]):.2f}" if "choosing" in own[0] else ""
        print(f"| {method} | {errors} | {np.median([one['seconds'] for one in own]):.2f} | {choosing} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("tables", tables), ("ratings", ratings), ("show", show)):
        one = commands.add_parser(name)
        one.add_argument("--log", type=Path, required=True)
        if name == "ratings":
            one.add_argument("--folder", type=Path, required=True)
            one.add_argument("--methods", nargs="+", default=["lorank"], choices=("lorank", "cmfrec"))
        one.set_defaults(run=function)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
