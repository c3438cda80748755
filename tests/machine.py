"""What this machine has. Tests of what it has not are left out, and the first line of a run says so."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from importlib.metadata import version
from pathlib import Path

import threadpoolctl

try:
    from lorank import _kernels
except ImportError:
    _kernels = None

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@functools.cache
def has(name: str) -> bool:
    """Whether there is such a thing: ``native``, ``torch``, ``cuda``, ``triton``, ``chromium``, ``movielens``."""
    if name == "native":
        return _kernels is not None
    if name == "torch":
        return importlib.util.find_spec("torch") is not None
    if name == "cuda":  # torch takes seconds to import: only where a driver is to be seen
        if not has("torch") or not (Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi")):
            return False
        import torch

        return torch.cuda.is_available()
    if name == "triton":  # has no kernels for the CPU, but an interpreter that TRITON_INTERPRET=1 turns on
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        return importlib.util.find_spec("triton") is not None and (has("cuda") or interpreted)
    if name == "chromium":
        return CHROMIUM is not None
    if name == "movielens":  # a folder with ml-1m.zip
        return "LORANK_TEST_DATA" in os.environ
    raise ValueError(f"unknown need {name!r}")


# On the CPU; conftest.py adds "torch:cuda" where there is a GPU.
BACKENDS = [name for name in ("native", "numpy", "torch") if name == "numpy" or has(name)]
NUMPY_BACKENDS = [name for name in BACKENDS if name != "torch"]


def describe() -> str:
    """One line: the backends, the instruction set of the kernels, the BLAS, the numbers of threads, what is missing."""
    there = ["numpy"]
    if has("native"):
        import lorank.backends.native  # noqa: F401  (where LORANK_INSTRUCTION_SET is read)

        there.insert(0, f"native ({_kernels.instruction_set()}, {_threads(_kernels.threads())})")
    there += [f"torch {version('torch')}"] if has("torch") else []
    there += ["torch:cuda"] if has("cuda") else []
    blas = [lib for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    named = {f"{lib['internal_api']} {lib.get('architecture') or ''} ({_threads(lib['num_threads'])})" for lib in blas}
    missing = [name for name in ("native", "torch", "cuda", "chromium") if not has(name)]
    without = f"; without {', '.join(missing)}" if missing else ""
    return f"lorank: backends {', '.join(there)}; BLAS {', '.join(sorted(named)) or 'unknown'}{without}"


def _threads(count: int) -> str:
    return f"{count} thread" + "s" * (count != 1)
