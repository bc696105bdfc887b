"""A topic, or a change of one, that is refused."""

from __future__ import annotations

from impl.protocol.errors import ErrorCode


class TopicRefused(ValueError):
    """A topic or a change to one is refused; `error` and the message are the answer."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
