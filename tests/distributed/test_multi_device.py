"""Several devices of one process: the bits of one device."""

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
    """Two CPU backends with a thread each."""
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
def test_selection_on_partitions_of_torch():
    """Held-out observations and the largest singular value, whose initial vector is an array of the host."""
    one, two, _ = pair("partitions:3:torch:cpu+torch:cpu")
    first, second = (lr.MatrixCompletion().fit(p) for p in (one, two))
    everywhere = np.argwhere(np.ones(one.shape, bool))
    expected = first.predict(everywhere)
    assert np.abs(second.predict(everywhere) - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.needs("torch")
def test_lazy_arrays_are_evaluated_at_the_end_of_a_program():
    """Lazy combinations of the PyTorch backend would hold all their operands."""
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


def test_an_error_on_one_device_ends_all():
    _, two, _ = pair("partitions:4:numpy+numpy")
    two.observations.graph.engine.shards[1].observations = lambda block: None  # whose passes raise
    with pytest.raises(AttributeError):
        lr.solve(two, 3)
