"""Plays hostile frames at two brokers over sockets, and compares what becomes of each.

Every frame has a connection of its own. What becomes of it is one of: the connection is closed,
nothing comes within `WAIT_SECONDS`, or answers, of which the error codes by field are compared.
What a frame changes, it changes at both brokers: later frames meet the same state as far as both
agree. A broker may close a connection where Kafka answers; it may not answer something else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from benchmarks.hostile.mutations import draw_frame
from benchmarks.hostile.playing import HONEST
from benchmarks.hostile.requests import GROUP, TOPIC, TRANSACTIONAL_ID, draw_form
from impl import DecodeError, decode_response, encode_request
from impl.broker.topics import INTERNAL_TOPICS
from impl.protocol.errors import ErrorCode
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey

WAIT_SECONDS: Final = 0.3
HONEST_SECONDS: Final = 30.0
CLOSED: Final = "closed"
NOTHING: Final = "nothing"

Address = tuple[str, int]


class Finding(NamedTuple):
    """A frame that only one of both answered so."""

    number: int
    text: str


@dataclass(slots=True)
class Comparison:
    """Outcomes by name, known differences by reason, and findings."""

    frames: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        """Count another comparison's frames, too."""
        self.frames += other.frames
        self.outcomes += other.outcomes
        self.known += other.known
        self.findings += other.findings


class _Difference(NamedTuple):
    """How answers may differ: of which APIs (none: any), what is in them, and why."""

    api_keys: tuple[ApiKey, ...]
    ours: str
    theirs: str
    why: str


_A = ApiKey
KNOWN: Final = (
    _Difference((), "", ", 7)", "Kafka had no time: the frame says how much"),
    _Difference((_A.ALLOCATE_PRODUCER_IDS,), "", CLOSED, "nodes here ask where clients ask"),
    _Difference((_A.FETCH,), "", CLOSED, "Kafka fails on a tag that another version has"),
    _Difference((_A.FETCH,), "", "[('', -1)]", "Kafka fails on a topic id of zeros"),
    _Difference((_A.FETCH,), "", ", 6)", "no replica fetches from our nodes"),
    _Difference((_A.PRODUCE,), ", 0)", ", -1)", "Kafka runs out of memory on a bomb"),
    _Difference((_A.WRITE_TXN_MARKERS,), "", ", -1)", "Kafka fails on an epoch below zero"),
    _Difference((_A.CREATE_TOPICS,), ", 44)", "", "Kafka's sum of partitions overflows"),
    _Difference((_A.API_VERSIONS,), ", 35)", CLOSED, "Kafka reads the header before the version"),
    _Difference(
        (_A.ALTER_CONFIGS, _A.INCREMENTAL_ALTER_CONFIGS),
        ", 42)",
        "",
        "settings of our nodes do not change while they run",
    ),
)
"""The first that fits counts."""


# ---- one frame


async def exchange(
    address: Address, data: bytes, answers: int, wait_seconds: float
) -> list[bytes] | None:
    """The answers that come in time; None if the connection was closed before the last.

    Raises `OSError` if the broker is not there.
    """
    reader, writer = await asyncio.open_connection(*address)
    got: list[bytes] = []
    try:
        writer.write(data)
        async with asyncio.timeout(wait_seconds):
            while len(got) < answers:
                size = int.from_bytes(await reader.readexactly(4), "big")
                got.append(await reader.readexactly(size))
            if not answers:
                await reader.readexactly(1)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except TimeoutError:
        pass
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return got


def describe(payloads: Sequence[bytes], answers: Sequence[bytes] | None) -> str:
    """What became of a frame, in a form that is the same for the same errors."""
    if answers is None:
        return CLOSED
    if not answers:
        return NOTHING
    return " ".join(map(_describe_answer, payloads, answers))


def _describe_answer(payload: bytes, answer: bytes) -> str:
    api_key, version = (int.from_bytes(payload[at : at + 2], "big") for at in (0, 2))
    for form in ((api_key, version), (ApiKey.API_VERSIONS, 0)):  # the second is of KIP-511
        with suppress(DecodeError, ValueError):
            return str(sorted(set(_error_codes(decode_response(*form, answer)[1], ""))))
    return "an answer that cannot be decoded"


def _error_codes(value: Any, path: str) -> Iterator[tuple[str, int]]:
    """Each error code of an answer, with the names of the fields that lead to it."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name in ("error_code", "partition_error_code"):
                yield path, int(part)
            yield from _error_codes(part, f"{path}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from _error_codes(part, path)


def judge(api_key: int | None, ours: str, theirs: str) -> tuple[str, str]:
    """The outcome's name, and why it is no finding although they differ."""
    if ours == theirs:
        return "same", ""
    if ours == CLOSED:
        return "closed by ours alone", ""
    if theirs == NOTHING:
        return "not answered by Kafka", ""
    for each in KNOWN:
        if each.api_keys and api_key not in each.api_keys:
            continue
        if each.ours in ours and each.theirs in theirs:
            return "known", each.why
    return "finding", ""


def _payloads(data: bytes) -> list[bytes]:
    try:
        return take_frames(bytearray(data))
    except DecodeError:
        return []


def _deletes_state(payload: bytes) -> bool:
    """Kafka deletes topics in which coordinators keep their state; our node refuses that."""
    is_deletion = payload[:2] == ApiKey.DELETE_TOPICS.to_bytes(2, "big")
    return is_deletion and any(name.encode() in payload for name in INTERNAL_TOPICS)


# ---- a chapter


async def compare(numbers: range, seed: int, ours: Address, theirs: Address) -> Comparison:
    """Play these frames at two brokers that were prepared."""
    comparison = Comparison()
    for number in numbers:
        mutation, data = draw_frame(number, seed, draw_form)
        payloads = _payloads(data)
        comparison.frames += 1
        if any(map(_deletes_state, payloads)):
            comparison.outcomes["left out"] += 1
            continue
        answered = await asyncio.gather(
            *(exchange(each, data, len(payloads), WAIT_SECONDS) for each in (ours, theirs))
        )
        our, their = (describe(payloads, each) for each in answered)
        api_key = int.from_bytes(payloads[0][:2], "big") if payloads else None
        outcome, why = judge(api_key, our, their)
        comparison.outcomes[outcome] += 1
        if why:
            comparison.known[why] += 1
        if outcome == "finding":
            text = f"frame {number} ({mutation}, API {api_key}): {our}, Kafka {their}"
            comparison.findings.append(Finding(number, text))
    return comparison


_LATER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


async def prepare(address: Address) -> None:
    """A topic, coordinators, an open transaction, and a member in groups of both kinds."""
    topic = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1}
    await _ask(address, ApiKey.CREATE_TOPICS, 4, {"topics": [topic], "timeout_ms": 10_000})
    for kind, key in ((0, GROUP), (1, TRANSACTIONAL_ID)):
        await _ask(address, ApiKey.FIND_COORDINATOR, 1, {"key": key, "key_type": kind})
    for request in HONEST:
        await _ask(address, *request)


async def _ask(address: Address, api_key: ApiKey, version: int, body: dict[str, Any]) -> None:
    """Ask until the answer is no error that passes. Raises `RuntimeError` for another error."""
    data = frame(encode_request(api_key, version, 1, "honest", body))
    codes = set(_LATER)
    async with asyncio.timeout(HONEST_SECONDS):
        while codes & _LATER:
            answers = await exchange(address, data, 1, HONEST_SECONDS)
            if not answers:
                raise RuntimeError(f"{api_key.name} is not answered")
            answer = decode_response(api_key, version, answers[0])[1]
            codes = {ErrorCode(code) for _, code in _error_codes(answer, "")}
            await asyncio.sleep(0.05 if codes & _LATER else 0)
    if codes - {ErrorCode.NONE}:
        raise RuntimeError(f"{api_key.name} is refused: {codes}")
