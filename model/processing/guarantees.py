"""The guarantees of consuming, transforming and producing, and their conditions."""

from __future__ import annotations

from model.processing.configuration import (
    Configuration,
    GenerationCheck,
    OffsetReads,
    Processing,
    TransactionalIds,
)
from model.processing.member import Phase
from model.processing.messages import NO_OFFSET, Fate
from model.processing.world import World
from model.properties import Guarantee, Witness


def output_produced_once(k: Configuration, w: World) -> bool:
    """No record of the input has two committed records in the output."""
    return all(
        s.fate != Fate.COMMITTED
        or not any(
            other.fate == Fate.COMMITTED and other.input_offset == s.input_offset
            for other in w.store.output[:i]
        )
        for i, s in enumerate(w.store.output)
    )


def nothing_is_skipped(k: Configuration, w: World) -> bool:
    """Each record of the input before the group's offset has a committed record in the output."""
    return all(
        any(s.fate == Fate.COMMITTED and s.input_offset == offset for s in w.store.output)
        for offset in range(k.bounds.inputs)
        if offset < w.group.committed
    )


def offsets_never_go_back(k: Configuration, w: World) -> bool:
    """The group's offset never goes back."""
    return w.group.committed == w.furthest


def output_in_order(k: Configuration, w: World) -> bool:
    """Committed records of the output come in the order of the input."""
    return all(
        s.fate != Fate.COMMITTED
        or not any(
            earlier.fate == Fate.COMMITTED and earlier.input_offset > s.input_offset
            for earlier in w.store.output[:i]
        )
        for i, s in enumerate(w.store.output)
    )


def is_exactly_once(k: Configuration) -> bool:
    """Each record has a transaction, and a replaced member is kept out. Either the partition's
    transactional id fences it, or the group does: then the group must check generations and answer
    only with stable offsets."""
    by_group = (
        k.variant.generation_check == GenerationCheck.CHECKED
        and k.variant.offset_reads == OffsetReads.STABLE
    )
    by_id = k.variant.transactional_ids == TransactionalIds.OF_PARTITION
    return k.variant.processing == Processing.TRANSACTION and (by_id or by_group)


def keeps_out(k: Configuration) -> bool:
    """The group refuses an offset of a replaced member; outside of transactions it always does."""
    return is_exactly_once(k) or k.variant.processing != Processing.TRANSACTION


def is_at_least_once(k: Configuration) -> bool:
    """No offset is committed before its output."""
    return is_exactly_once(k) or k.variant.processing == Processing.PRODUCE_FIRST


def is_at_most_once(k: Configuration) -> bool:
    """No output is written before its offset is committed."""
    return is_exactly_once(k) or k.variant.processing == Processing.COMMIT_FIRST


def a_replaced_member_works(k: Configuration, w: World) -> bool:
    """Sometimes: a member has written, and another has replaced it."""
    return any(
        m.phase == Phase.PRODUCED and m.generation != w.group.generation for m in w.members.values()
    )


def an_offset_is_awaited(k: Configuration, w: World) -> bool:
    """Sometimes: the group's current member must know where to begin, and an offset is pending."""
    return any(offset != NO_OFFSET for offset in w.group.pending.values()) and any(
        m.phase == Phase.ASSIGNED and m.generation == w.group.generation for m in w.members.values()
    )


def two_have_shared(k: Configuration, w: World) -> bool:
    """Sometimes: the whole input is processed, and each member has committed some of the output."""
    return w.group.committed == k.bounds.inputs and all(
        any(s.fate == Fate.COMMITTED and s.member == m for s in w.store.output)
        for m, _ in w.members.items()
    )


GUARANTEES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee(
        "output_produced_once",
        output_produced_once,
        is_at_most_once,
        witness=a_replaced_member_works,
    ),
    Guarantee(
        "nothing_is_skipped", nothing_is_skipped, is_at_least_once, witness=an_offset_is_awaited
    ),
    Guarantee(
        "offsets_never_go_back", offsets_never_go_back, keeps_out, witness=an_offset_is_awaited
    ),
    Guarantee("output_in_order", output_in_order, is_exactly_once, witness=two_have_shared),
)

WITNESSES: tuple[Witness[Configuration, World], ...] = (
    Witness("a_replaced_member_works", a_replaced_member_works),
    Witness("an_offset_is_awaited", an_offset_is_awaited),
    Witness("two_have_shared", two_have_shared),
)
