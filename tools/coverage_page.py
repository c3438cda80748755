"""The page docs/project/coverage.md, from what coverage and gcov counted: the last part of tools/coverage.sh.

    python tools/coverage_page.py build/coverage

Files of which less than ``WANTED`` per cent was run are named with their lines, and with the reason where there is one.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

import lorank as lr

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "project" / "coverage.md"
WANTED = 85.0

# Why lines of these are not run where there is no GPU, or no second machine.
REASONS = {
    "backends/torch_/block_kernels.py": "Triton compiles these for a GPU; `pytest --cuda` runs them there",
    "backends/torch_/kernels.py": "Triton compiles these for a GPU; `pytest --cuda` runs them there",
    "backends/torch_/tall_kernels.py": "Triton compiles these for a GPU; `pytest --cuda` runs them there",
    "backends/torch_/launch.py": "launches Triton's kernels: a GPU's, `pytest --cuda`",
    "backends/torch_/staging.py": "takes small arrays to a GPU: `pytest --cuda`",
}


def packages(python: dict) -> dict[str, tuple[int, int]]:
    """Lines and lines run of each folder of the package, its own files together."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path, file in python["files"].items():
        folder, inside = within(path).partition("/")[::2]
        name = folder if inside else "lorank itself"
        lines, run = found[name]
        found[name] = lines + file["summary"]["num_statements"], run + file["summary"]["covered_lines"]
    return dict(sorted(found.items()))


def kernel_lines(kernels: dict) -> dict[str, dict[int, int]]:
    """How often each line of each file was run, by the most often run of the functions that a template line is part of."""
    found = {}
    for file in sorted(kernels["files"], key=lambda file: file["file"]):
        counts: dict[int, int] = defaultdict(int)
        for line in file["lines"]:
            if not line.get("gcovr/noncode") and not line.get("gcovr/excluded"):
                counts[line["line_number"]] = max(counts[line["line_number"]], line["count"])
        found[Path(file["file"]).name] = dict(sorted(counts.items()))
    return found


def within(path: str) -> str:
    """A path inside the package."""
    return Path(path).as_posix().removeprefix("src/lorank/")


def ranges(lines: list[int]) -> str:
    """1, 2, 3, 7 as ``1-3, 7``."""
    if not lines:
        return ""
    breaks = [0] + [i + 1 for i, (a, b) in enumerate(pairwise(lines)) if b > a + 1] + [len(lines)]
    runs = [(lines[begin], lines[end - 1]) for begin, end in pairwise(breaks)]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def share(run: int, lines: int) -> float:
    return 100 * run / lines if lines else 100.0


def page(python: dict, kernels: dict, left_out: list[str]) -> str:
    """The whole text."""
    total = python["totals"]
    python_share = share(total["covered_lines"], total["num_statements"])
    lines_of = kernel_lines(kernels)
    counted = [count for counts in lines_of.values() for count in counts.values()]
    kernels_share = share(sum(map(bool, counted)), len(counted))
    text = [
        "# Test coverage",
        "",
        "<!-- written by tools/coverage_page.py: make coverage -->",
        "",
        f"The tests run **{python_share:.1f} %** of {total['num_statements']:,} lines of Python, and",
        f"**{kernels_share:.1f} %** of {len(counted):,} lines of the C++ kernels. `make coverage` counts them: Python",
        "by coverage in one run of all tests, processes that tests start included; the kernels by gcov in the tests",
        "that call them, once for each instruction set of the machine. A line that was run is not yet a line whose result",
        "was looked at: that is what the dense twins in the tests are for.",
        "",
        f"*lorank {lr.__version__}, {_commit()}, {datetime.now(UTC):%Y-%m-%d}; {_machine()}.*",
        "",
        "## Python",
        "",
        "| | lines | run |",
        "|---|---:|---:|",
    ]
    if left_out:
        text[-2:-2] = [f"**The run was cut off**: these tests are not in it, wholly or in part: {', '.join(left_out)}.", ""]
    text += [f"| {name} | {lines:,} | {share(run, lines):.1f} % |" for name, (lines, run) in packages(python).items()]
    low = []
    for path, file in python["files"].items():
        if file["summary"]["num_statements"] and file["summary"]["percent_covered"] < WANTED:
            low.append((file["summary"]["percent_covered"], within(path), file["missing_lines"]))
    text += ["", f"### Files below {WANTED:.0f} %", ""]
    if low:
        text += ["| | run | lines that are not | why |", "|---|---:|---|---|"]
        for run, path, lines in sorted(low):
            text.append(f"| `{path}` | {run:.0f} % | {ranges(lines) if run else 'all'} | {REASONS.get(path, '')} |")
    else:
        text += ["There are none."]
    text += ["", "## Kernels", "", "| | lines | run | lines that are not |", "|---|---:|---:|---|"]
    for name, counts in lines_of.items():
        missing = [line for line, count in counts.items() if not count]
        text.append(
            f"| `{name}` | {len(counts):,} | {share(len(counts) - len(missing), len(counts)):.1f} % | {ranges(missing)} |"
        )
    text += [
        "",
        "A line of a template counts as run when it was run for one of its types and instruction sets. gcov loses some lines",
        "of loops that threads share, where the compiler makes functions of its own from them.",
        "",
    ]
    return "\n".join(text)


def _commit() -> str:
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else "no commit"


def _machine() -> str:
    try:
        torch = f"PyTorch {version('torch')}"
    except PackageNotFoundError:
        torch = "no PyTorch"
    sets = "no kernels"
    if importlib.util.find_spec("lorank._kernels"):
        from lorank import _kernels

        sets = f"instruction sets {', '.join(_kernels.instruction_sets())}"
    chromium = any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    browser = "Chromium" if chromium else "no Chromium"
    gpu = "a GPU" if Path("/dev/nvidiactl").exists() else "no GPU"
    return f"Python {platform.python_version()}, NumPy {version('numpy')}, {sets}, {torch}, {gpu}, {browser}"


def not_counted(build: Path) -> list[str]:
    """Folders of tests that were cut off, or failed: tools/coverage.sh leaves a mark for each of the others."""
    folders = [folder for folder in sorted((ROOT / "tests").iterdir()) if folder.is_dir() and folder.name != "__pycache__"]
    marks = {f"tests/{folder.name}": f"tests_{folder.name}_.done" for folder in folders} | {"tests/test_*.py": "tests.done"}
    return [name for name, mark in marks.items() if not (build / "data" / mark).exists()]


def main() -> None:
    build = Path(sys.argv[1])
    python, kernels = (json.loads((build / name).read_text(encoding="utf-8")) for name in ("python.json", "kernels.json"))
    PAGE.write_text(page(python, kernels, not_counted(build)), encoding="utf-8")
    print("\n".join(PAGE.read_text(encoding="utf-8").splitlines()[4:9]))


if __name__ == "__main__":
    main()
