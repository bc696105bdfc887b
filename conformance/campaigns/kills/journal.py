"""The actions and results of clients, in files that outlive the clients: a line of JSON for each
event.

An event is a list; its first element names it:

| event | written |
|---|---|
| `started PRODUCER_OR_CONSUMER` | when a client was created |
| `ack TOPIC PARTITION OFFSET VALUE` | when a record was acknowledged |
| `refused VALUE ERROR` | when a record failed: it may be stored or not |
| `begin TRANSACTION` | before it begins; TRANSACTION is `LIBRARY/ROLE/INSTANCE/NUMBER` |
| `committing`, `aborting TRANSACTION` | before the call |
| `committed`, `aborted TRANSACTION` | when the call has succeeded |
| `read GROUP PARTITION FIRST LAST COUNT CRC` | when records were delivered, before a commit |
| `commit`, `commit_done GROUP {PARTITION: OFFSET}` | before and after a commit of offsets |
| `assigned [PARTITION, ...]` | when a member has other partitions than before |
| `error WHAT ERROR` | when a library raised |
| `replaced WHAT` | when a client was closed, and another one takes its place |

So each action in progress has a line, and each line about a result is true, even if the client
ended before it wrote the next line.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

SUFFIX: Final = ".jsonl"


class EventJournal:
    """The journal of one process; each event is one write at the end of the file."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *event: Any) -> None:
        """Append an event."""
        os.write(self._descriptor, json.dumps(event).encode() + b"\n")


def read_events(file: Path) -> Iterator[list[Any]]:
    """The events of a journal; a last line that a kill has cut off is ignored."""
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)


def checksum(values: Iterable[str]) -> int:
    """A checksum of values in order."""
    total = 0
    for value in values:
        total = zlib.crc32(value.encode(), total)
    return total
