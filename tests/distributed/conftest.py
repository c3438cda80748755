"""Clusters of worker processes for the tests of this folder."""

from __future__ import annotations

import pytest

import lorank as lr
from clusters import OwnCluster, fit


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    found = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster, direct_to_workers=True) as found:
        yield found


@pytest.fixture
def two_workers(cluster, client):
    """Wait for workers that replace those killed by earlier tests."""
    for seconds in (30, 120):
        try:
            client.wait_for_workers(2, timeout=seconds)
            return
        except TimeoutError:
            cluster.scale(len(cluster.workers) + 1)
    pytest.skip("Dask has not started a worker again: this machine is too busy")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    problem, truth = lr.datasets.random_completion(200, 120, 3, oversampling=4)
    lr.distributed.save_partitions(problem, place / "p", n_partitions=5)
    return place / "p", truth


@pytest.fixture(scope="module")
def alone(data):
    return fit(lr.distributed.from_partitions(data[0]))


@pytest.fixture
def own(tmp_path):
    found = OwnCluster(tmp_path)
    found.scheduler()
    yield found
    for one in found.running:
        one.kill()
        one.wait()
