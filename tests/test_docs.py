"""The texts say what is true: their Python runs, and the names in them exist."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest

import lorank

MADE = ("gallery/index.rst", "../gallery/index.rst", "../api/index.md")  # by the build
pytestmark = pytest.mark.filterwarnings("error::lorank.ConvergenceWarning")
ROOT = Path(__file__).parents[1]
OURS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES = [name for name in OURS if not name.startswith(("docs/api/", "docs/gallery/"))]  # which the build of the site makes
LINKED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", *PAGES)
GUIDES = [name for name in PAGES if name.startswith("docs/guides/") or name == "docs/index.md"]


def python_blocks(name: str) -> list[str]:
    """The Python blocks of a text, each at its own line number, so that a traceback points into the text."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return ["\n" * (text[: block.start(1)].count("\n")) + block[1] for block in found]


def execute(name: str, blocks: list[str]) -> dict:
    space: dict = {"__name__": "text"}
    for block in blocks:
        exec(compile(block, str(ROOT / name), "exec", dont_inherit=True), space)
    return space


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_readme_runs():
    """From top to bottom, as a reader would."""
    blocks = python_blocks("README.md")
    assert len(blocks) >= 2
    blocks.insert(1, "first = result")
    space = execute("README.md", blocks)
    for result in (space["first"], space["result"]):
        assert result.converged
        assert abs(result.X.to_dense() - space["truth"]).max() < 1e-3
    assert 0.05 < space["result"].outliers.mask.mean() < 0.15


def test_readme_shows_the_outputs_of_its_code():
    """Numbers aside, which may differ on other machines."""
    for module in ("sklearn", "typer", "polars"):
        pytest.importorskip(module)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tool = runpy.run_path(str(ROOT / "tools" / "readme.py"))
    shown = tool["without_numbers"](text)
    assert shown.count("converged after") == 1
    assert shown == tool["without_numbers"](tool["with_outputs"](text))


@pytest.mark.parametrize("name", ["docs/ratings.md", "docs/tables.md", "docs/losses.md", *GUIDES])
def test_pages_run(name):
    """Each page from top to bottom."""
    pytest.importorskip("sklearn")
    execute(name, python_blocks(name))


@pytest.mark.parametrize(
    "block", python_blocks("CONTRIBUTING.md"), ids=["model", "metric", "step_rule", "loss", "solver", "backend", "command"]
)
def test_contributing_runs(block):
    """Each section on its own."""
    execute("CONTRIBUTING.md", [block])


def test_names_in_the_notation_exist():
    names = re.findall(r"`(lorank(?:\.\w+)+)`", (ROOT / "docs/notation.md").read_text(encoding="utf-8"))
    assert len(names) > 20
    for name in names:
        assert resolve(name) is not None, name


def resolve(name: str) -> object:
    """The object behind a dotted name."""
    parts = name.split(".")
    thing: object = lorank
    for k, part in enumerate(parts[1:], 1):
        if not hasattr(thing, part):
            importlib.import_module(".".join(parts[: k + 1]))
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if re.match(r"https?:|/", target):
            continue
        example = re.fullmatch(r"(?:\.\./)*gallery/(?:images/sphx_glr_)?(plot_\w+?)(?:_\d\d\d\.png|\.rst)", target)
        path = ROOT / "examples" / f"{example[1]}.py" if example else (ROOT / name).parent / target
        assert path.exists() or target in MADE, target


def test_version_is_the_same_everywhere():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"]
    source = ROOT / settings["tool"]["scikit-build"]["metadata"]["version"]["input"]
    assert f'__version__ = "{lorank.__version__}"' in source.read_text(encoding="utf-8")
    assert f"## [{lorank.__version__}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {lorank.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'version: "{lorank.__version__}"' in (ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")


def test_the_oldest_versions_are_those_that_are_allowed():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    allowed = dict(re.fullmatch(r"([\w.-]+)>=([\d.]+)", one).groups() for one in asked if ">=" in one)
    pinned = dict(re.findall(r"^([\w.-]+)==([\d.]+)$", (ROOT / "tools/oldest.txt").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(pinned) >= {"numpy", "scipy", "threadpoolctl", "scikit-learn", "polars"}
    for name, version in pinned.items():
        assert version == allowed[name] or version.startswith(f"{allowed[name]}."), name


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith(("docs/benchmarks/", "docs/reproduction/"))])
def test_figures_say_where_and_when_they_were_measured(name):
    """A machine, a day, how many threads, and which seeds: here, or by the link to the page that says so for all."""
    text = (ROOT / name).read_text(encoding="utf-8")
    linked = "index.md#the-machine" in text
    assert linked or re.search("AVX-512|Xeon|H200|two cores", text), "which machine?"
    assert linked or re.search(r"November 2026|20\d\d-\d\d-\d\d", text), "when?"
    assert re.search(r"\bthreads?\b|\bcores?\b|H200", text), "how many threads?"
    assert re.search(r"\bseeds?\b|repeated runs|medians? of \d+ runs", text, re.IGNORECASE), "which seeds, or how many runs?"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", *PAGES])
def test_links_are_called_by_what_they_lead_to(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"\[[^\]\s]+\.(?:md|rst)\]\(", text) == []
