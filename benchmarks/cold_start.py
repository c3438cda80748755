"""Users and films without ratings, known by their features alone: lorank and cmfrec on the same splits of MovieLens-1M.

    python benchmarks/cold_start.py run FOLDER --methods lorank cmfrec --log cold_start.jsonl [--seeds 0 1 2]
    python benchmarks/cold_start.py table --log cold_start.jsonl

FOLDER holds ``ml-1m/ratings.dat``, ``users.dat`` and ``movies.dat``. A tenth of the users, or of the films, has no rating in
the training. Users have sex, age group and occupation, films their genres, one column for each. RMSE of their ratings; NDCG@10
of lists for the users (of all films), and of the films for each user (of those without ratings), against ratings of 4 and more.
lorank runs as it comes. Which of cmfrec's models, and its settings, are chosen on another tenth of the users or films, which is
hidden for that, by RMSE and by NDCG each; the test is looked at once. A method runs where its package is installed: call the
script with several Pythons and one log. One thread: OMP_NUM_THREADS=1.
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

from lorank.evaluation import HeldOutItems, ndcg

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


def wanted(pairs, stars, side, new):
    """Whose lists are judged, by what they liked among what was hidden."""
    liked = pairs[new[pairs[:, side]] & (stars >= 4)]
    users = np.unique(liked[:, 0])
    liked = liked[np.argsort(liked[:, 0], kind="stable")]
    return users, HeldOutItems.from_pairs(np.searchsorted(users, liked[:, 0]), liked[:, 1], len(users))


def candidates(pairs, side, new, n):
    """Films that may be on a list: those with ratings for new users, the new ones for the others."""
    return np.flatnonzero(new) if side else np.intersect1d(pairs[~new[pairs[:, side]], 1], np.arange(n))


def listed(scores, films):
    """The best of some films for each user."""
    return films[np.argsort(-scores, axis=1, kind="stable")[:, :LISTED]]


def rmse(guess, stars):
    return float(np.sqrt(np.mean((np.clip(guess, 1, 5) - stars) ** 2)))


def run_lorank(pairs, stars, U, V, side, cold, rng):
    """The estimator as it comes; lists by affinity."""
    import lorank as lr

    out = cold[pairs[:, side]]
    begin = time.process_time()
    model = lr.MatrixCompletion(bounds=(1, 5)).fit(pairs[~out], stars[~out], row_features=U, col_features=V)
    seconds = time.process_time() - begin
    users, held = wanted(pairs, stars, side, cold)
    films = candidates(pairs, side, cold, len(V))
    ranking = model.fit_ranking().state_.ranking
    if side:
        lists = listed(ranking.rows[users] @ ranking.cols[films].T, films)
    else:
        lists, _ = model.recommend(users, LISTED)
    plain = lr.MatrixCompletion(bounds=(1, 5), shape=(len(U), len(V))).fit(pairs[~out], stars[~out])
    popular = np.bincount(pairs[~out & (stars >= 4), 1], minlength=len(V))[films]
    same = listed(np.broadcast_to(popular, (len(users), len(films))), films)
    return (rmse(model.predict(pairs[out]), stars[out]), float(np.mean(ndcg(lists, held, LISTED)))), {
        "seconds": seconds,
        "rank": model.rank_,
        "rmse without features": rmse(plain.predict(pairs[out]), stars[out]),
        "ndcg of popularity": float(np.mean(ndcg(same, held, LISTED))),
    }


def run_cmfrec(pairs, stars, U, V, side, cold, rng):
    """Its models with settings by another tenth, for ratings and for lists each, through its predictions for new users.

    New films are new users of the transposed data, as its documentation advises. Lists are by CMF_implicit, OMF_implicit, and
    by CMF with zeros and item biases, which it advises for lists of new users.
    """
    import pandas
    from cmfrec import CMF, CMF_implicit, OMF_explicit, OMF_implicit

    own, other = (V, U) if side else (U, V)
    turned = pairs[:, ::-1] if side else pairs
    names = ["UserId", "ItemId"]

    def fit(kind, options, hidden):
        """Without the hidden users' ratings and features."""
        out = hidden[turned[:, 0]]
        X = pandas.DataFrame(turned[~out], columns=names)
        if kind in (CMF_implicit, OMF_implicit):
            X = X.assign(Value=1.0)[stars[~out] >= 4]
        elif options.get("NA_as_zero"):
            X = X.assign(Rating=1.0)[stars[~out] >= 4]
        else:
            X = X.assign(Rating=stars[~out])
        features = pandas.DataFrame(own).assign(UserId=np.arange(len(own)))[~hidden]
        others = pandas.DataFrame(other).assign(ItemId=np.arange(len(other)))
        return kind(nthreads=1, verbose=False, **options).fit(X, U=features, I=others)

    def score(model, new, place):
        """RMSE, or minus NDCG: lower is better."""
        at = np.flatnonzero(new)
        grid = np.array([model.predict_cold(np.arange(len(other)), U=own[i]) for i in at])
        out = new[turned[:, 0]]
        if place == 0:
            return rmse(grid[np.searchsorted(at, turned[out, 0]), turned[out, 1]], stars[out])
        users, held = wanted(pairs, stars, side, new)
        films = candidates(pairs, side, new, len(V))
        scores = grid.T[users] if side else grid[np.searchsorted(at, users)][:, films]
        return -float(np.mean(ndcg(listed(scores, films), held, LISTED)))

    both, _ = split(turned, 0, rng, cold)
    inner = both & ~cold  # judged by these, and the test's are hidden as well
    found, more = [], {"seconds": 0.0}
    for place, grid in enumerate((by_rating(CMF, OMF_explicit), by_list(CMF, CMF_implicit, OMF_implicit))):
        tried = [(score(fit(kind, options, both), inner, place), kind, options) for kind, options in grid]
        _, kind, options = min(tried, key=lambda one: one[0])
        begin = time.process_time()
        model = fit(kind, options, cold)
        more["seconds"] += time.process_time() - begin if place == 0 else 0.0
        found.append(abs(score(model, cold, place)))
        more[("ratings by", "lists by")[place]] = f"{kind.__name__} {options}"
    return found, more


def by_rating(CMF, OMF):
    """What is tried for ratings."""
    for k, penalty, weight in itertools.product((10, 40), (10.0, 30.0), (0.5, 5.0)):
        yield CMF, {"k": k, "lambda_": penalty, "w_user": weight, "w_item": weight}
    for penalty in (10.0, 30.0, 100.0):
        yield OMF, {"k": 10, "lambda_": penalty, "maxiter": 100}


def by_list(CMF, implicit, OMF):
    """What is tried for lists."""
    for k, penalty, weight in itertools.product((10, 40), (1.0, 10.0), (1.0, 10.0)):
        yield implicit, {"k": k, "lambda_": penalty, "w_user": weight, "w_item": weight}
    for k, penalty in itertools.product((10, 40), (1.0, 10.0)):
        yield OMF, {"k": k, "lambda_": penalty}
    for k, penalty in itertools.product((2, 10), (10.0, 100.0)):
        yield CMF, {"k": k, "lambda_": penalty, "NA_as_zero": True, "center": False, "user_bias": False}


def main():
    """Run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--methods", nargs="+", default=["lorank"])
    parser.add_argument("--log", type=Path, default=Path("cold_start.jsonl"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cold", nargs="+", choices=SIDES, default=list(SIDES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "run":
        pairs, stars, U, V = load(options.folder)
        for seed, side, method in itertools.product(options.seeds, map(SIDES.index, options.cold), options.methods):
            rng = np.random.default_rng(seed)
            cold, _ = split(pairs, side, rng, np.zeros((len(U), len(V))[side], bool))
            (error, quality), more = globals()[f"run_{method}"](pairs, stars, U, V, side, cold, rng)
            line = {"cold": SIDES[side], "seed": seed, "method": method, "rmse": error, "ndcg": quality} | more
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


SIDES = ("users", "films")
HEAD = ("cold", "seed", "method", "rmse", "ndcg", "seconds")

if __name__ == "__main__":
    main()
