"""Dask's client: of an address, of one's own, or of this machine's cores."""

from __future__ import annotations

import multiprocessing
from typing import Any

from ..common.checks import ParameterError

ANSWER = 20.0  # seconds for a scheduler to answer
UNGUARDED = "starts processes that import your script: put what the script does below `if __name__ == '__main__':`"


class ClusterError(RuntimeError):
    """A cluster that cannot do the work, with the reason and the remedy."""


def import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ClusterError('computing on a cluster needs Dask: pip install "lorank[cluster]"') from None
    return distributed


def _local(distributed: Any) -> Any:
    """A worker process for each core, or what a script has to do for that."""
    import dask

    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker, which imports the script
        raise ClusterError(f"cluster='local' {UNGUARDED}")
    with dask.config.set({"distributed.worker.profile.enabled": False}):  # which looks at the workers' threads all the time
        try:
            return distributed.LocalCluster(threads_per_worker=1, processes=True, dashboard_address=None)
        except RuntimeError as error:
            raise ClusterError(f"no worker of cluster='local' has started ({str(error).rstrip('.')}): it {UNGUARDED}") from None


def connect(client: Any, cluster: str | None) -> Any:
    """The client to use: the one given, one of the scheduler at an address, or one of a cluster of this machine's cores."""
    if client is not None:
        if not hasattr(client, "submit") or not hasattr(client, "nthreads"):
            raise ParameterError("client", f"must be a distributed.Client, got {type(client).__name__}")
        return client
    distributed = import_distributed()
    if cluster == "local":
        return distributed.Client(_local(distributed), direct_to_workers=True)
    try:
        return distributed.Client(cluster, direct_to_workers=True, timeout=ANSWER)
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {cluster}: {error}") from None
