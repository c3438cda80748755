"""The tests once more, as other machines would run them.

    python tools/variations.py              all variations
    python tools/variations.py haswell pure those
    python tools/variations.py --list       what there is

Other BLAS kernels (which OpenBLAS picks by the processor), older instruction sets in lorank's own kernels, one and two threads,
the package without its C++ extension, and other last bits altogether (tests/rounding.py). Each variation runs the tests whose
outcome could depend on it; several run at a time, one for each processor. A log of each is kept in build/variations.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "variations"
PURE = ROOT / "build" / "pure"

KERNELS = ("tests/backends", "tests/geometry")
SOLVERS = (
    *("tests/losses", "tests/problems", "tests/metrics", "tests/solvers", "tests/starts", "tests/plans"),
    *("tests/robust", "tests/phase", "tests/estimators", "tests/factorization", "tests/tables"),
    *("tests/backends/test_partitioned.py", "tests/distributed/test_out_of_core.py", "tests/distributed/test_arrays.py"),
    *("tests/loop/test_runner.py", "tests/loop/test_steps.py", "tests/loop/test_stopping.py"),
    *("tests/geometry/test_truncated_svd.py", "tests/test_docs.py"),
)
NO_TORCH = ("-k", "not torch")  # which has a BLAS and kernels of its own: once is enough
QUICK = (*NO_TORCH, "--hypothesis-profile=quick")


@dataclass(frozen=True)
class Variation:
    """What is different, which tests see it, and what the machine must be able to run."""

    name: str
    what: str
    environment: dict[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = SOLVERS
    options: tuple[str, ...] = ()
    needs: str | None = None  # an instruction set
    pure: bool = False


def blas(core: str, threads: int) -> dict[str, str]:
    return {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}


VARIATIONS = [  # the longest first
    Variation(
        "pure",
        "no C++ extension: what a user without a compiler gets",
        {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        KERNELS + SOLVERS,
        QUICK,
        pure=True,
    ),
    Variation(
        "haswell",
        "BLAS and kernels as on processors without AVX-512, one thread",
        blas("Haswell", 1) | {"LORANK_INSTRUCTION_SET": "avx2", "ATEN_CPU_CAPABILITY": "avx2"},
        KERNELS + SOLVERS,
        needs="avx2",
    ),
    Variation(
        "nehalem",
        "BLAS and kernels as on processors without AVX, two threads",
        blas("Nehalem", 2) | {"LORANK_INSTRUCTION_SET": "baseline"},
        KERNELS + SOLVERS,
        NO_TORCH,
        needs="baseline",
    ),
    Variation("rounding-1", "other last bits", {"OMP_NUM_THREADS": "1"}, options=(*QUICK, "--rounding", "1")),
    Variation("rounding-2", "and others", {"OMP_NUM_THREADS": "2"}, options=(*QUICK, "--rounding", "2")),
]


def instruction_sets() -> list[str]:
    """Those of the kernels that this machine can run; none without the extension."""
    code = "from lorank import _kernels; print(*_kernels.instruction_sets())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.split()


def build_pure() -> None:
    """The package as it is installed where there is no compiler."""
    shutil.rmtree(PURE, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--target", str(PURE), str(ROOT)]
    subprocess.run(command, check=True, env=os.environ | {"LORANK_PURE": "1"})


def command_of(variation: Variation) -> tuple[list[str], dict[str, str]]:
    required = [name for name in os.environ.get("LORANK_REQUIRE", "").split() if not (variation.pure and name == "native")]
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "LORANK_REQUIRE": " ".join(required)} | variation.environment
    python = [sys.executable]
    if variation.pure:
        # -S: an editable install of lorank hooks into import by a .pth file, before PYTHONPATH; without site it is not read.
        python += ["-S"]
        environment["PYTHONPATH"] = os.pathsep.join([str(PURE), *site_packages()])
    return [*python, "-m", "pytest", "-p", "no:cacheprovider", *variation.tests, *variation.options], environment


def site_packages() -> list[str]:
    """Where this interpreter finds packages, in order, without the standard library."""
    standard = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    return [p for p in sys.path if p.endswith("site-packages") and Path(p).resolve() not in standard]


def run(variation: Variation) -> tuple[Variation, int, float]:
    command, environment = command_of(variation)
    begin = time.monotonic()
    with open(LOGS / f"{variation.name}.log", "w", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    return variation, done.returncode, time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which; all of them by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="list them, and run none")
    options = parser.parse_args()
    known = {variation.name: variation for variation in VARIATIONS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown variation {unknown[0]!r}: choose from {', '.join(known)}")
    chosen = [known[name] for name in options.names or known]
    if options.list:
        for variation in chosen:
            print(f"{variation.name:12} {variation.what}")
        return 0
    there, intel = instruction_sets(), platform.machine().lower() in ("x86_64", "amd64")
    for variation in list(chosen):
        if variation.needs and not (intel and variation.needs in there):
            print(f"{variation.name}: left out, this machine cannot run {variation.needs}")
            chosen.remove(variation)
    LOGS.mkdir(parents=True, exist_ok=True)
    if any(variation.pure for variation in chosen):
        build_pure()
    failed = []
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for variation, code, seconds in pool.map(run, chosen):
            lines = (LOGS / f"{variation.name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
            print(f"{variation.name}: {'FAILED' if code else 'passed'} in {seconds:.0f} s ({variation.what})")
            summary = [line for line in lines if line.startswith("lorank: ") or " passed" in line]
            print("\n".join(["  " + line for line in summary] if not code else lines[-200:]), flush=True)
            failed += [variation.name] if code else []
    ending = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"{len(chosen) - len(failed)} of {len(chosen)} variations passed{ending}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
