"""Blocks in several places of one process: the bits of one place, whoever holds which block."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import backend_pair as pair


@pytest.mark.parametrize("weights", [False, True])
def test_two_threads_give_the_bits_of_one(weights):
    found = []
    for name in ("partitions:5:numpy", "partitions:5:numpy+numpy", "partitions:5:numpy+numpy+numpy"):
        _, two, _ = pair(name, weights=weights)
        result = lr.solve(two, 3, "rcg", stop=lr.stopping.Iterations(4), max_iter=4).numpy()
        found.append((result.X.U, result.X.V))
        assert two.observations.graph.engine.workers == name.count("numpy")
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.needs("torch")
def test_two_devices_of_torch():
    """Both the CPU here: two backends with a thread each."""
    one, two, truth = pair("partitions:4:torch:cpu+torch:cpu")
    engine = two.observations.graph.engine
    assert engine.workers == 2
    assert len({id(shard.backend.grams) for shard in engine.shards}) == 2  # each thread has its own
    result = lr.solve(two, 3).numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()
    assert engine.bytes > 0
    first, second = (lr.MatrixCompletion(2, "learned").fit(p) for p in (one, two))
    everywhere = np.argwhere(np.ones(one.shape, bool))
    np.testing.assert_allclose(second.predict(everywhere), first.predict(everywhere), rtol=1e-5, atol=1e-5)


@pytest.mark.needs("torch")
def test_nothing_is_put_off_from_program_to_program():
    """PyTorch's backend puts sums off; kept in a block they would hold all that they are made of."""
    import torch

    _, two, _ = pair("partitions:3:torch:cpu")
    kinds = set()

    def look(problem, state, clock):
        shard = problem.observations.graph.engine.shard
        tall = [a for by_block in shard.block_values.values() for a in by_block.values()] + list(shard.shared_values.values())
        kinds.update(type(a).__name__ for a in tall)

    for solver in ("rcg", lr.solvers.RCG(lr.metrics.Blocks())):
        lr.solve(two, 3, solver, stop=lr.stopping.Iterations(4), max_iter=4, callbacks=[look])
    assert torch.Tensor.__name__ in kinds
    assert "Tall" not in kinds


def test_what_fails_in_one_place_ends_all():
    _, two, _ = pair("partitions:4:numpy+numpy")
    two.observations.graph.engine.shards[1].store.blocks[3] = None  # whose passes raise
    with pytest.raises(AttributeError):
        lr.solve(two, 3)


class Dask:
    """As a Dask data frame looks: partitions that are computed one at a time."""

    def __init__(self, parts, alone=False):
        self.parts, self.npartitions, self.columns = parts, len(parts), parts[0].columns
        self.partitions = parts if alone else [Dask([part], alone=True) for part in parts]

    def compute(self):
        return self.parts[0]


@pytest.mark.parametrize("kind", ["pandas", "polars", "dask"])
def test_data_frames(kind):
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.5)
    values = rng.standard_normal(len(rows))
    parts = []
    for some in np.array_split(rng.permutation(len(rows)), 3):
        columns = {"user": [f"u{k:02d}" for k in rows[some]], "item": cols[some] + 5, "stars": values[some]}
        parts.append(pytest.importorskip("pandas").DataFrame(columns) if kind != "polars" else pl.DataFrame(columns))
    frames = Dask([*parts, parts[0][:0]]) if kind == "dask" else parts
    problem = lr.distributed.from_frames(frames, "user", "item", "stars", dtype="float64", n_partitions=3)
    np.testing.assert_array_equal(problem.rows, rows)
    np.testing.assert_array_equal(problem.cols, cols)
    np.testing.assert_array_equal(np.asarray(problem.y), values)
    assert problem.row_ids[3] == "u03"
    with pytest.raises(ValueError, match="no column 'who'"):
        lr.distributed.from_frames(frames, "who", "item", "stars")
    with pytest.raises(ValueError, match="Dask, pandas or polars"):
        lr.distributed.from_frames([3], "user", "item", "stars")


def test_a_real_dask_data_frame():
    frames = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 2], "stars": [1.0, 2.0, 3.0]})
    problem = lr.distributed.from_frames(frames.from_pandas(table, npartitions=2), "user", "item", "stars")
    assert problem.m == 3
