"""What is said in several places for packagers, runners and readers is said alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONDA_NAMES = {"torch": "pytorch"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def settings():
    import tomllib

    return tomllib.loads(read("pyproject.toml"))


def asked(lines):
    """``{name: oldest version}`` of requirements such as ``numpy>=2.0``; those without a version are left out."""
    return dict(re.fullmatch(r"([\w.-]+)>=([\d.]+)", one).groups() for one in lines if ">=" in one)


def recipe(section):
    """The same of a section of the conda recipe, from its lines ``- numpy >=2.0``."""
    text = read("packaging/conda/recipe.yaml")
    block = re.search(rf"^  {section}:\n((?:    .*\n)+)", text, re.MULTILINE)[1]
    return dict(re.findall(r"^ +- ([\w.-]+) >=([\d.]+)$", block, re.MULTILINE))


def test_the_conda_recipe_asks_for_what_the_package_asks_for(settings):
    project = settings["project"]
    assert recipe("run") == {"python": project["requires-python"].removeprefix(">=")} | asked(project["dependencies"])
    assert recipe("host") == asked(settings["build-system"]["requires"])
    extras = {}
    for lines in project["optional-dependencies"].values():
        extras |= {CONDA_NAMES.get(name, name): version for name, version in asked(lines).items()}
    constrained = recipe("run_constraints")
    assert set(constrained) >= {"scikit-learn", "polars", "pytorch"}
    assert constrained == {name: extras[name] for name in constrained}


@pytest.mark.skipif(not (ROOT / ".github").exists(), reason="the sdist has no workflows")
def test_the_same_pythons_everywhere(settings):
    matrix = re.search(r"python: \[(.*)\]", read(".github/workflows/tests.yml"))[1]
    pythons = re.findall(r'"(3\.\d+)"', matrix)
    assert settings["project"]["requires-python"] == f">={pythons[0]}"
    assert settings["tool"]["cibuildwheel"]["build"].split() == [f"cp{python.replace('.', '')}-*" for python in pythons]
    assert f"| Python | {pythons[0]} to {pythons[-1]} |" in read("docs/project/releases.md")
    listed = [one.rpartition(" ")[2] for one in settings["project"]["classifiers"] if ":: Python :: 3." in one]
    assert listed == pythons


def test_what_the_library_itself_needs(settings):
    assert set(asked(settings["project"]["dependencies"])) == {"numpy", "scipy", "threadpoolctl"}


def test_the_page_of_versions_names_the_oldest(settings):
    project = settings["project"]
    known = asked([*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)])
    text = read("docs/project/releases.md")
    for names in (("numpy", "scipy", "threadpoolctl"), ("scikit-learn", "polars", "pandas", "torch", "distributed")):
        versions = [known[name] for name in names]
        assert f"from {', '.join(versions[:-1])} and {versions[-1]} on" in text


def test_installations_at_the_same_time_do_not_share_a_build_folder(settings):
    """In one folder, one of two ended without the kernels. By default each installation builds in a temporary folder."""
    assert "build-dir" not in settings["tool"]["scikit-build"]


def test_licenses_of_compiled_libraries_are_part_of_the_package(settings):
    files = [path for pattern in settings["project"]["license-files"] for path in ROOT.glob(pattern)]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for library in ("nanobind", "robin-map"):
        assert library in texts


@pytest.mark.skipif(not (ROOT / ".github").exists(), reason="the sdist has no workflows")
def test_actions_of_github_are_pinned_by_hash():
    """Tags may move."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for name, version in re.findall(r"uses: ([\w./-]+)@(\S+)", path.read_text(encoding="utf-8")):
            assert re.fullmatch("[0-9a-f]{40}", version), f"{path.name}: {name}"
