"""Optional capabilities of models: detection, and refusal by name of what is missing."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import FixedRankManifold
from lorank.problems import MatrixProblem, capabilities
from lorank.problems.capabilities import FastALS, HasCounts, HasEstimate, HasInitialPoint, TightFrame, require, supports

PROTOCOLS = [
    value for value in vars(capabilities).values() if isinstance(value, type) and value.__module__ == capabilities.__name__
]


def completion(**options):
    rows, cols = np.nonzero(np.ones((6, 5)))
    return lr.Completion(rows, cols, (rows + cols) % 2, (6, 5), **options)


OTHERS = {HasEstimate, HasInitialPoint, capabilities.HasSpectralNorm, capabilities.PredictsError}
MATRIX = set(PROTOCOLS) - OTHERS  # of completion
EXPECTED = {
    "Completion": (completion, MATRIX),
    "Completion with a loss": (lambda: completion(loss="logistic"), MATRIX - {TightFrame}),
    "Sensing": (lambda: lr.datasets.random_sensing(4, 4, 1, seed=0)[0], set()),
    "PhaseRetrieval": (lambda: lr.datasets.random_phase(8, seed=0)[0], {HasEstimate, capabilities.HasRankOnePoint}),
    "CountTable": (
        lambda: lr.CountTable(np.ones((4, 3), int)),
        {HasCounts, HasInitialPoint, capabilities.HasObservations, capabilities.HasSplit},
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_capabilities_of_each_model(name):
    make, expected = EXPECTED[name]
    problem = make()
    assert {need for need in PROTOCOLS if supports(problem, need)} == expected


def test_classes_of_problems_and_manifolds_are_needs_as_well():
    table = lr.CountTable(np.ones((4, 3), int))
    assert supports(completion(), MatrixProblem)
    assert not supports(table, MatrixProblem)
    assert supports(table, FixedRankManifold)


def test_what_is_missing_is_named():
    class Part:
        needs = (FixedRankManifold, HasCounts, TightFrame)

    require(completion(), Part(), None, object())
    with pytest.raises(
        lr.ParameterError, match=r"^start Part needs a TightFrame .*Completion with loss='logistic' has none"
    ) as e:
        require(completion(loss="logistic"), Part(), parameter="start")
    assert e.value.name == "start"


def test_copies_have_their_own_capabilities():
    problem = completion(loss="logistic")
    assert supports(problem.squares(), TightFrame)
    assert not supports(problem.squares().with_loss(lr.losses.Huber()), TightFrame)
    assert supports(problem, FastALS)
    assert not problem.als_pays(1)
