"""Snapshots and the replay log, in one process: a shard that loses its values repeatedly."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
import lorank.factorization.als
import lorank.factorization.variational
from lorank.backends import get_backend
from lorank.distributed.backend import Partitioned, distributed_observations
from lorank.distributed.folder import open_folder
from lorank.distributed.memory_mapped import MappedBlocks
from lorank.distributed.program import BLOCK, SHARED, SUM, Instruction, Program, Ref
from lorank.distributed.shard import LocalEngine, Shard
from lorank.distributed.snapshots import ReplayLog, Snapshots, load_shard, passes, save_shard
from lorank.io.archive import FileError


class Forgetful(LocalEngine):
    """Engine that replaces its shard after every so many programs, and continues from the last snapshot."""

    def __init__(self, folder, place, every):
        self.folder, self.snapshots, self.every, self.count = folder, Snapshots(folder.path, place), every, 0
        self.again = self.passes_again = self.passes = 0
        super().__init__(self.new_shard())

    def new_shard(self):
        backend = get_backend("numpy")
        layout = self.folder.layout
        mapped = MappedBlocks(self.folder, backend)
        return Shard(backend, layout, list(range(layout.count)), mapped.observations, mapped.keep)

    def run(self, program):
        found, log = super().run(program), self.snapshots.log
        log.add(program)
        self.passes += passes(program)
        cut = log.cut()
        if cut is not None:
            place = self.snapshots.begin()
            save_shard(self.shard, str(place), cut.written, True)
            log.truncate(cut)
            self.snapshots.commit(place, 0.0)
        self.count += 1
        if self.count % self.every == 0:
            self.shard = self.new_shard()
            if self.snapshots.path is not None:
                load_shard(self.shard, str(self.snapshots.path), log.written)
            for one in log.replay():
                self.again += 1
                self.passes_again += passes(one)
                super().run(one)
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    lr.distributed.save_partitions(lr.datasets.random_completion(70, 50, 2, oversampling=5)[0], place / "p", n_partitions=3)
    return open_folder(place / "p")


def problem_of(folder, engine):
    problem = lr.distributed.from_partitions(folder.path)
    observations = distributed_observations(engine, [p.m for p in folder.parts], folder.dtype, folder.weighted)
    problem._observe(observations, Partitioned(get_backend("numpy"), len(folder.parts)))
    return problem


SOLVERS = {
    "rcg": lr.solvers.RCG(),
    "auto": "auto",
    "gauss-newton": "gauss-newton",
    "prgd": "prgd",
    "irls": lr.solvers.IRLS(),
    "variational": lr.factorization.variational.VariationalALS(biases=True),
}


@pytest.mark.parametrize(("solver", "every"), [*((name, 7) for name in SOLVERS), ("auto", 1), ("variational", 1)])
def test_recovered_runs_have_the_same_bits(folder, tmp_path, solver, every):
    forgetful, found = Forgetful(folder, tmp_path, every), []
    rng = np.random.default_rng(0)
    start = lr.FixedRank.from_factors(rng.standard_normal((70, 2)), rng.standard_normal((50, 2)))
    for engine in (LocalEngine(forgetful.new_shard()), forgetful):
        problem = problem_of(folder, engine)
        found.append(lr.solve(problem, 2, SOLVERS[solver], start=start, stop=lr.stopping.Iterations(3), max_iter=3).numpy())
    for name in ("U", "V", "s"):
        np.testing.assert_array_equal(getattr(found[0].X, name), getattr(found[1].X, name))
    assert forgetful.snapshots.count > 0
    if every > 1:  # most of the log was dropped
        assert forgetful.passes_again < 0.5 * forgetful.passes * (forgetful.count // every)


def test_models_with_parts_of_the_observations(folder, tmp_path):
    """Subsets of the observations are computed again from the files, factors are read from the snapshot."""
    forgetful = Forgetful(folder, tmp_path, 25)
    models = [
        lr.MatrixCompletion(2, "learned", intervals=True, max_iter=5).fit(problem_of(folder, engine))
        for engine in (LocalEngine(forgetful.new_shard()), forgetful)
    ]
    pairs = np.argwhere(np.ones((70, 50), bool))
    np.testing.assert_array_equal(models[0].predict(pairs), models[1].predict(pairs))
    assert forgetful.snapshots.count > 0


def test_the_implicit_model(folder, tmp_path):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 30)) < 0.3)
    lr.distributed.save_partitions(
        lr.Completion(users, items, rng.integers(1, 4, len(users)) * 1.0), tmp_path / "p", n_partitions=3
    )
    own = open_folder(tmp_path / "p")
    forgetful = Forgetful(own, tmp_path, 3)
    problems = [problem_of(own, engine) for engine in (LocalEngine(forgetful.new_shard()), forgetful)]
    models = [lr.ImplicitFactorization(3, 0.02, zeros=0.1, max_iter=3).fit(p) for p in problems]
    np.testing.assert_array_equal(models[0].user_factors_, models[1].user_factors_)
    assert forgetful.snapshots.count > 0


def made(key, operation, *args, kind=BLOCK, keep=1):
    return Instruction(key, kind, operation, tuple(Ref(a) if isinstance(a, int) else a for a in args), keep)


def test_cuts_of_the_replay_log():
    """An array is written, a solver is rebuilt from its arguments, and deleted values are dropped."""
    log = ReplayLog()
    for k in range(1, 40):
        log.add(Program([made(k, "passed", "times", 0, *([k - 1] if k > 1 else []))], [k - 2] if k > 2 else []))
    log.add(Program([made(40, "blocks", 39, kind=SUM, keep=0), made(41, "block_solver", 40, kind=SHARED)], [38]))
    cut = log.cut()
    assert set(cut.written) == {39}
    assert [one.key for one in cut.rebuild.instructions] == [40, 41]
    assert [one.keep for one in cut.rebuild.instructions] == [0, 1]
    log.truncate(cut)
    assert list(log.replay()) == [cut.rebuild]
    log.add(Program([made(42, "passed", "times", 0, 39)], [39]))
    assert log.cut() is None  # the solver's array is gone, and cannot be made again but from the snapshot that is there
    assert len(list(log.replay())) == 2
    log.add(Program([], [41]))
    assert set(log.cut().written) == {42}


def test_large_values_are_written_only_if_that_is_cheaper():
    log = ReplayLog()
    log.add(Program([made(1, "observed", 0, "values", keep=2)]))
    for k in range(2, 20, 2):  # each needs two passes over the one before, with a sum between
        sums = made(k, "passed", "gradient_cols", 0, k - 1, kind=SUM, keep=0)
        log.add(Program([sums, made(k + 1, "passed", "residual", 0, k, keep=2)], [k - 1] if k > 2 else []))
    assert set(log.cut().written) == {19}
    assert [one.key for one in log.cut().rebuild.instructions] == [1]
    log.add(Program([made(20, "passed", "residual", 0, keep=2)], [19]))  # one pass of many
    assert set(log.cut().written) == set()


def test_arrays_keep_their_strides(tmp_path, folder):
    shard = Forgetful(folder, tmp_path, 9).shard
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((5, 8))
    arrays = [wide, wide[:, :3], np.asfortranarray(wide), wide[:, 0].copy(), np.zeros((0, 2)), rng.random((4, 2, 2)) > 0.5]
    shard.shared_values = dict(enumerate(arrays, 100))
    (tmp_path / "s").mkdir()
    keys = dict.fromkeys(shard.shared_values, 1)
    save_shard(shard, str(tmp_path / "s"), keys, True)
    shard.shared_values = {}
    load_shard(shard, str(tmp_path / "s"), keys)
    for before, after in zip(arrays, shard.shared_values.values(), strict=True):
        np.testing.assert_array_equal(before, after)
        assert before.dtype == after.dtype
        if len(before) > 1:
            assert before.strides == after.strides
    (tmp_path / "s" / "101-3.npy").write_bytes(b"no array")
    with pytest.raises(FileError, match=r"101-3\.npy: the snapshot cannot be read"):
        load_shard(shard, str(tmp_path / "s"), keys)


def test_incomplete_snapshots_are_deleted(tmp_path):
    snapshots = Snapshots(tmp_path / "ratings")
    good = snapshots.begin()
    (good / "1.npy").write_bytes(b"whole")
    snapshots.commit(good, 1.0)
    broken = snapshots.begin()
    (broken / "1.npy").write_bytes(b"half")
    following = snapshots.begin()
    assert not broken.exists()
    assert (good / "1.npy").exists()
    assert not list(following.iterdir())
    snapshots.disable()  # deletes the incomplete one, keeps the complete one
    assert not following.exists()
    assert (good / "1.npy").exists()
