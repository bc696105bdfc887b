"""Points that no configuration meets, each with the reason why that is right.

The reason is a sentence about the protocol or about the text, never "not reached". Each survey
checks again that the point is not met; a row whose point is met, or no longer exists, is an error.
A proof that a point cannot be met (`evidence` in the report) needs a row too: text that nothing can
reach is a fault until someone says why it is there.
"""

from __future__ import annotations

from collections.abc import Mapping

FENCED = (
    "a producer that recovers by another id keeps epoch 0, so that no leader calls it a zombie:"
    " only transactions raise the epoch of an id that someone else still uses"
)
OLD_FIRST = (
    "where sequences begin again at 0, nothing of an older producer id is left in flight: its"
    " batches end with their next answers, which one connection brings before those of the new id"
)
REMEMBERED = (
    "with V2, and at a leader that knows the producer id, what never arrived has a marker of its"
    " epoch behind it: the first batch of an epoch has sequence 0"
)
PRESENT_GAP = (
    "since 2.1 only a batch of the present producer id closes a gap: its answer comes behind those"
    " of an older one, whose batches have ended by then"
)
UNAUTHORIZED = "only who is not authorized, or has no transactional id, asks for an id again"
NOTHING_ASKED = "in this state nothing was asked, so that no answer can be an error"
ASKED_BEFORE = "the world's rule asks the same first; an actor's rule says by itself when it may be"

EXPLAINED: Mapping[str, Mapping[str, str]] = {
    "idempotent": {
        "leader.check_sequence: len(entry.batches) > 0: else": (
            "an entry of an epoch has a batch of it: only control records, which transactions"
            " write, leave an epoch without one"
        ),
        "client.is_of: batch.producer_epoch == producer_epoch: false": FENCED,
        "client.may_send: not client.fatal: false": FENCED,
        "recovery.receive_producer_id: not client.fatal: false": FENCED,
        "recovery.expire_batch: not client.fatal: false": FENCED,
        "recovery.resolve_sequences: not client.fatal: false": FENCED,
        "responses.give_up: resets and error == Error.INVALID_PRODUCER_EPOCH: then": FENCED,
        "responses.give_up: error == Error.INVALID_PRODUCER_EPOCH: true": FENCED,
        "responses.given_up: how == Failure.FAIL_FATALLY: then": FENCED,
        "responses.failed_again: how == Failure.FAIL_FATALLY: then": FENCED,
        "responses.retry_unknown_producer_id: log_start_offset < 0: true": (
            "a leader's answer has log_start_offset; only Produce before version 5 had none"
        ),
        "recovery.expire_batch: len(old) > 0: false": ASKED_BEFORE,
        "responses.on_late_answer: len(late) == 0: then": (
            "an answer on an open connection is to a batch in flight or to one given up: only a"
            f" producer that fails for good drops both, and {FENCED}"
        ),
        "recovery.renumbered_from_zero: not is_own(entry, b): then": OLD_FIRST,
        "recovery.renumbered_from_zero: is_own(entry, b): else": OLD_FIRST,
        "recovery.earlier_by: k.variant.recovery == Recovery.RESET_2_0: false": PRESENT_GAP,
        "recovery.earlier_by: counts: false": PRESENT_GAP,
    },
    "producer_ids": {
        "producer_ids.manager.on_written: manager.asking == Asking.READ: false": ASKED_BEFORE,
        "producer_ids.manager.on_lost_answer: manager.asking == Asking.READ: false": ASKED_BEFORE,
        "producer_ids.manager.on_allocated: manager.asking == Asking.WANTED: false": ASKED_BEFORE,
        "producer_ids.manager.wanting: manager.next_block == NO_BLOCK: false": (
            "each block asks once for the next, and is empty before the next comes into use"
        ),
        "producer_ids.world.producer_id_is_given: w.repeated: true": (
            "no release gives an id twice: that is the guarantee, and its mutants break it"
        ),
        "producer_ids.world.producer_id_is_given: producer_id in w.given: true": (
            "no release gives an id twice: that is the guarantee, and its mutants break it"
        ),
    },
    "transactions": {
        "transactions.leader.check_first_sequence: entry.producer_epoch == NO_PRODUCER_EPOCH:"
        " false": REMEMBERED,
        "READY->UNINITIALIZED": UNAUTHORIZED,
        "ABORTABLE_ERROR->UNINITIALIZED": UNAUTHORIZED,
        "COMMITTING->INITIALIZING": (
            "behind a commit an epoch is asked for only where the client moves from V1 to V2; a run"
            " has one conversation"
        ),
        "INITIALIZING->ABORTABLE_ERROR": (
            "no coordinator here answers InitProducerId with an error that an abort would mend"
        ),
        "UNINITIALIZED->FATAL_ERROR": NOTHING_ASKED,
        "READY->FATAL_ERROR": NOTHING_ASKED,
    },
    "processing": {
        "processing.member.start: member.phase == Phase.DOWN: false": ASKED_BEFORE,
        "processing.group.on_marker: offset != NO_OFFSET: false": (
            "a transaction that commits has its offset: it is of one record and the offset behind"
        ),
    },
}
"""The reasons by composition, then by what the report calls `says`: `module.function: condition:
outcome`, a rule, an error code, `a+b`."""
