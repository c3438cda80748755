"""``lorank doctor``: check the installation."""
# No "from __future__ import annotations" here: typer evaluates the annotations, which name local variables.

import importlib
import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass
from typing import Any

from .options import Json
from .output import print_json

# Optional packages: purpose, and the extra that installs them.
PACKAGES = {
    "scikit-learn": ("estimators for ratings, implicit feedback and tables", "sklearn"),
    "polars": ("reading CSV, TSV and Parquet files", "files"),
    "matplotlib": ("plots", "cli"),
    "plotly": ("reports with interactive plots", "cli"),
    "pooch": ("downloading MovieLens for the paper's experiments", "cli"),
    "torch": ("GPUs", "gpu"),
    "distributed": ("Dask clusters", "cluster"),
    "starlette": ("lorank serve, a web page for a model", "serve"),
}


@dataclass(frozen=True)
class Finding:
    """A component: name, version or state, whether it is available, its purpose, and how to install it."""

    what: str
    found: str
    there: bool
    brings: str
    remedy: str = ""


def doctor(as_json: Json = False) -> None:
    """Check the installation: versions, optional packages, threads and GPU."""
    from rich.console import Console
    from rich.text import Text

    found = examine()
    if as_json:
        print_json({"findings": [vars(one) for one in found]})
        return
    console, width = Console(highlight=False, soft_wrap=True), max(len(one.what) for one in found)
    for one in found:
        sign = Text("ok" if one.there else "--", style="green" if one.there else "yellow")
        console.print(sign + Text(f"  {one.what.ljust(width)}  {one.found}"))
    missing = [one for one in found if not one.there]
    console.print("\nNothing is missing." if not missing else "\nMissing:", style="bold")
    for one in missing:
        console.print(Text(f"  {one.what}: {one.brings}" + (f"  ({one.remedy})" if one.remedy else "")))


def examine() -> list[Finding]:
    """Components of the installation and the machine."""
    from ..common.version import __version__

    found = [
        Finding("lorank", __version__, True, ""),
        Finding("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}", True, ""),
        _kernels(),
        _threads(),
    ]
    found += [Finding(name, _version(name), True, "") for name in ("numpy", "scipy", "threadpoolctl")]
    for name, (brings, extra) in PACKAGES.items():
        version = _version(name)
        found.append(Finding(name, version or "missing", bool(version), brings, f'pip install "lorank[{extra}]"'))
    found.append(_gpu())
    data = os.environ.get("LORANK_DATA", "")
    found.append(Finding("LORANK_DATA", data or "not set", bool(data), "MovieLens from a folder instead of a download", ""))
    return found


def _kernels() -> Finding:
    brings = "C++ kernels, several times faster than NumPy"
    try:
        kernels = importlib.import_module("lorank._kernels")
    except ImportError:
        return Finding("kernels", "missing", False, brings, "reinstall lorank with a C++17 compiler")
    sets = ", ".join(kernels.instruction_sets())
    return Finding("kernels", f"{kernels.instruction_set()} (available: {sets})", True, brings)


def _threads() -> Finding:
    import threadpoolctl

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = [f"{cores} core{'s' * (cores != 1)}"]
    if "lorank._kernels" in sys.modules:
        found.append(f"kernels {sys.modules['lorank._kernels'].threads()}")
    import numpy  # noqa: F401  (loads its BLAS, which is asked next)

    for pool in threadpoolctl.threadpool_info():
        if pool["user_api"] == "blas":
            found.append(f"{pool['internal_api']} {pool.get('architecture') or ''} {pool['num_threads']}".replace("  ", " "))
    return Finding("threads", "; ".join(dict.fromkeys(found)), True, "")


def _gpu() -> Finding:
    brings, remedy = "faster solution of large problems", "needs an NVIDIA GPU, its driver and PyTorch"
    if not _version("torch"):
        return Finding("GPU", "unknown: no PyTorch", False, brings, remedy)
    try:
        import torch

        if torch.cuda.is_available():
            return Finding("GPU", ", ".join(_devices(torch)), True, brings)
    except Exception as error:  # a broken PyTorch installation is reported
        return Finding("GPU", f"PyTorch does not load: {error}", False, brings, remedy)
    return Finding("GPU", "missing", False, brings, remedy)


def _devices(torch: Any) -> list[str]:
    return [f"{torch.cuda.get_device_name(k)}" for k in range(torch.cuda.device_count())]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
