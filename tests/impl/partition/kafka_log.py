"""Kafka's own UnifiedLog as a process: commands in, what it answers and what it is then out."""

from __future__ import annotations

import base64
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from impl.log.transaction_index import decode_transaction_index
from impl.partition.replica_log import ReplicaLog
from tests.impl.jars import jars

RELEASE = "4.3.1"
_OLDER = {"4.2.1": ((".record.internal.", ".record."),)}
_OLDER["4.1.2"] = (*_OLDER["4.2.1"], (", transactionVersion)", ")"), (".lastSeq()", ".lastSeq"))
"""What the program says otherwise to an older release."""


def described(log: ReplicaLog) -> str:
    """A log in the words of the program: ends; producers; segments; snapshots; verifications;
    what is aborted, segment by segment.
    """
    states = log.producer_states
    producers = " ".join(
        f"{producer_id}/{entry.producer_epoch}/{entry.coordinator_epoch}"
        f"/{entry.current_txn_first_offset}:"
        + ",".join(f"{b.first_sequence}-{b.last_sequence}@{b.first_offset}" for b in entry.batches)
        for producer_id, entry in sorted(states.entries.items())
    )
    segments = " ".join(map(str, log.segments))
    snapshots = " ".join(map(str, sorted(states.snapshots)))
    verifications = " ".join(
        f"{producer_id}/{entry.producer_epoch}/{entry.lowest_sequence}/{entry.guard}"
        f"/{int(entry.supports_epoch_bump)}"
        for producer_id, entry in sorted(states.verifications.items())
    )
    aborted = " ".join(
        f"{base}=" + ",".join(f"{e[0]}:{e[1]}-{e[2]}@{e[3]}" for e in listed)
        for base in log.segments
        if (listed := decode_transaction_index(log.transaction_index(base), base))
    )
    ends = f"{log.log_start_offset} {log.log_end_offset} {log.high_watermark}"
    ends += f" {log.last_stable_offset}"
    return "|".join((ends, producers, segments, snapshots, verifications, aborted))


class KafkaLog:
    """One program, one log at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.is_closed = True

    def run(self, *words: object) -> tuple[str, str]:
        """(what it answers, what it is then) of one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if words[0] in ("open", "close"):
            self.is_closed = words[0] == "close"
        print(*words, file=self._process.stdin, flush=True)
        answer, _, state = self._process.stdout.readline().rstrip("\n").partition("|")
        return answer, state

    def append(self, data: bytes, guard: int = 0) -> tuple[str, str]:
        return self.run("append", base64.b64encode(data).decode(), guard)

    def coordinate(self, data: bytes, guard: int, transaction_version: int) -> tuple[str, str]:
        return self.run("coordinate", base64.b64encode(data).decode(), guard, transaction_version)


@contextmanager
def kafka_log(release: str = RELEASE) -> Iterator[KafkaLog]:
    """Raises `Unavailable`."""
    storage = jars(f"kafka-storage-{release}", {"org.apache.kafka:kafka-storage": release})
    text = (Path(__file__).parent / "Logs.java").read_text()
    for now, then in _OLDER.get(release, ()):
        text = text.replace(now, then)
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [
                *("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-cp", f"{storage}/*", _written(Path(folder, "Logs.java"), text)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        try:
            yield KafkaLog(process)
        finally:
            process.kill()


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)
