"""The shapes in which states and messages of transactions are compared.

Both sides make the same views, in the model's numbers; -1 stands for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.judging.system import Many, Shape

REQUEST: Final[Mapping[str, Shape]] = dict.fromkeys(
    (
        "api",
        "requests",
        "producer_id",
        "producer_epoch",
        "partitions",
        "committed",
        "partition",
        "base_sequence",
        "record",
    )
)
"""`requests` is the version of the conversation, V1 or V2; None if the API is the same in both.
`partitions` are those to add, `record` is (instance, transaction, number). Committed offsets have
no sequence."""
ANSWER: Final[Mapping[str, Shape]] = dict.fromkeys(
    ("error", "producer_id", "producer_epoch", "base_offset")
)
MARKER: Final[Mapping[str, Shape]] = dict.fromkeys(
    ("producer_id", "producer_epoch", "committed", "coordinator_epoch", "partition")
)
CLIENT: Final[Mapping[str, Shape]] = {
    "state": None,
    "producer_id": None,
    "producer_epoch": None,
    "bump_is_due": None,
    "partitions": Many(dict.fromkeys(("membership", "write", "earlier", "next_sequence"))),
    "outcomes": None,
}
METADATA: Final[Mapping[str, Shape]] = dict.fromkeys(
    (
        "state",
        "producer_id",
        "producer_epoch",
        "last_producer_epoch",
        "previous_producer_id",
        "next_producer_id",
        "partitions",
    )
)
COORDINATOR: Final[Mapping[str, Shape]] = {
    "leadership": None,
    "known": METADATA,
    "log": METADATA,
    "image": METADATA,
    "markers": None,
    "coordinator_epoch": None,
    "given_producer_ids": None,
}
"""`image` is the state being written to the log, `markers` are the partitions whose markers are
due."""
LEADER: Final[Mapping[str, Shape]] = {
    "log": Many(dict.fromkeys(("kind", "producer_id", "producer_epoch", "sequence", "record"))),
    "producers": Many(
        dict.fromkeys(
            (
                "producer_epoch",
                "coordinator_epoch",
                "last_sequence",
                "remembered",
                "current_txn_first_offset",
            )
        )
    ),
    "verifications": Many(dict.fromkeys(("producer_epoch", "lowest_sequence"))),
    "last_stable_offset": None,
}
READ: Final[Mapping[str, Shape]] = {**LEADER, "read_committed": None}
"""A leader, with the records that a reader of committed records gets from the log start
offset on."""
GROUP: Final[Mapping[str, Shape]] = {
    **READ,
    "offsets": dict.fromkeys(("committed", "stable", "pending")),
}
"""The leader of the group's partition, with the visible commit, the commit that readers of stable
offsets see, and pending commits by producer id."""
SHAPES: Final[Mapping[str, Mapping[str, Shape]]] = {
    "client": CLIENT,
    "coordinator": COORDINATOR,
    "leader": READ,
    "group": GROUP,
}
