"""Checks how a new producer treats a batch that is refused again and again, which no scope has.

1. The producer sends a batch once more than `retries` says, and reports whether the log may have
   it. The log cannot have it if the leader refused it for good the first time. `Sender.canRetry`.
2. A batch that is too large for the leader is sent in ever smaller batches, down to single records,
   which then fail (KAFKA-8350).
3. An answer may name another leader: the producer believes it if it knows the node (KIP-951).
4. A leader that answers UNKNOWN_PRODUCER_ID has lost its state of the producer. The producer sends
   it the batch again, as the first of the next epoch (KIP-360).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from conformance.adapters.impl.idempotent.messages import TOPIC, value_of
from impl import DeliveryHandle, ErrorCode, IdempotentProducerCore, SendRequest
from impl.producer.errors import DeliveryError
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    NO_PRODUCER_ID,
    BatchHeader,
    read_header,
)
from impl.protocol.schemas import ApiKey

RETRIES: Final = 2
RECORDS: Final = 4
MOST_REQUESTS: Final = 4 * RECORDS
"""More requests than it takes to fail this many records one by one."""
PLACE: Final = (TOPIC, 0)
HOME: Final = 0
OTHER: Final = 1
UNKNOWN: Final = 99
"""The id of a node that is in no metadata."""
LEADERS: Final = {PLACE: HOME, (TOPIC, 1): OTHER}


class RefusalOutcome(NamedTuple):
    """How often the producer sends a batch that is refused each time, and whether the log may have
    it."""

    requests: int
    may_be_written: bool


OUTCOMES: Final[Mapping[ErrorCode, RefusalOutcome]] = {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: RefusalOutcome(RETRIES + 1, True),
    ErrorCode.UNKNOWN_SERVER_ERROR: RefusalOutcome(1, True),
    ErrorCode.INVALID_RECORD: RefusalOutcome(1, False),
}
LED_BY: Final = {UNKNOWN: HOME, OTHER: OTHER}
"""The node to which a batch is sent again, by the leader that the answer names."""


class RefusedProducer:
    """A producer that has just received its id, and sends to one partition."""

    def __init__(self, core: IdempotentProducerCore) -> None:
        self._core = core
        self._now_ms = 0
        core.update_metadata(LEADERS)
        if asked := self.sends():
            body = {"error_code": ErrorCode.NONE, "producer_id": 0, "producer_epoch": 0}
            core.receive(asked.correlation_id, body, self._now_ms)

    def append(self, number: int) -> DeliveryHandle:
        """Queue one more record."""
        return self._core.append(*PLACE, value=value_of(number), now_ms=self._now_ms)

    def sends(self) -> SendRequest | None:
        """The request that the producer sends after a backoff, if any."""
        self._now_ms += 1
        found = [e for e in self._core.poll(self._now_ms) if isinstance(e, SendRequest)]
        return found[0] if found else None

    def refuse(
        self,
        request: SendRequest,
        error: ErrorCode,
        leader_id: int = UNKNOWN,
        log_start_offset: int = INVALID_OFFSET,
    ) -> None:
        """The leader refuses the batch, and names another leader."""
        assert request.api_key == ApiKey.PRODUCE, "nothing else is asked any more"
        row: dict[str, Any] = {"index": PLACE[1], "error_code": error}
        row |= {"base_offset": INVALID_OFFSET, "log_start_offset": log_start_offset}
        row |= {"current_leader": {"leader_id": leader_id, "leader_epoch": 1}}
        body = {"topics": [{"name": TOPIC, "partitions": [row]}]}
        self._core.receive(request.correlation_id, body, self._now_ms)

    def refuse_all(self, error: ErrorCode) -> int:
        """Refuse every request of the producer; returns the number of requests, up to a limit."""
        requests = 0
        while requests < MOST_REQUESTS and (request := self.sends()):
            self.refuse(request, error)
            requests += 1
        return requests


def differences_when_refused(new_core: Callable[[], IdempotentProducerCore]) -> list[str]:
    """The differences from the rules above. `new_core` makes a core without a producer id, with the
    given number of retries."""
    judged = (_of_retries, _of_sizes, _of_leaders, _of_lost_states)
    return [difference for judge in judged for difference in judge(new_core)]


def _of_retries(new_core: Callable[[], IdempotentProducerCore]) -> list[str]:
    found = {}
    for error in OUTCOMES:
        producer = RefusedProducer(new_core())
        handle = producer.append(0)
        requests = producer.refuse_all(error)
        told = handle.error
        found[error] = RefusalOutcome(
            requests, told.may_be_written if isinstance(told, DeliveryError) else False
        )
    return [
        f"{error.name}: {found[error]}" for error in OUTCOMES if found[error] != OUTCOMES[error]
    ]


def _of_sizes(new_core: Callable[[], IdempotentProducerCore]) -> list[str]:
    producer = RefusedProducer(new_core())
    handles = [producer.append(number) for number in range(RECORDS)]
    requests = producer.refuse_all(ErrorCode.MESSAGE_TOO_LARGE)
    failed = sum(handle.done for handle in handles)
    return [] if failed == RECORDS else [f"{failed} records fail in {requests} requests"]


def _of_leaders(new_core: Callable[[], IdempotentProducerCore]) -> list[str]:
    found = {}
    for leader_id in LED_BY:
        producer = RefusedProducer(new_core())
        producer.append(0)
        first = producer.sends()
        assert first is not None, "it has a leader"
        producer.refuse(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id)
        again = producer.sends()
        found[leader_id] = again and again.node_id
    return [] if found == LED_BY else [f"batches go to {found} by the leader that answers name"]


def _of_lost_states(new_core: Callable[[], IdempotentProducerCore]) -> list[str]:
    producer = RefusedProducer(new_core())
    producer.append(0)
    first = producer.sends()
    assert first is not None, "it has a leader"
    sent = header_of(first)
    producer.refuse(first, ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=0)
    again = producer.sends()
    if sent.producer_id == NO_PRODUCER_ID:
        return []
    assert again is not None, "it tries again"
    found = header_of(again)
    renewed = (sent.producer_id, sent.producer_epoch + 1, 0)
    is_renewed = (found.producer_id, found.producer_epoch, found.base_sequence) == renewed
    return [] if is_renewed else [f"to a leader that knows nothing of it, it sends {found}"]


def header_of(request: SendRequest) -> BatchHeader:
    """The header of the one batch of a request."""
    [topic] = request.body["topics"]
    return read_header(topic["partitions"][0]["records"])
