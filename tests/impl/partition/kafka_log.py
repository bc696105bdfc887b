"""Kafka's own UnifiedLog as a process: commands in, what it answers and what it is then out."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from impl.partition.replica_log import ReplicaLog
from tests.impl.jars import jars

RELEASE = "4.3.1"


def described(log: ReplicaLog) -> str:
    """A log in the words of the program: ends; producers; segments; snapshots."""
    producers = " ".join(
        f"{producer_id}/{entry.producer_epoch}:"
        + ",".join(f"{b.first_sequence}-{b.last_sequence}@{b.first_offset}" for b in entry.batches)
        for producer_id, entry in sorted(log.producer_states.entries.items())
    )
    segments = " ".join(map(str, log.segments))
    snapshots = " ".join(map(str, sorted(log.producer_states.snapshots)))
    ends = f"{log.log_start_offset} {log.log_end_offset} {log.high_watermark}"
    return f"{ends}|{producers}|{segments}|{snapshots}"


class KafkaLog:
    """One program, one log at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *words: object) -> tuple[str, str]:
        """(what it answers, what it is then) of one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        answer, _, state = self._process.stdout.readline().rstrip("\n").partition("|")
        return answer, state

    def append(self, data: bytes) -> tuple[str, str]:
        return self.run("append", base64.b64encode(data).decode())


@contextmanager
def kafka_log() -> Iterator[KafkaLog]:
    """Raises `Unavailable`."""
    storage = jars(f"kafka-storage-{RELEASE}", {"org.apache.kafka:kafka-storage": RELEASE})
    program = str(Path(__file__).parent / "Logs.java")
    with subprocess.Popen(
        [
            *("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{storage}/*", program),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield KafkaLog(process)
        finally:
            process.kill()
