"""This project's broker as it is served: its process is killed, and its directory recovered."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.kafka.admin import leaders
from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.layouts import FAR, HOME, SEAT
from conformance.adapters.brokers.served.served_broker import ServedBroker
from conformance.adapters.brokers.served.served_nodes import ServedServer
from conformance.campaigns.mutants import HuntScope, Mutant
from conformance.campaigns.mutants.patched_impl import write_patched
from conformance.judging.compositions import SERVER_ACTORS
from conformance.judging.plan import Plan, prepare
from conformance.verbs.at_served import opened
from conformance.verbs.run import with_own_rules
from kafka_eos.environment import PACKAGES
from proofs.lift.patch import Patch
from proofs.run.files import REPOSITORY
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("served")

NOBODY = -1
CRASHES = ("idempotent-crash", "leader")
MOVES = ("transactions-small/begun=1/delays=0/unheard=0/timeouts=0", SERVER_ACTORS)
KILLED = ["--faults", "nodes", "--scope", CRASHES[0]]
MOVED = ["--faults", "nodes", "--nodes", "3", "--scope", MOVES[0]]
FEW = ["--traces", "12"]


@pytest.fixture
def three() -> Iterator[ServedServer]:
    """Three nodes; topics are led by the nodes that they are created on."""
    with (
        ServedBroker(find_release("4.3.1"), 2, 3, is_killed=False) as broker,
        closing(ServedServer(broker)) as server,
    ):
        yield server


def leaders_of(server: ServedServer, name: str) -> list[int]:
    """Of one topic, as the first node knows them; -1: none."""
    with server.open_connection() as connection:
        return [led.leader for (topic, _), led in leaders(connection).items() if topic == name]


def test_nodes_are_stopped_by_command_and_seated_at_a_start(three: ServedServer) -> None:
    [(far, _)], [(near, _)] = three.topic(on=FAR), three.topic(on=HOME)
    broker = three.broker
    broker.tell("stop", FAR)
    assert (leaders_of(three, far), leaders_of(three, near)) == ([NOBODY], [HOME])
    broker.kill()
    broker.start_nodes(2, {far: FAR, near: SEAT})
    assert (leaders_of(three, far), leaders_of(three, near)) == ([NOBODY], [SEAT])
    broker.tell("start", FAR)
    assert (leaders_of(three, far), leaders_of(three, near)) == ([FAR], [SEAT])
    broker.tell("move", near, 0, FAR)
    assert leaders_of(three, near) == [FAR]


def test_a_command_that_cannot_be_done_is_said(three: ServedServer) -> None:
    with pytest.raises(BrokerFailed, match=r"\('move', 'absent', 0, 1\).*unknown topic 'absent'"):
        three.broker.tell("move", "absent", 0, HOME)
    with pytest.raises(BrokerFailed, match="nothing"):
        three.broker.tell("nothing")
    three.broker.kill()
    with pytest.raises(BrokerFailed, match="does not do"):
        three.broker.tell("stop", FAR)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--scope", "transactions-tiny", "--nodes", "3"], "--faults nodes"),
        (["--scope", "transactions-tiny", "--faults", "nodes"], "--faults"),
        (["--scope", "idempotent-tiny", "--nodes", "3"], "transactions"),
        (["--scope", "processing"], "in process alone"),
    ],
)
def test_what_it_is_not_judged_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], word: str
) -> None:
    assert main(["run", "--system", "serve", *given, "--out", str(tmp_path / "o")]) == 2
    assert word in capsys.readouterr().err


def judged(out: Path, *given: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the report."""
    code = main(["run", "--system", "serve", "--out", str(out), *given])
    return code, json.loads((out / "report.json").read_text())


@pytest.mark.parametrize("given", sized([KILLED, MOVED], [MOVED]), ids=["one", "three"])
def test_what_is_recovered_is_as_the_model(tmp_path: Path, given: list[str]) -> None:
    code, report = judged(tmp_path, *given, *FEW)
    assert (code, report["traces"], report["undecided"]) == (0, 12, 0)
    assert report["conforms"]
    if given is MOVED:
        done = json.loads((tmp_path / "nodes.json").read_text())["done"]
        assert done["SIGKILL of the process"] > 0


PLANTED = {
    "producers_are_not_recovered": (
        *CRASHES,
        Patch(
            "LogDirectory.load",
            "remember_batches(leader.log)",
            "leader.log.producer_states.entries.clear()",
        ),
    ),
    "open_transactions_are_not_recovered": (
        *MOVES,
        Patch(
            "LogDirectory.load",
            "remember_batches(leader.log)",
            "leader.log.producer_states.ongoing.clear()",
        ),
    ),
    "prepared_transactions_are_not_recovered": (
        *MOVES,
        Patch(
            "TransactionStateManager.load",
            "return [EpochAndMetadata(coordinator_epoch, metadata) for metadata in by_id.values()]",
            "return []",
        ),
    ),
    "producer_ids_begin_again": (
        *CRASHES,
        Patch(
            "DurableCluster.__init__",
            "_DurableBlocks(self._metadata, clock_ms)",
            "ProducerIdBlocks()",
        ),
    ),
}


@pytest.mark.parametrize("bug", sized(PLANTED, [*PLANTED][1:]))
def test_what_is_not_recovered_is_found(
    bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope, actors, patch = PLANTED[bug]
    write_patched(Mutant(bug, "", HuntScope(""), (patch,)), tmp_path / "patched")
    for package in {*PACKAGES, "kafka_eos"} - {"impl"}:  # it takes none but those beside it
        shutil.copytree(REPOSITORY / package, tmp_path / "patched" / package)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "patched"))
    variant = with_own_rules("4.3.1", "serve", scope)
    plan = Plan(scope=scope, variant=variant, actors=actors, faults="nodes", traces=12)
    prepared = prepare(plan, tmp_path / "traces")
    with opened(prepared, find_release("4.3.1")) as backend:
        found = backend.findings(0, prepared.count)
        checks = backend.testbed.checks()
    assert found or not all(check.holds for check in checks.values())
