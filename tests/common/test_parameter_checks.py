"""Every parameter of every solver, metric, step rule, start and stopping rule is checked where it enters."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import lorank as lr
from lorank import metrics, solvers, starts
from lorank.common.checks import (
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SHAPE,
    SHARE,
    between,
    check,
    counted,
    did_you_mean,
    one_of,
    whole,
)
from lorank.factorization.als import RegularizedALS
from lorank.factorization.variational import VariationalALS
from lorank.loop import steps, stopping
from lorank.phase import AutoPhase, Fisher, MessagePassing, SignalCG
from lorank.plans import Auto
from lorank.robust import Robust, SmoothingSchedule, Thresholds

NAN, INF = math.nan, math.inf
TRUTH = lr.FixedRank.zero((3, 2), 1, float)
NO_NUMBERS = [NAN, True, "1", None, 1j, [1.0], np.ones(2), object]


@pytest.mark.parametrize(
    ("expected", "good", "bad"),
    [
        (NUMBER, [-1, 0.5, np.float32(2), np.int8(3)], [INF, 10**400]),
        (POSITIVE, [1, 1e-300, np.float64(2)], [0, -1, INF]),
        (NOT_NEGATIVE, [0, 0.0, 3], [-1e-300, INF]),
        (SHARE, [0.5, np.float32(0.1)], [0, 1, 2, -INF]),
        (between(0, 2), [1, 1.99], [0, 2]),
        (between(0, 2, closed=True), [0, 2], [-0.1, 2.1]),
        (between(0, 2, closed_above=True), [0.1, 2], [0, 2.1]),
        (whole(1), [1, np.int64(5), 10**30], [0, 1.0, INF, np.float64(2)]),
        (whole(1, infinite=True), [1, INF], [0, 1.5, -INF]),
    ],
)
def test_what_is_expected(expected, good, bad):
    for value in good:
        check("x", value, expected)
    for value in (*bad, *NO_NUMBERS):
        with pytest.raises(ValueError, match=r"^x must .*, got "):
            check("x", value, expected)


def test_choices_and_shapes():
    check("kind", "a", one_of(("a", "b")))
    for value in ("c", 1, None, ["a"], np.array(["a"])):
        with pytest.raises(ValueError, match="kind must be one of 'a', 'b', got"):
            check("kind", value, one_of(("a", "b")))
    check("shape", (3, np.int64(2)), SHAPE)
    for shape in ((3,), (3, 0), (3, 2.0), (3, True), (INF, 3), "ab", 5, None, (NAN, 1)):
        with pytest.raises(ValueError, match="shape must be a pair of positive integers"):
            check("shape", shape, SHAPE)


def test_a_name_that_is_near():
    with pytest.raises(ValueError, match=r"Did you mean 'nuclear'\?$"):
        check("penalty", "Nucleer", one_of(("nuclear", "frobenius")))
    with pytest.raises(ValueError, match=r"got 'xyz'$"):
        check("penalty", "xyz", one_of(("nuclear", "frobenius")))
    assert did_you_mean("ab", ["AB", "aB", "b"], at_most=2) == ". Did you mean 'AB' or 'aB'?"


def test_messages_stay_short():
    with pytest.raises(ValueError, match="got an array of shape") as error:
        check("x", np.zeros((1000, 10)), POSITIVE)
    assert len(str(error.value)) < 120
    with pytest.raises(ValueError, match=r"\.\.\.$") as error:
        check("x", "y" * 1000, POSITIVE)
    assert len(str(error.value)) < 140


# (class, parameter, values out of range); values of a wrong type are added to each.
NUMBERS = [
    (steps.Constant, "factor", [0, -1, INF]),
    (steps.Exact, "relaxation", [0, 2, -1]),
    (steps.Polyak, "factor", [0, 2, -1]),
    (steps.Polyak, "longest", [0, -1]),
    (metrics.Fixed, "value", [0, -1, INF]),
    (metrics.Median, "factor", [0, -1, INF]),
    (metrics.RelativeMax, "factor", [0, -1, INF]),
    (metrics.FullShampoo, "limit", [0, -1, 2.5]),
    (metrics.Counts, "floor", [0, -1, INF]),
    (metrics.Counts, "uneven", [-1, INF]),
    (metrics.Blocks, "drift", [0, 1, -1]),
    (RegularizedALS, "regularization", [-1, INF]),
    (RegularizedALS, "shrinkage", [-1, INF]),
    (RegularizedALS, "count_scaling", [-1, INF]),
    (VariationalALS, "prior_weight", [-1, INF]),
    (starts.Spectral, "tol", [0, -1, INF]),
    (starts.Spectral, "restarts", [0, -1, 2.5]),
    (starts.Spectral, "depth", [0, -1, 2.5]),
    (starts.Staged, "inner_max_iter", [-1, 2.5]),
    (starts.Continuation, "stall_window", [0, -1, 2.5]),
    (starts.Continuation, "inner_max_iter", [-1, 2.5]),
    (stopping.RelativeResidual, "tol", [-1, INF]),
    (stopping.RelativeChange, "tol", [-1, INF]),
    (stopping.Iterations, "limit", [-1, 2.5]),
    (stopping.Seconds, "limit", [-1]),
    (stopping.Stall, "window", [0, -1, 2.5]),
    (stopping.Stall, "improvement", [-1, 1.5]),
    (stopping.Slowdown, "steps", [0, -1, 2.5]),
    (stopping.Slowdown, "fall", [0, -1, INF]),
    (stopping.Divergence, "factor", [0, -1]),
    (solvers.IHT, "factor", [0, -1, INF]),
    (solvers.IHT, "accuracy", [0, -1, INF]),
    (solvers.NIHT, "factor", [0, -1, INF]),
    (solvers.NIHT, "accuracy", [0, -1, INF]),
    (solvers.GaussNewton, "tol", [0, -1, 1]),
    (solvers.GaussNewton, "inner_max_iter", [0, -1, 2.5]),
    (solvers.GaussNewton, "tries", [0, -1, 2.5]),
    *((kind, "tol", [0, -1, 1]) for kind in (solvers.GNMR, solvers.R2RILS, solvers.RTRMC)),
    *((kind, "inner_max_iter", [0, -1, 2.5]) for kind in (solvers.GNMR, solvers.R2RILS, solvers.RTRMC)),
    (solvers.RTRMC, "regularization", [0, -1, 1]),
    (solvers.RTRMC, "max_radius", [0, -1, INF]),
    (solvers.CGIHT, "accuracy", [0, -1, INF]),
    (solvers.LMaFit, "slow", [0, -1, 1]),
    (solvers.SoftImpute, "regularization", [-1, INF]),
    (solvers.SoftImpute, "rate", [0, -1, 1]),
    (solvers.SoftImpute, "accuracy", [0, -1, INF]),
    (solvers.ALS, "damping", [0, -1, INF]),
    (solvers.ALS, "relaxation", [0, -1, 2, INF]),
    (solvers.RCG, "restart", [1.1, INF]),
    (solvers.Factored, "damping_factor", [-1, INF]),
    (solvers.IRLS, "rate", [0, -1, 1]),
    (solvers.IRLS, "tol", [0, -1, 1]),
    (solvers.IRLS, "inner_max_iter", [0, 2.5]),
    (solvers.IRLS, "extra", [-1, 2.5]),
    (solvers.IRLS, "window", [0, 2.5]),
    (MessagePassing, "damping", [0, -1, 1.1]),
    (MessagePassing, "late", [0, -1, 1.1]),
    (MessagePassing, "near", [-1, INF]),
    (MessagePassing, "patience", [0, 2.5]),
    (Thresholds, "round_end_rate", [0, 1, -1]),
    (Thresholds, "round_max_iter", [0, 2.5]),
    (Thresholds, "limit_quantiles", [0, -1, INF]),
    (Thresholds, "limit_sigmas", [0, -1, INF]),
    (Thresholds, "check_after", [1, 2.5]),
    (SmoothingSchedule, "gain", [-1, INF]),
    (SmoothingSchedule, "window", [0, 2.5]),
    (SmoothingSchedule, "rate", [0, 1]),
    (SmoothingSchedule, "end", [0, 1]),
    (SmoothingSchedule, "first", [0, -1, INF]),
    (solvers.Safeguard, "growth", [0, -1]),
    (solvers.Safeguard, "patience", [0, 2.5]),
    (solvers.Safeguard, "rejections", [0, 2.5]),
    (solvers.Safeguard, "shrink", [0, 1, -1]),
    (solvers.Safeguard, "regrow", [0.9, -1, INF]),
    (solvers.Safeguard, "max_rejections", [0, 2.5, INF]),
    (Auto, "als_min_oversampling", [-1, INF]),
    (Auto, "als_max_rate", [0, 1]),
    (Auto, "refine_below", [0, 1]),
    (Auto, "refine_ratio", [0, 1]),
    (Auto, "refine_max_rank", [-1, 2.5]),
    (Auto, "irls_fast_oversampling", [-1, INF]),
    (Auto, "single_precision_until", [-1, INF]),
    (Auto, "stall_window", [0, 2.5]),
    (Auto, "stall_ratio", [0, 1]),
    (Auto, "trend_window", [0, 2.5]),
    (Auto, "stage_max_iter", [0, 2.5]),
    (Auto, "newton_patience", [0, 2.5]),
    (Auto, "irls_max_attempts", [-1, 2.5]),
    (AutoPhase, "min_oversampling_real", [-1, INF]),
    (AutoPhase, "min_oversampling_complex", [-1, INF]),
    (AutoPhase, "noise_below", [-1, INF]),
    (AutoPhase, "noise_stall_ratio", [0, 1]),
    (AutoPhase, "max_attempts", [-1, 2.5]),
    (SignalCG, "whiten_real", [-1, 2.5]),
    (SignalCG, "whiten_complex", [-1, 2.5]),
    (SignalCG, "sign_fit_below", [-1, INF]),
    (SignalCG, "sign_fit_oversampling", [-1, INF]),
    (SignalCG, "restart", [INF]),
    (SignalCG, "max_halvings", [-1, 2.5]),
    (AutoPhase, "stall_window", [0, 2.5]),
    (AutoPhase, "stall_ratio", [0, 1]),
    (AutoPhase, "refinement_stall_ratio", [0, 1]),
]


@pytest.mark.parametrize(
    ("kind", "name", "values"), NUMBERS, ids=lambda x: getattr(x, "__name__", x if isinstance(x, str) else "")
)
def test_numbers_are_refused_by_name(kind, name, values):
    for value in (*values, NAN, True, "1", None, 1j, np.ones(2), object):
        with pytest.raises(ValueError, match=rf"^{kind.__name__}: {name} must .*, got "):
            kind(**{name: value})


# (class, parameter, what is expected, further wrong values)
OBJECTS = [
    (
        solvers.RGD,
        "metric",
        r"a metric such as lorank\.metrics\.RowColumn\(\)",
        [metrics.RowColumn, "row-column", steps.Exact()],
    ),
    (solvers.RGD, "step_rule", r"a step rule such as lorank\.steps\.Exact\(\)", [steps.Exact, "exact", 0.5]),
    (Robust, "least_squares", "an Auto object", [Auto, "auto", None]),
    (Robust, "descent", "an RCG object", [solvers.RCG, "rcg", None]),
    (Robust, "als", "an ALS object", [solvers.ALS, "sweeps", None]),
    (Robust, "schedules", "a tuple of SmoothingSchedule objects", [(), [SmoothingSchedule()], (1,), None]),
    (solvers.RGD, "safeguard", r"a safeguard such as lorank\.solvers\.Safeguard", [solvers.Safeguard, "none", 1.05, False]),
    *((solvers.Factored, name, "True or False", ["yes", None, 2]) for name in ("preconditioned", "alternating", "conjugate")),
    (solvers.Factored, "damping", "one of 'none', 'constant', 'residual'", ["some", None, 1]),
    (solvers.Factored, "step_size", "positive", [0, -1, INF, "1"]),
    (solvers.RCG, "metric", "a metric such as", [metrics.Canonical, "canonical", None]),
    (metrics.Quotient, "base", "a metric such as", [metrics.Counts, "counts", None]),
    (solvers.GaussNewton, "retraction", "one of 'projection', 'orthographic'", ["some", None, 1]),
    (solvers.GNMR, "variant", "one of 'updating', 'averaging', 'setting'", ["some", None, 1]),
    (solvers.SoftImpute, "alternating", "True or False", ["yes", None, 2]),
    (starts.Spectral, "rescaled", "True or False", ["yes", None, 2]),
    (solvers.CGIHT, "safeguard", "a safeguard such as", [solvers.Safeguard, 1.05]),
    (solvers.RCG, "safeguard", "a safeguard such as", [solvers.Safeguard, None]),
    (solvers.RCG, "reweighting", r"a function of problem and state such as lorank\.phase\.Fisher\(\)", [Fisher, "fisher"]),
    (solvers.IHT, "safeguard", "a safeguard such as", [solvers.Safeguard, 1.05]),
    (solvers.NIHT, "safeguard", "a safeguard such as", [solvers.Safeguard, 1.05]),
    (solvers.IHT, "metric", "a metric such as", [metrics.Counts, "counts", None]),
    (solvers.NIHT, "metric", "a metric such as", [metrics.Counts, "counts", None]),
    (solvers.Safeguard, "fallbacks", "a tuple of Fallback objects", [[], None, (steps.Exact(),), solvers.Fallback]),
    (Auto, "descent", "a solver such as", [solvers.RCG, "rcg", None]),
    (Auto, "refinement", "a solver such as", [solvers.RCG, "rcg", None]),
    (Auto, "als", "a solver such as", [solvers.ALS, "sweeps", None]),
    (RegularizedALS, "penalty", "one of 'nuclear', 'frobenius'", ["l1", None]),
    (RegularizedALS, "biases", "True or False", [1, None, "yes"]),
    (RegularizedALS, "initial", "the Factors of another fit", ["abc", lr.FixedRank]),
    (VariationalALS, "biases", "True or False", [1, None, "yes"]),
    (VariationalALS, "noise", "one of 'one', 'columns', 'both'", ["rows", None]),
    (VariationalALS, "initial", "the Factors of another fit", ["abc", lr.FixedRank]),
    (VariationalALS, "row_features", "Features", ["abc", np.eye(3)]),
    (VariationalALS, "col_features", "Features", ["abc", np.eye(3)]),
    (Auto, "newton", "a GaussNewton object", [solvers.GaussNewton, None]),
    (Auto, "irls_rates", "a tuple of numbers between 0 and 1", [(), (0.9, 1.0), 0.9, None, [0.9], (True,)]),
    (AutoPhase, "descent", "conjugate gradients", [solvers.RCG, None]),
    (AutoPhase, "refinement", "conjugate gradients", [solvers.RCG, None]),
    (AutoPhase, "final", "conjugate gradients", [solvers.RCG, None]),
    (AutoPhase, "message_passing", "a MessagePassing object", [MessagePassing, None]),
    (MessagePassing, "seed", "a whole number, 0 or more, or None", [-1, 2.5, "a", True]),
    (metrics.RowColumn, "epsilon", r"a policy such as lorank\.metrics\.Median\(\)", [metrics.Median, 1e-3, None, "median"]),
    (metrics.Shampoo, "epsilon", "a policy such as", [metrics.Median, 1e-3, None]),
    (metrics.FullShampoo, "epsilon", "a policy such as", [metrics.Median, 1e-3, None]),
    (metrics.Quotient, "base", "a metric such as", [metrics.Counts, "counts", None]),
]


@pytest.mark.parametrize(
    ("kind", "name", "what", "values"), OBJECTS, ids=[f"{kind.__name__}-{name}" for kind, name, *_ in OBJECTS]
)
def test_objects_of_a_wrong_kind_are_refused_by_name(kind, name, what, values):
    for value in (*values, object(), 3.5j):
        with pytest.raises(ValueError, match=rf"^{kind.__name__}: {name} must be .*{what}.*, got ") as error:
            kind(**{name: value})
        if isinstance(value, type):
            assert f"the class {value.__name__} itself: write {value.__name__}(" in str(error.value)


def test_fallbacks_and_rules_with_more_than_one_parameter():
    good = {"rule": steps.Exact(), "growth": 1.05, "patience": 10, "rejections": 3}
    for name, value in [("rule", "exact"), ("rule", steps.Exact), ("growth", 0), ("patience", 0.5), ("rejections", -1)]:
        with pytest.raises(ValueError, match=f"Fallback: {name} must"):
            solvers.Fallback(**(good | {name: value}))
    for truth in (np.eye(3), None, lr.FixedRank):
        with pytest.raises(ValueError, match="truth must be a point such as FixedRank"):
            stopping.TruthDistance(truth)
        with pytest.raises(ValueError, match="truth must be a point such as FixedRank"):
            lr.callbacks.TruthError(truth)
    with pytest.raises(ValueError, match="TruthDistance: tol must"):
        stopping.TruthDistance(TRUTH, -1)
    for joined in (lambda r: r | 3, lambda r: r & "stall", lambda r: r | stopping.Stall):
        with pytest.raises(ValueError, match=r"second must be a rule such as lorank\.stopping"):
            joined(stopping.Stall())


def test_no_parameter_is_left_out():
    """Every field of every public dataclass in these rooms stands in a table above, or takes anything it is given."""
    seen = {(kind, name) for kind, name, *_ in (*NUMBERS, *OBJECTS)}
    elsewhere = {solvers.Fallback, starts.Spectrum, stopping.TruthDistance, stopping.Either, stopping.Both}
    for room in (metrics, solvers, starts, steps, stopping):
        for kind in vars(room).values():
            if isinstance(kind, type) and is_dataclass(kind) and kind.__module__.startswith("lorank."):
                if kind in elsewhere or not re.match(r"lorank\.(metrics|solvers|starts|steps|stopping)", kind.__module__):
                    continue
                missing = [f.name for f in fields(kind) if (kind, f.name) not in seen]
                assert not missing, f"{kind.__name__}: {missing}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"max_iter": True}, "max_iter must be a whole number"),
        ({"tol": True}, "tol must be a finite number"),
        ({"tol": INF}, "tol must be a finite number"),
        ({"tol": NAN, "stop": stopping.Iterations(3)}, "tol must be a finite number"),
        ({"tol": -1, "rank": "auto"}, "tol must be a finite number"),
        ({"checkpoint_every": -1}, "checkpoint_every must be a finite number"),
        ({"stop": stopping.Stall}, "stop must be a rule such as .*got the class Stall itself"),
        ({"callbacks": "abc"}, "callbacks must be a list"),
        ({"callbacks": 3}, "callbacks must be a list"),
        ({"callbacks": [lr.callbacks.TruthError]}, "callbacks must be a list"),
        ({"start": starts.Spectral}, "got the class Spectral itself: write Spectral"),
        ({"solver": object()}, "solver must be a name or a solver such as"),
    ],
)
def test_options_of_solve(options, message):
    problem, _ = lr.datasets.random_completion(20, 15, 1, oversampling=4)
    with pytest.raises(ValueError, match=message):
        lr.solve(problem, **({"rank": 1} | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n1": 0}, "n1 must be a whole number, 1 or more"),
        ({"n2": 2.5}, "n2 must be"),
        ({"rank": 0}, "rank must be"),
        ({"rank": 11}, "rank must be at most 10"),
        ({"oversampling": 0}, "oversampling must be positive"),
        ({"oversampling": NAN}, "oversampling must be positive"),
        ({"noise": -1}, "noise must be"),
        ({"seed": -1}, "seed must be"),
        ({"dtype": int}, "dtype must be float32, float64"),
        ({"dtype": "nonsense"}, "dtype must be float32, float64"),
    ],
)
def test_random_problems_check_what_they_are_asked_for(options, message):
    given = {"n1": 12, "n2": 10, "rank": 2} | options
    for make in (lr.datasets.random_completion, lr.datasets.random_sensing):
        with pytest.raises(ValueError, match=message):
            make(**given)
    if "rank" not in options and "n2" not in options:
        given = {name.replace("n1", "n"): value for name, value in given.items() if name not in ("n2", "rank")}
        with pytest.raises(ValueError, match=message.replace("n1", "n")):
            lr.datasets.random_phase(**given)


def test_other_arguments_of_random_problems_and_checks():
    rng = np.random.default_rng(0)
    for options, message in [({"masks": 0}, "masks must"), ({"noise": NAN}, "noise must"), ({"seed": "a"}, "seed must")]:
        with pytest.raises(ValueError, match=message):
            lr.datasets.random_diffraction(8, **options)
    for arguments, message in [((3, (4, 3), 2), "rng"), ((rng, (4, INF), 2), "shape"), ((rng, (4, 3), 2.5), "m must")]:
        with pytest.raises(ValueError, match=message):
            lr.datasets.sample_pattern(*arguments)
    problem, _ = lr.datasets.random_completion(8, 6, 1)
    for test in (lr.testing.dot_test, lr.testing.check_gradient):
        with pytest.raises(ValueError, match="problem must be"):
            test(np.eye(3), rank=1)
        with pytest.raises(ValueError, match="rank must be a whole number, 1 or more"):
            test(problem, rank=0)
        with pytest.raises(ValueError, match="seed must be"):
            test(problem, rank=1, seed=-1)
    with pytest.raises(ValueError, match="rtol must be positive"):
        lr.testing.dot_test(problem, rtol=-1)


def test_one_of_a_thing_and_more():
    assert [counted(n, "observation") for n in (0, 1, 2, 1500)] == [
        "0 observations",
        "1 observation",
        "2 observations",
        "1,500 observations",
    ]
    assert counted(np.int64(1), "entry", "entries") == "1 entry"
    assert counted(3, "entry", "entries") == "3 entries"


def test_a_parameter_error_carries_the_name_and_survives_pickling():
    with pytest.raises(lr.ParameterError) as caught:
        check("factor", -1, POSITIVE)
    assert (caught.value.name, caught.value.owner) == ("factor", None)
    with pytest.raises(lr.ParameterError) as caught:
        lr.stopping.Iterations(-1)
    assert caught.value.name == "limit"
    assert caught.value.owner == "Iterations"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.name, str(again)) == (caught.value.name, str(caught.value))
    assert str(again).startswith("Iterations: limit must ")
