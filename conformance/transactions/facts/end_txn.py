"""EndTxn in every state: V1 and V2 requests, the epoch's neighbours, other producers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.transactions.facts.lab import STATES, Lab, experiment
from conformance.transactions.wire import Conversation, Producer

COMMIT, ABORT = True, False
UNKNOWN_PRODUCER_ID: Final = 987_654_321

_WORDS: Final = {COMMIT: "commit", ABORT: "abort"}

V1: Final[dict[tuple[str, bool], str]] = {
    ("Empty", COMMIT): "INVALID_TXN_STATE",
    ("Empty", ABORT): "INVALID_TXN_STATE",
    ("Ongoing", COMMIT): "NONE",
    ("Ongoing", ABORT): "NONE",
    ("CompleteCommit", COMMIT): "NONE",
    ("CompleteCommit", ABORT): "INVALID_TXN_STATE",
    ("CompleteAbort", COMMIT): "INVALID_TXN_STATE",
    ("CompleteAbort", ABORT): "NONE",
}
"""At the coordinator's epoch; in PREPARE_x it is busy whatever is asked."""

V2_CURRENT: Final[dict[tuple[str, bool], str]] = {
    ("Empty", COMMIT): "INVALID_TXN_STATE",
    ("Empty", ABORT): "NONE P:2",
    ("Ongoing", COMMIT): "NONE P:2",
    ("Ongoing", ABORT): "NONE P:2",
    ("CompleteCommit", COMMIT): "INVALID_TXN_STATE",
    ("CompleteCommit", ABORT): "NONE P:3",
    ("CompleteAbort", COMMIT): "INVALID_TXN_STATE",
    ("CompleteAbort", ABORT): "NONE P:3",
}
"""At the coordinator's epoch: 1 before the transaction's end, 2 after it."""

V2_RETRY: Final[dict[tuple[str, bool], str]] = {
    ("Empty", COMMIT): "PRODUCER_FENCED",
    ("Empty", ABORT): "PRODUCER_FENCED",
    ("Ongoing", COMMIT): "PRODUCER_FENCED",
    ("Ongoing", ABORT): "PRODUCER_FENCED",
    ("CompleteCommit", COMMIT): "NONE P:2",
    ("CompleteCommit", ABORT): "INVALID_TXN_STATE",
    ("CompleteAbort", COMMIT): "INVALID_TXN_STATE",
    ("CompleteAbort", ABORT): "NONE P:2",
}
"""One epoch below: the retry of a request whose answer was lost, or a request too late."""

BUSY: Final = "CONCURRENT_TRANSACTIONS"


def ask_end(lab: Lab, c: Conversation, producer: Producer, committed: bool) -> str:
    """The answer and, where it was accepted, what the coordinator shows in the end."""
    return lab.ask(c.end_txn(producer, committed))


@experiment("v1")
def end_txn_v1_by_state(lab: Lab) -> None:
    """Each state, at the coordinator's epoch."""
    for state in STATES:
        for committed, word in _WORDS.items():
            lab.rename()
            producer = lab.in_state(state, lab.v1)
            observed = ask_end(lab, lab.v1, producer, committed)
            lab.fact(f"{state}, {word}", V1.get((state, committed), BUSY), observed)


@experiment("v1")
def end_txn_v1_by_identity(lab: Lab) -> None:
    """Other epochs, other producers, ids that nobody knows: in each state."""
    for state in STATES:
        lab.rename()
        producer = lab.in_state(state, lab.v1)
        at = producer.producer_epoch
        others = {
            "epoch below": (producer.at(at - 1), "PRODUCER_FENCED"),
            "epoch above": (producer.at(at + 1), "PRODUCER_FENCED"),
            "other producer id": (
                replace(producer, producer_id=UNKNOWN_PRODUCER_ID),
                "INVALID_PRODUCER_ID_MAPPING",
            ),
        }
        for what, (other, expected) in others.items():
            observed = ask_end(lab, lab.v1, other, COMMIT)
            lab.fact(f"{state}, {what}, commit", expected, observed)
    unknown = Producer(lab.ground.fresh("nobody"), 1, 0)
    observed = ask_end(lab, lab.v1, unknown, COMMIT)
    lab.fact("an id that nobody knows", "INVALID_PRODUCER_ID_MAPPING", observed)
    observed = ask_end(lab, lab.v1, replace(unknown, transactional_id=""), COMMIT)
    lab.fact("an empty id", "INVALID_REQUEST", observed)
    old = replace(lab.v1, end_txn_version=1)
    producer = lab.begin(lab.v1)
    observed = ask_end(lab, old, producer.at(0), COMMIT)
    lab.fact("EndTxn 1, epoch below", "INVALID_PRODUCER_EPOCH", observed)


@experiment("v2")
def end_txn_v2_by_state(lab: Lab) -> None:
    """Each state, at the coordinator's epoch (`cur`) and one below it (`retry`)."""
    for state in STATES:
        is_held = state.startswith("Prepare")
        for committed, word in _WORDS.items():
            for which, table in (("cur", V2_CURRENT), ("retry", V2_RETRY)):
                lab.rename()
                producer = lab.in_state(state, lab.v2)
                at = producer.producer_epoch + is_held - (which == "retry")
                observed = ask_end(lab, lab.v2, producer.at(at), committed)
                expected = table.get((state, committed), BUSY)
                lab.fact(f"{state}, {word} {which}", expected, observed)
                if observed.startswith("NONE") and not is_held:
                    lab.fact(
                        f"{state}, {word} {which}, in the end",
                        _in_the_end(state, committed, which),
                        lab.settled(producer),
                    )


def _in_the_end(state: str, committed: bool, which: str) -> str:
    if which == "retry":
        return f"{state} P:2"
    epoch = 3 if state.startswith("Complete") else 2
    return f"Complete{'Commit' if committed else 'Abort'} P:{epoch}"


@experiment("v2")
def end_txn_v2_by_identity(lab: Lab) -> None:
    """Two epochs below, one above, other producers: in each state."""
    for state in STATES:
        lab.rename()
        producer = lab.in_state(state, lab.v2)
        held = state.startswith("Prepare")
        at = producer.producer_epoch + held
        fenced = BUSY if held else "PRODUCER_FENCED"
        unmapped = BUSY if held else "INVALID_PRODUCER_ID_MAPPING"
        for what, other, expected in (
            ("two epochs below", producer.at(at - 2), fenced),
            ("epoch above", producer.at(at + 1), fenced),
            ("other producer id", replace(producer, producer_id=UNKNOWN_PRODUCER_ID), unmapped),
        ):
            if other.producer_epoch < 0:
                continue
            for committed, word in _WORDS.items():
                observed = ask_end(lab, lab.v2, other, committed)
                lab.fact(f"{state}, {what}, {word}", expected, observed)


@experiment("v1", "v2")
def end_txn_of_the_other_kind(lab: Lab) -> None:
    """A transaction that was begun by one kind of requests is ended by the other."""
    for begun, ended in (("v1", "v2"), ("v2", "v1")):
        lab.rename()
        first, second = (lab.v1, lab.v2) if begun == "v1" else (lab.v2, lab.v1)
        producer = lab.in_state("Ongoing", first)
        bumps = ended == "v2"
        expected = "NONE P:2" if bumps else "NONE"
        observed = ask_end(lab, second, producer, COMMIT)
        lab.fact(f"begun {begun}, EndTxn {ended}", expected, observed)
        expected = f"CompleteCommit P:{2 if bumps else 1}"
        lab.fact(f"begun {begun}, EndTxn {ended}, in the end", expected, lab.settled(producer))
        observed = ask_end(lab, second, producer, COMMIT)
        expected = "NONE P:2" if bumps else "NONE"
        lab.fact(f"begun {begun}, EndTxn {ended}, again", expected, observed)
        observed = ask_end(lab, first, producer, COMMIT)
        expected = "PRODUCER_FENCED" if bumps else "INVALID_TXN_STATE"
        lab.fact(f"begun {begun}, ended {ended}, EndTxn {begun} again", expected, observed)
