"""One BLAS thread during the work of every public entry point, seen from the functions that it calls."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lorank as lr
from lorank.common.blas_threads import limit_blas_threads, one_blas_thread
from lorank.evaluation import HeldOutItems, Popularity, compare

threadpoolctl = pytest.importorskip("threadpoolctl")
WORK = tuple(f"{os.sep}lorank{os.sep}{room}{os.sep}" for room in ("factorization", "tables", "geometry", "solvers", "loop"))


def blas_threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield
        assert blas_threads() == {2}  # restored


def threads_inside(function, *args, rooms=WORK, **options):
    """Numbers of BLAS threads during calls of functions in these rooms, by name of the function."""
    controllers = [one for one in threadpoolctl.ThreadpoolController().lib_controllers if one.user_api == "blas"]
    seen: dict[int, set] = {}

    def look(frame, event, _):
        if event == "call" and any(room in frame.f_code.co_filename for room in rooms):
            for one in controllers:
                seen.setdefault(one.num_threads, set()).add(frame.f_code.co_qualname)

    sys.setprofile(look)
    try:
        function(*args, **options)
    finally:
        sys.setprofile(None)
    return seen


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((40, 30)) < 0.4)
    return pairs, rng.standard_normal(len(pairs))


@pytest.fixture(scope="module")
def model(ratings):
    return lr.MatrixCompletion(rank=2, ranking=True, intervals=True).fit(*ratings)


@pytest.fixture(scope="module")
def implicit(ratings):
    return lr.ImplicitFactorization(rank=4).fit(ratings[0])


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("entry", ["fit", "partial_fit", "fit_ranking", "predict", "predict_interval", "fold_in", "recommend"])
def test_matrix_completion_works_with_one_thread(entry, model, ratings):
    pairs, values = ratings
    arguments = {
        "fit": ratings,
        "partial_fit": (pairs[:5], values[:5]),
        "fit_ranking": (),
        "fold_in": ([0, 1], [1.0, 2.0]),
        "recommend": ([0, 1],),
    }
    assert set(threads_inside(getattr(model, entry), *arguments.get(entry, (pairs,)), rooms=(*WORK, "ratings_state"))) == {1}


@pytest.mark.parametrize("entry", ["fit", "partial_fit", "predict", "recommend", "recommend_for", "similar_items", "explain"])
def test_implicit_factorization_works_with_one_thread(entry, implicit, ratings):
    pairs = ratings[0]
    arguments = {"recommend": ([0],), "recommend_for": ([0, 1],), "similar_items": (0,), "explain": (0, 1)}
    rooms = (*WORK, "implicit_recommendation", "inputs")
    assert set(threads_inside(getattr(implicit, entry), *arguments.get(entry, (pairs[:200],)), rooms=rooms)) == {1}


@pytest.mark.parametrize("method", ["auto", "low-rank"])
def test_table_imputer_works_with_one_thread(method, table):
    imputer = lr.TableImputer(method=method)
    assert set(threads_inside(imputer.fit, table)) == {1}
    assert set(threads_inside(imputer.transform, table)) == {1}


def test_evaluation_works_with_one_thread(model, ratings):
    pairs, _ = ratings
    held = HeldOutItems.from_pairs(pairs[:, 0], pairs[:, 1], 40)
    models = {"model": model, "popularity": Popularity(*pairs.T, n_items=30)}
    counts = np.bincount(pairs[:, 1], minlength=30)
    assert set(threads_inside(compare, models, held, counts, 40, rooms=("ranking_metrics",))) == {1}
    assert set(
        threads_inside(lr.diagnose, lr.Completion(*pairs.T, ratings[1], (40, 30)), 2, rooms=("truncated", "losses"))
    ) <= {1}


def test_solve_works_with_one_thread():
    problem, _ = lr.datasets.random_completion(40, 30, 2, oversampling=5)
    assert set(
        threads_inside(lr.solve, problem, 2, rooms=("truncated_svd", "tangent", "rank_growth", "completion_gradient"))
    ) == {1}


def test_decorated_functions_return_raise_and_restore():
    @one_blas_thread
    def double(x, *, fail=False):
        """Twice x."""
        if fail:
            raise KeyError("asked for")
        return 2 * x, blas_threads()

    assert double(3) == (6, {1})
    assert double.__doc__ == "Twice x."
    with pytest.raises(KeyError):
        double(3, fail=True)
    assert blas_threads() == {2}


def test_decorated_classes_keep_private_methods_and_properties():
    @one_blas_thread
    class Model:
        def public(self):
            return blas_threads()

        def _private(self):
            return blas_threads()

        @property
        def attribute(self):
            return blas_threads()

    model = Model()
    assert (model.public(), model._private(), model.attribute) == ({1}, {2}, {2})


def test_the_limit_holds_until_the_last_of_several_threads_has_left():
    first, second = limit_blas_threads(1), limit_blas_threads(1)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(first.__enter__).result()
        other.submit(second.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        assert blas_threads() == {1}
        other.submit(second.__exit__, None, None, None).result()
    assert blas_threads() == {2}


def test_solves_at_the_same_time_give_the_bits_of_single_ones():
    problems = [lr.datasets.random_completion(150, 120, 3, oversampling=2 + k, seed=k)[0] for k in range(3)]
    alone = [lr.solve(problem, 3, "rcg").X for problem in problems]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda k: lr.solve(problems[k % 3], 3, "rcg").X, range(12)))
    for k, X in enumerate(together):
        np.testing.assert_array_equal(X.U, alone[k % 3].U)
