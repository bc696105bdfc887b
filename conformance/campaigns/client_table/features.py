"""The features in the table: each is a verb of the clients' programs, with the expected facts.

`programs/` has one source for each client. It is started with

    VERB TOPIC ADDRESS [NAME=VALUE ...]

and uses the client as an application would. It prints a fact a line. If the client raises an error,
the program ends with a code other than 0, and the error is the last line of its standard error.

| verb | what a program does |
|---|---|
| `metadata` | counts the topic's partitions |
| `admin` | creates the topic, changes a setting, adds a partition, deletes the topic |
| `round_trip` | writes three records with `codec`, `idempotent`; reads them without a group |
| `group` | one member reads four partitions, a second one joins, the first leaves; `protocol` |
| `roll` | two members of a classic group make room for two of a consumer group, and back |
| `transactions` | commits a record, aborts one, commits one, reads what is committed |
| `fencing` | another producer takes the id of an open transaction, which cannot be committed then |
| `process` | reads in a group, writes to TOPIC-out, commits the offsets in the transaction |
| `refused` | writes to the topic, reads `open` in the topic's group: it may do neither |

While a group is rolled records are written; one is done when its offset is committed. Group and
transactional id have the topic's name. `mechanism`, `ca`, `user` and `password` are given
where TLS and SASL are used.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
READ: Final = "read a b c"
PROTOCOLS: Final = ("classic", "consumer")
"""The protocols of groups; "consumer" is KIP-848's."""
NEW_GROUP: Final = "consumer-group"
ROLLING_GROUP: Final = "rolling-group"


class Feature(NamedTuple):
    """A row of the table. `facts` are the lines that a program prints; `log` are the facts that the
    broker's logs show: see `observe`. The topic is created with `partitions`, unless that is 0."""

    name: str
    verb: str
    facts: tuple[str, ...]
    log: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    partitions: int = 1
    mechanism: str = ""


def _markers(kinds: str) -> tuple[str, ...]:
    return ("idempotent", f"markers {kinds}")


FEATURES: Final = (
    Feature("metadata", "metadata", ("partitions 3",), partitions=3),
    Feature(
        "admin",
        "admin",
        (
            "partitions 2",
            "retention.ms 60000",
            "retention.ms 120000",
            "partitions 3",
            "deleted",
        ),
        partitions=0,
    ),
    *(
        Feature(f"codec-{codec}", "round_trip", (READ,), (f"codec {codec}",), (f"codec={codec}",))
        for codec in CODECS
    ),
    Feature("idempotent", "round_trip", (READ,), ("idempotent",), ("idempotent=true",)),
    *(
        Feature(
            f"{protocol}-group",
            "group",
            ("alone 4", "read 20", "shared 2 2", "after 4"),
            (f"group {protocol}", "committed 20"),
            (f"protocol={protocol}",),
            partitions=4,
        )
        for protocol in PROTOCOLS
    ),
    Feature(
        ROLLING_GROUP,
        "roll",
        ("classic 2 2 done 20", "consumer 2 2 done 40", "classic 2 2 done 60", "twice 0"),
        ("group classic", "committed 60"),
        partitions=4,
    ),
    Feature("transactions", "transactions", ("read a c",), _markers("COMMIT ABORT COMMIT")),
    Feature("fencing", "fencing", ("fenced", "read b"), _markers("ABORT COMMIT")),
    Feature("processing", "process", ("processed a b", "read A B"), ("committed 2",)),
    *(
        Feature(f"tls-sasl-{mechanism.lower()}", "round_trip", (READ,), mechanism=mechanism)
        for mechanism in MECHANISMS
    ),
    Feature("acl-refusal", "refused", ("topic refused", "group refused"), mechanism="PLAIN"),
)
"""The rows, in order."""
