"""Dask clusters of worker processes: the bits of one process, and errors."""

from __future__ import annotations

import json
import traceback

import numpy as np
import pytest

import lorank as lr
import lorank.factorization.als
import lorank.factorization.variational
from clusters import assert_same, engine_of, fit
from lorank.distributed import client as client_module
from lorank.distributed import cluster as cluster_module
from lorank.io.archive import FileError

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("two_workers")]  # warnings of Dask about ports


def test_the_bits_of_one_process(client, data, alone):
    problem = lr.distributed.from_partitions(data[0], client=client)
    assert engine_of(problem).workers == 2
    assert_same(fit(problem), alone)
    assert engine_of(problem).bytes > 0


def test_the_default_solver_recovers_the_matrix(client, data):
    result = lr.solve(lr.distributed.from_partitions(data[0], client=client), 3, tol=1e-4).numpy()
    assert data[1].distance(result.X) < 1e-2 * data[1].norm()


def test_variational_als_on_a_split(client, data):
    """Normal equations of rows and columns, and subsets of the observations, on the workers."""
    found = []
    for problem in (lr.distributed.from_partitions(data[0], client=c) for c in (None, client)):
        kept, held = problem.split(np.random.default_rng(1), 0.1)
        solver = lr.factorization.variational.VariationalALS(biases=True)
        rng = np.random.default_rng(0)
        start = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((120, 3)))
        result = lr.solve(kept, 3, solver, start=start, stop=lr.stopping.Iterations(2), max_iter=2).numpy()
        found.append((result.X.U, result.X.V, held.m))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_implicit_model(client, tmp_path):
    """Half a sweep of implicit ALS is one program, with sums over columns among the workers."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 40)) < 0.3)
    lr.distributed.save_partitions(
        lr.Completion(users, items, rng.integers(1, 4, len(users)) * 1.0), tmp_path / "p", n_partitions=5
    )
    problems = [lr.distributed.from_partitions(tmp_path / "p", client=c) for c in (None, client)]
    alone, found = (lr.ImplicitFactorization(3, 0.02, zeros=0.1, max_iter=2).fit(p) for p in problems)
    np.testing.assert_array_equal(found.user_factors_, alone.user_factors_)
    np.testing.assert_array_equal(found.item_factors_, alone.item_factors_)
    assert engine_of(problems[1]).bytes > 0


def test_a_scheduler_by_its_address(cluster, client, data, alone):
    problem = lr.distributed.from_partitions(data[0], cluster=cluster.scheduler_address)
    assert_same(fit(problem), alone)
    engine_of(problem).client.close()


def test_workers_reached_through_the_scheduler(cluster, data, alone):
    """The default of a client: calls and answers go through the scheduler."""
    with distributed.Client(cluster, direct_to_workers=False, set_as_default=False) as client:
        assert_same(fit(lr.distributed.from_partitions(data[0], client=client)), alone)


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        ("import lorank.common.version as module; module.__version__ = '0.0.1'", r"0\.0\.1"),
        ("import lorank.distributed.folder as module; module.MANIFEST = 'not-there'", r"no not-there"),
    ],
)
def test_a_worker_that_cannot_be_used_is_refused_by_its_address(own, data, setup, reason):
    own.worker(setup)
    with own.client() as client:
        client.wait_for_workers(1, timeout=60)
        address = next(iter(client.nthreads()))
        with pytest.raises(client_module.ClusterError, match=rf"{address}.*{reason}"):
            lr.distributed.from_partitions(data[0], client=client)


def test_what_a_cluster_cannot_do(client, data, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"distributed\.Client"):
        lr.distributed.from_partitions(data[0], client="tcp://127.0.0.1:1")
    monkeypatch.setattr(client_module, "__version__", "0.0.0")
    with pytest.raises(client_module.ClusterError, match=r"tcp://.*0\.0\.0"):
        lr.distributed.from_partitions(data[0], client=client)
    source = tmp_path / "ratings.csv"
    source.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(client_module.ClusterError, match=r"tcp://.*0\.0\.0"):  # before anything is converted
        lr.distributed.from_csv(source, "a", "b", "c", folder=tmp_path / "made", client=client)
    assert not (tmp_path / "made").exists()
    monkeypatch.undo()
    monkeypatch.setattr(client_module, "_about", no_lorank)
    with pytest.raises(client_module.ClusterError, match=r"tcp://.*cannot run lorank"):
        lr.distributed.from_partitions(data[0], client=client)


def no_lorank(folder, m):
    raise ModuleNotFoundError("No module named 'lorank'")


def missing_key(a):
    if len(a):  # the driver calls it with an empty array to learn the shape of the result
        raise KeyError("no such column")
    return a


def full_disk(a):
    if len(a):
        raise OSError(28, "No space left on device")
    return a


def failure(array):
    try:
        return np.asarray(array)
    except Exception as error:
        return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("broken", [missing_key, full_disk])
def test_an_error_in_a_program_is_raised_once_with_the_traceback_of_the_worker(client, data, alone, broken):
    """Nothing is run again, and the problem can be solved afterwards."""
    problem = lr.distributed.from_partitions(data[0], client=client)
    array = problem.y.map(broken)
    text = failure(array)
    assert {"missing_key": "KeyError: 'no such column'", "full_disk": "No space left on device"}[broken.__name__] in text
    assert "on the worker at tcp://" in text
    assert text.count(f"in {broken.__name__}") >= 1
    assert engine_of(problem).recoveries == 0
    assert_same(fit(problem), alone)  # although the array is still there
    assert engine_of(problem).recoveries == 0
    assert "on the worker at tcp://" in failure(array)


def test_a_call_that_fails_twice_with_all_workers_present_is_an_error(client, data, monkeypatch):
    """A connection that fails repeatedly although no worker has left."""
    problem = lr.distributed.from_partitions(data[0], client=client)
    execute, calls = cluster_module.execute, []

    async def closed(rpc, key, function, *args):
        if function == "call" and args[0] == "run":
            calls.append(function)
            raise distributed.comm.CommClosedError("in <TCP>: Stream is closed")
        return await execute(rpc, key, function, *args)

    monkeypatch.setattr(cluster_module, "execute", closed)
    with pytest.raises(client_module.ClusterError, match=r"twice with all workers present.*Stream is closed"):
        np.asarray(problem.y)
    assert len(calls) <= 2 * engine_of(problem).workers


def test_the_command(cluster, tmp_path):
    """Conversion of files and a fit on workers, compared with one process."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from lorank.cli import app as cli

    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.6)
    lines = [f"{i},{j},{i % 5 + j % 3 + 0.1 * rng.standard_normal()}" for i, j in zip(rows, cols, strict=True)]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")

    def run(*more):
        options = ("--rank", "1", "--regularization", "5.0", "--json")
        done = CliRunner().invoke(cli.build_app(), ["complete", *map(str, more), *options])
        assert done.exit_code == 0, done.output + done.stderr
        return json.loads(done.stdout)

    found = run(tmp_path / "ratings.csv", "--cluster", cluster.scheduler_address, "--partitions-dir", tmp_path / "p")
    alone = run(tmp_path / "p")
    assert found["workers"] >= 2
    assert found["partitions"] >= 4
    assert found["bytes_among_workers"] > 0
    assert found["heldout"] == alone["heldout"]


def test_a_partition_that_workers_cannot_read(client, tmp_path):
    problem, _ = lr.datasets.random_completion(40, 30, 2, oversampling=4)
    lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=2)
    (tmp_path / "p" / "00001" / "values.npy").unlink()
    with pytest.raises(FileError, match=r"00001.values\.npy"):
        lr.distributed.from_partitions(tmp_path / "p", client=client)
