"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

import machine
import rounding
from helpers import DTYPES
from lorank.backends import get_backend

# Derandomized: the same examples in every run on the same sources, so that a failure in CI is a failure here. (Hypothesis
# draws on the constants in the sources, so an edit elsewhere may bring up other examples.)
settings.register_profile(
    "lorank", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
# pytest --hypothesis-profile=thorough: many more, and others in every run. For a search, not for CI.
settings.register_profile("thorough", settings.get_profile("lorank"), derandomize=False, max_examples=500)
# pytest --hypothesis-profile=quick: a first look.
settings.register_profile("quick", settings.get_profile("lorank"), max_examples=2, phases=[Phase.explicit, Phase.generate])
settings.load_profile("lorank")

# Modules that cannot even be imported without what they test.
NEEDED = {"backends/test_torch.py": "torch", "backends/test_tall_arrays.py": "native"}
collect_ignore = [path for path, need in NEEDED.items() if not machine.has(need)]


def pytest_addoption(parser):
    parser.addoption("--cuda", action="store_true", help="also the tests that need a GPU: without one they fail")
    parser.addoption("--slow", action="store_true", help="also the tests that are marked slow, which CI runs")
    parser.addoption("--rounding", type=int, metavar="SEED", help="round otherwise, as another machine might (rounding.py)")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: seconds long; run by CI and with --slow")
    config.addinivalue_line("markers", "needs(name): left out where the machine has no such thing (machine.py)")
    seed = config.getoption("rounding")
    if seed is not None:
        rounding.install(seed)
    # CI installs these: a run without them would look green and test less.
    missing = [name for name in os.environ.get("LORANK_REQUIRE", "").split() if not machine.has(name)]
    if missing:
        raise pytest.UsageError(f"LORANK_REQUIRE asks for {', '.join(missing)}, which this machine does not have")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:  # not by pytest_report_header, which -q would silence
        seed = session.config.getoption("rounding")
        reporter.write_line(machine.describe() + ("" if seed is None else f"; rounding as of seed {seed}"))


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        cuda = machine.has("cuda") or metafunc.config.getoption("cuda")
        names = machine.BACKENDS + (["torch:cuda"] if cuda else [])
        # Session scope, so that a hypothesis test may use it: it holds no state that examples could share.
        metafunc.parametrize("backend", names, indirect=True, scope="session")


def pytest_collection_modifyitems(config, items):
    asked = {"cuda"} if config.getoption("cuda") else set()

    def runs(item):
        if item.get_closest_marker("slow") and not config.getoption("slow"):
            return False
        return all(machine.has(mark.args[0]) or mark.args[0] in asked for mark in item.iter_markers("needs"))

    left_out = [item for item in items if not runs(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if runs(item)]


@pytest.fixture(scope="session")
def backend(request):
    """Each backend of this machine in turn."""
    return get_backend(request.param)


@pytest.fixture(scope="session", params=DTYPES, ids=lambda dtype: dtype.name)
def dtype(request):
    """Each dtype that the library computes in."""
    return request.param
