"""What a client logs of topics without metadata: a topic that is being created is no trouble yet.

The first client that names a topic has it created, and is told until then that there is none. So
that is a warning only where it lasts for `LATE_S`, or asking again does not help.
"""

from __future__ import annotations

import logging
from typing import Final

from impl.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

LATE_S: Final = 2
"""What has to come is late from then on, and worth a warning: a cluster has created a topic, or
told its leader of it, in a few hundred milliseconds."""


class MissingTopics:
    """The errors of topics, each since when, and whether somebody was warned of it."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, ErrorCode], float] = {}
        self._warned: set[tuple[str, ErrorCode]] = set()

    def note(self, topic: str, error: ErrorCode, now_s: float) -> None:
        """A topic has this error."""
        key = topic, error
        is_new = key not in self._since_s
        lasted_s = now_s - self._since_s.setdefault(key, now_s)
        if (not error.is_retriable or lasted_s >= LATE_S) and key not in self._warned:
            self._warned.add(key)
            so_far = f", for {lasted_s:.0f} s" if lasted_s >= LATE_S else ""
            _log.warning("metadata of topic %r: %s%s", topic, error.name, so_far)
        elif is_new:
            _log.debug("metadata of topic %r: %s; asked again", topic, error.name)

    def forget(self, topic: str) -> None:
        """There is the topic."""
        if self._since_s:
            for key in [key for key in self._since_s if key[0] == topic]:
                del self._since_s[key]
                self._warned.discard(key)
