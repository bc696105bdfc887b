"""Systematic mutants that break nothing, each with the reason why that is right.

The reason is a sentence about the protocol or about the text. A row whose mutant breaks something
counts as open in the verb's report, as one without a row does that breaks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from proofs.mutants.systematic import Point

VALIDATED = (
    "every release looks at epochs, sequences and duplicates: that less is looked at is there to"
    " show what it is for"
)
LATE = (
    "an error may be answered although all replicas have the batch: its producer sends it again,"
    " and it is a duplicate"
)

EXPLAINED: Mapping[str, Mapping[str, str]] = {
    "idempotent": {
        "leader.is_duplicate: batch.producer_epoch == entry.producer_epoch and"
        " batch.base_sequence == first_sequence(k, remembered) and"
        " (last_sequence(k, batch) == remembered.last_sequence)"
        " -> batch.producer_epoch == entry.producer_epoch and"
        " batch.base_sequence == first_sequence(k, remembered)": (
            "nobody sends one first sequence with two lengths: a batch goes again as it was, and"
            " the parts of one that is split come where the whole was refused"
        ),
        "leader.in_sequence: following == 0 and last == k.layout.max_sequence"
        " -> last == k.layout.max_sequence": (
            "no producer sends anything but 0 after the last sequence"
        ),
        "leader.check_append: epoch_error != Error.NONE or"
        " k.variant.validation == Validation.EPOCH_ONLY -> epoch_error != Error.NONE": VALIDATED,
        "leader.find_duplicates: k.variant.validation == Validation.FULL and"
        " is_duplicate(k, entry, m, batch) -> is_duplicate(k, entry, m, batch)": VALIDATED,
        "leader.on_produce_then_unreplicated: timed_out == 1 and"
        " answer.required_offset <= leader.high_watermark -> timed_out == 1": LATE,
        "leader.on_produce_then_unreplicated: answer.required_offset <= leader.high_watermark"
        " -> answer.required_offset < leader.high_watermark": LATE,
        "leader.is_usable: log_start_offset == 0 or snapshot_offset > log_start_offset"
        " -> snapshot_offset > log_start_offset": (
            "a snapshot at offset 0 of a log that begins there has no producer in it"
        ),
    },
    "transactions": {},
}
"""By group and by what a point says."""


def explanation(point: Point) -> str | None:
    """Why it is right that the change breaks nothing; None if nobody has said so."""
    return EXPLAINED[point.group].get(point.says)
