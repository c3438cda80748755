"""``lorank doctor``: what is installed, and what each missing piece would bring."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from .output import show_json

if TYPE_CHECKING:
    import typer

# Optional packages: what each brings, and the extra that installs it.
PACKAGES = {
    "scikit-learn": ("the estimators: ratings, clicks, tables", "sklearn"),
    "polars": ("reading CSV, TSV and Parquet files", "files"),
    "matplotlib": ("pictures", "cli"),
    "plotly": ("reports with interactive pictures", "cli"),
    "pooch": ("downloading MovieLens for the paper's experiments", "cli"),
    "torch": ("GPUs", "gpu"),
    "distributed": ("Dask clusters", "cluster"),
    "starlette": ("lorank serve: a page for people to try a model", "serve"),
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Finding:
    """One line: a thing, what there is of it, whether it is there, and what it is for or would bring."""

    what: str
    found: str
    there: bool
    brings: str
    remedy: str = ""


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def doctor(as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")] = False) -> None:
        """Say what is installed, and what each missing piece would bring."""
        found = examine()
        if as_json:
            show_json({"findings": [vars(one) for one in found]})
            return
        width = max(len(one.what) for one in found)
        for one in found:
            print(f"{'ok' if one.there else '--'}  {one.what.ljust(width)}  {one.found}")
        missing = [one for one in found if not one.there]
        print("\nNothing is missing." if not missing else "\nWhat is missing would bring:")
        for one in missing:
            print(f"  {one.what}: {one.brings}" + (f"  ({one.remedy})" if one.remedy else ""))


def examine() -> list[Finding]:
    """Look at the machine and at what is installed."""
    from ..common.version import __version__

    found = [
        Finding("lorank", __version__, True, "all of this"),
        Finding("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}", True, ""),
        _kernels(),
        _threads(),
    ]
    found += [Finding(name, _version(name), True, "") for name in ("numpy", "scipy", "threadpoolctl")]
    for name, (brings, extra) in PACKAGES.items():
        version = _version(name)
        found.append(Finding(name, version or "missing", bool(version), brings, f'pip install "lorank[{extra}]"'))
    found.append(_gpu())
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), "")
    found.append(
        Finding("Chromium", browser or "missing", bool(browser), "tests of pages in a browser; nothing else needs it", "")
    )
    data = os.environ.get("LORANK_DATA", "")
    found.append(Finding("LORANK_DATA", data or "not set", bool(data), "MovieLens from a folder instead of a download", ""))
    return found


def _kernels() -> Finding:
    brings = "passes over observations several times faster"
    try:
        kernels = importlib.import_module("lorank._kernels")
    except ImportError:
        return Finding("kernels", "missing", False, brings, "reinstall lorank where a C++17 compiler is found")
    sets = ", ".join(kernels.instruction_sets())
    return Finding("kernels", f"{kernels.instruction_set()} (this machine can run {sets})", True, brings)


def _threads() -> Finding:
    import threadpoolctl

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    said = [f"{cores} core{'s' * (cores != 1)}"]
    if "lorank._kernels" in sys.modules:
        said.append(f"kernels {sys.modules['lorank._kernels'].threads()}")
    import numpy  # noqa: F401  (loads its BLAS, which is asked next)

    for pool in threadpoolctl.threadpool_info():
        if pool["user_api"] == "blas":
            said.append(f"{pool['internal_api']} {pool.get('architecture') or ''} {pool['num_threads']}".replace("  ", " "))
    return Finding("threads", "; ".join(dict.fromkeys(said)), True, "")


def _gpu() -> Finding:
    brings, remedy = "large problems many times faster", "needs an NVIDIA GPU, its driver and PyTorch"
    if not _version("torch"):
        return Finding("GPU", "not looked for: no PyTorch", False, brings, remedy)
    try:
        import torch

        if torch.cuda.is_available():
            return Finding("GPU", ", ".join(_devices(torch)), True, brings)
    except Exception as error:  # a broken PyTorch is a finding, not a crash
        return Finding("GPU", f"PyTorch does not load: {error}", False, brings, remedy)
    return Finding("GPU", "missing", False, brings, remedy)


def _devices(torch: Any) -> list[str]:
    return [f"{torch.cuda.get_device_name(k)}" for k in range(torch.cuda.device_count())]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
