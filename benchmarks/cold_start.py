"""Users and films without ratings, known by their features alone: lorank and cmfrec on the same splits of MovieLens-1M.

    python benchmarks/cold_start.py run FOLDER --methods lorank cmfrec --log cold_start.jsonl [--seeds 3]
    python benchmarks/cold_start.py table --log cold_start.jsonl

FOLDER holds ``ml-1m/ratings.dat``, ``users.dat`` and ``movies.dat``. A tenth of the users, or of the films, has no rating in
the training. Users have sex, age group and occupation, films their genres, one column for each. RMSE of their ratings; NDCG@10
of lists for the users (of all films), and of the films for each user (of those without ratings), against ratings of 4 and more.
lorank runs as it comes. cmfrec's settings are chosen on another tenth of the users or films, which is hidden for that; the test
is looked at once. A method runs where its package is installed: call the script with several Pythons and one log. One thread:
OMP_NUM_THREADS=1.
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

from lorank.backends import get_backend
from lorank.evaluation import Held, ndcg
from lorank.top import top_columns

LISTED = 10


def load(folder):
    """Index pairs, stars, and the features of users and films."""
    lines = {name: (folder / "ml-1m" / f"{name}.dat").read_text(encoding="latin1").splitlines() for name in FILES}
    users, films, stars = np.array([line.split("::")[:3] for line in lines["ratings"]], float).T
    known = {int(line.split("::")[0]): line.split("::") for line in lines["users"]}
    genres = {int(line.split("::")[0]): line.split("::")[2].split("|") for line in lines["movies"]}
    user_ids, rows = np.unique(users.astype(int), return_inverse=True)
    film_ids, cols = np.unique(films.astype(int), return_inverse=True)
    U = np.hstack([onehot([[known[i][k]] for i in user_ids]) for k in (1, 2, 3)])
    return np.column_stack([rows, cols]), stars, U, onehot([genres[i] for i in film_ids])


FILES = ("ratings", "users", "movies")


def onehot(kinds):
    """A column for each kind; a line may have several."""
    names = sorted({kind for line in kinds for kind in line})
    return np.array([[float(name in line) for name in names] for line in kinds])


def split(pairs, side, rng, hidden):
    """Which tenth of the users (films) is hidden, besides those that are."""
    free = np.flatnonzero(~hidden)
    cold = hidden.copy()
    cold[rng.permutation(free)[: len(hidden) // 10]] = True
    return cold, cold[pairs[:, side]]


def judged(pairs, stars, side, new, left, right, scores):
    """RMSE at the hidden ratings, and NDCG of lists by the products of factors."""
    out = new[pairs[:, side]]
    error = float(np.sqrt(np.mean((scores - stars[out]) ** 2)))
    liked = out & (stars >= 4)
    held = Held.from_pairs(pairs[liked, 0], pairs[liked, 1], len(left))
    rows = np.flatnonzero(held.counts)
    never = ~new if side else ~np.isin(np.arange(len(right)), pairs[~out, 1])
    left, right = np.asarray(left, np.float32)[rows], np.asarray(right, np.float32)
    lists, _ = top_columns(get_backend(), left, np.ascontiguousarray(right), LISTED, never=never)
    order = np.argsort(pairs[liked, 0], kind="stable")
    some = Held.from_pairs(np.searchsorted(rows, pairs[liked, 0][order]), pairs[liked, 1][order], len(rows))
    return error, float(np.mean(ndcg(lists, some, LISTED)))


def run_lorank(pairs, stars, U, V, side, cold, rng):
    """The estimator as it comes; lists by taste."""
    import lorank as lr
    from lorank.estimators.recommending import tasted

    out = cold[pairs[:, side]]
    begin = time.process_time()
    model = lr.MatrixCompletion(bounds=(1, 5)).fit(pairs[~out], stars[~out], row_features=U, col_features=V)
    seconds = time.process_time() - begin
    taste = tasted(model)
    scores = model.predict(pairs[out])
    found = judged(pairs, stars, side, cold, taste.rows, taste.cols, scores)
    plain = lr.MatrixCompletion(bounds=(1, 5), shape=(len(U), len(V))).fit(pairs[~out], stars[~out])
    without = float(np.sqrt(np.mean((plain.predict(pairs[out]) - stars[out]) ** 2)))
    popular = np.bincount(pairs[~out & (stars >= 4), 1], minlength=len(V)).astype(float)
    _, by_popularity = judged(pairs, stars, side, cold, np.ones((len(U), 1)), popular[:, None], scores)
    return found, {
        "seconds": seconds,
        "rank": model.rank_,
        "rmse without features": without,
        "ndcg of popularity": by_popularity,
    }


def run_cmfrec(pairs, stars, U, V, side, cold, rng):
    """Settings by another tenth, for ratings and for lists each."""
    import pandas
    from cmfrec import CMF, CMF_implicit

    names = ("UserId", "ItemId")
    sides = {
        "U": pandas.DataFrame(U).assign(UserId=np.arange(len(U))),
        "I": pandas.DataFrame(V).assign(ItemId=np.arange(len(V))),
    }

    def fit(kind, out, k, penalty, weight):
        options = {"k": k, "lambda_": penalty, "w_user": weight, "w_item": weight, "nthreads": 1, "verbose": False}
        X = pandas.DataFrame(pairs[~out], columns=names)
        if kind is CMF:
            model = CMF(**options).fit(X.assign(Rating=stars[~out]), **sides)
        else:
            model = CMF_implicit(**options).fit(X.assign(Value=1.0)[stars[~out] >= 4], **sides)
        return model

    def score(model, kind, new):
        out = new[pairs[:, side]]
        at = {name: placed(mapping, n) for name, mapping, n in zip(names, mappings(model), (len(U), len(V)), strict=True)}
        left, right = np.asarray(model.A_)[at["UserId"]], np.asarray(model.B_)[at["ItemId"]]
        width = min(left.shape[1], right.shape[1])
        left, right = left[:, :width], right[:, :width]
        guess = np.full(int(out.sum()), 3.5)
        if kind is CMF:
            guess = np.clip(model.predict(user=pairs[out, 0], item=pairs[out, 1]), 1, 5)
        return judged(pairs, stars, side, new, left, right, guess)

    both, out = split(pairs, side, rng, cold)
    inner = both & ~cold  # judged by these, and the test's are hidden as well
    best, seconds, chosen = {}, 0.0, {}
    for kind, grid, place in (
        (CMF, itertools.product((10, 40), (10.0, 30.0), (0.5, 5.0)), 0),
        (CMF_implicit, itertools.product((10, 40), (1.0, 10.0), (1.0, 10.0)), 1),
    ):
        found = []
        for setting in grid:
            result = score(fit(kind, out, *setting), kind, inner)[place]
            found.append((result if place == 0 else -result, setting))
        chosen[kind.__name__] = min(found)[1]
        begin = time.process_time()
        model = fit(kind, cold[pairs[:, side]], *chosen[kind.__name__])
        seconds += time.process_time() - begin if place == 0 else 0.0
        best[place] = score(model, kind, cold)[place]
    return (best[0], best[1]), {"seconds": seconds, "settings": str(chosen)}


def mappings(model):
    return model.user_mapping_, model.item_mapping_


def placed(mapping, n):
    """Where each of 0 .. n - 1 stands among the rows of the factors."""
    known = np.asarray(mapping)
    if not len(known):
        return np.arange(n)
    at = np.empty(n, int)
    at[known.astype(int)] = np.arange(len(known))
    return at


def main():
    """Run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--methods", nargs="+", default=["lorank"])
    parser.add_argument("--log", type=Path, default=Path("cold_start.jsonl"))
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "run":
        pairs, stars, U, V = load(options.folder)
        for seed, side, method in itertools.product(range(options.seeds), (0, 1), options.methods):
            rng = np.random.default_rng(seed)
            cold, _ = split(pairs, side, rng, np.zeros((len(U), len(V))[side], bool))
            (error, quality), more = globals()[f"run_{method}"](pairs, stars, U, V, side, cold, rng)
            line = {"cold": ("users", "films")[side], "seed": seed, "method": method, "rmse": error, "ndcg": quality} | more
            print(line, flush=True)
            with options.log.open("a") as file:
                file.write(json.dumps(line) + "\n")
    else:
        print("| without ratings | seed | method | RMSE | NDCG@10 | seconds | |\n|---|---|---|---|---|---|---|")
        for text in sorted(options.log.read_text().splitlines()):
            one = json.loads(text)
            more = {k: round(v, 4) if isinstance(v, float) else v for k, v in one.items() if k not in HEAD}
            print(
                f"| {one['cold']} | {one['seed']} | {one['method']} | {one['rmse']:.4f} | {one['ndcg']:.4f} "
                f"| {one['seconds']:.1f} | {', '.join(f'{k} {v}' for k, v in more.items())} |"
            )


HEAD = ("cold", "seed", "method", "rmse", "ndcg", "seconds")

if __name__ == "__main__":
    main()
