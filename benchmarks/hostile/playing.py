"""Plays frames at a node without sockets, and looks for what must not happen.

Frames come in chapters, each at a node of its own that has a topic, an open transaction, and two
groups, so that any chapter can be played alone. A chapter has two passes:

1. Each frame is played. It must be answered in the form of its version, or its connection closed.
2. What was refused is played again, between two fingerprints of the node: they must be equal.

A request that can be decoded may change something although it is refused, where Kafka does so:
`LEAVES_TRACES`, and Produce with acks=0 or with a partition twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import thread_time
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from benchmarks.hostile.batches import NOW_MS
from benchmarks.hostile.mutations import draw_frame
from benchmarks.hostile.requests import GROUP, TOPIC, TRANSACTIONAL_ID, draw_form
from benchmarks.hostile.state import fingerprint
from impl import CloseConnection, DecodeError, Node, Record, client_batch, encode_batch
from impl.broker.topics import INTERNAL_TOPICS
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_request, decode_response, encode_request
from impl.protocol.primitives import take_frames
from impl.protocol.schemas import ApiKey

CHAPTER_FRAMES: Final = 1_000
LEAVES_TRACES: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.FETCH: 7,
        ApiKey.JOIN_GROUP: 0,
        ApiKey.INIT_PRODUCER_ID: 0,
        ApiKey.ADD_PARTITIONS_TO_TXN: 0,
        ApiKey.ADD_OFFSETS_TO_TXN: 0,
        ApiKey.END_TXN: 0,
        ApiKey.TXN_OFFSET_COMMIT: 5,
    }
)
"""Each from which version on. Fetch opens or closes a session whatever its partitions answer.
JoinGroup creates the group before it looks at the member.
InitProducerId aborts what is open and answers CONCURRENT_TRANSACTIONS. At transaction.version 0 the
coordinator cannot write a transaction of V2: the client learns UNSUPPORTED_VERSION, and the
transition stays pending. TxnOffsetCommit of V2 adds the group's partition to the transaction before
the group looks at the member."""


class Finding(NamedTuple):
    """A frame after which the broker was not as it must be."""

    number: int
    mutation: str
    problem: str


class _Refused(NamedTuple):
    number: int
    mutation: str
    payload: bytes


class WrongAnswer(Exception):
    """An answer that its client could not read."""


@dataclass(slots=True)
class Report:
    """What was played: outcomes by name, findings, and the slowest frame."""

    frames: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    refused_again: int = 0
    findings: list[Finding] = field(default_factory=list)
    slowest: tuple[float, int, str] = (0.0, 0, "")
    slowest_bomb: float = 0.0

    def add(self, other: Report) -> None:
        """Count another report's frames, too."""
        self.frames += other.frames
        self.outcomes += other.outcomes
        self.mutations += other.mutations
        self.refused_again += other.refused_again
        self.findings += other.findings
        self.slowest = max(self.slowest, other.slowest)
        self.slowest_bomb = max(self.slowest_bomb, other.slowest_bomb)


def play_frames(first: int, count: int, seed: int) -> Iterator[Report]:
    """Play `count` frames from number `first` on, a report for each chapter.

    A chapter begins at each multiple of its size: a frame meets the same node whatever `first` is.
    """
    number, end = first - first % CHAPTER_FRAMES, first + count
    while number < end:
        following = min(number + CHAPTER_FRAMES, end)
        yield play_chapter(range(number, following), seed)
        number = following


def play_chapter(numbers: range, seed: int) -> Report:
    """Play these frames at a node of their own."""
    report, node, refused = Report(), prepare_node(), []
    for number in numbers:
        mutation, data = draw_frame(number, seed, draw_form)
        report.frames += 1
        report.mutations[mutation] += 1
        begun = thread_time()
        refused += _play_frame(node, number, mutation, data, report)
        seconds = thread_time() - begun
        if mutation == "bomb":
            report.slowest_bomb = max(report.slowest_bomb, seconds)
        else:
            report.slowest = max(report.slowest, (seconds, number, mutation))
    report.findings += _replay(node, refused, report)
    return report


def _play_frame(
    node: Node, number: int, mutation: str, data: bytes, report: Report
) -> list[_Refused]:
    """Play what a connection takes from these bytes; what of it was refused."""
    try:
        payloads = take_frames(bytearray(data))
    except DecodeError:
        report.outcomes["size refused"] += 1
        return []
    refused = []
    if not payloads:
        report.outcomes["waits for more"] += 1
    now_ms = NOW_MS + number % CHAPTER_FRAMES * 10
    for payload in payloads:
        try:
            outcome = play(node, payload, now_ms)
        except Exception as error:
            report.outcomes["crash"] += 1
            report.findings.append(Finding(number, mutation, f"{type(error).__name__}: {error}"))
            continue
        report.outcomes[outcome] += 1
        if outcome in ("closed", "refused") and not _leaves_traces(payload):
            refused.append(_Refused(number, mutation, payload))
    return refused


def play(node: Node, payload: bytes, now_ms: int) -> str:
    """What became of a request. Raises `WrongAnswer`, and whatever breaks in the node."""
    try:
        answer = node.handle(payload, now_ms)
    except CloseConnection as reason:
        if not str(reason):
            raise WrongAnswer("the connection is closed without a reason") from reason
        return "closed"
    try:
        header, body = decode_request(payload)
    except DecodeError:
        return _check_unsupported(answer)
    if answer is None:
        if header["api_key"] != ApiKey.PRODUCE or body["acks"]:
            raise WrongAnswer("nothing is answered, but to Produce with acks=0")
        return "not answered"
    try:
        answered, values = decode_response(header["api_key"], header["api_version"], answer)
    except DecodeError as error:
        raise WrongAnswer(str(error)) from error
    if answered["correlation_id"] != header["correlation_id"]:
        raise WrongAnswer(f"the correlation id is {answered['correlation_id']}")
    return "refused" if _is_refusal(values) else "answered"


def _check_unsupported(answer: bytes | None) -> str:
    """Of undecodable requests ApiVersions alone is answered, in version 0 (KIP-511)."""
    if answer is None or not decode_response(ApiKey.API_VERSIONS, 0, answer)[1]["error_code"]:
        raise WrongAnswer("a request that cannot be decoded is answered")
    return "refused"


def _is_refusal(body: Value) -> bool:
    """Whether the answer has an error for the whole, or for each of its rows."""
    if body.get("error_code"):
        return True
    codes = list(_error_codes(body))
    return any(codes) and all(codes[1:] if "error_code" in body else codes)


def _error_codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if "error_code" in value:
            yield value["error_code"]
        for name, part in value.items():
            if name == "partition_error_code":
                yield part
            yield from _error_codes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _error_codes(part)


def _leaves_traces(payload: bytes) -> bool:
    """Whether a request may be refused, and yet change something, as in Kafka."""
    try:
        header, body = decode_request(payload)
    except DecodeError:
        return False
    if header["api_key"] == ApiKey.PRODUCE:
        return not body["acks"] or _repeats_a_partition(body)
    first = LEAVES_TRACES.get(header["api_key"])
    return first is not None and header["api_version"] >= first


def _repeats_a_partition(body: Value) -> bool:
    """Then a refusal is answered, although other records for this partition were appended."""
    places = [
        (topic["name"], topic["topic_id"], partition["index"])
        for topic in body["topics"]
        for partition in topic["partitions"]
    ]
    return len(set(places)) < len(places)


# ---- what was refused, again


def _replay(node: Node, refused: list[_Refused], report: Report) -> list[Finding]:
    """Play what was refused again; if the node is another one then, find the frame."""
    now_ms = NOW_MS + CHAPTER_FRAMES * 10
    _settle(node, now_ms)
    before = fingerprint(node)
    again = [frame for frame in refused if _is_refused_again(node, frame, now_ms)]
    _settle(node, now_ms)
    report.refused_again += len(again)
    if len(again) == len(refused) and fingerprint(node) != before:
        return [_find_culprit(node, refused, now_ms)]
    return []


def _is_refused_again(node: Node, frame: _Refused, now_ms: int) -> bool:
    return play(node, frame.payload, now_ms) in ("closed", "refused")


def _find_culprit(node: Node, refused: list[_Refused], now_ms: int) -> Finding:
    for frame in refused:
        _settle(node, now_ms)
        before = fingerprint(node)
        play(node, frame.payload, now_ms)
        _settle(node, now_ms)
        if fingerprint(node) != before:
            return Finding(frame.number, frame.mutation, "it was refused, and changed the broker")
    last = refused[-1]
    return Finding(last.number, last.mutation, "a refused frame until here changed the broker once")


def _settle(node: Node, now_ms: int) -> None:
    """Let the node do what waits."""
    for _ in range(3):
        node.advance(now_ms)


# ---- the node


def prepare_node() -> Node:
    """A node with a topic, an open transaction, and a member in groups of both kinds."""
    node = Node()
    node.topics.create(TOPIC, 2, {})
    for name in sorted(INTERNAL_TOPICS):
        node.coordinators.internal_topic(name)
    node.producer_ids.generate(NOW_MS)  # asks for the first block
    _settle(node, NOW_MS)
    for api_key, version, body in HONEST:
        payload = encode_request(api_key, version, 1, "honest", body)
        outcome = play(node, payload, NOW_MS)
        assert outcome == "answered", (api_key, outcome)
    return node


def _honest_batch() -> bytes:
    batch = client_batch(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    return encode_batch(batch)


_PLACE: Final = {"name": TOPIC, "partitions": [0]}
HONEST: Final = (
    (
        ApiKey.INIT_PRODUCER_ID,
        1,
        {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout_ms": 60_000},
    ),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": 0,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [_PLACE],
        },
    ),
    (
        ApiKey.PRODUCE,
        9,
        {
            "transactional_id": TRANSACTIONAL_ID,
            "acks": -1,
            "timeout_ms": 1000,
            "topics": [{"name": TOPIC, "partitions": [{"index": 0, "records": _honest_batch()}]}],
        },
    ),
    (
        ApiKey.JOIN_GROUP,
        0,
        {
            "group_id": GROUP,
            "session_timeout_ms": 60_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\0\0\0\0"}],
        },
    ),
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        {
            "group_id": "y",
            "member_id": "y",
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        },
    ),
)
"""What honest clients have asked before."""
