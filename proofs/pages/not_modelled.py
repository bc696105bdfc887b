"""Properties that are not guaranteed and that no run of the model can refute, with what the model
lacks."""

from __future__ import annotations

UNSEEN: tuple[tuple[str, str], ...] = (
    (
        "records of one producer are stored in the order of their sends across partitions",
        "an order of sends across partitions: each record is numbered within its own;"
        " of transactions see [`earlier_is_seen_first`](not_guaranteed/earlier_is_seen_first.md)",
    ),
    (
        "a committed transaction can be read whole at any later time",
        "compaction, retention where there are transactions, and readers that begin in the middle",
    ),
    (
        "a consumer gets all of a transaction",
        "consumers that are given some of the partitions: the model's readers see all of them",
    ),
    (
        "a transaction reads what it writes, or spans clusters",
        "reads inside transactions, and a second cluster",
    ),
    (
        "a producer without a transactional id has transactions within its session",
        "the call: clients refuse it before anything is sent",
    ),
    (
        "several threads may begin, commit and abort",
        "threads: the model's application makes one call after another",
    ),
    (
        "idempotence holds without acks=all",
        "a client that offers it; `kafka-eos guarantees --acks 1` says what is left",
    ),
    ("timestamps and expiry go by one clock", "clocks: what expires may expire at any time"),
    (
        "an open transaction does not keep a log from being compacted",
        "compaction; what hangs is in [late_produce_hangs](not_guaranteed/late_produce_hangs.md)",
    ),
)
"""Properties that users may believe, with what the model lacks to show that they do not hold."""
