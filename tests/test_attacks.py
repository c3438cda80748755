"""Malformed calls of the public names: each is refused by a ValueError or TypeError that names the argument, or works.

Every parameter of every call below is replaced by each piece of junk in turn. What must never come out is a warning of NumPy's,
or an OverflowError, IndexError, ZeroDivisionError, AttributeError and the like from somewhere inside.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse

import lorank as lr


class Call(NamedTuple):
    """A call that works, the arguments to replace, and other words that a message may use for one of them."""

    function: Callable[..., Any]
    good: dict[str, Any]
    words: dict[str, str]


RNG = np.random.default_rng(0)
ROWS, COLS = (a.ravel() for a in np.indices((6, 5)))
TRUTH = lr.FixedRank.from_factors(RNG.random((6, 2)) + 0.5, RNG.random((5, 2)) + 0.5)
VALUES = TRUTH.entries(ROWS, COLS)
PROBLEM = lr.Completion(ROWS, COLS, VALUES, (6, 5), backend="numpy")
A, SIGNAL = RNG.standard_normal((40, 6)), RNG.standard_normal(6)
SENSING = RNG.standard_normal((40, 6, 5))
TABLE = np.where(RNG.random((12, 5)) < 0.2, np.nan, RNG.standard_normal((12, 5)))

JUNK: dict[str, Any] = {
    "None": None,
    "True": True,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "1e30": 10**30,
    "1e400": 10**400,
    "2^31-1": 2**31 - 1,
    "1j": 1j,
    "text": "abc",
    "no text": "",
    "bytes": b"abc",
    "empty list": [],
    "empty lists": [[]],
    "ragged": [[1.0], [1.0, 2.0]],
    "empty tuple": (),
    "pair of inf": (math.inf, 3),
    "pair of nan": (math.nan, 3),
    "huge pair": (2**31 - 1, 2**31 - 1),
    "beyond pair": (10**30, 3),
    "dict": {},
    "object": object(),
    "function": lambda *_: None,
    "class": int,
    "0-d": np.array(1.0),
    "empty": np.zeros(0),
    "empty 2-d": np.zeros((0, 3)),
    "3-d": np.ones((2, 2, 2)),
    "texts": np.array(["a", "b"]),
    "objects": np.array([object(), None], dtype=object),
    "complex": np.full(30, 1 + 1j),
    "complex 2-d": np.full((6, 5), 1 + 1j),
    "nans": np.full(30, np.nan),
    "infs": np.full((6, 5), np.inf),
    "masked": np.ma.masked_array(np.ones(30), np.arange(30) % 2),
    "halves": np.full(30, 60000, np.float16),
    "large": np.full(30, 2**62),
    "unsigned": np.full(30, 2**63 + 1, np.uint64),
    "tiny": np.full(30, 5e-324),
    "vast": np.full(30, 1e308),
    "dates": np.full(30, np.datetime64("2020-01-01")),
    "sparse complex": scipy.sparse.coo_array((np.array([1j, 2.0]), ([0, 1], [1, 0])), shape=(6, 5)),
    "sparse empty": scipy.sparse.coo_array((6, 5)),
    "sparse vector": scipy.sparse.coo_array(np.ones(5)),
}


def solved(**options: Any) -> lr.Result:
    return lr.solve(**options)


@functools.cache
def fitted() -> Any:
    return lr.MatrixCompletion(1, 1.0, max_iter=2).fit(np.column_stack([ROWS, COLS]), VALUES)


def estimator(kind: str, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
    model = getattr(lr, kind)(**{"rank": 1, "regularization": 1.0, "max_iter": 2, **options})
    return model.fit(X, y, sample_weight) if kind == "MatrixCompletion" else model.fit(X)


PAIRS = np.column_stack([ROWS, COLS])
COMPLETION = {"rows": ROWS, "cols": COLS, "values": VALUES, "shape": (6, 5), "duplicates": "error", "precision": "auto"}
CALLS: dict[str, Call] = {
    "Completion": Call(lr.Completion, {**COMPLETION, "weights": np.ones(30), "backend": "numpy"}, {}),
    "from_sparse": Call(lr.Completion.from_sparse, {"S": scipy.sparse.coo_array(TABLE[:3] ** 0)}, {"S": "sparse|observ"}),
    "from_dense": Call(lr.Completion.from_dense, {"a": np.ones((6, 5))}, {"a": "array|matrix|observations|values"}),
    "Sensing": Call(
        lr.Sensing, {"A": SENSING, "y": np.ones(40), "shape": (6, 5), "operator_scale": 1.0, "backend": "numpy"}, {}
    ),
    "PhaseRetrieval": Call(
        lr.PhaseRetrieval, {"A": A, "y": (A @ SIGNAL) ** 2, "row_norms": "auto", "seed": 0, "backend": "numpy"}, {}
    ),
    "from_factors": Call(lr.FixedRank.from_factors, {"left": np.ones((6, 2)), "right": np.ones((5, 2)), "rank": 1}, {}),
    "FixedRank.from_dense": Call(lr.FixedRank.from_dense, {"a": np.ones((6, 5)), "rank": 1}, {"a": "matrix"}),
    "semidefinite": Call(lr.FixedRank.semidefinite, {"factor": np.ones((6, 2)), "rank": 1}, {}),
    "zero": Call(lr.FixedRank.zero, {"shape": (6, 5), "rank": 1, "dtype": float}, {}),
    "entries": Call(TRUTH.entries, {"rows": ROWS, "cols": COLS}, {}),
    "to_dense": Call(TRUTH.to_dense, {"limit": 100}, {}),
    "solve": Call(
        solved,
        {
            "problem": PROBLEM, "rank": 2, "solver": "rcg", "tol": 1e-3, "max_iter": 3, "start": "spectral", "stop": None,
            "callbacks": (), "seed": 0, "checkpoint": None, "checkpoint_every": 1.0, "device": None,
        },
        {},
    ),
    "diagnose": Call(lr.diagnose, {"problem": PROBLEM, "rank": 1, "duplicates": 0}, {"problem": "observations|diagnose"}),
    "phase_distance": Call(lr.phase.phase_distance, {"x": SIGNAL, "truth": -SIGNAL}, {"x": "signal"}),
    "load": Call(lr.load, {"path": "no-such-file"}, {"path": "does not exist|cannot be read|abc"}),
    "dot_test": Call(lr.testing.dot_test, {"problem": PROBLEM, "rank": 1, "seed": 0, "rtol": 1.0}, {}),
    "sample_pattern": Call(lr.datasets.sample_pattern, {"rng": RNG, "shape": (6, 5), "m": 3}, {}),
    "random_completion": Call(
        lr.datasets.random_completion,
        {
            "n1": 6, "n2": 5, "rank": 1, "oversampling": 2.0, "factors": "uniform", "spread": 0.1, "noise": 0.0,
            "dtype": float, "seed": 0,
        },
        {},
    ),
    "random_phase": Call(lr.datasets.random_phase, {"n": 5, "m": 20, "noise": 0.1, "dtype": float, "seed": 0}, {}),
    "random_diffraction": Call(lr.datasets.random_diffraction, {"signal": 5, "masks": 3, "noise": 0.0, "seed": 0}, {}),
    "MatrixCompletion": Call(
        functools.partial(estimator, "MatrixCompletion"),
        {
            "X": PAIRS, "y": VALUES, "sample_weight": np.ones(30), "rank": 1, "regularization": 1.0, "penalty": "nuclear",
            "count_scaling": 0.0, "bounds": None, "solver": "auto", "holdout": 0.1, "cv": 1, "shape": None, "tol": 1e-2,
            "max_iter": 2, "random_state": 0, "nonnegative": False,
        },
        {
            "X": "pairs|index|indices|sample|features|array|y to be passed|sparse|Complex data|infinity|number",
            "y": "values|Complex data|sample", "random_state": "seed|Seed",
        },
    ),
    "sparse ratings": Call(
        functools.partial(estimator, "MatrixCompletion"),
        {"X": scipy.sparse.coo_array(np.outer(np.arange(1, 7), np.arange(1.0, 6)))},
        {"X": "pairs|index|sample|features|array|requires y|y to be passed|Complex data|observations|sparse"},
    ),
    "predict": Call(
        lambda X: fitted().predict(X),
        {"X": PAIRS},
        {"X": "pairs|index|features|array|sparse|sample|Complex data|infinity|number"},
    ),
    "fold_in": Call(lambda cols, values: fitted().fold_in(cols, values), {"cols": [0, 1], "values": [1.0, 2.0]}, {
        "cols": "column", "values": "fold_in|Complex data|Input y|requires y",
    }),
    "recommend": Call(lambda rows, n, by: fitted().recommend(rows, n, by=by), {"rows": [0, 1], "n": 2, "by": "rating"}, {}),
    "low-rank imputer": Call(
        lambda X, **options: lr.TableImputer(**options).fit(X).transform(X),
        {"X": TABLE, "method": "low-rank", "rank": 1, "regularization": 1.0},
        {"X": "array|sample|feature|Complex data|sparse|Sparse|column|infinity|number|string"},
    ),
    "TableImputer": Call(
        lambda X, **options: lr.TableImputer(**options).fit(X).transform(X),
        {"X": TABLE, "method": "auto", "time": None, "refine": "auto", "fit_rows": 10, "random_state": 0},
        {"X": "array|sample|feature|Complex data|sparse|Sparse|column|infinity|number|string", "random_state": "seed|Seed"},
    ),
    "TensorImputer": Call(
        lambda X, **options: lr.TensorImputer(**options).fit(X).transform(X),
        {"X": np.arange(60.0).reshape(5, 4, 3), "rank": 1, "method": "auto", "holdout": 0.1, "n_samples": 2, "random_state": 0},
        {"X": "observed entry", "random_state": "seed|Seed"},
    ),
    "TensorImputer of keys": Call(
        lambda keys, values: lr.TensorImputer(rank=1, n_samples=2).fit_entries(keys, values),
        {"keys": np.argwhere(np.ones((3, 2, 2))), "values": np.arange(12.0)},
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_call_itself_works(name):
    call = CALLS[name]
    if name != "load":
        call.function(**call.good)


@pytest.mark.parametrize(("name", "parameter"), [(name, p) for name, call in CALLS.items() for p in call.good])
def test_junk_is_refused_by_name(name, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, wrong = CALLS[name], []
    for label, junk in JUNK.items():
        if (name, label) == ("zero", "huge pair"):
            continue  # it makes what it is asked for, where memory allows
        problem = attack(call, parameter, junk)
        if problem:
            wrong.append(f"{parameter}={label}: {problem}")
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def attack(call: Call, parameter: str, junk: Any) -> str:
    """What is wrong with how a call takes a piece of junk; an empty string where nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the library's own; those of NumPy are of other categories
        try:
            call.function(**(call.good | {parameter: junk}))
        except (ValueError, TypeError, NotImplementedError) as error:
            if isinstance(error, np.linalg.LinAlgError):
                return f"LinAlgError: {error}"
            text = str(error)
            words = f"{parameter}|{call.words.get(parameter, parameter)}"
            return "" if re.search(words, text) else f"{type(error).__name__} names nothing: {text[:150]}"
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:150]}"
    return ""
