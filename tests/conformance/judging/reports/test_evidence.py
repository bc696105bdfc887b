"""What a run writes about a difference is enough to see it again without this project."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import google_crc32c
import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.reproduction import expected_places
from conformance.adapters.brokers.templates import batches_in, template_of
from conformance.adapters.brokers.wire import ClientIdentity, Conversation
from conformance.judging.reports import standalone
from conformance.judging.reports.document import Document, FileLink, Heading, Table
from conformance.judging.reports.script import layout_of, script_of
from impl import ApiKey, Broker, PartitionLeader
from impl.protocol.messages import encode_request, encode_response
from proofs.trace.format import read

V2 = Conversation(5, 3, 12, 4, 5, 5, 2)
WHO = ClientIdentity("orders", 4711, 3)


@pytest.mark.parametrize(
    "request_",
    [
        V2.produce(WHO, ("bills", 1), 0, "a", "b").request,
        V2.end_txn(WHO, True).request,
        V2.add_partitions(WHO, [("bills", 0), ("bills", 1)]).request,
        V2.init_producer_id("orders").request,
    ],
    ids=lambda request: ApiKey(request.api_key).name,
)
def test_a_template_names_what_is_of_this_run_alone(request_: WireRequest):
    names: list[str] = []
    template = template_of(request_, [4711], names)
    assert "{correlation}" in template
    assert set(names) <= {"orders", "bills"}
    assert all(name.encode().hex() not in template for name in ("orders", "bills"))
    assert (4711).to_bytes(8, "big").hex() not in template
    # With the values of this run it is the request again, the checksum of its batch included.
    sender = standalone.RequestSender("127.0.0.1", 0)
    sender.seen["producer_id"] = [4711]
    sender.names = {f"{n} {len(text)}": text.encode() for n, text in enumerate(names)}
    records = batches_in(request_.body)
    sender.now_ms = int.from_bytes(records[0][27:35], "big") if records else 0
    sent = sender.request(template)[4:]
    assert sent == encode_request(request_.api_key, request_.api_version, 0, None, request_.body)


def test_the_scripts_own_checksum_is_castagnolis():
    data = bytes(range(256))
    assert standalone.crc32c(data) == google_crc32c.value(data)


@pytest.mark.parametrize("version", [0, 3, 5])
def test_a_layout_reads_what_a_broker_answers(version: int):
    answer = {"error_code": 51, "producer_id": 9, "producer_epoch": 2, "throttle_time_ms": 0}
    data = encode_response(ApiKey.END_TXN, version, 1, answer)
    layout = layout_of(f"END_TXN {version}")
    reader = standalone.Reader(data, layout["flexible"])
    assert reader.number("int32") == 1
    if layout["header_tags"]:
        reader.skip_tags()
    found = reader.struct(layout["fields"])
    assert found["error_code"] == 51
    assert ("producer_id" in found) == (version == 5)
    assert reader.at == len(data)


def test_what_the_model_says_stands_where_an_answer_has_it():
    log = {"a.records[0].kind": "DATA", "a.records[1].producer_epoch": 0, "a.error_code": 0}
    row = ("leader[0].log[1].producer_epoch", 1, 0)
    assert expected_places(row, log) == {"a.records[1].producer_epoch": 1}
    missing = ("leader[0].log[2]", {"kind": "COMMIT", "producer_id": 0, "sequence": None}, None)
    assert expected_places(missing, log) == {
        "a.records[2].kind": "COMMIT",
        "a.records[2].producer_id": "P0",
    }
    assert expected_places(("leader[0].log[1]", None, {}), log) == {
        "a.records[1].producer_epoch": None
    }
    told = {"t[0].error_code": 0}
    assert expected_places(("leader[0].producers[0].last_sequence", 4, -1), told) == {
        "t[0].active_producers[P0].last_sequence": 4
    }
    assert expected_places(("answer.error", 51, 0), told) == {"t[0].error_code": 51}


# ---- from a run to a script


def duplicates_are_stored_at(patch: pytest.MonkeyPatch) -> None:
    """Repeats are answered with the end of the log."""
    honest = PartitionLeader.produce

    def produce(self, *given, **named):
        end = self.log_end_offset
        outcome = honest(self, *given, **named)
        is_repeat = outcome.base_offset < end == self.log_end_offset
        return outcome._replace(base_offset=end) if is_repeat else outcome

    patch.setattr(PartitionLeader, "produce", produce)


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> tuple[Path, str]:
    """A run that found a planted bug, and what its script said of the broker that has it."""
    out = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch, Broker() as broker:
        duplicates_are_stored_at(patch)
        url = f"wire://{broker.bootstrap_servers}"
        run = ["--system", url, "--scope", "idempotent-tiny", "--traces", "40", "--out", str(out)]
        assert main(["run", *run]) == 1
        [said] = played(script_in(out), broker)
    return out, said


def script_in(out: Path) -> Path:
    [row] = json.loads((out / "report.json").read_text())["divergences"]
    return out / row["script"]


def played(script: Path, broker: Broker) -> list[str]:
    """What a script says, asked to begin with each node: it runs with nothing of ours on its
    path."""
    said = []
    for address in broker.bootstrap_servers.split(","):
        command = [sys.executable, "-I", "-S", str(script), address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        said.append(f"{done.stdout}{done.stderr}exit {done.returncode}")
    return said


def test_a_script_shows_the_difference_where_it_is_and_nothing_where_it_is_not(planted):
    out, said = planted
    assert "DIFFERS  topics[0].partitions[0].base_offset\n            expected 0" in said
    assert said.endswith("1 of 5 answers differ from what is expected\nexit 1")
    with Broker() as honest:
        [told] = played(script_in(out), honest)
    assert told.endswith("0 of 5 answers differ from what is expected\nexit 0")


def close_the_next(listening: socket.socket) -> None:
    wire, _ = listening.accept()
    wire.close()


@pytest.mark.parametrize("closes", [False, True], ids=["nobody listens", "closed at once"])
def test_a_script_that_nothing_answers_shows_nothing(planted, closes):
    out, _ = planted
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "{}:{}".format(*listening.getsockname())
        command = [sys.executable, "-I", "-S", str(script_in(out)), address]
        if closes:
            Thread(target=close_the_next, args=(listening,), daemon=True).start()
        else:
            listening.close()
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 2
    assert f"nothing answers at {address}" in done.stderr
    assert "DIFFERS" not in done.stdout


@pytest.mark.parametrize("address", ["localhost", "localhost:x", ":9092", "localhost:70000"])
def test_a_script_says_what_it_takes(address, capsys):
    assert standalone.main(["x.py", address]) == 2
    assert "EXCHANGES" in capsys.readouterr().out


def offsets_are_one_too_high(patch: pytest.MonkeyPatch) -> None:
    """All batches are said to be behind where they are."""
    honest = PartitionLeader.produce

    def produce(self, *given, **named):
        outcome = honest(self, *given, **named)
        return outcome._replace(base_offset=outcome.base_offset + 1)

    patch.setattr(PartitionLeader, "produce", produce)


def test_a_script_finds_the_leader_and_the_coordinator_from_any_of_three_nodes(tmp_path):
    nodes = ["--system", "nodes", "--nodes", "3", "--faults", "nodes"]
    with pytest.MonkeyPatch.context() as patch, Broker(nodes=3) as broker:
        offsets_are_one_too_high(patch)
        run = [*nodes, "--scope", "transactions-tiny", "--traces", "3", "--out", str(tmp_path)]
        assert main(["run", *run]) == 1
        wrong = played(script_in(tmp_path), broker)
    with Broker(nodes=3) as broker:
        right = played(script_in(tmp_path), broker)
    assert [said[-6:] for said in wrong] == ["exit 1"] * 3
    assert all("DIFFERS  topics[0].partitions[0].base_offset" in said for said in wrong)
    assert [said[-6:] for said in right] == ["exit 0"] * 3


def test_the_trace_carries_the_requests_and_explain_writes_the_script_again(planted, tmp_path):
    out, _ = planted
    trace = script_in(out).with_suffix(".jsonl")
    exchanges = read(trace).header.exchanges
    assert [one["api"].split()[0] for one in exchanges] == [
        "CREATE_TOPICS",
        "INIT_PRODUCER_ID",
        "PRODUCE",
        "DESCRIBE_PRODUCERS",
        "PRODUCE",
    ]
    assert [list(one["observed"]) for one in exchanges[:4]] == [[], [], [], []]
    assert main(["explain", str(trace), "--script", str(tmp_path / "again.py")]) == 0
    again = (tmp_path / "again.py").read_text().partition("EXCHANGES")[2]
    assert again == script_in(out).read_text().partition("EXCHANGES")[2]


def test_the_report_of_a_run_can_be_filed(planted):
    out, _ = planted
    report, page = (out / "report.md").read_text(), (out / "index.html").read_text()
    for text in (
        "expected: Apache Kafka 4.3.1",
        "base_offset",
        "HOST:PORT",
        "ReplicaManager.appendRecords",
    ):
        assert text in report
    assert "leader.on_produce: leader.sends.base_offset" in page
    assert "http" not in page


def test_a_trace_of_a_system_in_process_has_no_script(tmp_path, capsys):
    trace = tmp_path / "t.jsonl"
    header = {"format": "kafka-eos-trace", "version": 1, "scope": "idempotent-tiny", "seed": 0}
    header |= {"variant": "4.3.1", "system": "model", "prefix": "", "patches": []}
    trace.write_text(json.dumps(header) + "\n")
    assert main(["explain", str(trace), "--script", str(tmp_path / "s.py")]) == 2
    assert "has no requests" in capsys.readouterr().err


def test_a_document_is_the_same_in_both_forms():
    page = (
        Document("a <b>")
        .say("see ", FileLink("file", "x/y.py"))
        .add(Heading("part"), Table(("n", "text"), [(1234, "a|b")]))
    )
    assert "[file](x/y.py)" in page.markdown()
    assert "| 1,234 | a&#124;b |" in page.markdown()
    assert '<a href="x/y.py">file</a>' in page.html()
    assert "<h1>a &lt;b&gt;</h1>" in page.html()


def test_a_script_compiles_and_says_what_is_expected():
    exchange = {"says": "x", "connection": "a", "api": "END_TXN 5", "bytes": "", "expect": {}}
    text = script_of([exchange], 'a "quoted" \\ title', "x.py", "4.3.1/level=2/requests=v2")
    compile(text, "x.py", "exec")
    assert "Apache Kafka 4.3.1 (4.3.1/level=2/requests=v2)" in text
