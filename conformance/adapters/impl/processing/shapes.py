"""The shapes in which processing groups are compared, and the topics that the system uses.

Both sides make the same view, in the model's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.judging.system import Many, Shape

INPUT: Final = (("in", 0), ("in", 1), ("other", 0))
"""The partitions of the input. For one record, and one offset, of the model, each of these has one.
A commit has a row for each partition."""

WORLD: Final[Mapping[str, Shape]] = {
    "members": Many(dict.fromkeys(("phase", "position"))),
    "identities": Many(dict.fromkeys(("heartbeat", "offset_commit", "txn_offset_commit"))),
    "committed": Many(None),
    "stable": None,
    "pending": Many(None),
    "output": Many(dict.fromkeys(("input_offset", "member", "fate"))),
    "progress": Many(None),
    "read_committed": Many(None),
}
"""`identities` has the identities that the group has given, one a generation, each with the error
that the group answers to it. `committed` has the rows of INPUT; `pending` has these rows by member.
`stable` is the answer of OffsetFetch to clients that require stable offsets. `read_committed` is
what a reader of the output gets, as (input offset, member)."""

UNSTABLE: Final = "UNSTABLE_OFFSET_COMMIT"
