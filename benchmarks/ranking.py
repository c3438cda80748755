"""Recommendations: lorank and its peers on the same splits.

    python benchmarks/ranking.py compare --log orders.jsonl [--sets ml-100k ...] [--methods als ...] [--seeds 0 1 2]
    python benchmarks/ranking.py report --log orders.jsonl
    python benchmarks/ranking.py run DATA... --folder FOLDER --log ranking.jsonl --methods lorank implicit cmfrec
    python benchmarks/ranking.py time DATA... --folder FOLDER --log ranking.jsonl --methods lorank default ratings
    python benchmarks/ranking.py table --log ranking.jsonl

DATA: ``ml-100k`` and ``ml-1m`` (their folders in FOLDER; ratings of 4 and more are positives), ``filmtrust``
(``filmtrust.txt``: user, item and rating; 3 and more), ``gowalla`` (``gowalla_adj.npz`` and ``gowalla_test.txt`` with its
published split). 20 % of each user's positives are held out for the test; settings are chosen on 10 % of the rest, and the test
is looked at once. ``time`` measures single fits at the settings of the log, and fits that choose their own; ``ratings`` and
``cmfrec-ratings`` are the models of ratings (all of them, with defaults). A method runs where its package is installed: call
the script with several Pythons and one log. One thread: OMP_NUM_THREADS=1.

``compare`` runs the data of ranking_data.py (in the folder LORANK_RANKING): lorank's defaults and orders, implicit's ALS and
item neighborhoods, EASE in NumPy and ELSA, three splits each, random or by time. Peers are tuned on 10 % of the training data
of the first split. ``report`` prints the tables of docs/benchmarks/ranking.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import ranking_data
from lorank.backends import get_backend
from lorank.backends.top_k import rows_of, top_columns, top_scores
from lorank.evaluation import HeldOutItems, Popularity, leave_last_out, leave_some_out, ranking_scores

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
    data = ranking_data.positives(name)
    return data.users, data.items, leave_some_out(data.users, 0.2, seed=0)


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

    def of_scores(self, scores):
        """The same for a function from users to the scores of all items."""
        seen, shape = rows_of(self.R.indptr, self.R.indices, self.rows), (len(self.rows), self.shape[1])
        block = lambda part: scores(self.rows[part.start : part.stop])  # noqa: E731
        return self.of_lists(top_scores(get_backend(), block, shape, 20, seen=seen, never=self.counts == 0)[0])

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


def seconds_of(function, times=3):
    """The least of some, in processor time."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        function()
        found.append(time.process_time() - begin)
    return min(found)


def rating_seconds(method, name):
    """What a model of ratings takes with its defaults, and (lorank) what comes on top when it is first asked to recommend."""
    data = ranking_data.load(name)
    pairs, values = np.column_stack([data.users, data.items]), data.values
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
            found = {} if name == "gowalla" else rating_seconds(method, name)
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


# -- many sets, one run ---------------------------------------------------------------------------------------------------
SPLITS = (  # the sets that no choice was made on are those of ranking_data.TEST
    *((name, "random") for name in ("ml-100k", "filmtrust", "ml-1m", "msweb", "lastfm", "citeulike-a")),
    *((name, "temporal") for name in ("ml-1m", "toys", "beauty", "video", "movietweetings")),
)
RATINGS = ("ml-100k", "filmtrust", "movietweetings", "jester", "made")  # sets of ratings for the order of MatrixCompletion
SEEDS = (0, 1, 2)
MAX_NUMPY_ITEMS, MAX_ELSA_CELLS = 18_000, 300_000_000
EASE_GRIDS = ((20.0, 50.0, 100.0, 200.0, 400.0, 800.0), (10.0, 30.0, 100.0))  # up to 8,000 items, and beyond
ELSA_BATCH, ELSA_STEPS = 256, 600  # users of a batch, and steps of the longest fit that is tried: 10 to 40 epochs


def split(name, kind, seed):
    """Training and test data of a set, counts where there are any."""
    data = ranking_data.positives(name)
    if kind == "temporal":
        out = leave_last_out(data.users, data.times, 0.2, seed=seed)
    else:
        out = leave_some_out(data.users, 0.2, seed=seed)
    counts = data.values if name == "lastfm" else np.ones(len(out))
    return data.users, data.items, counts, out, (int(data.users.max()) + 1, int(data.items.max()) + 1)


def judged(name, kind, seed):
    """The data for the test, and a tenth of the training data held out for the choice of settings."""
    users, items, _, out, shape = split(name, kind, seed)
    inner = leave_some_out(users[~out], 0.1, seed=1)
    return Data(users, items, out, shape), Data(users[~out], items[~out], inner, shape, JUDGES)


def cpu(function):
    """What a function returns, and its CPU seconds."""
    begin = time.process_time()
    found = function()
    return found, time.process_time() - begin


def own_lines(name, kind, seed):
    """The default and its factors, a factor model of rank 64 and what its settings alone take, EASE, popularity."""
    import lorank

    users, items, counts, out, shape = split(name, kind, seed)
    test = Data(users, items, out, shape)
    R = scipy.sparse.csr_array((counts[~out], (users[~out], items[~out])), shape)
    lists = lambda model, by="auto": test.of_lists(model.recommend(test.rows, 20, by=by).items)  # noqa: E731
    model, seconds = cpu(lambda: lorank.ImplicitFactorization().fit(R))
    tried = [vars(one) for one in model.orders_]
    yield {"method": "default", "cpu": seconds, "order": model.order_, "rank": model.rank_, "orders": tried} | lists(model)
    yield {"method": "default, by factors"} | lists(model, "affinity")
    model, seconds = cpu(lambda: lorank.ImplicitFactorization(rank=K).fit(R))
    yield {"method": "factors, rank 64", "cpu": seconds} | lists(model)
    given = {"rank": K, "zeros": model.zeros_, "regularization": model.regularization_, "max_iter": model.n_iter_}
    yield {"method": "factors, settings given", "cpu": cpu(lambda: lorank.ImplicitFactorization(**given).fit(R))[1]}
    model, seconds = cpu(lambda: lorank.EASE().fit(R))
    about = {"regularization": model.regularization_, "neighbors": model.neighbors_}
    yield {"method": "EASE", "cpu": seconds} | about | lists(model)
    yield {"method": "popularity"} | test.of_lists(Popularity(*test.R.nonzero(), shape[1]).recommend(test.rows, 20)[0])


def knn_lines(name, kind, seed):
    from implicit.nearest_neighbours import CosineRecommender

    test, _ = judged(name, kind, seed)
    model = CosineRecommender(K=100, num_threads=1)
    _, seconds = cpu(lambda: model.fit(scipy.sparse.csr_matrix(test.R), show_progress=False))
    B = scipy.sparse.csr_array(model.similarity).astype(np.float32)
    B.setdiag(0)  # an item is no neighbor of itself
    yield {"method": "item-KNN (implicit)", "cpu": seconds} | test.of_scores(lambda some: (test.R[some] @ B).toarray())


def als_lines(name, kind, seeds):
    """ALS of implicit: strength and weight first, then the number of factors."""
    from implicit.als import AlternatingLeastSquares

    def fit(R, alpha, regularization, factors=K):
        options = {"use_cg": True, "num_threads": 1, "random_state": 0, "iterations": 15}
        model = AlternatingLeastSquares(factors=factors, regularization=regularization, alpha=alpha, **options)
        model.fit(R, show_progress=False)
        return np.asarray(model.user_factors), np.asarray(model.item_factors)

    _, part = judged(name, kind, seeds[0])
    grid = [{"alpha": a, "regularization": r} for a in (1.0, 4.0, 16.0) for r in (0.1, 1.0, 10.0, 80.0)]
    tried = [(part.scores(*fit(part.R, **one))["ndcg10"], one) for one in grid]
    for factors in (128, 256):
        one = max(tried, key=lambda pair: pair[0])[1] | {"factors": factors}
        tried.append((part.scores(*fit(part.R, **one))["ndcg10"], one))
    settings = max(tried, key=lambda pair: pair[0])[1]
    for seed in seeds:
        test, _ = judged(name, kind, seed)
        sides, seconds = cpu(lambda test=test: fit(test.R, **settings))
        yield {"method": "implicit ALS, tuned", "seed": seed, "cpu": seconds, "settings": settings} | test.scores(*sides)


def ease_lines(name, kind, seeds):
    """EASE by LAPACK, with the matrix of all items."""

    def fit(R, regularization):
        P = (R.T @ R).toarray()
        P[np.diag_indices_from(P)] += np.float32(regularization)
        factor, _ = scipy.linalg.lapack.spotrf(P.T, lower=0, overwrite_a=1)
        inverse, _ = scipy.linalg.lapack.spotri(factor, lower=0, overwrite_c=1)
        B = np.triu(inverse, 1)
        B += B.T
        B /= -np.diag(inverse)
        return B

    _, part = judged(name, kind, seeds[0])
    if part.shape[1] > MAX_NUMPY_ITEMS:
        return
    tried = []
    for regularization in EASE_GRIDS[part.shape[1] > 8000]:
        B = fit(part.R, regularization)
        tried.append((part.of_scores(lambda some, B=B: part.R[some] @ B)["ndcg10"], regularization))
    settings = {"regularization": max(tried)[1]}
    for seed in seeds:
        test, _ = judged(name, kind, seed)
        B, seconds = cpu(lambda test=test: fit(test.R, **settings))
        found = test.of_scores(lambda some, B=B, test=test: test.R[some] @ B)
        yield {"method": "EASE (NumPy), tuned", "seed": seed, "cpu": seconds, "settings": settings} | found


def elsa_lines(name, kind, seed):
    """ELSA of its authors, 256 dimensions; the number of epochs is tuned."""
    import torch
    from elsa import ELSA

    def fits(R, epochs):
        torch.manual_seed(0)
        model = ELSA(n_items=R.shape[1], n_dims=256, device=torch.device("cpu"))
        for _ in range(epochs):
            model.fit(R, batch_size=ELSA_BATCH, epochs=1, shuffle=True, verbose=False)
            A = torch.nn.functional.normalize(model.get_items_embeddings(as_numpy=False), dim=-1).detach().numpy()
            yield A

    test, part = judged(name, kind, seed)
    if test.shape[0] * test.shape[1] > MAX_ELSA_CELLS:
        return
    dot = lambda data, A: data.of_scores(lambda some: (data.R[some] @ A) @ A.T)  # noqa: E731
    most = min(max(ELSA_STEPS * ELSA_BATCH // part.shape[0], 10), 40)
    tried = [dot(part, A)["ndcg10"] for A in fits(part.R, most)]
    epochs = int(np.argmax(tried)) + 1
    found, seconds = cpu(lambda: list(fits(test.R, epochs))[-1])
    yield {"method": "ELSA, tuned", "cpu": seconds, "settings": {"epochs": epochs}} | dot(test, found)


def rating_lines(name, _, seed):
    """MatrixCompletion: every order against held-out ratings of at least the threshold."""
    import lorank

    if name == "made":
        pairs, values = ranking_data.made_ratings(seed)
        least = float(np.quantile(values, 0.8))
    else:
        data = ranking_data.load(name)
        pairs, values, least = np.column_stack([data.users, data.items]), data.values, ranking_data.POSITIVE[name]
    out = leave_some_out(pairs[:, 0], 0.2, seed=seed)
    shape = tuple(int(n) for n in pairs.max(0) + 1)
    model = lorank.MatrixCompletion(shape=shape, random_state=seed, handle_unknown="ignore")
    _, fitting = cpu(lambda: model.fit(pairs[~out], values[~out]))
    _, ranking = cpu(model.fit_ranking)
    wanted = out & (values >= least)
    held = HeldOutItems.from_pairs(*pairs[wanted].T, shape[0])
    rows = np.flatnonzero(held.counts)
    some, counts = HeldOutItems(*rows_of(held.indptr, held.items, rows)), np.bincount(pairs[~out, 1], minlength=shape[1])
    for by in ("auto", "rating", *model.state_.ranking.orders):
        found = ranking_scores(model.recommend(rows, 20, by=by).items, some, counts, shape[0], 10)
        about = {"cpu": fitting, "ranking_cpu": ranking, "order": model.order_} if by == "auto" else {}
        yield {"method": by, "ndcg10": found.ndcg} | about


def task(name, kind, function, seeds):
    """The lines of one task, written by the main process."""
    about = {"data": name, "split": kind}
    try:
        if function in (als_lines, ease_lines):
            return [about | line for line in function(name, kind, seeds)]
        return [about | {"seed": seed} | line for seed in seeds for line in function(name, kind, seed)]
    except ImportError as error:
        return [about | {"method": function.__name__, "missing": str(error)}]


def compare_all(arguments):
    seeds = tuple(arguments.seeds)
    pairs = list(reversed(SPLITS))  # the largest first
    tasks = [(*pair, ease_lines, seeds) for pair in pairs]
    tasks += [(*pair, f, [seed]) for pair in pairs for seed in seeds for f in (own_lines, knn_lines)]
    tasks += [(name, "ratings", rating_lines, [seed]) for name in RATINGS for seed in seeds]
    tasks += [(*pair, als_lines, seeds) for pair in pairs] + [(*pair, elsa_lines, seeds[:1]) for pair in pairs]
    tasks = [one for one in tasks if one[0] in arguments.sets and one[2].__name__.split("_")[0] in arguments.methods]
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.processes) as pool, arguments.log.open("a") as log:
        waiting = {pool.submit(task, *one): one for one in tasks}
        for done in as_completed(waiting):
            name, kind, function, _ = waiting[done]
            if done.exception() is not None:
                print(f"{name} {kind} {function.__name__}: {done.exception()!r}", flush=True)
                continue
            for line in done.result():
                log.write(json.dumps(line) + "\n")
                log.flush()
            print(f"{name} {kind} {function.__name__}: done after {time.perf_counter() - begin:.0f} s", flush=True)


# the default is compared with the best of these
RIVALS = ("default, by factors", "factors, rank 64", "EASE", "item-KNN (implicit)", "popularity", "EASE (NumPy), tuned")
METHODS = ("default", *RIVALS, "ELSA, tuned", "implicit ALS, tuned")


def report(arguments):
    lines = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    cells = {}
    for one in lines:
        cells.setdefault((one["data"], one["split"], one["method"]), []).append(one)

    def mean(key, quantity):
        """Over the splits of the default, where there are any."""
        seeds = {one["seed"] for one in cells.get((*key[:2], "default"), [])} or set(SEEDS)
        found = [one[quantity] for one in cells.get(key, []) if quantity in one and one["seed"] in seeds]
        return float(np.mean(found)) if found else np.nan

    def shown(value, digits):
        return "" if np.isnan(value) else f"{value:.{digits}f}"

    for quantity in ("ndcg10", "recall20"):
        print(f"\n{quantity}\n| data | split | seeds | {' | '.join(METHODS)} | default / best of the next six |")
        print(f"|{'---|' * (len(METHODS) + 4)}")
        ratios = {}
        for name, kind in SPLITS:
            values = [mean((name, kind, method), quantity) for method in METHODS]
            ratios[name, kind] = values[0] / np.nanmax(values[1 : 1 + len(RIVALS)])
            n = len(cells.get((name, kind, "default"), []))
            print(f"| {name} | {kind} | {n} | {' | '.join(shown(v, 4) for v in values)} | {ratios[name, kind]:.3f} |")
        unseen = [r for (name, _), r in ratios.items() if name in ranking_data.TEST]
        print(f"median of all {np.nanmedian(list(ratios.values())):.3f}, of those without a choice {np.nanmedian(unseen):.3f}")
    print("\n| data | split | order | default | rank 64 | ratio | settings given | EASE | EASE (NumPy) | ELSA | implicit ALS |")
    print(f"|{'---|' * 11}")
    for name, kind in SPLITS:
        seconds = [
            mean((name, kind, m), "cpu") for m in ("default", "factors, rank 64", "factors, settings given", *METHODS[3:4])
        ]
        peers = [mean((name, kind, m), "cpu") for m in METHODS[-3:]]
        orders = ", ".join(sorted({f"{one['order']} ({one['rank']})" for one in cells.get((name, kind, "default"), [])}))
        text = [shown(seconds[0], 2), shown(seconds[1], 2), shown(seconds[0] / seconds[1], 1)]
        print(f"| {name} | {kind} | {orders} | {' | '.join([*text, *(shown(v, 2) for v in (*seconds[2:], *peers))])} |")
    ways = ("auto", "rating", "affinity", "similarity", "popularity")
    print(f"\n| ratings | selected | {' | '.join(ways)} | fit, s | order, s |\n|{'---|' * (len(ways) + 4)}")
    for name in RATINGS:
        orders = ", ".join(sorted({one["order"] for one in cells.get((name, "ratings", "auto"), [])}))
        values = [shown(mean((name, "ratings", way), "ndcg10"), 4) for way in ways]
        seconds = [shown(mean((name, "ratings", "auto"), one), 2) for one in ("cpu", "ranking_cpu")]
        print(f"| {name} | {orders} | {' | '.join([*values, *seconds])} |")


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
    comparing = commands.add_parser("compare")
    comparing.add_argument("--log", type=Path, required=True)
    comparing.add_argument(
        "--sets", nargs="+", default=[*ranking_data.READERS, "made"], help="of ranking_data.py; all by default"
    )
    comparing.add_argument("--methods", nargs="+", default=["own", "knn", "rating", "als", "ease", "elsa"])
    comparing.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    comparing.add_argument("--processes", type=int, default=os.cpu_count())
    comparing.set_defaults(run=compare_all)
    reporting = commands.add_parser("report")
    reporting.add_argument("--log", type=Path, required=True)
    reporting.set_defaults(run=report)
    showing = commands.add_parser("table")
    showing.add_argument("--log", type=Path, required=True)
    showing.set_defaults(run=table)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
