"""Prose of the project: spelling by codespell, and words that are replaced by the standard terms."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "examples", "src", "benchmarks", "tools")
AVOIDED = {  # and what to write instead
    "mend|mends|mended|mending": "fix, correct",
    "kin": "related methods",
    "nobody|somebody|whom": "name who it is: a user, no method",
    "beside": "next to, compared with, in addition to",
    "says": "a text contains, names or lists; programs print and return",
    "what is left": "the rest, the residual",
    "as it comes|as they come": "with its defaults, unchanged",
    "strangers": "unknown rows or columns",
}


def texts() -> list[Path]:
    """Hand-written texts and sources."""
    found = [path for place in PLACES for path in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))]
    made = (ROOT / "docs/api", ROOT / "docs/gallery")
    return [path for path in found if path.suffix in {".md", ".py"} and not any(folder in path.parents for folder in made)]


@pytest.mark.parametrize(("words", "instead"), AVOIDED.items(), ids=[words.split("|")[0] for words in AVOIDED])
def test_words_that_are_avoided(words, instead):
    pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in texts()
        if path.name != "CHANGELOG.md" and not {"benchmarks", "tools"} & set(path.relative_to(ROOT).parts[:1])
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"write {instead}:\n" + "\n".join(found)


def test_spelling():
    pytest.importorskip("codespell_lib")
    files = [str(path.relative_to(ROOT)) for path in texts()]
    done = subprocess.run([sys.executable, "-m", "codespell_lib", *files], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
