"""Conversations in fetch sessions, held with a real broker and kept, to be held with a node.

`python -m tests.impl.broker.session_recording HOST:PORT RELEASE SEED TRACES > FILE` asks a running
broker. Session ids are kept as numbers in order of sight.
"""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.broker.recording import Ask, Step, Wire

PARTITIONS = 3
RECORDS = 3
UNKNOWN_PARTITION = 9
TIMESTAMP_MS = 1_000
SOME_BYTES = 1_000_000


class Fetcher:
    """Holds one conversation about a topic of its own."""

    def __init__(self, ask: Ask, name: str) -> None:
        self._ask = ask
        self._name = name
        row = {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1}
        answer = ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row], "timeout_ms": 10_000})
        self._topic_id = answer["topics"][0]["topic_id"]
        self._sessions = [0]
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                while self.produce(partition):
                    pass

    def take(self, step: Step) -> Any:
        """What the step is answered."""
        verb, *arguments = step
        return getattr(self, verb)(*arguments)

    # ---- verbs

    def produce(self, partition: int) -> int:
        """One record."""
        records = encode_batch(client_batch([Record(0, TIMESTAMP_MS, None, b"v")]))
        topic = {"name": self._name, "partitions": [{"index": partition, "records": records}]}
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 5_000, "topics": [topic]}
        answer = self._ask(ApiKey.PRODUCE, 11, body)
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    def delete(self, partition: int, offset: int) -> int:
        """Moves the log start offset."""
        row = {"partition_index": partition, "offset": offset}
        topic = {"name": self._name, "partitions": [row]}
        answer = self._ask(ApiKey.DELETE_RECORDS, 2, {"topics": [topic], "timeout_ms": 5_000})
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    def fetch(
        self,
        session: int,
        epoch: int,
        version: int,
        asked: list[list[int]],
        forgotten: list[int],
        max_bytes: int,
    ) -> list[Any]:
        """Error, session, and for each partition: error, high watermark, log start, records."""
        rows = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": SOME_BYTES}
            for partition, offset in asked
        ]
        named = {"topic": self._name, "topic_id": self._topic_id}
        answer = self._ask(
            ApiKey.FETCH,
            version,
            {
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": max_bytes,
                "session_id": self._sessions[session],
                "session_epoch": epoch,
                "topics": [named | {"partitions": rows}] if rows else [],
                "forgotten_topics_data": [named | {"partitions": forgotten}] if forgotten else [],
            },
        )
        if answer["session_id"] not in self._sessions:
            self._sessions.append(answer["session_id"])
        found = sorted(
            [
                row["partition_index"],
                row["error_code"],
                row["high_watermark"],
                row["log_start_offset"],
                bool(row["records"]),
            ]
            for topic in answer["responses"]
            for row in topic["partitions"]
        )
        return [answer["error_code"], self._sessions.index(answer["session_id"]), found]


def next_step(random: Random, session: int, epoch: int) -> Step:
    """A request, mostly the session's next, sometimes of an older one, or of a strange epoch."""
    drawn = random.random()
    if drawn < 0.25:
        return ["produce", random.randrange(PARTITIONS)]
    if drawn < 0.3:
        return ["delete", random.randrange(PARTITIONS), random.randrange(3)]
    places = random.sample([*range(PARTITIONS), UNKNOWN_PARTITION], random.choice([0, 0, 1, 2]))
    asked = [[partition, random.choice([0, 2, 3, 3, 4, 5])] for partition in places]
    forgotten = random.sample(range(PARTITIONS), random.choice([0, 0, 0, 1, 2, 3]))
    if drawn < 0.45 or not session:
        session, epoch = random.choice([0, 0, session]), random.choice([0, 0, 0, -1])
        asked, forgotten = asked or [[0, 0]], []
    elif drawn < 0.55:
        session, epoch = random.randrange(session + 1), epoch + random.choice([-1, 0, 1])
    version = random.choice([12, 13, 13, 17]) if drawn > 0.9 else 17
    return ["fetch", session, epoch, version, asked, forgotten, random.choice([1, SOME_BYTES])]


def record(ask: Ask, seed: int, traces: int) -> list[list[Any]]:
    """So many conversations, each a list of `[step, answer]`."""
    recorded = []
    for index in range(traces):
        random = Random(seed * 1_000 + index)
        fetcher = Fetcher(ask, f"s{seed}-{index}")
        rows: list[Any] = []
        session = epoch = 0
        for _ in range(random.randrange(10, 30)):
            step = next_step(random, session, epoch)
            answer = fetcher.take(step)
            rows.append([step, answer])
            if step[0] == "fetch" and not answer[0] and answer[1]:
                session, epoch = answer[1], step[2] + 1
        recorded.append(rows)
    return recorded


def main(address: str, release: str, seed: str, traces: str) -> None:
    """Record, and print."""
    host, port = address.split(":")
    found = record(Wire(host, int(port)).ask, int(seed), int(traces))
    rows = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in found)
    print(f'{{"release":"{release}","seed":{seed},"traces":[\n{rows}\n]}}')


if __name__ == "__main__":
    main(*sys.argv[1:])
