"""Evidence waits for what it needs, not for time: where `conformance` and `tests` sleep, and why.

A sleep between two looks is fine, and so is one in virtual time. Any other one says how long
something takes on a machine that does nothing else; it stands here with its reason, or goes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("conformance", "tests")
VIRTUAL = {"in_a_world", "run_virtually"}
"""What runs a program on a clock that jumps to whatever is due next."""

ALLOWED = {
    # what the code is for
    "conformance/adapters/brokers/clock.py::MachineClock::sleep": "the clock itself, passed in",
    "tests/impl/broker/expiry_recording.py::_record_real::wait_until": (
        "the clock itself: a real broker's retention is a minute at least"
    ),
    "tests/impl/broker/recording.py::main::settle": "handed to loops that look again",
    "conformance/campaigns/stories/setup.py::wait": "a story says how long, and what it shows",
    "conformance/campaigns/directories/script.py::_wait": "a script says how old a segment gets",
    "conformance/adapters/clients/proxy.py::Proxy::_handle": (
        "a fault: the answer is late by so much"
    ),
    "conformance/adapters/clients/programs/aiokafka_client.py::Aiokafka::__init__": (
        "a program pauses when its schedule says so"
    ),
    "conformance/adapters/clients/programs/kafka_python_client.py::KafkaPython::__init__": (
        "a program pauses when its schedule says so"
    ),
    "tests/conformance/backends/fakes/fake_plan.py::judge_one": (
        "work that takes as long as is asked"
    ),
    "tests/impl/broker/test_connection_limits.py"
    "::test_a_first_answer_does_not_wait_for_later_requests::handle_slowly": (
        "work that takes longer than a write"
    ),
    "tests/proofs/prove/run/test_other_programs.py"
    "::test_who_had_no_processor_is_asked_again_with_more_patience::attempt": (
        "work that takes its whole limit"
    ),
    # between two attempts
    "conformance/adapters/clients/programs/lines.py::start": (
        "between two starts, of which the last counts"
    ),
    "tests/conformance/adapters/brokers/kafka/compaction_script.py::Side::retry": (
        "between two attempts, of which there are two thousand"
    ),
    # how much is done meanwhile decides nothing
    "conformance/campaigns/kills/killing.py::Killing::_live": (
        "how long a broker lives until it is killed"
    ),
    "conformance/campaigns/kills/killing.py::Killing::_end": (
        "how long clients go on after the last kill"
    ),
    "tests/conformance/adapters/brokers/kafka/test_killed_broker.py::Application::send": (
        "how often it sends"
    ),
    "tests/conformance/adapters/brokers/kafka/test_killed_broker.py::Application::transact": (
        "how often it commits"
    ),
    # diagnosis, which decides nothing either
    "conformance/campaigns/kills/load.py::LoadProcesses::replace": (
        "stacks are written, for who reads them"
    ),
    "conformance/campaigns/kills/load.py::LoadProcesses::stop": (
        "stacks are written, for who reads them"
    ),
    # nothing happens meanwhile, and less of nothing where the machine is slow
    "tests/impl/broker/test_clock.py::test_records_linger_by_the_clock": (
        "a record that lingers is not sent meanwhile"
    ),
    "tests/impl/broker/test_server.py::test_a_broken_link_between_servers_mends": (
        "a marker does not arrive at a node that is down"
    ),
    "tests/impl/broker/test_server.py::test_a_node_that_breaks_is_not_passed_over": (
        "the block is cancelled before, by what breaks"
    ),
    "tests/impl/consumer/test_trouble.py::test_whose_end_is_unknown_is_named": (
        "an answer that comes too late changes nothing"
    ),
    # virtual time, run by a caller of another function
    "tests/impl/simulator/test_network.py::talk": "virtual time: its callers run it so",
    "tests/impl/simulator/test_world.py"
    "::test_an_answer_to_a_stopped_node_does_not_reach_its_successor::program": (
        "virtual time: a world runs it"
    ),
    # what cannot be seen from outside
    "conformance/campaigns/held/conversation.py::CaseConversation::_await_leaders": (
        "parts of a real broker follow a change that others answer already, and none says so"
    ),
    "conformance/campaigns/held/conversation.py::CaseConversation::_delete": (
        "parts of a real broker follow a change that Metadata shows already, and none says so"
    ),
    "conformance/campaigns/client_table/programs/kcat.py::fencing": (
        "kcat does not say when it has sent a record, and it has no transaction before"
    ),
    "conformance/adapters/brokers/idempotent/started_brokers.py::TwoReplicas::inject": (
        "a leader does not say whether a fetch of its follower waits, for 100 ms at most"
    ),
}
"""Places by their function, each with its reason."""


class Sleep(NamedTuple):
    """A sleep in a function of a file; `parents` are the nodes around it, from outside."""

    place: str
    line: int
    node: ast.AST
    parents: tuple[ast.AST, ...]


def is_sleep(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "sleep":
        return False
    return isinstance(node.value, ast.Name) and node.value.id in ("time", "asyncio")


def sleeps_in(tree: ast.AST, file: str) -> Iterator[Sleep]:
    """Each mention of `time.sleep` and `asyncio.sleep`, called or handed on."""

    def visit(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[Sleep]:
        if is_sleep(node):
            names = [each.name for each in parents if isinstance(each, DEFINITIONS)]
            place = "::".join([file, *names[:2]])
            yield Sleep(place, node.lineno, node, parents)  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            yield from visit(child, (*parents, node))

    return visit(tree, ())


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


def is_between_looks(sleep: Sleep) -> bool:
    """Whether it is in a `while` loop of its function, or ends at once."""
    call = sleep.parents[-1]
    if isinstance(call, ast.Call) and [ast.unparse(each) for each in call.args] == ["0"]:
        return True
    around = reversed(sleep.parents)
    return any(
        isinstance(each, ast.While)
        for each in takewhile(lambda each: not isinstance(each, FUNCTIONS), around)
    )


def is_virtual(sleep: Sleep) -> bool:
    """Whether the function at the top of the module, a test mostly, runs on virtual time."""
    top = next((each for each in sleep.parents if isinstance(each, DEFINITIONS)), sleep.node)
    return any(isinstance(each, ast.Name) and each.id in VIRTUAL for each in ast.walk(top))


def all_sleeps() -> Iterator[Sleep]:
    for room in ROOMS:
        for file in sorted((REPOSITORY / room).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "sleep" in text:
                yield from sleeps_in(ast.parse(text), str(file.relative_to(REPOSITORY)))


def unexplained(sleeps: Iterable[Sleep]) -> set[str]:
    return {sleep.place for sleep in sleeps if not (is_between_looks(sleep) or is_virtual(sleep))}


def test_whoever_sleeps_looks_or_says_why() -> None:
    found = unexplained(all_sleeps())
    assert found - ALLOWED.keys() == set(), "wait for a condition, or give the reason"
    assert ALLOWED.keys() - found == set(), "these do not sleep any more"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("def f(): time.sleep(1)", True),
        ("async def f(): await asyncio.sleep(1)", True),
        ("def f(): pause = time.sleep", True),
        ("def f():\n for _ in (1, 2): time.sleep(1)", True),
        ("def f():\n while g():\n  def h(): time.sleep(1)", True),
        ("def f():\n while g(): time.sleep(1)", False),
        ("async def f(): await asyncio.sleep(0)", False),
        ("def f():\n async def g(): await asyncio.sleep(1)\n in_a_world(g)", False),
    ],
)
def test_a_sleep_is_found(text: str, is_found: bool) -> None:
    assert bool(unexplained(sleeps_in(ast.parse(text), "file"))) == is_found
