"""A handful of the moments of `python -m conformance.campaigns.kills`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.campaigns.kills.__main__ import main
from conformance.campaigns.kills.checks import Told, check, read_told
from conformance.campaigns.kills.journal import EventJournal, checksum
from conformance.campaigns.kills.stored import StoredLog, StoredState, read_log
from impl.partition.leader import PartitionLeader
from impl.protocol.record_batch import Record, client_batch, encode_batch

PLAIN = [f"own/idempotent/1.0/{number}" for number in range(4)]
WHOLE = [f"own/transactional/1.0/0.{place}" for place in range(3)]
GROUP = "own-group"


def run(*words: str) -> int:
    quick = ("--seconds", "0.2", "1.0", "--check-every", "2")
    return main([*quick, *words])


@pytest.mark.slow
def test_nothing_is_lost_in_two_kills(tmp_path: Path) -> None:
    """And a run that ended goes on where it was."""
    for moments in ("1", "2"):
        words = ("--clients", "own", "--moments", moments, "--keep", str(tmp_path / "run"))
        assert run(*words, "--json", str(tmp_path / "report.json")) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "holds"
    assert report["moments"] == 2
    assert min(report["acknowledged"], report["delivered"], report["checks"]) > 0
    assert report["transactions"]["committed"] > 0


@pytest.mark.slow
def test_an_answer_before_the_write_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--clients", "own", "--moments", "6", "--plant", "answer_before_write") == 1
    assert "acknowledged records are not there" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize(
    "defect",
    [
        "forget_producers",
        "remember_one_batch",
        "give_ids_again",
        "lose_markers",
        "lose_offsets",
    ],
)
def test_a_planted_defect_is_noticed(defect: str) -> None:
    assert run("--clients", "own,confluent", "--moments", "60", "--plant", defect) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--clients", "none"),
        ("--clients", ""),
        ("--moments", "0"),
        ("--seconds", "2", "1"),
    ],
)
def test_bad_use_is_told(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == 2
    assert words[0] in capsys.readouterr().err


def stored_and_told() -> tuple[StoredState, Told]:
    """What is right: four records, a transaction, a member that has read all of it."""
    rows = list(enumerate([*PLAIN, *WHOLE]))
    log = StoredLog(rows, list(rows), {7: {"own/idempotent/1.0"}, 8: {"own/transactional"}})
    stored = StoredState({("records", 0): log})
    stored.commits[GROUP] = [(0, 2), (0, 7)]
    stored.offsets[GROUP] = {0: 7}
    told = Told(producer_ids=[1, 2])
    events = [
        *(["ack", "records", 0, offset, value] for offset, value in rows),
        *(["begin", WHOLE[0][:-2]], ["committing", WHOLE[0][:-2]], ["committed", WHOLE[0][:-2]]),
        ["read", GROUP, 0, 0, 6, 7, checksum(value for _, value in rows)],
        *(["commit", GROUP, {"0": offset}] for offset in (2, 7)),
        ["commit_done", GROUP, {"0": 7}],
    ]
    for event in events:
        told.add(event, "own")
    return stored, told


def test_what_is_right_is_not_wrong() -> None:
    assert check(*stored_and_told(), ["own"]) == []


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        (["ack", "records", 0, 9, "own/idempotent/1.0/9"], "not there"),
        (["committed", "own/transactional/1.0/1"], "not whole"),
        (["aborted", WHOLE[0][:-2]], "aborted, and seen"),
        (["read", GROUP, 0, 0, 6, 8, 0], "what is not so"),
        (["commit_done", GROUP, {"0": 5}], "commits of offsets are lost"),
    ],
)
def test_each_wrong_answer_is_noticed(event: list[object], wrong: str) -> None:
    stored, told = stored_and_told()
    if event[0] == "committed":
        told.add(["begin", event[1]], "own")
        told.add(["committing", event[1]], "own")
    told.add(event, "own")
    [text] = check(stored, told, ["own"])
    assert wrong in text


def test_each_wrong_log_is_noticed() -> None:
    stored, told = stored_and_told()
    [(place, log)] = stored.logs.items()
    rows = log.written

    def wrong(changed: StoredLog) -> str:
        return " ".join(check(replace(stored, logs={place: changed}), told, ["own"]))

    twice = [*rows, (7, PLAIN[0])]
    assert "there twice" in wrong(replace(log, written=twice))
    assert "out of order" in wrong(replace(log, written=[*rows, (7, "own/idempotent/0.0/1")]))
    assert "not whole" in wrong(replace(log, committed=rows[:-1]))
    assert "has owners" in wrong(replace(log, producers={7: {"one", "two"}}))
    assert "given out twice" in wrong(replace(log, producers={1: {"one"}}))
    back = replace(stored, commits={GROUP: [(0, 7), (0, 2)]})
    assert any("goes back" in text for text in check(back, told, ["own"]))
    told.reads[GROUP, 0] = []
    assert any("were skipped" in text for text in check(stored, told, ["own"]))


def test_a_line_that_a_kill_has_cut_is_no_event(tmp_path: Path) -> None:
    EventJournal(tmp_path / "own-group-1.jsonl").write("begin", "own/transactional/1.0/3")
    with (tmp_path / "own-group-1.jsonl").open("a") as file:
        file.write('["begin", "own/trans')
    assert read_told(tmp_path).begun == {"own/transactional/1.0/3"}


class KafkaPythonProducer:
    """One of kafka-python, whose records fail, and whose calls are answered or not."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._transaction_manager = self._sender = self
        self.fatal_errors: list[Exception] = []
        self.refusal: Exception | None = None

    def begin_transaction(self) -> None: ...

    def wakeup(self) -> None: ...

    def transition_to_fatal_error(self, error: Exception) -> None:
        self.fatal_errors.append(error)

    def begin_commit(self) -> Any:
        kafka = pytest.importorskip("kafka.producer.transaction_manager")
        result = kafka.TransactionalRequestResult()
        if self._answers:
            result.done(self.refusal)
        return result

    def begin_abort(self) -> Any:
        self.refusal = None
        return self.begin_commit()

    def send_offsets_to_transaction(self, offsets: object, member: object) -> Any:
        return self.begin_commit()

    def send(self, topic: str, value: bytes, partition: int) -> Any:
        return pytest.importorskip("kafka.future").Future().failure(RuntimeError("refused"))


def test_what_kafka_python_commits_without_its_records_is_not_committed() -> None:
    client = pytest.importorskip("conformance.campaigns.kills.libraries.kafka_python")
    producer = client.PythonProducer(KafkaPythonProducer(answers=True))
    producer.begin()
    producer.commit()
    producer.begin()
    refused: list[object] = []
    producer.send("topic", 0, "value", lambda offset, error: refused.append(error))
    with pytest.raises(client.NotCommitted, match=r"1 of 1 records failed: .*refused"):
        producer.commit()
    assert len(refused) == 1


def test_kafka_python_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("conformance.campaigns.kills.libraries.kafka_python")
    monkeypatch.setattr(client, "WAIT_MS", 10)
    library = KafkaPythonProducer(answers=False)
    producer = client.PythonProducer(library)
    producer.begin()
    with pytest.raises(client.LostRequest, match="no answer for 10 ms"):
        producer.commit()
    assert len(library.fatal_errors) == 1


def test_offsets_that_kafka_python_was_refused_are_not_committed_later() -> None:
    client = pytest.importorskip("conformance.campaigns.kills.libraries.kafka_python")
    errors = pytest.importorskip("kafka.errors")
    library = KafkaPythonProducer(answers=True)
    producer = client.PythonProducer(library)
    consumer = SimpleNamespace(consumer=SimpleNamespace(group_metadata=lambda: "group"))
    producer.begin()
    producer.send_offsets({0: 1}, consumer)
    producer.commit()
    producer.begin()
    library.refusal = errors.CommitFailedError("unknown member")
    with pytest.raises(errors.CommitFailedError):
        producer.send_offsets({0: 2}, consumer)
    producer.abort()
    with pytest.raises(client.PendingOffsets):
        producer.begin()


def test_with_aiokafka_an_application_remembers_what_it_has_committed() -> None:
    client = pytest.importorskip("conformance.campaigns.kills.libraries.asyncio_kafka")

    class Calls:
        """Answers each call, or gives records again."""

        def __getattr__(self, name: str) -> Any:
            async def call(*_: Any, **__: Any) -> Any:
                rows = [SimpleNamespace(partition=0, offset=n, value=b"%d" % n) for n in range(4)]
                return {0: rows} if name == "getmany" else None

            return call

    thread = client.LoopThread()
    consumer = client.AsyncioKafkaConsumer(thread, Calls(), lambda *place: place, lambda: "group")
    producer = client.AsyncioKafkaProducer(thread, Calls())
    for committed in (2, 3):
        producer.begin()
        producer.send_offsets({0: committed}, consumer)
        producer.commit()
        assert [each.offset for each in consumer.poll(0)] == list(range(committed, 4))
    producer.begin()
    producer.send_offsets({0: 4}, consumer)
    producer.abort()
    assert [each.offset for each in consumer.poll(0)] == [3]


def test_a_log_is_read_whole_in_fetches_that_end_inside_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("conformance.campaigns.kills.stored.FETCH_BYTES", 100)
    leader = PartitionLeader()
    for number in range(5):
        rows = [Record(0, 0, None, b"%d" % number), Record(1, 0, None, b"more")]
        batch = encode_batch(client_batch(rows))
        assert not leader.produce(batch, required_acks=-1, now_ms=0).error
        leader.advance_high_watermark(leader.log_end_offset)
    values = [value for _, value in read_log("output", leader).committed]
    assert values == [value for number in range(5) for value in (str(number), "more")]
