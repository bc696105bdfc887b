"""One process of a member: its producer, and its loop of consuming, transforming and producing.

Theory of operation: after each call of the application, all requests of its producer are sent and
answered until the producer sends no more. The application handles errors as Kafka's documentation
says: it aborts where it may, and otherwise ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from conformance.adapters.impl.processing.shapes import INPUT
from conformance.adapters.impl.shared.nodes import Nodes
from impl import (
    DeliveryHandle,
    IdempotentProducerCore,
    OffsetAndMetadata,
    ProducerConfig,
    SendRequest,
    TransactionalProducerCore,
)
from impl.client.arguments import GroupMetadata
from impl.producer import State
from impl.producer.transactional_requests import CallResult

OUTPUT: Final = "out"
MOST_REQUESTS: Final = 12
"""The most requests of one call; more would be retries without an end."""
TIMESTAMP_MS: Final = 0
NOW_MS: Final = 0
"""The fixed time of a client's clock. There is no backoff, so whatever waits is due at once."""


class UnansweredCall(AssertionError):
    """A call, or a record, has no outcome."""


def value_of(member: int, offset: int) -> bytes:
    """The record that a member makes of a record of the input."""
    return b"%d/%d" % (member, offset)


def read_value(value: bytes | None) -> tuple[int, int]:
    """(input offset, member) of a record of the output."""
    member, offset = (int(part) for part in (value or b"-1/-1").split(b"/"))
    return offset, member


def producer_config(transactional_id: str | None, *, is_v2: bool) -> ProducerConfig:
    """The configuration of a producer, without backoff and linger."""
    more: Mapping[str, Any] = {}
    if transactional_id is not None:
        requests = "v2" if is_v2 else "v1"
        more = {"transactional_id": transactional_id, "transaction_requests": requests}
    config = ProducerConfig.of(linger_ms=0, retry_backoff_ms=0, retry_backoff_max_ms=0, **more)
    return replace(config, request_timeout_ms=30_000)


class Process:
    """A member's process with its producer."""

    def __init__(
        self,
        nodes: Nodes,
        transactional_id: str | None,
        *,
        is_v2: bool,
        member: int,
        leads_output: int,
    ) -> None:
        self._nodes = nodes
        self._member = member
        self._core: IdempotentProducerCore
        config = producer_config(transactional_id, is_v2=is_v2)
        if transactional_id is None:
            self._core = IdempotentProducerCore(config)
        else:
            self._core = TransactionalProducerCore(config)
            self._core.update_nodes(list(nodes.by_id))
        self._leaders = {(OUTPUT, 0): leads_output}

    @property
    def is_dead(self) -> bool:
        """Whether the producer is in a state in which every call fails."""
        return self._core.state is State.FATAL_ERROR

    # ---- the application

    def initialize(self) -> None:
        """`initTransactions`. Raises UnansweredCall, ProducerError."""
        self._finish(self._transactions.initialize())

    def produce(self, offset: int) -> None:
        """Write the record made of an input record. Raises UnansweredCall, ProducerError."""
        if isinstance(self._core, TransactionalProducerCore):
            self._core.begin()
        handle = self._core.append(
            OUTPUT,
            0,
            value=value_of(self._member, offset),
            timestamp_ms=TIMESTAMP_MS,
            now_ms=NOW_MS,
        )
        self._run()
        self._check(handle)

    def commit_offset(self, offset: int, group: GroupMetadata) -> None:
        """`sendOffsetsToTransaction`. Raises UnansweredCall, ProducerError."""
        committed = OffsetAndMetadata(offset, str(self._member))
        self._finish(self._transactions.send_offsets(dict.fromkeys(INPUT, committed), group))

    def commit(self) -> None:
        """`commitTransaction`. Raises UnansweredCall, ProducerError."""
        self._finish(self._transactions.begin_commit())

    def abort(self) -> None:
        """`abortTransaction`. Raises UnansweredCall, ProducerError."""
        self._finish(self._transactions.begin_abort())

    @property
    def _transactions(self) -> TransactionalProducerCore:
        assert isinstance(self._core, TransactionalProducerCore), "it works in transactions"
        return self._core

    def _finish(self, call: CallResult) -> None:
        self._run()
        if not call.done:
            raise UnansweredCall(f"a call of member {self._member}")
        call.acknowledge()

    def _check(self, handle: DeliveryHandle) -> None:
        if not handle.done:
            raise UnansweredCall(f"a record of member {self._member}")
        if handle.error is not None:
            raise handle.error

    # ---- its producer

    def _run(self) -> None:
        """Send and answer all requests that follow from a call. Raises UnansweredCall."""
        self._core.update_metadata(self._leaders)
        for _ in range(MOST_REQUESTS):
            effects = self._core.poll(NOW_MS)
            if not effects:
                return
            for sent in effects:
                assert isinstance(sent, SendRequest), "nothing takes so long"
                body = self._nodes.ask(sent.node_id, sent.api_key, sent.api_version, sent.body)
                self._core.receive(sent.correlation_id, body, NOW_MS)
        raise UnansweredCall(f"requests of member {self._member}")
