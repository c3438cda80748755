"""Recommendations: lorank, implicit's ALS and cmfrec's implicit model on the same splits.

    python benchmarks/ranking.py run DATA... --folder FOLDER --log ranking.jsonl --methods lorank implicit cmfrec
    python benchmarks/ranking.py time DATA... --folder FOLDER --log ranking.jsonl --methods lorank default ratings
    python benchmarks/ranking.py table --log ranking.jsonl

DATA: ``ml-100k`` and ``ml-1m`` (their folders in FOLDER; ratings of 4 and more are positives), ``filmtrust``
(``filmtrust.txt``: user, item and rating; 3 and more), ``gowalla`` (``gowalla_adj.npz`` and ``gowalla_test.txt`` with its
published split). 20 % of each user's positives are held out for the test; settings are chosen on 10 % of the rest, and the test
is looked at once. ``time`` measures single fits at the settings of the log, and fits that choose their own; ``ratings`` and
``cmfrec-ratings`` are the models of ratings (all of them, with defaults). A method runs where its package is installed: call
the script with several Pythons and one log. One thread: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from lorank.backends import get_backend
from lorank.backends.top_k import rows_of, top_columns
from lorank.evaluation import HeldOutItems, Popularity, leave_some_out, ranking_scores

K = 64
JUDGES = 3000  # users whose lists judge settings,
ALONG = 5000  # and those that judge a fit after some sweeps


def positives(name, folder):
    """Users, items and, where it is published, which are for the test."""
    if name == "gowalla":
        adjacency = scipy.sparse.load_npz(folder / "gowalla_adj.npz").tocsr()
        lines = [list(map(int, line.split())) for line in (folder / "gowalla_test.txt").read_text().splitlines()]
        n_users = len(lines)
        train = adjacency[:n_users, n_users:].tocoo()
        users = np.concatenate([train.row, *(np.full(len(one) - 1, one[0]) for one in lines)])
        items = np.concatenate([train.col, *(np.array(one[1:], int) for one in lines)])
        return users.astype(np.int64), items.astype(np.int64), np.arange(len(users)) >= train.nnz
    path, separator, least = {
        "ml-100k": ("ml-100k/u.data", "\t", 4),
        "ml-1m": ("ml-1m/ratings.dat", "::", 4),
        "filmtrust": ("filmtrust.txt", " ", 3),
    }[name]
    rows = [line.split(separator)[:3] for line in (folder / path).read_text(encoding="latin1").splitlines()]
    users, items, values = np.array(rows, float).T
    liked = values >= least
    users, items = (np.unique(a[liked], return_inverse=True)[1].astype(np.int64) for a in (users, items))
    return users, items, leave_some_out(users, 0.2, seed=0)


class Data:
    """A training matrix, and held-out items to judge by."""

    def __init__(self, users, items, out, shape, judges=None):
        self.shape = shape
        R = scipy.sparse.csr_matrix((np.ones((~out).sum(), np.float32), (users[~out], items[~out])), shape)
        R.sum_duplicates()
        R.data[:] = 1
        self.R = R
        held = HeldOutItems.from_pairs(users[out], items[out], shape[0])
        rows = np.flatnonzero(held.counts)
        self.rows = rows if judges is None else np.sort(np.random.default_rng(0).permutation(rows)[:judges])
        self.held = HeldOutItems(*rows_of(held.indptr, held.items, self.rows))
        self.counts = np.bincount(R.indices, minlength=shape[1])

    def scores(self, left, right):
        """NDCG@10 and recall@20."""
        seen = rows_of(self.R.indptr, self.R.indices, self.rows)
        right = np.asarray(right, np.float32)
        lists, _ = top_columns(
            get_backend(), np.asarray(left, np.float32)[self.rows], right, 20, seen=seen, never=self.counts == 0
        )
        return self.of_lists(lists)

    def of_lists(self, lists):
        found = [ranking_scores(lists, self.held, self.counts, self.shape[0], n) for n in (10, 20)]
        return {"ndcg10": found[0].ndcg, "recall20": found[1].recall}


# -- methods: settings -> factors of users and of items -------------------------------------------------------------------
def lorank_fit(R, zeros, regularization, sweeps=16):
    from lorank.factorization.implicit import ImplicitSettings, fit_implicit

    backend = get_backend()
    passes = backend.make_observations(R.indptr.astype(np.int64), R.indices.astype(np.int32), R.data, R.shape[1])
    density = R.nnz / (R.shape[0] * R.shape[1])
    sides = fit_implicit(passes, backend, ImplicitSettings(K, zeros * density, regularization, max_iter=sweeps))
    return sides.rows, sides.cols


def implicit_fit(R, alpha, regularization, sweeps=15):
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=K, regularization=regularization, alpha=alpha, iterations=sweeps, use_cg=True, num_threads=1, random_state=0
    )
    model.fit(R, show_progress=False)
    return np.asarray(model.user_factors), np.asarray(model.item_factors)


def cmfrec_fit(R, alpha, regularization, sweeps=10):
    from cmfrec import CMF_implicit

    model = CMF_implicit(
        k=K,
        lambda_=regularization,
        alpha=alpha,
        niter=sweeps,
        use_cg=True,
        nthreads=1,
        precompute_for_predictions=False,
        verbose=False,
    )
    model.fit(R.tocoo())
    return model.A_, model.B_


GRIDS = {
    "lorank": (lorank_fit, {"zeros": (1.5, 5.0, 15.0), "regularization": (0.005, 0.01, 0.02, 0.04)}),
    "implicit": (implicit_fit, {"alpha": (1.0, 4.0, 16.0), "regularization": (0.1, 1.0, 5.0, 20.0, 80.0, 320.0)}),
    "cmfrec": (cmfrec_fit, {"alpha": (1.0, 4.0, 16.0), "regularization": (0.1, 1.0, 5.0, 20.0, 80.0, 320.0)}),
}
SWEEPS = (1, 2, 3, 4, 6, 8, 15)


def run(arguments):
    for name in arguments.data:
        users, items, test = positives(name, arguments.folder)
        shape = int(users.max()) + 1, int(items.max()) + 1
        whole = Data(users, items, test, shape)
        kept = ~test
        inner = leave_some_out(users[kept], 0.1, seed=1)
        part = Data(users[kept], items[kept], inner, shape, JUDGES)

        def write(method, line, name=name, shape=shape, whole=whole):
            line = {"data": name, "shape": shape, "train": whole.R.nnz, "method": method} | line
            with arguments.log.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)

        for method in arguments.methods:
            if method == "popularity":
                lists, _ = Popularity(*whole.R.nonzero(), shape[1]).recommend(whole.rows, 20)
                write(method, {"kind": "test"} | whole.of_lists(lists))
                continue
            if method == "default":
                import lorank

                begin = time.perf_counter()
                model = lorank.ImplicitFactorization(rank=K).fit(whole.R)
                seconds = time.perf_counter() - begin
                found = {"zeros": model.zeros_, "regularization": model.regularization_, "tried": len(model.curve_)}
                scores = whole.scores(model.user_factors_, model.item_factors_)
                write(method, {"kind": "test", "seconds": seconds, "settings": found} | scores)
                continue
            fit, grid = GRIDS[method]
            tried = []
            for values in itertools.product(*grid.values()):
                settings = dict(zip(grid, values, strict=True))
                tried.append((part.scores(*fit(part.R, **settings))["ndcg10"], settings))
            best = max(tried, key=lambda one: one[0])
            begin = time.perf_counter()
            sides = fit(whole.R, **best[1])
            seconds = time.perf_counter() - begin
            line = {"kind": "test", "seconds": seconds, "settings": best[1], "tried": len(tried), "validation": best[0]}
            write(method, line | whole.scores(*sides))
            if arguments.path:
                some = Data(users, items, test, shape, ALONG)
                for sweeps in SWEEPS:
                    begin = time.perf_counter()
                    sides = fit(whole.R, **best[1], sweeps=sweeps)
                    seconds = time.perf_counter() - begin
                    write(method, {"kind": "path", "sweeps": sweeps, "seconds": seconds} | some.scores(*sides))


def given_ratings(name, folder):
    """Pairs and values of all ratings."""
    path, separator = {
        "ml-100k": ("ml-100k/u.data", "\t"),
        "ml-1m": ("ml-1m/ratings.dat", "::"),
        "filmtrust": ("filmtrust.txt", " "),
    }[name]
    rows = [line.split(separator)[:3] for line in (folder / path).read_text(encoding="latin1").splitlines()]
    users, items, values = np.array(rows, float).T
    pairs = np.column_stack([np.unique(a, return_inverse=True)[1] for a in (users, items)])
    return pairs.astype(np.int64), values


def seconds_of(function, times=3):
    """The least of some, in processor time."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        function()
        found.append(time.process_time() - begin)
    return min(found)


def rating_seconds(method, name, folder):
    """What a model of ratings takes with its defaults, and (lorank) what comes on top when it is first asked to recommend."""
    pairs, values = given_ratings(name, folder)
    if method == "cmfrec-ratings":
        from cmfrec import CMF

        R = scipy.sparse.coo_matrix((values, pairs.T))
        return {"seconds": seconds_of(lambda: CMF(nthreads=1, verbose=False).fit(R))}
    import lorank

    model = lorank.MatrixCompletion(handle_unknown="ignore")
    fitting = seconds_of(lambda: model.fit(pairs, values))
    return {
        "seconds": fitting,
        "recommend": seconds_of(lambda: model.fit_ranking().recommend([0]), 1),
        "tried": len(model.curve_),
    }


def take_time(arguments):
    """Seconds of fits, in one run."""
    lines = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    tuned = {(one["data"], one["method"]): one.get("settings", {}) for one in lines if one["kind"] == "test"}
    for name, method in itertools.product(arguments.data, arguments.methods):
        if method.endswith("ratings"):
            found = {} if name == "gowalla" else rating_seconds(method, name, arguments.folder)
        else:
            users, items, test = positives(name, arguments.folder)
            R = Data(users, items, test, (int(users.max()) + 1, int(items.max()) + 1)).R
            if method == "default":
                import lorank

                model = lorank.ImplicitFactorization(rank=K)
                found = {"seconds": seconds_of(lambda model=model, R=R: model.fit(R), 1), "tried": len(model.curve_)}
                given = {"zeros": model.zeros_, "regularization": model.regularization_, "max_iter": model.n_iter_}
                again = lorank.ImplicitFactorization(rank=K, **given)
                found["once"] = seconds_of(lambda again=again, R=R: again.fit(R))
            else:
                fit, settings = GRIDS[method][0], tuned[name, method]
                found = {"seconds": seconds_of(lambda fit=fit, R=R, settings=settings: fit(R, **settings))}
        if found:
            line = {"data": name, "method": method, "kind": "time"} | found
            with arguments.log.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


def table(arguments):
    lines = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    print("| data | method | NDCG@10 | recall@20 | seconds | settings |\n|---|---|---|---|---|---|")
    for one in (line for line in lines if line["kind"] == "test"):
        settings = ", ".join(f"{key} {value:.3g}" for key, value in one.get("settings", {}).items())
        seconds = f"{one['seconds']:.2f}" if "seconds" in one else ""
        print(f"| {one['data']} | {one['method']} | {one['ndcg10']:.4f} | {one['recall20']:.4f} | {seconds} | {settings} |")
    print("\n| data | method | seconds | at its settings | settings tried | to recommend |\n|---|---|---|---|---|---|")
    for one in (line for line in lines if line["kind"] == "time"):
        more = (f"{one[key]:.2f}" if key in one else "" for key in ("once", "tried", "recommend"))
        print(f"| {one['data']} | {one['method']} | {one['seconds']:.2f} | {' | '.join(more)} |")
    print("\n| data | method | sweeps | seconds | recall@20 |\n|---|---|---|---|---|")
    for one in (line for line in lines if line["kind"] == "path"):
        print(f"| {one['data']} | {one['method']} | {one['sweeps']} | {one['seconds']:.2f} | {one['recall20']:.4f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("data", nargs="+", choices=("ml-100k", "ml-1m", "filmtrust", "gowalla"))
    running.add_argument("--folder", type=Path, required=True)
    running.add_argument("--log", type=Path, required=True)
    running.add_argument("--methods", nargs="+", default=["popularity", "default", "lorank"])
    running.add_argument("--path", action="store_true", help="also recall after some sweeps")
    running.set_defaults(run=run)
    timing = commands.add_parser("time")
    timing.add_argument("data", nargs="+", choices=("ml-100k", "ml-1m", "filmtrust", "gowalla"))
    timing.add_argument("--folder", type=Path, required=True)
    timing.add_argument("--log", type=Path, required=True)
    timing.add_argument("--methods", nargs="+", default=["lorank", "default", "ratings"])
    timing.set_defaults(run=take_time)
    showing = commands.add_parser("table")
    showing.add_argument("--log", type=Path, required=True)
    showing.set_defaults(run=table)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
