"""Local clusters: errors name the missing ``__main__`` guard of a script."""

from __future__ import annotations

import multiprocessing

import pytest

from lorank.distributed.client import ClusterError, connect

distributed = pytest.importorskip("distributed")


def test_a_worker_that_imports_the_script_is_refused(monkeypatch):
    """A script without the guard would start workers of workers."""
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    monkeypatch.setattr(distributed, "LocalCluster", lambda **_: pytest.fail("workers of a worker"))
    with pytest.raises(ClusterError, match=r"cluster='local' starts processes.*__main__"):
        connect(None, "local")


def test_workers_that_do_not_start(monkeypatch):
    def broken(**_):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", broken)
    with pytest.raises(ClusterError, match=r"Nanny failed to start\): it starts processes.*__main__"):
        connect(None, "local")
