"""What a sender logs, by `logging.getLogger`: what happens to a producer, never records.

| level | what |
|---|---|
| ERROR | the producer cannot go on: it is fenced, not authorized, or has a defect |
| WARNING | refused requests, lost connections with work on them, transactions to be aborted |
| INFO | producer ids and epochs; what coordinators answer that is asked again |
| DEBUG | what a leader refuses that has accepted nothing so far: it learns of a new topic |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from impl.client.missing_topics import LATE_S
from impl.producer.core import IdempotentProducerCore, SendRequest
from impl.producer.sequence_manager import State
from impl.protocol.errors import ErrorCode, Retry
from impl.protocol.record_batch import NO_PRODUCER_ID
from impl.protocol.schemas import ApiKey

_log = logging.getLogger(__name__)


class SenderLog:
    """The log of one sender; `name` says which producer it is."""

    def __init__(self, core: IdempotentProducerCore, name: str) -> None:
        self._core = core
        self._name = name
        self._identity = (NO_PRODUCER_ID, NO_PRODUCER_ID)
        self._state = State.UNINITIALIZED
        self._accepted: set[tuple[str, int]] = set()
        self._refused_since_ms: dict[tuple[str, int], int] = {}

    def note_changes(self) -> None:
        """Log a new producer id or epoch, and an error state, since the last call."""
        core = self._core
        identity = (core.producer_id, core.producer_epoch)
        if identity != self._identity:
            self._identity = identity
            if identity[0] != NO_PRODUCER_ID:
                _log.info("%s: producer id %d, epoch %d", self._name, *identity)
        if core.state is not self._state:
            self._state = core.state
            self._note_state()

    def _note_state(self) -> None:
        if self._state is State.FATAL_ERROR:
            _log.error("%s cannot go on: %s", self._name, self._core.last_error)
        elif self._state is State.ABORTABLE_ERROR:
            _log.warning("%s: %s; legal now: abort", self._name, self._core.last_error)

    def note_answer(self, request: SendRequest, answer: Mapping[str, Any], now_ms: int) -> None:
        """Log each batch that its leader refuses, and any other request that is refused."""
        if request.api_key is not ApiKey.PRODUCE:
            if answer.get("error_code"):
                what = ApiKey(request.api_key).name
                self._note_refusal(request, what, answer, logging.INFO)
            return
        for topic in answer["topics"]:
            for row in topic["partitions"]:
                place = topic["name"], row["index"]
                if row["error_code"]:
                    level = self._level_of(place, ErrorCode.of(row["error_code"]), now_ms)
                    self._note_refusal(request, "a batch of {}-{}".format(*place), row, level)
                else:
                    self._accepted.add(place)

    def _level_of(self, place: tuple[str, int], error: ErrorCode, now_ms: int) -> int:
        """A leader that has just been elected may not know of it yet."""
        if place in self._accepted or error.retry is not Retry.REFRESH_THEN_RETRY:
            return logging.WARNING
        lasted_ms = now_ms - self._refused_since_ms.setdefault(place, now_ms)
        return logging.WARNING if lasted_ms >= LATE_S * 1_000 else logging.DEBUG

    def _note_refusal(
        self, request: SendRequest, what: str, row: Mapping[str, Any], retried: int
    ) -> None:
        """`retried` is the level of what is only sent again."""
        error = ErrorCode.of(row["error_code"])
        reason = f", {row['error_message']}" if row.get("error_message") else ""
        level, then = logging.WARNING, ""
        if error.is_retriable:
            level, then = retried, "; it is sent again"
        where = f"{self._name}: node {request.node_id}"
        _log.log(level, "%s refuses %s: %s%s%s", where, what, error.name, reason, then)

    def note_lost(self, node_id: int) -> None:
        """Log a connection that broke."""
        level, then = logging.INFO, "nothing was under way"
        if not self._core.is_idle:
            level, then = logging.WARNING, "what was under way is sent again"
        _log.log(level, "%s: lost the connection to node %d: %s", self._name, node_id, then)

    def note_defect(self) -> None:
        """Log the exception that aborts the producer."""
        _log.exception("%s is aborted by an unexpected error", self._name)

    def note_overdue(self, node_id: int) -> None:
        """Log a connection that is closed because an answer is overdue."""
        what = "has not answered within request_timeout_ms: its connection is closed"
        _log.warning("%s: node %d %s", self._name, node_id, what)
