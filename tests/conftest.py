"""Fixtures and settings that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

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


# Session scope, so that a hypothesis test may use it: it holds no state that examples could share.
@pytest.fixture(scope="session", params=["native", "reference", "torch", "torch:cuda"])
def backend(request):
    """Each backend in turn."""
    try:
        return get_backend(request.param)
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=DTYPES, ids=lambda dtype: dtype.name)
def dtype(request):
    """Each dtype that the library computes in."""
    return request.param


def pytest_addoption(parser):
    parser.addoption("--rounding", type=int, metavar="SEED", help="round otherwise, as another machine might (rounding.py)")


def pytest_configure(config):
    seed = config.getoption("rounding")
    if seed is not None:
        rounding.install(seed)
