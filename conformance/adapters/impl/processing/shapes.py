"""How groups that process are compared, and where the system has what.

Both sides make the same view, in the model's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.judging.system import Many, Shape

INPUT: Final = (("in", 0), ("in", 1), ("other", 0))
"""What the input's records are read from: each has one record, and an offset, for one of the
model's. A commit has a row for each."""

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
"""`identities` are those that the group has given, one a generation, and the error that each is
answered with; `committed` has the rows of INPUT, and so has what is pending, by member; `stable` is
what OffsetFetch answers to those who require it; `read_committed` is what a reader of the output
gets, as (input offset, member)."""

UNSTABLE: Final = "UNSTABLE_OFFSET_COMMIT"
