"""The theorems about idempotent producers."""

from __future__ import annotations

from collections.abc import Iterator

from model.releases import NEWEST
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.theorem import Theorem
from proofs.prove.idempotent.assumptions import EVERYWHERE, OF_CLIENTS
from proofs.prove.idempotent.clause_groups import (
    GUARANTEED,
    IN_TURN,
    NEIGHBOURS,
    ORDERED,
    UNFENCED,
    WHOLE,
    in_calm,
)
from proofs.prove.idempotent.clauses import CLIENT
from proofs.prove.idempotent.composition import one_producer, single_rules
from proofs.prove.idempotent.first_ids import first_id_lemmas
from proofs.prove.idempotent.high_watermark import one_log_lemmas
from proofs.prove.idempotent.rule_lemmas import WRAPPING, duplicate_lemmas, wrap_lemmas
from proofs.prove.idempotent.sequence_arithmetic import NO_WRAP, WRAPS, SequenceArithmetic
from proofs.prove.idempotent.why_five import why_five_lemmas
from proofs.prove.idempotent.without_assumptions import BELOW_IS_DUPLICATE

GIVEN_BACK = (
    "under the recoveries up to 2.4, once a producer has given its id back: two ids are then in"
    " flight at once; the theorems are about all that comes before"
)

ONLY_EXPLORED: dict[str, str] = {
    "acked_once": (
        "with refusals or errors that come late (strict leaders): a batch may then be stored and"
        " refused, so that epochs begin; a proof has to follow what is left of an old epoch's"
        " answers on the open connection"
    ),
    "no_false_error": (
        "with raw sequence order where sequences wrap, which the model does not guarantee"
    ),
    "bumps_have_causes": (
        "where something goes wrong: that each trouble brings one epoch at most is a count over"
        " whole runs, which needs a debt that each trouble makes and each epoch pays, and the proof"
        " that an epoch's beginning leaves none: old answers on the open connection have to be"
        " followed error by error"
    ),
    **dict.fromkeys(
        (
            "at_most_once",
            "acked_is_stored",
            "acked_is_replicated",
            "no_gap",
            "order_kept",
            "sequences_follow",
            "remembers_the_newest",
        ),
        GIVEN_BACK,
    ),
    "nothing_fails": (
        "under the recoveries up to 2.4, with refusals where leaders remember twice as many batches"
        " as may be in flight, and where nothing happens but that heads of logs are deleted"
    ),
    "requests_are_awaited": (
        "a theorem is about an abstract network, in which any request may arrive at any time"
    ),
    "errors_wait_for_nothing": (
        "a theorem is about what a success says; to await replicas is a limit of the network"
    ),
    "late_errors_are_stored": "theorems say of answers what a success says",
    "sequences_have_ids": "theorems are about producers that have an id",
    "no_gap_behind_first": (
        "under the default first sequence: with a strict one `no_gap` is proved, and says more"
    ),
    "last_acked_is_the_latest": "no clause speaks of the last acknowledged sequence and the log",
    "unknown_is_unresolved": (
        "no theorem is about batches of unknown outcome that were given up (no timeouts)"
    ),
}
"""The guarantees that theorems do not cover in all configurations, and why: they are explored in
scopes."""


ACKED = GUARANTEED["acked_is_replicated"]
"""A clause that several guarantees use."""

CALLED_BACK = ("requests_come_as_sent", "nothing_times_out", "nothing_is_rejected")
Row = tuple[str, str, tuple[str, ...], tuple[Clause, ...]]
SAFETY: tuple[Row, ...] = (
    ("at_most_once", NEWEST, (), ()),
    ("order_within_epoch", NEWEST, (), ()),
    ("acked_is_replicated", NEWEST, ("high_watermark_survives",), ()),
    ("acked_is_stored", NEWEST, ("high_watermark_survives",), (ACKED,)),
    ("no_gap", "first_sequence=strict", (), ()),
    ("order_kept", "first_sequence=strict", (), (*WHOLE, *ORDERED)),
    ("sequences_follow", NEWEST, (), NEIGHBOURS),
    ("remembers_the_newest", NEWEST, (), ()),
    ("nothing_fails", NEWEST, CALLED_BACK, UNFENCED),
)
"""Guarantees, each with the variant that it needs, its assumptions, and its own clauses."""
ABOUT_CLIENTS = frozenset({"sequences_follow"})
"""The guarantees whose proofs say nothing about leaders."""


def safety(regime: SequenceArithmetic) -> tuple[Theorem, ...]:
    """Return the theorems that hold in every state, in one regime."""
    suffix = "_across_wraps" if regime.wraps else ""
    order = "/sequence_order=wraps" if regime.wraps else ""
    return tuple(
        Theorem(
            f"{name}{suffix}",
            GUARANTEED[name].says,
            f"{variant}{order}",
            rests_on,
            ("order_kept" if name == "order_within_epoch" else name,),
            one_producer(GUARANTEED[name], regime, extra),
            left_out=OF_CLIENTS if name in ABOUT_CLIENTS else EVERYWHERE,
        )
        for name, variant, rests_on, extra in SAFETY
    )


CALM = (
    "high_watermark_survives",
    "answers_in_order",
    "nothing_times_out",
    "nothing_is_rejected",
)
CALMLY = ("acked_once", "no_false_error", "bumps_have_causes")
"""The guarantees that hold if no producer has to recover."""


def in_its_turn(name: str, regime: SequenceArithmetic) -> Iterator[Theorem]:
    """Yield the theorems that hold if answers arrive in the order of their batches: with leaders
    that are strict and remember everything, and with today's leaders if none restarts."""
    across, order = ("_across_wraps", "/sequence_order=wraps") if regime.wraps else ("", "")
    five, whole = GUARANTEED["remembers_five"], WHOLE[0]
    today = (five.also("no_restart"), whole.also("connections_keep_order"))
    for suffix, variant, rests_on, memory in (
        ("", "first_sequence=strict/restart_window=full", (), (five, whole)),
        ("_without_restarts", NEWEST, ("connections_keep_order", "no_restart"), today),
    ):
        yield Theorem(
            f"{name}{suffix}{across}",
            GUARANTEED[name].says,
            f"{variant}{order}",
            (*CALM, *rests_on),
            (name,),
            one_producer(GUARANTEED[name], regime, (ACKED, *memory, *IN_TURN)),
            left_out=EVERYWHERE,
        )


BEFORE_KIP_360 = (("2.4.1", "_in_2_4"), ("2.0.0", "_in_2_0"))
"""Releases in which a producer takes another producer id, with the suffix of theorems about
them."""
STILL = (
    "at_most_once",
    "acked_is_replicated",
    "acked_is_stored",
    "no_gap",
    "order_kept",
    "sequences_follow",
)
"""The guarantees that hold in 2.4 too, even if something makes a producer take another id."""
WIDER = ("remembers_the_newest", "nothing_fails")
"""The guarantees that each release gives more widely."""


def in_any_release() -> Iterator[Theorem]:
    """Yield the theorems about a leader, or a client, whatever the other actors do."""
    for release, suffix in ((NEWEST, ""), *BEFORE_KIP_360):
        yield Theorem(
            f"high_watermark_sound{suffix}",
            "Any leader's log begins at or below its high watermark, which is at or below its end,"
            " also where heads of logs are deleted, and where acknowledged records are lost; what a"
            " single replica has, all have.",
            release,
            ("no_crash", "no_splits"),
            ("high_watermark_sound",),
            single_rules(one_log_lemmas, WRAPPING),
            guarantee="high_watermark_sound",
        )
        yield Theorem(
            f"ids_come_first{suffix}",
            "No idempotent producer sends anything before any has a producer id.",
            release,
            (),
            ("ids_come_first",),
            single_rules(first_id_lemmas, WRAPPING),
            guarantee="ids_come_first",
        )


def before_kip_360() -> Iterator[Theorem]:
    """Yield all guarantees for producers that recover by another producer id, if nothing makes a
    producer take one. Some hold beyond that, but not in 2.0, which then mixes two ids."""
    five, whole = GUARANTEED["remembers_five"].also("no_restart"), WHOLE[0]
    (nothing_fails,) = in_calm((GUARANTEED["nothing_fails"].also(*CLIENT),))
    extra = in_calm((ACKED, five, whole, *ORDERED, *IN_TURN, *NEIGHBOURS))
    guaranteed = {**GUARANTEED, "nothing_fails": nothing_fails}
    for release, suffix in BEFORE_KIP_360:
        for clause in (guaranteed[name] for name in (*STILL, *CALMLY, *WIDER)):
            yield Theorem(
                f"{clause.name}{suffix}",
                clause.says,
                release,
                (*CALM, "no_restart"),
                (clause.name,),
                one_producer(clause, NO_WRAP, extra),
                left_out=EVERYWHERE,
                part=clause.name in WIDER or (release == "2.4.1" and clause.name in STILL),
            )


ABOUT_PRODUCERS: tuple[Theorem, ...] = (
    *safety(NO_WRAP),
    Theorem(
        "remembers_five",
        GUARANTEED["remembers_five"].says,
        "restart_window=full",
        (),
        ("acked_once", "no_false_error"),
        one_producer(GUARANTEED["remembers_five"], NO_WRAP),
        left_out=EVERYWHERE,
    ),
    *safety(WRAPS),
    *(t for name in CALMLY for regime in (NO_WRAP, WRAPS) for t in in_its_turn(name, regime)),
    *before_kip_360(),
    Theorem(
        "out_of_order_as_duplicate",
        "A leader that answers success to every sequence below the next expected one acknowledges"
        " only what is stored.",
        "first_sequence=strict",
        ("high_watermark_survives", "strict_first_sequence", "own_producer_id"),
        ("acked_is_stored",),
        one_producer(GUARANTEED["acked_is_stored"], NO_WRAP, (*WHOLE, ACKED), BELOW_IS_DUPLICATE),
        left_out=EVERYWHERE,
    ),
    Theorem(
        "why_five",
        "With F batches in flight and W remembered, F <= W, a batch that is sent again is the next"
        " one or a remembered one: it is answered without error, and stored once.",
        NEWEST,
        ("no_more_in_flight_than_remembered", "answers_in_order"),
        ("no_false_error",),
        single_rules(why_five_lemmas, NO_WRAP),
    ),
    Theorem(
        "sequences_wrap",
        "After the last sequence comes 0: it is accepted, and first sequences are derived rightly.",
        NEWEST,
        (),
        ("no_false_error", "no_gap"),
        single_rules(wrap_lemmas, WRAPPING),
    ),
    Theorem(
        "duplicate_is_answered",
        "Each remembered batch that comes again is answered without error; nothing is appended.",
        NEWEST,
        ("five_in_flight",),
        ("no_false_error", "acked_once"),
        single_rules(duplicate_lemmas, WRAPPING),
    ),
    *in_any_release(),
)
