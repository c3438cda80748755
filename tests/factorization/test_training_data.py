"""What a model remembers of its observations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import lorank as lr
from lorank.backends import HostEntries
from lorank.factorization.fit import centred_problem
from lorank.factorization.training_data import Growth, TrainingData, training_data_of


def memory_of(S, weights=None):
    return TrainingData(HostEntries(S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data.astype(float), weights))


@pytest.fixture
def S():
    found = scipy.sparse.random_array((7, 5), density=0.5, rng=np.random.default_rng(0), format="csr")
    found.data = np.arange(1.0, found.nnz + 1)
    return found


def test_some_rows_and_some_columns(S):
    memory = memory_of(S, weights=np.arange(S.nnz) + 0.5)
    W = scipy.sparse.csr_array((np.arange(S.nnz) + 0.5, S.indices, S.indptr), S.shape)
    for part, values, weights in (
        (memory.some_rows(np.array([1, 4])), S[[1, 4]], W[[1, 4]]),
        (memory.some_cols(np.array([0, 3]), 5), S.T.tocsr()[[0, 3]], W.T.tocsr()[[0, 3]]),
    ):
        for data, expected in ((part.values, values), (part.weights, weights)):
            found = scipy.sparse.csr_array((data, part.indices, part.indptr), expected.shape)
            np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_with_more_inserts_observations_by_row(S):
    rows, cols, values, w = np.array([8, 0, 3, 3, 8]), np.array([2, 6, 1, 1, 0]), np.arange(5.0), np.array([1, 1, 2, 1, 1.0])
    grown = Growth(np.array([0, 1, 2, 3, 5, 6, 8]), np.array([0, 1, 3, 4, 6]), (9, 7))
    old = scipy.sparse.csr_array(S).tocoo()
    amount, total = np.zeros(grown.shape), np.zeros(grown.shape)
    for i, j, v, c in (
        *zip(grown.rows[old.row], grown.cols[old.col], old.data, np.ones(old.nnz), strict=True),
        *zip(rows, cols, values, w, strict=True),
    ):
        amount[i, j] += c
        total[i, j] += c * v
    found = memory_of(S).with_more(rows, cols, values, w, grown)
    shape = {"shape": grown.shape}
    entries = found.entries
    pattern = (entries.indices, entries.indptr)
    np.testing.assert_allclose(scipy.sparse.csr_array((entries.weights, *pattern), **shape).toarray(), amount)
    mean = np.divide(total, amount, out=np.zeros(grown.shape), where=amount > 0)
    np.testing.assert_allclose(scipy.sparse.csr_array((entries.values, *pattern), **shape).toarray(), mean)
    assert (found.pending == np.bincount([2, 6, 1, 0], minlength=7)).all()  # a pair that came twice is one
    again = found.with_more(rows[:1], cols[:1], values[:1], None, Growth(np.arange(9), np.arange(7), (9, 7)))
    assert (again.pending - found.pending).tolist() == [0, 0, 1, 0, 0, 0, 0]
    plain = memory_of(S).with_more(np.array([8]), np.array([2]), np.array([1.0]), None, grown)
    assert plain.entries.weights is None


def test_what_a_file_holds(S):
    for memory in (memory_of(S), memory_of(S, np.ones(S.nnz)), TrainingData(memory_of(S).entries, pending=np.arange(5))):
        again = TrainingData.from_arrays(memory.arrays())
        for a, b in zip(again.entries, memory.entries, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(again.liked, memory.liked)
        assert (again.pending is None) == (memory.pending is None)
    many = TrainingData(HostEntries(np.array([0, 300]), np.arange(300, dtype=np.int32), np.linspace(0, 1, 300)))
    assert "codes" not in many.arrays()
    np.testing.assert_array_equal(TrainingData.from_arrays(many.arrays()).entries.values, many.entries.values)
    with pytest.raises(ValueError, match="damaged"):
        TrainingData.from_arrays(memory_of(S).arrays() | {"liked": np.ones(2, bool)})


def test_the_mean_comes_back_without_rounding():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((30, 20)) < 0.5)
    values = rng.choice([0.5, 1.5, 3.0, 4.7], len(pairs))
    for loss in (None, lr.losses.Huber()):
        problem, mean = centred_problem(pairs[:, 0], pairs[:, 1], values, (30, 20), loss=loss)
        np.testing.assert_array_equal(training_data_of(problem, mean).entries.values, values)
