"""What all tests share: a cache of simulator builds for this run alone, and the simulators that are there."""

import pytest
from hypothesis import settings

from fabtune.sim.simulator import SIMULATORS, find

settings.register_profile("fabtune", derandomize=True, deadline=None)
settings.load_profile("fabtune")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FABTUNE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    """Each simulator in turn; one that is not installed is skipped by name."""
    if not find(request.param):
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def fast_simulator():
    """The one that builds faster: Icarus where it is installed."""
    return "icarus" if find("icarus") else "verilator"
