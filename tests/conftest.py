"""Settings for all tests: Hypothesis repeats the same examples unless asked to search; what is made
once for several tests is made once, however many workers there are."""

import gc
import os
import signal
import subprocess
import sys
from itertools import compress
from operator import not_
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "search", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)

WIDE = ("module", "package", "session")

TESTS = Path(__file__).parent
FAST = (TESTS / "model", TESTS / "impl")
"""The folders of `make check`, but for what is marked `slow` there. In other folders the tests of
`make check` are those marked `fast`."""


IS_COMPILED_WANTED = os.environ.get("KAFKA_EOS_FORM") == "compiled"
"""A variable, not an option: `impl` must not be imported by any other conftest.py before."""


def use_compiled_form() -> None:
    """Import `impl` from its compiled copy."""
    command = [sys.executable, TESTS.parent / "scripts" / "compiled.py"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise pytest.UsageError("impl cannot be compiled here")
    sys.path.insert(0, built.stdout.strip())
    from impl.form import IS_COMPILED

    assert IS_COMPILED, "impl was imported before"


if IS_COMPILED_WANTED:
    use_compiled_form()

_REPLACED = "it replaces a function or a constant of impl, which compiled code does not look up"
_DOCSTRINGS = "compiled functions have no docstrings"
_HIDDEN = "kafka-eos takes a copy of impl that lies elsewhere for another package of that name"

NEEDS_PYTHON = {
    "test_an_answer_without_what_was_asked_is_asked_again": _REPLACED,
    "test_coordinators_without_room_for_their_topic_are_not_available": _REPLACED,
    "test_it_is_served_as_its_own_broker_serves_it_or_refused": _REPLACED,
    "test_partitions_have_a_limit": _REPLACED,
    "test_a_payload_beyond_the_limit_is_refused": _REPLACED,
    "test_a_committed_offset_is_validated_with_its_epoch": _REPLACED,
    "test_a_handshake_has_an_end": _REPLACED,
    "test_a_leader_sends_the_consumer_to_a_replica_of_its_rack": _REPLACED,
    "test_a_moved_leader_is_asked_once_and_records_go_on": _REPLACED,
    "test_another_rule_shows": _REPLACED,
    "test_checksums_are_checked_unless_they_are_not": _REPLACED,
    "test_a_check_of_columns_that_is_missing_is_found": _REPLACED,
    "test_a_planted_defect_is_noticed": _REPLACED,
    "test_the_fast_path_reads_what_is_read_byte_by_byte": _REPLACED,
    "test_typical_records_take_the_fast_path": _REPLACED,
    "test_serve_refuses_what_it_would_not_do": _HIDDEN,
    "test_the_public_names_are_there_and_documented": _DOCSTRINGS,
}
"""The tests of `tests/impl` that cannot run on the compiled form, and why."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="larger sizes, too: tests marked `full`")
    parser.addoption("--rewrite", action="store_true", help="write the model's stories anew")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(config.getoption("--hypothesis-profile") or "repeatable")
    # The graphs that most tests make are large, and have no cycles: looking for some is a tenth of
    # the time.
    gc.set_threshold(100_000, 20, 50)
    # A shell's background jobs ignore Ctrl-C, and would hand that on to what tests start and stop.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collects garbage until there is none, so that what the last tests leave open is an error.
    pytest would look through all graphs that were ever made five times, whatever it finds."""
    for _ in range(5):
        if not gc.collect():
            break
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a module leaves behind, graphs above all, is not looked through again: a collection of
    all garbage, which some tests begin themselves, took seconds in a worker that had run many."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect(1)
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups, and pytest selects by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the fast tests, and leaves out larger sizes. Tests that share a fixture of a module or
    of a session share a worker, and so do the fast tests of a file: xdist hands out groups, and
    handing out a test of milliseconds by itself takes longer than the test."""
    if not config.getoption("--full"):
        is_full = [item.get_closest_marker("full") is not None for item in items]
        config.hook.pytest_deselected(items=list(compress(items, is_full)))
        items[:] = compress(items, map(not_, is_full))
    if IS_COMPILED_WANTED:
        skip_what_needs_python(items)
    for item in items:
        if is_fast(item):
            item.add_marker("fast")
        home = shared_fixtures_of(item)
        if not home and item.get_closest_marker("fast"):
            home = item.nodeid.partition("::")[0]
        if home and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(home))


def skip_what_needs_python(items: list[pytest.Item]) -> None:
    for item in items:
        reason = NEEDS_PYTHON.get(getattr(item, "originalname", item.name))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs the Python form: {reason}"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m fast` does not even import modules that have nothing to do with it: half a minute."""
    is_other = collection_path.suffix == ".py" and not is_in_fast_folder(collection_path)
    if config.option.markexpr == "fast" and is_other:
        return "mark.fast" not in collection_path.read_text(encoding="utf-8") or None
    return None


def is_in_fast_folder(path: Path) -> bool:
    return any(folder in path.parents for folder in FAST)


def is_fast(item: pytest.Item) -> bool:
    """Whether a test lies in a fast folder, and is not slow for all that."""
    slow = any(item.get_closest_marker(name) for name in ("slow", "kafka"))
    return not slow and is_in_fast_folder(item.path)


def shared_fixtures_of(item: pytest.Item) -> str:
    """The innermost place with a fixture of ours that this test shares; "" if it shares none."""
    if not isinstance(item, pytest.Function):
        return ""
    known = item._fixtureinfo.name2fixturedefs.values()
    shared = (each for definitions in known for each in definitions if each.scope in WIDE)
    return max((each.baseid for each in shared if "tests" in each.baseid), key=len, default="")
