"""Settings for all tests: Hypothesis repeats the same examples unless asked to search; what is made
once for several tests is made once, however many workers there are."""

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "search", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)

WIDE = ("module", "package", "session")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(config.getoption("--hypothesis-profile") or "repeatable")
    # A shell's background jobs ignore Ctrl-C, and would hand that on to what tests start and stop.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a fixture of a module or of a session share a worker."""
    for item in items:
        home = shared_fixtures_of(item)
        if home and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(home))


def shared_fixtures_of(item: pytest.Item) -> str:
    """The innermost place with a fixture of ours that this test shares; "" if it shares none."""
    if not isinstance(item, pytest.Function):
        return ""
    known = item._fixtureinfo.name2fixturedefs.values()
    shared = (each for definitions in known for each in definitions if each.scope in WIDE)
    return max((each.baseid for each in shared if "tests" in each.baseid), key=len, default="")
