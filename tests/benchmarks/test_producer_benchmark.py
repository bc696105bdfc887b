"""The producers' benchmark: what all four clients send arrives, what does not is noticed, and the
report is whole. Nothing is timed here, and our broker is the only one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks import producer
from benchmarks.live import clients
from benchmarks.live.clients import (
    CLIENTS,
    AsyncioClient,
    Library,
    NotAcknowledged,
    Settings,
    our_producer,
)
from benchmarks.live.running import BROKERS, Running
from benchmarks.measuring import Time
from conformance.adapters.brokers.kafka.admin import create_topic
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey

FIGURES = producer.figures(records=12, singles=3, transactions=2)
RECORDS = {"burst": 13, "single": 4, "transactions": 30}
"""With those before the clock starts."""


@pytest.fixture(scope="module")
def ours() -> Iterator[Running]:
    with BROKERS["ours"].serves_fast() as found:
        yield found


def records_at(broker: Running, topic: str) -> list[int]:
    """How many records of clients each partition has; markers are none."""
    wanted = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        for index in range(clients.PARTITIONS)
    ]
    topics = [{"topic": topic, "partitions": wanted}]
    body = {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}
    with broker.connect() as connection:
        [found] = connection.ask(ApiKey.FETCH, 11, body)["responses"]
    return [
        sum(len(batch.records) for batch in decode_batches(row["records"]) if not batch.is_control)
        for row in sorted(found["partitions"], key=lambda row: row["partition_index"])
    ]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_what_is_sent_arrives(ours: Running, client: str, figure: producer.Figure) -> None:
    topic = f"{client}-{figure.name}"
    found = producer.measure_round(ours, figure, client, topic)
    assert found.time.seconds > 0
    assert len(found.latencies) == (3 if figure.name == "single" else 0)
    of_partitions = records_at(ours, topic)
    assert sum(of_partitions) == RECORDS[figure.name]
    if figure.name == "burst":
        assert of_partitions == [4, 3, 3, 3]


class Forgetful(AsyncioClient):
    """One record too few."""

    def burst(self, count: int) -> None:
        super().burst(count - 1)


class Twice(AsyncioClient):
    """One record too many."""

    def burst(self, count: int) -> None:
        super().burst(count + 1)


@pytest.mark.parametrize(
    ("kind", "found"), [(Forgetful, 11), (Twice, 15)], ids=["too few", "too many"]
)
def test_a_client_that_sends_another_number_is_noticed(
    ours: Running, kind: type[AsyncioClient], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "ARRIVAL_TIMEOUT_S", 0.05)
    library = Library("impl", partial(kind, our_producer))
    monkeypatch.setitem(CLIENTS, "ours", library)
    with pytest.raises(producer.WrongCount, match=f"{kind.__name__} has {found} offsets, not 13"):
        producer.measure_round(ours, FIGURES[0], "ours", kind.__name__)


def test_a_record_that_librdkafka_gives_up_is_noticed(ours: Running) -> None:
    with ours.connect() as connection:
        create_topic(connection, "narrow", 1)
    settings = Settings("{}:{}".format(*ours.address), "narrow")
    with (
        closing(CLIENTS["confluent-kafka"].open(settings)) as client,
        pytest.raises(NotAcknowledged, match="Unknown partition"),
    ):
        client.burst(2)


def test_records_that_librdkafka_still_has_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "TIMEOUT_S", 0.05)
    with (
        closing(CLIENTS["confluent-kafka"].open(Settings("127.0.0.1:1", "t"))) as client,
        pytest.raises(NotAcknowledged, match="0 of 2 are acknowledged"),
    ):
        client.burst(2)


def test_the_report_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "out.json"
    sizes = ["--records", "8", "--singles", "2", "--transactions", "1", "--rounds", "2"]
    chosen = ["--brokers", "ours", "--clients", "ours", "aiokafka"]
    assert producer.main([*chosen, *sizes, "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    report = json.loads(file.read_text(encoding="utf-8"))
    assert (report["benchmark"], report["rounds"], report["missing"]) == ("producer", 2, {})
    assert set(report["clients"]) == {"aiokafka"}
    rows = report["figures"]
    names = [(row["figure"], row["client"]) for row in rows]
    assert names == [(f.name, client) for f in FIGURES for client in ("ours", "aiokafka")]
    for row in rows:
        assert row["per_second"] > 0
        assert len(row["seconds_of_each_round"]) == 2
        assert (row["ratio"] is None) == (row["client"] == "ours")
        assert (row["cpu_ratio"] is None) == (row["client"] == "ours")
        assert (row["p50_ms"] is None) == (row["figure"] != "single")
        assert row["figure"] in printed


def test_without_a_broker_it_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        producer.main(["--brokers", "kafka"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "kafka is not measured. " in said
    assert "apt-get install" in said
    assert said.endswith("no broker is here\n")


def test_without_a_peer_it_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = replace(CLIENTS["aiokafka"], module="no_such_module")
    monkeypatch.setitem(CLIENTS, "aiokafka", nowhere)
    with pytest.raises(SystemExit) as stop:
        producer.main(["--brokers", "ours", "--clients", "ours", "aiokafka"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said == "aiokafka is not measured. Type: pip install aiokafka\nno peer is here\n"


def test_a_peer_that_is_slower_has_ratios_above_one() -> None:
    ours = producer.Round(Time(1.0, 0.5))
    theirs = producer.Round(Time(2.0, 2.0), (0.001,) * 100)
    row = producer.summarise("ours", FIGURES[1], "aiokafka", {"ours": [ours], "aiokafka": [theirs]})
    assert (row["per_second"], row["cpu_microseconds"]) == (1.5, 666_700.0)
    assert (row["ratio"], row["cpu_ratio"]) == (2.0, 4.0)
    assert (row["p50_ms"], row["p99_ms"]) == (1.0, 1.0)
