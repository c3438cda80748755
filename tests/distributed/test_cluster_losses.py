"""Dask clusters that lose workers, the scheduler or the driver: the bits of one process."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import lorank as lr
import lorank.factorization.als
import lorank.factorization.variational
from clusters import KILL, assert_same, engine_of, fit
from lorank.distributed import client as client_module
from lorank.distributed import cluster as cluster_module
from lorank.distributed import snapshots
from lorank.io.archive import FileError

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("two_workers")]  # warnings of Dask about ports


def victim(problem):
    """Process id of a worker in use."""
    engine = engine_of(problem)
    address = engine._actors[0].address
    return engine.client.run(os.getpid, workers=[address])[address]


@pytest.mark.parametrize("when", [0, 3])
def test_a_worker_killed_between_programs(client, data, alone, when):
    """Before the first iteration and later."""
    problem = lr.distributed.from_partitions(data[0], client=client)

    def kill(problem, state, clock):
        if state.iteration == when:
            os.kill(victim(problem), KILL)

    assert_same(fit(problem, callbacks=[kill]), alone)
    assert engine_of(problem).recoveries >= 1


def test_a_worker_killed_within_a_program(client, data, alone, monkeypatch):
    """While the workers run and wait for messages of each other."""
    problem = lr.distributed.from_partitions(data[0], client=client)
    engine = engine_of(problem)
    run, count, pid = engine._call_all, [0], victim(problem)

    def killing(function, args):
        count[0] += 1
        if count[0] == 20:
            threading.Timer(0.001, os.kill, (pid, KILL)).start()
        return run(function, args)

    monkeypatch.setattr(engine, "_call_all", killing)
    assert_same(fit(problem), alone)
    assert engine.recoveries >= 1


def test_a_worker_killed_after_a_snapshot(client, data, tmp_path, monkeypatch):
    """Programs before the snapshot are not run again, and the bits are the same (test_snapshots.py: for all solvers)."""
    monkeypatch.setattr(snapshots, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "MIN_COST_RATIO", 0.0)
    rng = np.random.default_rng(0)
    start = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((120, 3)))
    found = []
    for used in (None, client):
        problem = lr.distributed.from_partitions(data[0], client=used, scratch=tmp_path)

        def kill(problem, state, clock, used=used):
            if state.iteration == 4 and used is not None:
                os.kill(victim(problem), KILL)

        stop = {"stop": lr.stopping.Iterations(5), "max_iter": 5, "callbacks": [kill]}
        found.append(lr.solve(problem, 3, "auto", start=start, **stop))
    engine = engine_of(problem)
    assert engine.recoveries >= 1
    assert engine.snapshots.count > 5
    assert engine.replayed <= 15 < problem.observations.graph.trips / 3
    assert_same(found[1].numpy(), found[0].numpy())
    assert len(engine.snapshots.log.programs) < 20  # it does not grow without bound
    home = engine.snapshots.path.parent
    assert len(list(home.iterdir())) == 1  # old ones are gone
    del engine, problem, found, kill, stop
    gc.collect()
    assert not home.exists()


def test_a_worker_killed_while_it_writes_a_snapshot(client, data, alone, tmp_path, monkeypatch):
    """An incomplete snapshot is never read, and is deleted."""
    monkeypatch.setattr(snapshots, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "MIN_COST_RATIO", 0.0)
    problem = lr.distributed.from_partitions(data[0], client=client, scratch=tmp_path)
    engine = engine_of(problem)
    run, saved = engine._call_all, [0]

    def killing(function, args):
        saved[0] += function == "save"
        if function == "save" and saved[0] == 4:
            os.kill(victim(problem), KILL)
        return run(function, args)

    discard_incomplete, left = engine.snapshots.discard_incomplete, []

    def looking():
        discard_incomplete()
        left.append((list(Path(engine.snapshots._home).iterdir()), engine.snapshots.path))

    monkeypatch.setattr(engine, "_call_all", killing)
    monkeypatch.setattr(engine.snapshots, "discard_incomplete", looking)
    assert_same(fit(problem), alone)
    assert engine.recoveries >= 1
    assert left[0] == ([left[0][1]], left[0][1])


@pytest.mark.parametrize("who", ["driver", "workers"])
def test_snapshots_that_cannot_be_written(client, data, alone, tmp_path, monkeypatch, who):
    """The run continues without snapshots."""
    monkeypatch.setattr(snapshots, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "MIN_COST_RATIO", 0.0)
    with pytest.raises(FileError, match=r"scratch=.*nowhere"):
        lr.distributed.from_partitions(data[0], client=client, scratch=tmp_path / "nowhere")
    problem = lr.distributed.from_partitions(data[0], client=client, scratch=tmp_path)
    shutil.rmtree(engine_of(problem).snapshots._home)
    if who == "workers":
        monkeypatch.setattr(snapshots.Snapshots, "begin", lambda self: tmp_path / "gone")
    said = []  # not pytest.warns: what it puts in place of warnings is lost where Dask's threads do so meanwhile
    monkeypatch.setattr(warnings, "warn", lambda message, *more, **options: said.append(str(message)))
    assert_same(fit(problem), alone)
    assert engine_of(problem).snapshots._home is None
    assert any("no further snapshots" in one for one in said)


def test_a_worker_added(cluster, client, data, alone):
    """It is used after the next recovery."""
    problem = lr.distributed.from_partitions(data[0], client=client)

    def grow(problem, state, clock):
        if state.iteration == 2:
            cluster.scale(len(cluster.workers) + 1)
            client.wait_for_workers(len(client.nthreads()) + 1, timeout=300)
        if state.iteration == 3:
            os.kill(victim(problem), KILL)

    assert_same(fit(problem, callbacks=[grow]), alone)
    assert engine_of(problem).workers >= 2


DRIVER = """
import os, signal, sys
import distributed
import lorank as lr

if __name__ == "__main__":
    client = distributed.Client(sys.argv[1], direct_to_workers=True)
    problem = lr.distributed.from_partitions(sys.argv[2], client=client)

    def die(problem, state, clock):
        if state.iteration == 4:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    lr.solve(problem, 3, "rcg", checkpoint=sys.argv[3], checkpoint_every=0, callbacks=[die])
"""


def test_a_driver_killed_and_started_again(cluster, client, data, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    args = [sys.executable, tmp_path / "driver.py", cluster.scheduler_address, data[0], tmp_path / "checkpoint"]
    ended = subprocess.run(list(map(str, args)), timeout=600, check=False, capture_output=True, text=True)
    assert abs(ended.returncode) == KILL, ended.stderr
    shutil.copy(tmp_path / "checkpoint", tmp_path / "copy")
    problem = lr.distributed.from_partitions(data[0], client=client)
    result = lr.solve(problem, 3, "rcg", tol=1e-4, checkpoint=tmp_path / "checkpoint").numpy()
    assert data[1].distance(result.X) < 1e-2 * data[1].norm()
    alone = lr.solve(lr.distributed.from_partitions(data[0]), 3, "rcg", tol=1e-4, checkpoint=tmp_path / "copy").numpy()
    np.testing.assert_array_equal(result.X.U, alone.X.U)  # the same bits in one process
    np.testing.assert_array_equal(result.X.V, alone.X.V)


@pytest.mark.slow
def test_a_scheduler_killed_and_started_again(own, data, alone):
    """The run begins again with the workers of the new scheduler, and ends with the same bits."""
    own.worker()
    with own.client() as client:
        client.wait_for_workers(1, timeout=60)
        problem = lr.distributed.from_partitions(data[0], client=client)

        def kill(problem, state, clock):
            if state.iteration == 2:
                own.running[0].kill()
                own.running[0].wait()
                own.scheduler()
                own.worker()

        assert_same(fit(problem, callbacks=[kill]), alone)
        assert engine_of(problem).recoveries >= 1
        engine_of(problem).client.close()


@pytest.mark.slow
def test_a_scheduler_that_is_back_without_workers(own, data, monkeypatch):
    """The error names the missing workers, not the scheduler, which answers."""
    monkeypatch.setattr(cluster_module, "WAIT_SECONDS", 20.0)
    own.worker()
    with own.client() as client:
        client.wait_for_workers(1, timeout=60)
        problem = lr.distributed.from_partitions(data[0], client=client)
        for process in own.running[:2]:
            process.kill()
            process.wait()
        own.scheduler()
        with pytest.raises(client_module.ClusterError, match="no workers"):
            fit(problem)
        engine_of(problem).client.close()


def killing_once(path, m):
    """The check of a worker, in which the first one dies."""
    flag = Path(path).parent / "killed"
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return lr.__version__, ""
    os.kill(os.getpid(), KILL)


def test_a_worker_killed_while_it_is_checked(client, data, alone, monkeypatch):
    monkeypatch.setattr(client_module, "_about", killing_once)
    problem = lr.distributed.from_partitions(data[0], client=client)
    assert (data[0].parent / "killed").exists()
    assert_same(fit(problem), alone)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_stopped_worker_is_left_out(client, data, alone, monkeypatch):
    monkeypatch.setattr(client_module, "CHECK_SECONDS", 3.0)
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGSTOP)
    said = []
    monkeypatch.setattr(warnings, "warn", lambda message, *more, **options: said.append(str(message)))
    try:
        problem = lr.distributed.from_partitions(data[0], client=client)
        assert any(address in one for one in said)
        assert engine_of(problem).workers >= 1
        assert_same(fit(problem), alone)
    finally:
        os.kill(pid, signal.SIGCONT)


def deadly(a):
    if len(a):
        os.kill(os.getpid(), KILL)
    return a


def test_a_program_that_kills_its_workers_is_an_error(client, data, monkeypatch):
    """One that needs too much memory, for example."""
    monkeypatch.setattr(cluster_module, "MAX_LOSSES_PER_PROGRAM", 1)
    problem = lr.distributed.from_partitions(data[0], client=client)
    with pytest.raises(client_module.ClusterError, match="2 times in one program"):
        np.asarray(problem.y.map(deadly))
