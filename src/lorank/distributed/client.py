"""Connection to a Dask cluster: the client, and the checks of its workers before they are used."""

from __future__ import annotations

import asyncio
import multiprocessing
import warnings
from typing import Any

from ..common.checks import ParameterError
from ..common.version import __version__
from .folder import Folder, open_folder

ANSWER_SECONDS = 20.0  # limit for one answer of the scheduler
CHECK_SECONDS = 60.0  # limit for the answer of a worker to the opening check
UNGUARDED = "starts processes that import your script: put the script's code below `if __name__ == '__main__':`"


class ClusterError(RuntimeError):
    """Error of a cluster that cannot do the work, with the reason and the remedy."""


def import_distributed() -> Any:
    """The package ``distributed``, or a :class:`ClusterError` that names the extra to install."""
    try:
        import distributed
    except ImportError:
        raise ClusterError('a cluster needs Dask: pip install "lorank[cluster]"') from None
    return distributed


def connect(client: Any, cluster: str | None) -> Any:
    """Client to use: ``client`` itself, or one of the scheduler at the address ``cluster`` (``"local"``: a new cluster)."""
    if client is not None:
        if not hasattr(client, "submit") or not hasattr(client, "nthreads"):
            raise ParameterError("client", f"must be a distributed.Client, got {type(client).__name__}")
        return client
    distributed = import_distributed()
    if cluster == "local":
        return distributed.Client(_local_cluster(distributed), direct_to_workers=True)
    try:
        return distributed.Client(cluster, direct_to_workers=True, timeout=ANSWER_SECONDS)
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {cluster}: {error}") from None


def _local_cluster(distributed: Any) -> Any:
    """One worker process per core of this machine."""
    import dask

    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker process that imports the script
        raise ClusterError(f"cluster='local' {UNGUARDED}")
    with dask.config.set({"distributed.worker.profile.enabled": False}):  # the profiler samples the workers' threads
        try:
            return distributed.LocalCluster(threads_per_worker=1, processes=True, dashboard_address=None)
        except RuntimeError as error:
            raise ClusterError(f"no worker of cluster='local' has started ({str(error).rstrip('.')}): it {UNGUARDED}") from None


def check_workers(client: Any, addresses: list[str], folder: Folder | None = None) -> list[str]:
    """Check that workers have this version of lorank and can read the folder.

    Returns
    -------
    list of str
        Addresses of the workers that answered. Workers that were lost during the check are left out silently, workers that
        do not answer with a warning.

    Raises
    ------
    ClusterError
        If a worker cannot be used, with its address and the reason.
    """
    path, m = (None, 0) if folder is None else (str(folder.path.resolve()), folder.m)
    answers = client.sync(_ask, client, addresses, path, m)
    silent = [address for address in addresses if address not in answers]
    if silent and len(silent) == len(addresses):
        raise ClusterError(f"no worker answered within {CHECK_SECONDS:.0f} seconds, {silent[0]} for example: restart them")
    for address in silent:
        warnings.warn(f"the worker at {address} does not answer and is not used", stacklevel=2)
    usable = []
    for address, answer in answers.items():
        if isinstance(answer, OSError):  # the connection: _about itself raises none
            continue
        if isinstance(answer, BaseException):
            raise ClusterError(f"the worker at {address} cannot run lorank: install lorank {__version__} there ({answer})")
        version, problem = answer
        if version != __version__:
            raise ClusterError(f"the worker at {address} has lorank {version}, this process {__version__}: install the same")
        if problem:
            raise ClusterError(f"the worker at {address} cannot use the partitions: {problem}")
        usable.append(address)
    return usable


async def _ask(client: Any, addresses: list[str], path: str | None, m: int) -> dict[str, Any]:
    """The answers of the workers that answer in time; an exception stands for a check that failed."""

    async def ask(address: str) -> Any:
        try:
            found = await client.run(_about, path, m, workers=[address], on_error="return")
        except OSError as error:
            return error
        return found.get(address, OSError(f"lost the worker at {address}"))

    tasks = {address: asyncio.ensure_future(ask(address)) for address in addresses}
    if tasks:
        _, late = await asyncio.wait(tasks.values(), timeout=CHECK_SECONDS)
        for task in late:
            task.cancel()
    return {address: task.result() for address, task in tasks.items() if task.done() and not task.cancelled()}


def _about(path: str | None, m: int) -> tuple[str, str]:
    """Runs on a worker: its version of lorank, and the problem with the folder as seen from there ('' if there is none)."""
    from lorank.common.version import __version__ as version

    if path is None:
        return version, ""
    try:
        found = open_folder(path)
    except (ValueError, OSError) as error:
        return version, str(error)
    return version, "" if found.m == m else f"{path} is another folder there"
