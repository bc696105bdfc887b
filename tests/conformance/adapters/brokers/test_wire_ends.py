"""How a run over a wire ends: nobody there, silence, a broker that dies, one that comes back."""

import itertools
import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers import listening_broker
from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.idempotent.testbed_of_leaders import (
    LeadersTestbed,
    leaders_backend,
)
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.listening_broker import ListeningBroker, NoBroker, address_of
from conformance.adapters.brokers.transactions import servers
from conformance.judging.backend import BackendFailed, TraceRange
from conformance.judging.plan import Plan, prepare
from conformance.judging.rows import found_in
from conformance.judging.runner import Waves
from impl import ApiKey, CloseConnection, Node, decode_request
from impl.protocol.messages import decode_response, encode_response
from proofs.run.files import REPOSITORY
from proofs.run.journal import Journal

PLAN = Plan(faults="connections", traces=40)


def run(url: str, out: Path, *more: str) -> int:
    return main(["run", "--system", url, "--traces", "40", "--out", str(out), *more])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def listening(url: str, **given: int) -> ListeningBroker:
    return ListeningBroker(address_of(url), **given)


# Bad use


def test_nobody_listens(tmp_path, capsys):
    port = free_port()
    assert run(f"wire://127.0.0.1:{port}", tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert f"nothing listens at 127.0.0.1:{port}" in told
    assert "start the broker" in told
    assert not (tmp_path / "out").exists(), "nothing was planned"


def test_spark_without_java_is_refused_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    out = tmp_path / "out"
    assert main(["run", "--backend", "spark", "--traces", "3", "--out", str(out)]) == 2
    assert f"not in JAVA_HOME={tmp_path}" in capsys.readouterr().err
    assert not out.exists(), "nothing was planned"


def test_the_topics_of_a_run_are_deleted(serve, tmp_path):
    broker = serve()
    assert run(broker.url, tmp_path / "out", "--scope", "idempotent-tiny") == 0
    with BrokerConnection("127.0.0.1", broker.port) as connection:
        assert connection.ask(ApiKey.METADATA, 1, {"topics": None})["topics"] == []


def test_topics_that_stay_are_named(serve, tmp_path, capsys):
    def keeps_topics(node: Node, payload: bytes) -> bytes | None:
        if int.from_bytes(payload[:2], "big") == ApiKey.DELETE_TOPICS:
            return None
        return node.handle(payload, time.time_ns() // 1_000_000)

    listening_there = listening(serve(keeps_topics).url, timeout_ms=200)
    listening_there.topic()
    listening_there.close()
    assert "1 topics kafka-eos-topic-" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["wire://", "wire://host", "wire://host:x", "wire://:1", "wire://h:0"]
)
def test_an_address_that_is_none(url):
    with pytest.raises(NoBroker, match="write wire://HOST:PORT"):
        address_of(url)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("wire://h:9092", ("h", 9092)),
        ("wire://[::1]:65535", ("::1", 65535)),
        ("wire://PLAINTEXT://h:9092", ("h", 9092)),
    ],
)
def test_an_address(url, address):
    assert address_of(url) == address


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--faults", "nodes"), "valid: connections or none"),
        (("--codec", "values"), "valid: bytes"),
        (("--actors", "client,leader"), "valid: leader"),
        (("--master", "local"), "leave it out"),
        (("--scope", "idempotent-failover"), "choose a scope with one"),
        (("--nodes", "3"), "needs brokers that are started"),
    ],
)
def test_what_a_wire_does_not_allow(serve, tmp_path, capsys, more, what):
    assert run(serve().url, tmp_path / "out", *more) == 2
    assert what in capsys.readouterr().err


def test_no_broker_at_all_listens_there(serve, tmp_path, capsys):
    server = serve(lambda _node, _payload: b"HTTP/1.1 400 Bad Request")
    assert run(server.url, tmp_path / "out") == 2
    assert "does not answer ApiVersions as a broker does" in capsys.readouterr().err


def test_a_broker_without_produce_is_no_broker(serve, monkeypatch):
    announced = {ApiKey.API_VERSIONS: range(4)}
    monkeypatch.setattr("impl.broker.api_versions.announced_versions", lambda _: announced)
    with pytest.raises(NoBroker, match="does not offer PRODUCE, INIT_PRODUCER_ID, CREATE_TOPICS"):
        listening(serve().url)


def one_of_three(node: Node, payload: bytes) -> bytes | None:
    """Metadata names two more."""
    header, _ = decode_request(payload)
    answer = honest(node, payload)
    if header["api_key"] != ApiKey.METADATA or answer is None:
        return answer
    key, version = header["api_key"], header["api_version"]
    found, body = decode_response(key, version, answer)
    brokers = [{**body["brokers"][0], "node_id": number} for number in (1, 2, 3)]
    return encode_response(key, version, found["correlation_id"], {**body, "brokers": brokers})


def wants_sasl(node: Node, payload: bytes) -> bytes | None:
    """Before SaslHandshake a listener answers ApiVersions alone."""
    if int.from_bytes(payload[:2], "big") != ApiKey.API_VERSIONS:
        raise CloseConnection("unauthenticated")
    return honest(node, payload)


@pytest.mark.parametrize("scope", ["idempotent-tiny", "transactions-tiny"])
@pytest.mark.parametrize(
    ("handle", "said"),
    [
        (one_of_three, "is one of 3 brokers (1, 2, 3): wire:// judges a broker that is alone"),
        (wants_sasl, "name the address of a plaintext listener without SASL"),
    ],
)
def test_a_broker_that_cannot_be_judged_is_refused_before_any_work(
    serve, tmp_path, capsys, handle, said, scope
):
    assert run(serve(handle).url, tmp_path / "out", "--scope", scope) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists(), "nothing was planned"


def test_apis_that_transactions_need_are_missed_before_any_work(
    serve, tmp_path, capsys, monkeypatch
):
    announced = {key: range(6) for key in ApiKey if key != ApiKey.DESCRIBE_TRANSACTIONS}
    monkeypatch.setattr("impl.broker.api_versions.announced_versions", lambda _: announced)
    url, out = serve().url, tmp_path / "out"
    assert run(url, out, "--scope", "transactions-tiny") == 2
    said = capsys.readouterr().err
    assert "does not offer DESCRIBE_TRANSACTIONS" in said
    assert "--scope idempotent-default needs" in said
    assert not out.exists(), "nothing was planned"


def test_the_guide_lists_the_apis_that_are_needed():
    guide = (REPOSITORY / "docs/guides/judge_a_system.md").read_text(encoding="utf-8")
    for needed in (listening_broker.NEEDED, servers.NEEDED):
        names = [name.replace("_", " ").title().replace(" ", "") for name in map(word, needed)]
        assert f"{', '.join(names[:-1])} and {names[-1]}" in guide


def word(api: int) -> str:
    return ApiKey(api).name


# Silence


class Forgets:
    """Answers no batch that it has seen before."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def __call__(self, node: Node, payload: bytes) -> bytes | None:
        header, body = decode_request(payload)
        if header["api_key"] == ApiKey.PRODUCE and body["acks"] == -1:
            records = body["topics"][0]["partitions"][0]["records"]
            if records in self.seen:
                return None
            self.seen.add(records)
        return honest(node, payload)


def honest(node: Node, payload: bytes) -> bytes | None:
    return node.handle(payload, time.time_ns() // 1_000_000)


def backend_of(tmp_path: Path, broker: ListeningBroker, traces: int = 3) -> BrokersBackend:
    return leaders_backend(prepare(replace(PLAN, traces=traces), tmp_path), broker)


def test_a_broker_that_never_answers(serve):
    with pytest.raises(BackendFailed, match="takes a connection but answers nothing"):
        listening(serve(lambda _node, _payload: None).url, timeout_ms=200)


def test_a_request_that_is_never_answered_is_a_finding(serve, tmp_path):
    backend = backend_of(tmp_path, listening(serve(Forgets()).url, timeout_ms=200))
    found = found_in(
        row for row in backend.judge([TraceRange(0, 2), TraceRange(2, 3)]) if row
    ).summary
    backend.close()
    assert found.traces == 3
    assert found.divergences > 0
    for occurrences in found.findings.values():
        for finding in occurrences.shortest:
            assert finding["expected"] == {"leader[0].sends": 1}
            assert finding["observed"] == {"leader[0].sends": "no answer in time"}


def test_a_broken_connection_is_no_finding_where_the_trace_alone_is_answered(serve, tmp_path):
    """One request in a hundred breaks its connection."""
    count = itertools.count()

    def handle(node: Node, payload: bytes) -> bytes | None:
        if decode_request(payload)[0]["api_key"] == ApiKey.PRODUCE and next(count) == 100:
            raise CloseConnection("planted")
        return honest(node, payload)

    backend = backend_of(tmp_path, listening(serve(handle).url), traces=40)
    found = found_in(row for row in backend.judge([TraceRange(0, 40)]) if row).summary
    backend.close()
    assert (found.traces, found.divergences) == (40, 0)


def test_a_broker_that_dies_leaves_what_was_done(serve, tmp_path, capsys):
    """Exit code 3; the same command with a broker again goes on, and gives the same report."""
    first = serve()
    whole = run(first.url, tmp_path / "whole")
    mortal = serve()
    # All traces are judged as a sample first, then as the run.
    dies = threading.Thread(target=dies_after, args=(mortal, first.requests // 2 + 500))
    dies.start()
    assert run(mortal.url, tmp_path / "out") == 3
    dies.join()
    capsys.readouterr()
    *_, last = Waves(Journal(tmp_path / "out" / "journal.jsonl"), 40).done
    reborn = serve(port=mortal.port)
    assert run(reborn.url, tmp_path / "out") == whole == 0
    assert f"going on: {last.last} of 40" in capsys.readouterr().err
    report = (tmp_path / "out" / "report.json").read_bytes()
    assert report == (tmp_path / "whole" / "report.json").read_bytes()


# The same command again


class GivesIdsTwice:
    """Its answers to InitProducerId of these numbers have the id of the first."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.given: list[bytes] = []

    def __call__(self, node: Node, payload: bytes) -> bytes | None:
        answer = honest(node, payload)
        is_about_ids = int.from_bytes(payload[:2], "big") == ApiKey.INIT_PRODUCER_ID
        if answer is None or not is_about_ids or any(answer[8:10]):  # the error
            return answer
        self.given.append(answer)
        return answer[:4] + self.given[0][4:] if len(self.given) in self.numbers else answer


def checks_in(out: Path) -> Any:
    return json.loads((out / "report.json").read_text())["checks"]


def test_a_run_that_is_finished_stays_violated(serve, tmp_path):
    """The hundred ids behind the traces alone have one that came before."""
    broker, out = serve(GivesIdsTwice(150)), tmp_path / "out"
    assert run(broker.url, out, "--scope", "idempotent-tiny") == 1
    assert not checks_in(out)["producer_ids"]["holds"]
    report = (out / "report.json").read_bytes()
    assert run(broker.url, out, "--scope", "idempotent-tiny") == 1
    assert (out / "report.json").read_bytes() == report


def test_what_was_seen_before_an_interruption_is_not_forgotten(serve, tmp_path, monkeypatch):
    """The first process saw an id twice; the second goes on at a broker that gives each once."""
    arguments = ("--scope", "idempotent-tiny")
    whole = run(serve(GivesIdsTwice(50, 150)).url, tmp_path / "whole", *arguments)
    broker, out = serve(GivesIdsTwice(50)), tmp_path / "out"
    url, port = broker.url, broker.port
    with monkeypatch.context() as patch:
        patch.setattr(LeadersTestbed, "checks", stopped)
        assert run(url, out, *arguments) == 3
    broker.close()
    serve(port=port)
    assert run(url, out, *arguments) == whole == 1
    assert checks_in(out) == checks_in(tmp_path / "whole")


def stopped(*_given: object) -> None:
    raise KeyboardInterrupt


def dies_after(broker: Any, requests: int) -> None:
    while broker.requests < requests:
        time.sleep(0.005)
    broker.close()
