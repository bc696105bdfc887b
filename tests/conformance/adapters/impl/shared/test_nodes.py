"""impl's nodes in this process: judged by whole requests, one of them or three that are stopped."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost
from conformance.adapters.brokers.node_network import NodeConnection, NodeNetwork, NodesUnsettled
from impl.broker import coordinators, produce_requests
from impl.protocol.schemas import ApiKey

pytestmark = pytest.mark.xdist_group("nodes")  # what is explored is cached

TINY = ["--scope", "transactions-tiny", "--traces", "20"]
MOVES = "transactions-small/begun=1/delays=0/unheard=0/timeouts=0"
METADATA: dict[str, Any] = {"topics": [], "allow_auto_topic_creation": False}


def judged(out: Path, *given: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the report."""
    code = main(["run", "--system", "nodes", "--out", str(out), *given])
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    assert report["undecided"] == 0
    return code, report


@pytest.mark.parametrize(
    "given",
    [
        TINY,
        [*TINY, "--variant", "v1"],
        [*TINY, "--nodes", "3", "--faults", "nodes"],
        ["--scope", "idempotent-tiny", "--traces", "20"],
    ],
    ids=["v2", "v1", "three", "leader"],
)
def test_nodes_are_as_the_model(tmp_path: Path, given: list[str]) -> None:
    code, report = judged(tmp_path / "out", *given)
    assert (code, report["traces"], report["conforms"]) == (0, 20, True)


def test_what_stands_before_a_leader_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: no error of a coordinator becomes that of a leader."""
    monkeypatch.setattr(produce_requests, "error_for_version", lambda error, version: error)
    code, report = judged(tmp_path / "out", *TINY, "--variant", "v1")
    assert (code, report["verdict"]) == (1, "violated")
    found = report["divergences"][0]
    trace = tmp_path / "out" / found["trace"]
    assert main(["replay", str(trace), "--system", "nodes"]) == 1
    monkeypatch.undo()
    assert main(["replay", str(trace), "--system", "nodes"]) == 0


def test_a_coordinator_that_moves_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: who is elected does not read its log."""
    monkeypatch.setattr(coordinators, "read_records", lambda leader: [])
    given = ["--scope", MOVES, "--traces", "20"]
    code, _ = judged(tmp_path / "out", *given, "--nodes", "3", "--faults", "nodes")
    assert code == 1


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--scope", "transactions-tiny", "--nodes", "3"], "--faults nodes"),
        (["--scope", "idempotent-tiny", "--nodes", "3"], "transactions"),
        (["--scope", "processing"], "in process alone"),
        (["--scope", "transactions-tiny", "--master", "local"], "--master"),
    ],
)
def test_what_nodes_are_not_judged_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], word: str
) -> None:
    assert main(["run", "--system", "nodes", *given, "--out", str(tmp_path / "o")]) == 2
    assert word in capsys.readouterr().err


# The network


@pytest.mark.fast
def test_what_is_frozen_answers_when_it_goes_on() -> None:
    nodes = NodeNetwork({}, 2)
    frozen, other = NodeConnection(nodes, 2), NodeConnection(nodes, 1)
    nodes.freeze(2)
    frozen.send(ApiKey.METADATA, 4, METADATA)
    assert other.ask(ApiKey.METADATA, 4, METADATA)["brokers"]
    with pytest.raises(AnswerTimeout):
        frozen.receive()
    nodes.thaw()
    assert [b["node_id"] for b in frozen.receive().body["brokers"]] == [1, 2]


@pytest.mark.fast
def test_who_is_killed_leads_its_partitions_anew() -> None:
    nodes = NodeNetwork({}, 2)
    nodes.create("t", [2])
    nodes.kill(2)
    assert nodes.cluster.leader_of("t", 0) is None
    nodes.thaw()
    assert nodes.cluster.leader_of("t", 0) is not None
    assert nodes.leader("t").leader_epoch == 2  # nobody leads, then it: as of a real broker


@pytest.mark.fast
def test_time_passes_where_somebody_waits() -> None:
    nodes = NodeNetwork({}, 1)
    nodes.sleep(2.0004)
    assert nodes.now_s() == 2.001  # never less: who waits would wait for ever
    NodeConnection(nodes, 1).ask(ApiKey.METADATA, 4, METADATA)
    assert nodes.now_s() == 2.002


@pytest.mark.fast
def test_a_connection_is_closed_for_a_reason() -> None:
    connection = NodeConnection(NodeNetwork({}, 1), 1)
    with pytest.raises(ConnectionLost, match="not in the table"):
        connection.ask_bytes(b"\x7f\x7f\0\0\0\0\0\0\xff\xff")


@pytest.mark.fast
def test_work_that_makes_work_for_ever_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = NodeNetwork({}, 1)
    node = nodes.by_id[1]

    def again(now_ms: int) -> None:
        node.defer(again)

    node.defer(again)
    with pytest.raises(NodesUnsettled):
        nodes.settle()
