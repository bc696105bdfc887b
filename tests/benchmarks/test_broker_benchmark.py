"""The brokers' benchmark: its loads arrive, its checks refuse, its report is whole. Nothing is
timed here, and our broker is the only one."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from benchmarks import broker
from benchmarks.live import running
from benchmarks.live.frames import Log, WrongAnswer, exchange
from benchmarks.live.running import BROKERS, Running
from benchmarks.measuring import Time, alternate, compare_rounds, ratio
from conformance.adapters.brokers.kafka.admin import create_topic, init_producer_id
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey

LATEST = -1


@pytest.fixture(scope="module")
def ours() -> Iterator[Running]:
    with BROKERS["ours"].serves_fast() as found:
        yield found


def end_offset(of: Running, topic: str) -> int:
    body = {
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": LATEST}]}]
    }
    with of.connect() as connection:
        answer = connection.ask(ApiKey.LIST_OFFSETS, 1, {"replica_id": -1, **body})
    [[partition]] = [topic["partitions"] for topic in answer["topics"]]
    assert partition["error_code"] == 0
    return int(partition["offset"])


def test_both_loads_reach_the_broker(ours: Running) -> None:
    found = broker.produce_and_fetch(ours, Log("whole", requests=7, records=3))
    assert set(found) == {"Produce", "Fetch"}
    assert all(each.seconds > 0 for each in found.values())
    assert end_offset(ours, "whole") == 21


def test_batches_that_do_not_arrive_are_noticed(ours: Running) -> None:
    log = Log("holes", requests=4, records=2)
    with ours.connect() as connection:
        create_topic(connection, log.topic, 1)
        identity = init_producer_id(connection)
    after_a_gap = replace(log, records=3).produce_frames(identity)[1]
    answers = exchange(ours.address, [log.produce_frames(identity)[0], after_a_gap])
    with pytest.raises(WrongAnswer, match=r"Produce 1: error, base offset: \(45, -1\), not \(0, 2"):
        log.check_produced(answers)
    assert end_offset(ours, "holes") == 2
    fetched = exchange(ours.address, log.fetch_frames(identity)[:2])
    with pytest.raises(WrongAnswer, match=r"Fetch 1: batches: \[\], not \[\(2, 2\)\]"):
        log.check_fetched(fetched)
    with pytest.raises(WrongAnswer, match=r"Fetch 0: batches: \[\(0, 2\)\], not \[\(0, 1\)\]"):
        replace(log, records=1).check_fetched(fetched[:1])


def test_answers_in_another_order_are_noticed(ours: Running) -> None:
    log = Log("order", requests=2, records=1)
    with ours.connect() as connection:
        create_topic(connection, log.topic, 1)
        identity = init_producer_id(connection)
    answers = exchange(ours.address, log.produce_frames(identity))
    log.check_produced(answers)
    with pytest.raises(WrongAnswer, match="correlation id: 1, not 0"):
        log.check_produced(answers[::-1])


def test_some_requests_are_in_flight_and_not_more() -> None:
    """Whoever answers gets the third request only after its first answer."""
    frames = [frame(b"%d" % number) for number in range(6)]
    waiting: list[int] = []

    def answer(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link:
            for number in range(0, 6, 2):
                wanted = b"".join(frames[number : number + 2])
                got = b""
                while len(got) < len(wanted) and (chunk := link.recv(1 << 16)):
                    got += chunk
                waiting.append(len(got) - len(wanted))
                link.sendall(got)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=answer, args=[listener])
        server.start()
        answers = exchange(listener.getsockname(), frames, in_flight=2)
        server.join()
    assert answers == [b"%d" % number for number in range(6)]
    assert waiting == [0, 0, 0]


def test_the_report_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "out.json"
    words = ["--brokers", "ours", "--rounds", "2", "--requests", "10", "--starts", "1"]
    words += ["--client-records", "200"]
    assert broker.main([*words, "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["benchmark"] == "broker"
    assert (report["missing"], report["rounds"]) == ({}, 2)
    loads = [(row["load"], row["records"]) for row in report["loads"]]
    of_requests = [("Produce", 1), ("Fetch", 1), ("Produce", 100), ("Fetch", 100)]
    assert loads == [*of_requests, ("confluent-kafka", 1)]
    for row in report["loads"]:
        assert row["requests_per_second"] > 0
        assert row["records_per_second"] >= row["requests_per_second"]
        assert len(row["seconds_of_each_round"]) == 2
        assert row["ratio"] is None
        assert f"{row['load']}, {row['records']} a batch" in printed
    assert [row["broker"] for row in report["starts"]] == ["ours", "in-process"]


def test_without_a_peer_it_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        broker.main([])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "kfake is not measured. Go is not installed. Type: apt-get install golang" in said
    assert "kafka is not measured. " in said
    assert said.endswith("no peer is here\n")


def test_what_does_not_serve_is_missing() -> None:
    with (
        pytest.raises(running.Missing, match="ended with exit code 3"),
        running.child(["sh", "-c", "exit 3"]),
    ):
        pass


def test_the_one_that_begins_changes_and_ratios_are_of_rounds() -> None:
    order: list[str] = []
    found = alternate(["a", "b"], 3, lambda name: order.append(name) or len(order))
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert ratio([1.0, 3.0, 1.0], [2.0, 9.0, 4.0]) == 3.0


def test_processor_time_is_that_of_all_rounds() -> None:
    ours, idle = [Time(1.0, 1.0), Time(1.0, 3.0)], [Time(1.0, 0.0), Time(1.0, 0.0)]
    peer = [Time(1.0, 4.0), Time(1.0, 4.0)]
    assert compare_rounds("peer", {"ours": ours, "peer": peer})["cpu_ratio"] == 2.0
    assert compare_rounds("peer", {"ours": idle, "peer": peer})["cpu_ratio"] is None


def test_the_version_of_kfake_is_that_of_its_module() -> None:
    assert BROKERS["kfake"].title().startswith("kfake v0.0.0-")


def test_nothing_is_no_number_of_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        broker.main(["--rounds", "0"])
    assert stop.value.code == 2
    assert "--rounds: invalid positive value: '0'" in capsys.readouterr().err


def test_a_peer_that_is_slower_has_ratios_above_one() -> None:
    found = {"ours": [Time(1.0, 0.5)], "kafka": [Time(2.0, 2.0)]}
    row = broker.summarise("Produce", "kafka", found, requests=10, records=3)
    assert (row["requests_per_second"], row["records_per_second"]) == (5.0, 15.0)
    assert row["cpu_microseconds_a_request"] == 200_000.0
    assert (row["ratio"], row["cpu_ratio"]) == (2.0, 4.0)
