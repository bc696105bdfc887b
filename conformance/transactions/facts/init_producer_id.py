"""InitProducerId: what is refused, and each state with each epoch that a client may believe in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.wire import Call, Conversation, Identified, Producer

NOBODY: Final = (-1, -1)
UNKNOWN_PRODUCER_ID: Final = 987_654_321
MAX_TIMEOUT_MS: Final = 900_000


@experiment("v1")
def init_producer_id_refusals(lab: Lab) -> None:
    """What does not depend on a state."""
    c, name = lab.v1, lab.ground.fresh("id")
    for what, expected, call in (
        ("no id", "NONE P:0", c.init_producer_id(None)),
        ("no id, an identity given", "NONE Q:0", c.init_producer_id(None, (7, 7))),
        ("no id, time-out 0", "NONE R:0", c.init_producer_id(None, timeout_ms=0)),
        ("empty id", "INVALID_REQUEST", c.init_producer_id("")),
        ("time-out 0", "INVALID_TRANSACTION_TIMEOUT", c.init_producer_id(name, timeout_ms=0)),
        (
            "time-out above the most",
            "INVALID_TRANSACTION_TIMEOUT",
            c.init_producer_id(name, timeout_ms=MAX_TIMEOUT_MS + 1),
        ),
        ("a producer id without epoch", "INVALID_REQUEST", c.init_producer_id(name, (7, -1))),
        ("an epoch without producer id", "INVALID_REQUEST", c.init_producer_id(name, (-1, 7))),
        ("a fresh id, an identity given", "NONE S:0", c.init_producer_id(name, (7, 7))),
    ):
        lab.fact(what, expected, lab.retry(call))
    producer = lab.begin(c)
    other = (producer.producer_id, producer.producer_epoch + 5)
    for version, expected in ((4, "PRODUCER_FENCED"), (3, "INVALID_PRODUCER_EPOCH")):
        old = replace(c, init_producer_id_version=version)
        call = old.init_producer_id(producer.transactional_id, other)
        lab.fact(f"version {version}, an epoch above", expected, lab.ask(call))


@dataclass(frozen=True, slots=True)
class Row:
    """A believed epoch, beside the coordinator's: what is answered, and what is shown then."""

    believed: int | None
    answer: str
    is_other: bool = False


V1_ROWS: Final = {
    "nothing": Row(None, "NONE P:2"),
    "its epoch": Row(1, "NONE P:2"),
    "the last epoch": Row(0, "NONE P:1"),
    "an epoch above": Row(2, "PRODUCER_FENCED"),
    "another producer id": Row(1, "PRODUCER_FENCED", is_other=True),
}
"""In Empty, and where a transaction ended by V1 requests: epoch 1, and 0 before it."""

V2_ROWS: Final = {
    "nothing": Row(None, "NONE P:3"),
    "its epoch": Row(2, "NONE P:3"),
    "the epoch before the end": Row(1, "NONE P:2"),
    "two epochs below": Row(0, "PRODUCER_FENCED"),
    "an epoch above": Row(3, "PRODUCER_FENCED"),
    "another producer id": Row(2, "PRODUCER_FENCED", is_other=True),
}
"""Where a transaction ended by V2 requests: epoch 2, and 1 before it."""


@experiment("v1")
def init_producer_id_v1_at_rest(lab: Lab) -> None:
    """Empty and both ends of V1 transactions."""
    for state in ("Empty", "CompleteCommit", "CompleteAbort"):
        _at_rest(lab, lab.v1, state, V1_ROWS)


@experiment("v2")
def init_producer_id_v2_at_rest(lab: Lab) -> None:
    """Both ends of V2 transactions."""
    for state in ("CompleteCommit", "CompleteAbort"):
        _at_rest(lab, lab.v2, state, V2_ROWS)


def _at_rest(lab: Lab, c: Conversation, state: str, rows: dict[str, Row]) -> None:
    for what, row in rows.items():
        lab.rename()
        producer = lab.in_state(state, c)
        observed = lab.ask(_init(c, producer, row))
        lab.fact(f"{state}, believing {what}", row.answer, observed)
        if not observed.startswith("NONE"):
            continue
        shown = f"Empty {row.answer.removeprefix('NONE ')}"
        lab.fact(f"{state}, believing {what}, then", shown, lab.state(producer))
        again = "PRODUCER_FENCED" if row.believed is None else row.answer
        retry = Row(producer.producer_epoch if row.believed is None else row.believed, again)
        lab.fact(
            f"{state}, believing {what}, then the believed again",
            again,
            lab.ask(_init(c, producer, retry)),
        )


def _init(c: Conversation, producer: Producer, row: Row) -> Call[Identified]:
    producer_id = UNKNOWN_PRODUCER_ID if row.is_other else producer.producer_id
    believed = NOBODY if row.believed is None else (producer_id, row.believed)
    return c.init_producer_id(producer.transactional_id, believed)


@experiment("v1")
def init_producer_id_v1_in_a_transaction(lab: Lab) -> None:
    """The open transaction is aborted first, at an epoch above."""
    _in_a_transaction(lab, lab.v1)


@experiment("v2")
def init_producer_id_v2_in_a_transaction(lab: Lab) -> None:
    """The same, begun by V2 requests."""
    _in_a_transaction(lab, lab.v2)


def _in_a_transaction(lab: Lab, c: Conversation) -> None:
    """The coordinator aborts in the way of its level: at level 2 it remembers the last epoch."""
    believed = "NONE P:2" if lab.ground.level == 2 else "PRODUCER_FENCED"
    again = {"nothing": "NONE P:3", "its epoch": believed}
    rows = {
        "nothing": Row(None, "CONCURRENT_TRANSACTIONS"),
        "its epoch": Row(1, "CONCURRENT_TRANSACTIONS"),
        "the last epoch": Row(0, "CONCURRENT_TRANSACTIONS"),
        "an epoch above": Row(5, "CONCURRENT_TRANSACTIONS"),
        "another producer id": Row(1, "PRODUCER_FENCED", is_other=True),
    }
    for what, row in rows.items():
        lab.rename()
        producer = lab.begin(c)
        [partition] = lab.ground.topic()
        lab.open(c, producer, partition)
        lab.mark_log()
        call = _init(c, producer, row)
        lab.fact(f"Ongoing, believing {what}", row.answer, lab.ask(call))
        if row.is_other:
            continue
        lab.fact(f"{what}: in the end", "CompleteAbort P:2", lab.settled(producer))
        lab.fact(f"{what}: the log", "PrepareAbort P:2, CompleteAbort P:2", lab.log(producer))
        expected = "P:1#0 P:2!ABORT, stable"
        lab.fact(f"{what}: the partition", expected, lab.partition(partition))
        expected = again.get(what, "PRODUCER_FENCED")
        lab.fact(f"{what}: asked again", expected, lab.retry(call))


@experiment("v1")
def init_producer_id_in_prepare(lab: Lab) -> None:
    """While markers are written it is busy, whatever is believed."""
    for state in ("PrepareCommit", "PrepareAbort"):
        lab.rename()
        producer = lab.in_state(state, lab.v1)
        for what, row in V1_ROWS.items():
            observed = lab.ask(_init(lab.v1, producer, row))
            lab.fact(f"{state}, believing {what}", "CONCURRENT_TRANSACTIONS", observed)
