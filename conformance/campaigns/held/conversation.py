"""Plays cases at one broker, of any kind.

Each case has a connection of its own. Steps before the case are repeated while the broker answers
"not yet"; the case itself is sent once, or twice if it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, Self

from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost
from conformance.campaigns.held.cases import Case, CaseKind
from conformance.campaigns.held.normalized import Json, Normalizer
from conformance.campaigns.held.preparation import STEPS, PreparationRequest, create_topics
from conformance.campaigns.held.symbols import CLIENT_ID, Symbols
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.fields import CoordinatorType
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.schemas import ApiKey

CLOSED: Final = "connection closed"
UNANSWERED: Final = "no answer"
UNREADABLE: Final = "answer of another form"

_PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 0.003
ANSWER_TIMEOUT_MS: Final = 2_500
"""The time-out for the answer to a case. Steps before it have the connection's time-out."""
_NOT_YET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TOPIC_ALREADY_EXISTS,  # the topic is being deleted
    }
)
_NAMES_OF_API: Final = 10_000
_TOPIC: Final = "topic"
_TOPICS_AT_ONCE: Final = 100
_CREATE_TOPICS: Final = 7
_FIRST_REQUESTS: Final[tuple[tuple[ApiKey, int, Any], ...]] = (
    (ApiKey.FIND_COORDINATOR, 1, {"key": "any", "key_type": CoordinatorType.GROUP}),
    (ApiKey.FIND_COORDINATOR, 1, {"key": "any", "key_type": CoordinatorType.TRANSACTION}),
    (ApiKey.DESCRIBE_GROUPS, 0, {"groups": ["any"]}),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["any"]}),
    (ApiKey.INIT_PRODUCER_ID, 0, {"transactional_id": None, "transaction_timeout_ms": 1000}),
)
_LIST_OFFSETS: Final = 2
_METADATA: Final = 4


class CaseConnection(Protocol):
    """The connection that a case needs."""

    def ask(self, api_key: int, api_version: int, body: Any) -> Any:
        """The body of the answer."""

    def ask_bytes(self, payload: bytes, timeout_ms: int) -> bytes:
        """The answer to a whole request."""

    def send_bytes(self, payload: bytes) -> None:
        """Send a request to which no answer comes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class NotPrepared(Exception):
    """A step before a case was refused."""


class CaseConversation:
    """The cases for one broker. `settling_s` is the time until the broker has applied a change."""

    def __init__(
        self, connect: Callable[[], CaseConnection], port: int, settling_s: float = 0.0
    ) -> None:
        self._connect = connect
        self._port = port
        self._settling_s = settling_s
        self._shared: dict[str, Symbols] = {}
        self._count = 0

    def play(self, cases: Sequence[Case]) -> Iterator[tuple[Case, Json]]:
        """Each case with its answer. Raises NotPrepared, ConnectionLost."""
        self._await_coordinators()
        for some in batched(cases, _TOPICS_AT_ONCE):
            all_symbols = [self._symbols_of(case) for case in some]
            self._create_topics(zip(some, all_symbols, strict=True))
            for case, symbols in zip(some, all_symbols, strict=True):
                self._prepare(case, symbols)
                yield case, self._answer(case, symbols)

    def _symbols_of(self, case: Case) -> Symbols:
        """The symbols of the case; new ones if it shares none."""
        symbols = self._shared.get(case.family)
        if symbols is None:
            self._count += 1
            symbols = Symbols(_NAMES_OF_API * case.api_key + self._count)
        if case.family:
            self._shared[case.family] = symbols
        return symbols

    def _answer(self, case: Case, symbols: Symbols) -> Json:
        if case.kind in (CaseKind.DELETED, CaseKind.RECREATED):
            self._delete(symbols, is_created_again=case.kind is CaseKind.RECREATED)
        body = symbols.fill(case.body)
        with self._connect() as connection:
            answer = self._ask_raw(connection, case, body)
            if case.kind is CaseKind.TWICE and answer is not None:
                answer = self._ask_again(case, body)
        normalizer = Normalizer(case.api_key, symbols, self._port)
        return normalizer.body(answer) if isinstance(answer, dict) else answer

    # ---- the case

    def _ask_raw(self, connection: CaseConnection, case: Case, body: Any) -> Any:
        """The body of the answer, or the event that came instead."""
        payload = bytearray(encode_request(case.api_key, case.form, -1, CLIENT_ID, body))
        payload[2:4] = case.version.to_bytes(2, "big", signed=True)
        if case.api_key is ApiKey.PRODUCE and not body["acks"]:
            return self._ask_unanswered(connection, bytes(payload))
        try:
            answer = connection.ask_bytes(bytes(payload), ANSWER_TIMEOUT_MS)
            return decode_response(case.api_key, case.form, answer)[1]
        except ConnectionLost:
            return CLOSED
        except AnswerTimeout:
            return UNANSWERED
        except DecodeError:
            return UNREADABLE

    def _ask_unanswered(self, connection: CaseConnection, payload: bytes) -> str:
        """Whether the next request on the connection is the first to be answered."""
        try:
            connection.send_bytes(payload)
            connection.ask(ApiKey.API_VERSIONS, 0, {})
        except ConnectionLost:
            return CLOSED
        return UNANSWERED

    def _ask_again(self, case: Case, body: Any) -> Any:
        """The second answer, after the effects of the first request have ended."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            time.sleep(self._settling_s)
            with self._connect() as connection:
                answer = self._ask_raw(connection, case, body)
            running = ErrorCode.CONCURRENT_TRANSACTIONS in errors_of(answer)
            if not running or time.monotonic() > deadline:
                return answer

    # ---- before a case

    def _await_coordinators(self) -> None:
        """Create coordinators and producer ids before all cases.

        The first request for a coordinator creates its topic, which the coordinator then loads.
        """
        with self._connect() as connection:
            for request in _FIRST_REQUESTS:
                self._insist(connection, *request)

    def _create_topics(self, cases: Iterable[tuple[Case, Symbols]]) -> None:
        """Create the topics of many cases at once, which is much faster."""
        wanted = {
            symbols.number: symbols
            for case, symbols in cases
            if _TOPIC in case.steps and _TOPIC not in symbols.done
        }
        if not wanted:
            return
        names = {symbols.fill("$topic"): symbols for symbols in wanted.values()}
        with self._connect() as connection:
            body = create_topics(names)
            answer = self._insist(connection, ApiKey.CREATE_TOPICS, _CREATE_TOPICS, body)
            for row in answer["topics"]:
                names[row["name"]].learnt["topic_id"] = row["topic_id"]
                names[row["name"]].done.add(_TOPIC)
            self._await_leaders(connection, names)

    def _prepare(self, case: Case, symbols: Symbols) -> None:
        """Take those steps of a case that were not taken yet for its symbols."""
        missing = [name for name in case.steps if name not in symbols.done]
        if missing:
            with self._connect() as connection:
                for name in missing:
                    for step in STEPS[name]:
                        self._take(connection, step, symbols)
        symbols.done.update(missing)

    def _take(self, connection: CaseConnection, step: PreparationRequest, symbols: Symbols) -> None:
        answer = self._insist(connection, step.api_key, step.version, symbols.fill(step.body))
        for symbol, path in step.brings.items():
            value = answer
            for key in path:
                value = value[key]
            symbols.learnt[symbol] = value

    def _insist(self, connection: CaseConnection, key: ApiKey, version: int, body: Any) -> Any:
        """The answer, once it is not "not yet". Raises NotPrepared."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            answer = connection.ask(key, version, body)
            errors = errors_of(answer) - {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
            if not errors:
                return answer
            if not errors <= _NOT_YET or time.monotonic() > deadline:
                raise NotPrepared(f"{key.name} version {version}: {body} was answered {answer}")
            time.sleep(_PAUSE_S)

    def _await_leaders(self, connection: CaseConnection, names: Iterable[str]) -> None:
        rows = [{"partition_index": 0, "timestamp": -1}]
        topics = [{"name": name, "partitions": rows} for name in names]
        body = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        self._insist(connection, ApiKey.LIST_OFFSETS, _LIST_OFFSETS, body)
        time.sleep(self._settling_s)

    def _delete(self, symbols: Symbols, *, is_created_again: bool) -> None:
        name = symbols.fill("$topic")
        with self._connect() as connection:
            body = {"topic_names": [name], "timeout_ms": 10_000}
            self._insist(connection, ApiKey.DELETE_TOPICS, 1, body)
            asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            while not errors_of(connection.ask(ApiKey.METADATA, _METADATA, asked)):
                time.sleep(_PAUSE_S)
            time.sleep(5 * self._settling_s)
            if is_created_again:
                body = create_topics([name])
                self._insist(connection, ApiKey.CREATE_TOPICS, _CREATE_TOPICS, body)
                self._await_leaders(connection, [name])


def batched(cases: Sequence[Case], count: int) -> Iterator[Sequence[Case]]:
    """Slices of at most `count` cases."""
    return (cases[start : start + count] for start in range(0, len(cases), count))


def errors_of(answer: Any) -> set[int]:
    """All error codes in an answer except 0."""
    return {*_errors(answer)} - {ErrorCode.NONE}


def _errors(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("error_code"):
                yield inner
            else:
                yield from _errors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _errors(inner)
