"""The backend protocol: every backend has all members, and a new backend is one class and one registration."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.backends import Backend, Observations, backend_of, get_backend, protocol, register_backend, registry
from lorank.backends.numpy_backend import NumpyBackend

PARTS = ("Creation", "Reductions", "TallAlgebra", "SmallAlgebra", "Transforms", "ObservationFactory")


def members(cls):
    return {name for part in cls.__mro__ for name in vars(part) if part is not object and not name.startswith("_")}


def test_the_protocol_is_the_sum_of_its_parts():
    parts = [members(getattr(protocol, name)) for name in PARTS]
    assert members(Backend) == set.union(*parts)
    assert sum(map(len, parts)) == len(members(Backend)) <= 67


def test_every_backend_has_all_members(backend):
    assert [name for name in members(Backend) if not hasattr(backend, name)] == []


def test_observations_have_all_members(backend):
    observed = lr.Completion([0, 1], [0, 1], [1.0, 2.0], backend=backend).observations
    assert [name for name in members(Observations) if not hasattr(observed, name)] == []


def test_a_backend_that_lacks_a_member_is_refused_by_its_name():
    given = {name: getattr(NumpyBackend, name) for name in Backend.__abstractmethods__ if name != "gram"}
    with pytest.raises(TypeError, match="gram"):
        type("Incomplete", (Backend,), given)()
    assert type("Complete", (Backend,), given | {"gram": NumpyBackend.gram})()


class Tagged(np.ndarray):
    """An array type of its own."""


class TaggedBackend(NumpyBackend):
    """Vectors and tall arrays that were made here are tagged."""

    name = "tagged"

    def asarray(self, a, dtype=None):
        return np.ascontiguousarray(a, dtype).view(Tagged)


@pytest.fixture
def tagged(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    backend = TaggedBackend()
    register_backend("tagged", lambda place: backend, lambda a: "" if isinstance(a, Tagged) else None)
    return backend


def test_a_new_backend_is_one_class_and_one_registration(tagged):
    problem, truth = lr.datasets.random_completion(40, 30, rank=2, oversampling=5)
    assert get_backend("tagged") is tagged
    assert backend_of(tagged.asarray([1.0])) is tagged
    values = tagged.asarray(problem.y)
    again = lr.Completion(problem.rows, problem.cols, values, problem.shape)  # found by its array
    assert again.backend is tagged
    result = lr.solve(again, 2)
    assert result.converged
    found = lr.FixedRank(*(np.asarray(a) for a in (result.X.U, result.X.s, result.X.V)))
    assert truth.distance(found) < 1e-4 * truth.norm()


def test_an_unknown_backend_is_refused_by_name(tagged):
    with pytest.raises(ValueError, match="'taged'"):
        get_backend("taged")
    with pytest.raises(ValueError, match="a:b"):
        register_backend("a:b", lambda place: tagged)
