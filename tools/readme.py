"""The README's outputs and its picture.

    python tools/readme.py             run its Python blocks and commands, and write the outputs below them
    python tools/readme.py --picture   draw its picture again, too

Python blocks share one namespace. A block ``console`` holds commands after ``$`` with their outputs; they run in a folder with
ratings.csv and table.csv, both made here. tests/test_docs.py compares the outputs with those of the machine, numbers aside.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "front-page.png"
WIDTH = "100"  # characters of the terminal
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def write_files(folder: Path) -> None:
    """ratings.csv: unevenly sampled ratings with ids of text; table.csv: a numeric table with missing values."""
    rng = np.random.default_rng(0)
    users, films = rng.standard_normal((400, 3)), rng.standard_normal((250, 3))
    chance = np.outer(rng.permutation(np.geomspace(1, 0.2, 400)), rng.permutation(np.geomspace(1, 0.2, 250)))
    exact = 3.2 + 0.5 * users @ films.T
    pairs = np.argwhere(rng.random((400, 250)) < 0.8 * chance / (1 + np.exp(2 * (3.2 - exact))))  # users rate what they like
    stars = np.clip(np.round(2 * (exact[tuple(pairs.T)] + 0.4 * rng.standard_normal(len(pairs)))) / 2, 0.5, 5)
    with (folder / "ratings.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("user", "film", "rating"))
        rows.writerows((f"u{i}", f"film{j}", f"{value:g}") for (i, j), value in zip(pairs, stars, strict=True))
    hidden = rng.standard_normal((300, 2))
    table = np.round(20 + 5 * hidden @ rng.standard_normal((2, 6)) + 0.5 * rng.standard_normal((300, 6)), 1)
    missing = rng.random(table.shape) < 0.15
    with (folder / "table.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([f"sensor_{k}" for k in "abcdef"])
        rows.writerows(
            ["" if gone else f"{value:.1f}" for value, gone in zip(*row, strict=True)]
            for row in zip(table, missing, strict=True)
        )


def with_outputs(text: str) -> str:
    """The text with the output of each block as it is now."""
    space: dict = {"__name__": "readme"}

    def run(block: re.Match[str]) -> str:
        kind, code = block[1], block[2]
        if kind == "console":
            commands = [line[2:] for line in code.splitlines() if line.startswith("$ ")]
            return "```console\n" + "\n".join(f"$ {command}\n{run_command(command)}" for command in commands) + "```\n"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec", dont_inherit=True), space)
        output = printed.getvalue()
        return f"```python\n{code}```\n" + (f"\n```text\n{output}```\n" if output else "")

    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        os.chdir(folder)
        try:
            return BLOCK.sub(run, text)
        finally:
            os.chdir(home)


def run_command(command: str) -> str:
    assert command.startswith("lorank "), command
    settings = os.environ | {"COLUMNS": WIDTH, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "lorank", *command.split()[1:]]
    done = subprocess.run(words, capture_output=True, text=True, env=settings, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return done.stdout


def without_numbers(text: str) -> str:
    """The text with each number as #, and runs of white space as one space."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?", "#", text))


def draw_picture() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(ROOT / "examples" / "plot_front_page.py"))
    plt.gcf().savefig(PICTURE, dpi=90)
    plt.close("all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", action="store_true")
    options = parser.parse_args()
    if options.picture:
        draw_picture()
    README.write_text(with_outputs(README.read_text(encoding="utf-8")), encoding="utf-8")
