"""Who appends to a log, and what is checked of each. `AppendOrigin`, KAFKA-9206.

Two rules:

1. A leader trusts itself and other brokers, but not clients: see the table.
2. What a leader accepted is never checked again: replication and rebuilds check nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple


class AppendOrigin(Enum):
    """`AppendOrigin`, without that of the metadata log."""

    CLIENT = "client"  # a Produce request
    COORDINATOR = "coordinator"  # offsets, transaction states: written by this broker itself
    REPLICATION = "replication"  # a follower's fetch, a replay


class Checks(NamedTuple):
    """What is checked of a batch.

    `client_header`: offset 0, counts that agree, no control batch, a sequence beside a producer id;
    `duplicate`: a remembered batch is acknowledged, not appended; `verification`: a transactional
    batch needs an open transaction, or a guard.
    """

    client_header: bool
    duplicate: bool
    verification: bool
    producer_epoch: bool
    sequence: bool


CHECKS: Final[Mapping[AppendOrigin, Checks]] = MappingProxyType(
    {
        AppendOrigin.CLIENT: Checks(True, True, True, True, True),
        AppendOrigin.COORDINATOR: Checks(False, False, True, True, False),
        AppendOrigin.REPLICATION: Checks(False, False, False, False, False),
    }
)
"""`UnifiedLog.analyzeAndValidateProducerState`, `ProducerAppendInfo.append`, `LogValidator`."""
