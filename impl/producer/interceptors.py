"""What sees, and may change, each record before it is sent, and hears what became of it.

1. `on_send` gets a record before it is serialized, in the order of the interceptors; what it
   returns goes on.
2. `on_acknowledgement` gets the metadata of a record, or the error with which it failed, also one
   that `send` raised. It runs on the event loop, and delays the sender.
3. An exception of an interceptor is logged, and nothing else: the record goes on as it was.

Source: `ProducerInterceptor`, `ProducerInterceptors` of Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from impl.client.errors import InvalidArgumentError
from impl.producer.record_metadata import RecordMetadata

_log = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a record."""


class ProducerRecord(NamedTuple):
    """The arguments of `send`; key and value are not serialized."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers | None = None


class ProducerInterceptor:
    """Does nothing: override what you need."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send instead of this one."""
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """A record was acknowledged (`metadata`), or failed (`error`)."""


class Interceptors:
    """Those of one producer."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        """Raises `InvalidArgumentError`."""
        if not isinstance(interceptors, Iterable):
            raise InvalidArgumentError("interceptors", "must be a list of them", interceptors)
        for interceptor in interceptors:
            if not all(hasattr(interceptor, name) for name in ("on_send", "on_acknowledgement")):
                may_be = "must have on_send and on_acknowledgement, as ProducerInterceptor has"
                raise InvalidArgumentError("interceptors", may_be, interceptor)
        self._all = tuple(interceptors)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._all)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as all of them leave it."""
        for interceptor in self._all:
            try:
                record = ProducerRecord(*interceptor.on_send(record))
            except Exception:
                _log.warning("on_send of %r failed, and is ignored", interceptor, exc_info=True)
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Tell all of them."""
        for interceptor in self._all:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                _log.warning(
                    "on_acknowledgement of %r failed, and is ignored", interceptor, exc_info=True
                )
