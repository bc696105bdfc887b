"""Conversations about transactions, held with a real broker and kept, to be held with a node.

`python -m tests.impl.broker.recording HOST:PORT RELEASE LEVEL SEED TRACES > FILE` asks a running
broker, which needs `transaction.state.log.num.partitions=1` and `offsets.topic.num.partitions=1`.
Producer ids are kept as numbers in order of sight. After each request whoever records waits until
the transaction is not prepared any more, so that a recording does not depend on speed.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from impl.broker.server import system_clock_ms
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

Ask = Callable[[ApiKey, int, dict[str, Any]], Any]
Step = list[Any]
"""A verb and its arguments; the first two are mostly a producer's number and epoch."""

V2_SINCE = 4
"""The first release whose brokers know V2 requests."""

WEIGHTS = {
    "init": 3,
    "add": 3,
    "add_offsets": 1,
    "produce": 4,
    "commit_offset": 2,
    "fetch_offset": 1,
    "plain_commit": 0.5,
    "end": 5,
    "producers": 1,
}


class Talker:
    """Holds one conversation under a transactional id of its own."""

    def __init__(
        self,
        ask: Ask,
        name: str,
        settle: Callable[[], None],
        clock_ms: Callable[[], int] = system_clock_ms,
    ) -> None:
        self._ask = ask
        self._settle = settle
        self._clock_ms = clock_ms
        self._ids: list[int] = []
        self.name = name

    def take(self, step: Step) -> list[Any]:
        """What the step is answered, and what DescribeTransactions says once all is settled."""
        verb, *arguments = step
        answer = getattr(self, verb)(*arguments)
        return [answer, self.described()]

    def described(self) -> list[Any]:
        """State, identity, timeout, whether there is a start, partitions."""
        body = {"transactional_ids": [self.name]}
        for _ in range(2_000):
            (row,) = self._ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body)["transaction_states"]
            if not row["transaction_state"].startswith("Prepare"):
                break
            self._settle()
        places = sorted([t["topic"], p] for t in row["topics"] for p in t["partitions"])
        return [
            row["transaction_state"],
            self._number(row["producer_id"]),
            row["producer_epoch"],
            row["transaction_timeout_ms"],
            row["transaction_start_time_ms"] > 0,
            places,
        ]

    def _number(self, producer_id: int) -> int:
        if producer_id < 0:
            return producer_id
        if producer_id not in self._ids:
            self._ids.append(producer_id)
        return self._ids.index(producer_id)

    def _identity(self, number: int, epoch: int) -> dict[str, Any]:
        is_known = 0 <= number < len(self._ids)
        return {
            "transactional_id": self.name,
            "producer_id": self._ids[number] if is_known else 999_999_999 + number,
            "producer_epoch": epoch,
        }

    # ---- verbs

    def init(self, number: int, epoch: int, version: int, timeout_ms: int) -> list[int]:
        body = self._identity(number, epoch) | {"transaction_timeout_ms": timeout_ms}
        if epoch < 0:
            body["producer_id"] = -1
        for _ in range(200):
            row = self._ask(ApiKey.INIT_PRODUCER_ID, version, body)
            if row["error_code"] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
            self._settle()
        return [row["error_code"], self._number(row["producer_id"]), row["producer_epoch"]]

    def add(self, number: int, epoch: int, version: int, partition: int) -> int:
        identity = self._identity(number, epoch)
        topics = [{"name": "t", "partitions": [partition]}]
        if version < 4:
            body = {f"v3_and_below_{key}": value for key, value in identity.items()}
            body["v3_and_below_topics"] = topics
            row = self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
            found = row["results_by_topic_v3_and_below"]
        else:
            body = {"transactions": [{**identity, "verify_only": False, "topics": topics}]}
            row = self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
            if row["error_code"]:
                return int(row["error_code"])
            found = row["results_by_transaction"][0]["topic_results"]
        return int(found[0]["results_by_partition"][0]["partition_error_code"])

    def add_offsets(self, number: int, epoch: int, version: int) -> int:
        body = self._identity(number, epoch) | {"group_id": self.name}
        return int(self._ask(ApiKey.ADD_OFFSETS_TO_TXN, version, body)["error_code"])

    def end(self, number: int, epoch: int, version: int, commit: bool) -> list[int]:
        body = self._identity(number, epoch) | {"committed": commit}
        row = self._ask(ApiKey.END_TXN, version, body)
        return [row["error_code"], self._number(row["producer_id"]), row["producer_epoch"]]

    def produce(
        self, number: int, epoch: int, version: int, partition: int, base_sequence: int
    ) -> int:
        batch = client_batch(
            [Record(0, self._clock_ms(), None, b"v")],
            producer_id=self._identity(number, epoch)["producer_id"],
            producer_epoch=epoch,
            base_sequence=base_sequence,
            is_transactional=True,
        )
        row = {"index": partition, "records": encode_batch(batch)}
        body = {"transactional_id": self.name, "acks": -1, "timeout_ms": 5_000}
        answer = self._ask(
            ApiKey.PRODUCE, version, {**body, "topics": [{"name": "t", "partitions": [row]}]}
        )
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    def commit_offset(self, number: int, epoch: int, version: int, offset: int) -> int:
        body = self._identity(number, epoch) | {"group_id": self.name, "topics": _offset(offset)}
        answer = self._ask(ApiKey.TXN_OFFSET_COMMIT, version, body)
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    def plain_commit(self, offset: int) -> int:
        body = {"group_id": self.name, "member_id": "", "topics": _offset(offset)}
        answer = self._ask(ApiKey.OFFSET_COMMIT, 8, body)
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    def fetch_offset(self, require_stable: bool) -> list[int]:
        asked = [{"name": "t", "partition_indexes": [0]}]
        body = {"group_id": self.name, "topics": asked, "require_stable": require_stable}
        answer = self._ask(ApiKey.OFFSET_FETCH, 7, body)
        row = answer["topics"][0]["partitions"][0]
        return [answer["error_code"], row["error_code"], row["committed_offset"]]

    def producers(self) -> list[Any]:
        """Of this id's producers in both partitions: id, epoch, sequence, epoch of the coordinator,
        whether a transaction is open.
        """
        body = {"topics": [{"name": "t", "partition_indexes": [0, 1]}]}
        answer = self._ask(ApiKey.DESCRIBE_PRODUCERS, 0, body)
        partitions = sorted(
            answer["topics"][0]["partitions"], key=lambda row: row["partition_index"]
        )
        return [
            sorted(
                [
                    self._ids.index(row["producer_id"]),
                    row["producer_epoch"],
                    row["last_sequence"],
                    row["coordinator_epoch"],
                    row["current_txn_start_offset"] >= 0,
                ]
                for row in partition["active_producers"]
                if row["producer_id"] in self._ids
            )
            for partition in partitions
        ]


def _offset(offset: int) -> list[dict[str, Any]]:
    row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    return [{"name": "t", "partitions": [row]}]


def next_step(random: Random, number: int, epoch: int, v2_share: float) -> Step:
    """A request, mostly of the current producer, sometimes of an older, newer or strange one."""
    verb = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    zombies = [(number, max(0, epoch - 1))] * 2 + [(number, epoch + 1), (number + 7, epoch)]
    who = list((number, epoch) if random.random() < 0.75 else random.choice(zombies))
    is_v2 = random.random() < v2_share
    arguments: dict[str, Callable[[], Step]] = {
        "init": lambda: (
            [0, -1, random.choice([2, 4]), random.choice([50_000, 60_000])]
            if random.random() < 0.5
            else [*who, random.choice([3, 4]), 60_000]
        ),
        "add": lambda: [*who, 5 if is_v2 else random.choice([0, 1, 3]), random.randrange(2)],
        "add_offsets": lambda: [*who, random.choice([1, 3])],
        "produce": lambda: [
            *who,
            12 if is_v2 else random.choice([9, 11]),
            random.randrange(2),
            random.choice([0, 0, 0, 1, 2]),
        ],
        "commit_offset": lambda: [
            *who,
            5 if is_v2 else random.choice([1, 3, 4]),
            random.randrange(9),
        ],
        "fetch_offset": lambda: [random.random() < 0.5],
        "plain_commit": lambda: [random.randrange(9)],
        "end": lambda: [*who, 5 if is_v2 else random.choice([1, 3, 4]), random.random() < 0.5],
        "producers": list,
    }
    return [verb, *arguments[verb]()]


def record(
    ask: Ask, settle: Callable[[], None], seed: int, traces: int, v2_shares: Sequence[float]
) -> list[list[Any]]:
    """So many conversations, each a list of `[step, answer, described]`."""
    recorded = []
    for index in range(traces):
        random = Random(seed * 1_000 + index)
        talker = Talker(ask, f"T{seed}-{index}", settle)
        v2_share = random.choice(v2_shares)
        step: Step = ["init", 0, -1, 4, 60_000]
        rows = []
        for _ in range(random.randrange(8, 20)):
            answer, described = talker.take(step)
            rows.append([step, answer, described])
            step = next_step(random, described[1], described[2], v2_share)
        recorded.append(rows)
    return recorded


class Wire:
    """A connection to a broker."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._buffer = bytearray()

    def ask(self, api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
        self._socket.sendall(frame(encode_request(api_key, version, 1, "recording", body)))
        while True:
            for payload in take_frames(self._buffer):
                return decode_response(api_key, version, payload)[1]
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionError("the broker closed the connection")
            self._buffer += received


NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
OF_COORDINATORS: tuple[tuple[ApiKey, dict[str, Any], str], ...] = (
    (ApiKey.DESCRIBE_GROUPS, {"groups": ["x"]}, "groups"),
    (ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x"]}, "transaction_states"),
)
"""What only a coordinator answers that has loaded its log, by type of key."""


def prepare(ask: Ask, settle: Callable[[], None]) -> None:
    """Topic t with two partitions; coordinators of both kinds."""
    row = {"name": "t", "num_partitions": 2, "replication_factor": 1}
    ask(ApiKey.CREATE_TOPICS, 5, {"topics": [row], "timeout_ms": 10_000})
    for key_type, (api_key, body, rows) in enumerate(OF_COORDINATORS):
        find = {"key": "x", "key_type": key_type}
        while ask(ApiKey.FIND_COORDINATOR, 3, find)["error_code"]:
            settle()
        while ask(api_key, 0, body)[rows][0]["error_code"] in NOT_YET:
            settle()


def main(address: str, release: str, level: str, seed: str, traces: str) -> None:
    """Record, and print."""
    host, port = address.split(":")
    wire = Wire(host, int(port))

    def settle() -> None:
        time.sleep(0.01)

    prepare(wire.ask, settle)
    v2_shares = [0, 0.5, 1] if int(release.split(".")[0]) >= V2_SINCE else [0]
    found = record(wire.ask, settle, int(seed), int(traces), v2_shares)
    rows = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in found)
    print(f'{{"release":"{release}","level":{level},"traces":[\n{rows}\n]}}')


if __name__ == "__main__":
    main(*sys.argv[1:])
