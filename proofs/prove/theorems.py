"""The theorems, and the obligations that prove each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, const
from proofs.lift.evaluate import Evaluator
from proofs.lift.text import Model, Patch, composition, patched, plain
from proofs.prove.clauses import LENGTH, Clause, Formula, conjuncts, implies, within
from proofs.prove.cuts import Lemma
from proofs.prove.dropped import BELOW_IS_DUPLICATE
from proofs.prove.invariant import (
    ARITHMETIC,
    HELPERS,
    HISTORY,
    IN_LINE,
    IN_TURN,
    NO_RESTART,
    ORDERED,
    PROMISED,
    RULED,
    WHOLE,
)
from proofs.prove.producer_ids import PRODUCER_IDS
from proofs.prove.regimes import MAX_SEQUENCE, NO_WRAP, WRAPS, Regime
from proofs.prove.smt import Obligation, obligation
from proofs.prove.state import VARIANT, Builder, P
from proofs.prove.steps import StepOutcome, Steps, initial
from proofs.prove.transactions.compositions import (
    DECISIONS,
    EPOCHS,
    FENCING,
    NO_WRITE_OUTSIDE,
    PARTITION,
    VISIBILITY,
    VISIBILITY_V1,
)
from proofs.prove.unknowns import number
from proofs.prove.why_five import why_five_lemmas
from proofs.prove.worlds import Composition, WorldInduction

ASSUMPTIONS = {
    "no_wrap": "no epoch of a producer has more records than there are sequences",
    "message_lifetime": (
        "a request that arrives is within 2^30 records of the end of the log of its epoch"
    ),
    "batches_are_small": "no batch has more than 2^30 / 5 records",
    "high_watermark_survives": (
        "a new leader has all below the high watermark (acks=all, no unclean election)"
    ),
    "no_more_in_flight_than_remembered": (
        "F <= W: a leader remembers as many batches as may be in flight"
    ),
    "strict_first_sequence": "the first sequence of an epoch must be 0",
    "own_producer_id": "no two producers share a producer id",
    "answers_in_order": (
        "no answer refuses a batch that is stored, so that batches are acknowledged in their order"
        " (refusals=0, late_errors=0)"
    ),
    "connections_keep_order": (
        "a request of a connection that broke overtakes none that was sent before it, and none"
        " outlives its leader: what arrives finds all before it stored"
    ),
    "no_restart": "no broker restarts; it may fail over (restarts=0)",
    "nothing_times_out": "no producer gives up a batch (timeouts=0)",
    "nothing_forgotten": "no leader lets a producer id expire (expiries=0)",
    "nothing_deleted": "no log loses its head (deletions=0)",
    "no_crash": "a broker that stops takes a snapshot at its log's end (crashes=0)",
    "no_splits": "no batch has more records than its leader takes",
    "id_for_life": "a producer keeps its producer id: its epochs do not end",
    "appends_tell_the_truth": (
        "no append to the transaction log is reported as failed and is in the log all the same"
    ),
    "epochs_rotate": (
        "where epochs end, whoever ends a transaction takes the next producer id, and it is logged"
        " (4.3, level 2)"
    ),
    "leaders_ask": "leaders ask the coordinator before the first write of a transaction (3.6, V2)",
    "markers_are_newer": "a marker must have a newer epoch than what it closes (KIP-1228, 4.2)",
    "requests_on_time": (
        "no EndTxn and no Produce arrives after its sender has begun the next transaction (V1;"
        " KAFKA-17754)"
    ),
    "markers_on_time": "no marker arrives after its coordinator has sent another in its place (V1)",
    "guards": "a batch that is verified is appended at once, or verified again",
    "fence_takes_next_epoch": "the coordinator's own abort takes the next epoch (KAFKA-6119)",
}

EVERYWHERE = ("nothing_forgotten", "nothing_deleted", "no_crash", "no_splits", "id_for_life")
"""What the proofs leave out, each a rule of the world or a part of one."""

COVERED = {
    "client_sends": ("send_new",),
    "client_retries": ("send_again",),
    "client_bumps_epoch": ("bump_epoch",),
    "client_gives_up": ("expire_batch",),
    "client_resolves": ("resolve_sequences",),
    "answer_arrives": ("on_success", "on_error"),
    "answer_arrives_late": ("on_error",),
    "request_arrives": ("on_produce", "on_produce_of_others"),
    "request_is_refused": ("on_error",),
    "request_outlives_replicas": ("on_produce", "on_produce_of_others", "on_error"),
    "late_request_arrives": ("on_produce", "on_produce_of_others"),
    "high_watermark_advances": ("advance_high_watermark",),
    "connection_breaks": ("on_disconnect",),
    "connection_breaks_late": ("on_disconnect",),
    "leader_restarts": ("restart", "on_disconnect"),
    "leader_fails_over": ("fail_over", "on_disconnect"),
    "leader_fails_over_uncleanly": ("fail_over", "on_disconnect"),
}
"""Which steps of the proofs make up each rule of the world."""

LEFT_OUT = {
    "client_receives_producer_id": "id_for_life",
    "producer_id_expires": "nothing_forgotten",
    "records_are_deleted": "nothing_deleted",
    "leader_crashes": "no_crash",
}
"""The assumption that leaves out each other rule."""


ONLY_EXPLORED = {
    "acked_once": (
        "with refusals or errors that come late (strict leaders): a batch may then be stored and"
        " refused, so that epochs begin; a proof has to follow what is left of an old epoch's"
        " answers on the open connection"
    ),
    "no_false_error": (
        "with raw sequence order where sequences wrap, which the model does not promise; and in the"
        " wrapping regime under sequence_order=wraps: positions are proved to be the numbers of"
        " records, sequences are not"
    ),
    "bumps_have_causes": (
        "where something goes wrong: that each trouble brings one epoch at most is a count over"
        " whole runs, which needs a debt that each trouble makes and each epoch pays, and the proof"
        " that an epoch's beginning leaves none: old answers on the open connection have to be"
        " followed error by error"
    ),
    "order_kept": "with a producer that receives a new id (recoveries up to 2.4): id_for_life",
    "no_block_wasted": (
        "a sum over all blocks: it needs, for each block, a witness of who has it or gave its ids"
    ),
}
"""What of the promises no theorem covers, and why: there they are explored in scopes."""


@dataclass(frozen=True, slots=True)
class Theorem:
    """What is proved: `clause` in every state, or `lemmas` about single rules.

    `variant` is the text of the variant it needs; `answered_by` names the promises whose broken
    trace answers a failure. `extra` are helper clauses of its own, that hold under its variant's
    rules; `patches` change the model that it is about. A theorem of a `composition` is all of its
    clauses.
    """

    name: str
    says: str
    variant: str
    regime: Regime
    rests_on: tuple[str, ...]
    answered_by: tuple[str, ...]
    clause: Clause | None = None
    extra: tuple[Clause, ...] = ()
    patches: tuple[Patch, ...] = ()
    lemmas: Callable[[Model, Any], Iterator[Obligation]] | None = None
    composition: Composition | None = None

    @property
    def home(self) -> str:
        """The composition that it is about; "" for the model itself."""
        return self.composition.home if self.composition else ""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it rests on, and its regime."""
        everywhere = EVERYWHERE if self.clause else ()
        return (*self.regime.assumptions, *self.rests_on, *everywhere)

    @property
    def uses(self) -> tuple[str, ...]:
        """The helper clauses below it."""
        if self.composition is not None:
            return tuple(c.name for c in self.composition.clauses)
        return tuple(c.name for c in (*HELPERS, *self.extra)) if self.clause else ()


# Lemmas


WRAPPING = replace(NO_WRAP, assumptions=(), says="any sequence, wrapping after any last one")
"""What single rules do, whatever the last sequence is."""


UNCOUNTED = replace(NO_WRAP, assumptions=(), says="no sequence is in it")
"""What is not about sequences."""


def wrapping_evaluator(model: Model, k: Any) -> Evaluator:
    """An evaluator in which the last sequence is any number."""
    return Builder(model, k, WRAPPING).evaluator()


def wrap_lemmas(model: Model, k: Any) -> Iterator[Obligation]:
    """The successor of every sequence is accepted; what was added can be taken off again."""
    evaluator = wrapping_evaluator(model, k)
    sequence, count = number("sequence"), number("count")
    following = evaluator.call(model.messages.increment_sequence, [k, sequence, count])
    back = evaluator.call(model.messages.decrement_sequence, [k, following, count])
    successor = evaluator.call(model.messages.increment_sequence, [k, sequence, const(1)])
    accepted = evaluator.call(model.leader.in_sequence, [k, sequence, successor])
    assumed: list[Formula] = [
        ((), within(sequence, ZERO, MAX_SEQUENCE)),
        ((), within(count, const(1), MAX_SEQUENCE)),
    ]
    yield obligation(
        "increment_sequence/stays_in_range", assumed, ((), within(following, ZERO, MAX_SEQUENCE))
    )
    yield obligation("decrement_sequence/undoes_increment", assumed, ((), dag.eq(back, sequence)))
    yield obligation("in_sequence/accepts_the_successor", assumed, ((), accepted))


def duplicate_lemmas(model: Model, k: Any) -> Iterator[Obligation]:
    """A remembered batch is answered with its offset, and nothing changes."""
    builder = Builder(model, k, WRAPPING)
    leader = builder.leader()
    known = leader.fields["producers"].value
    batch = builder.batch("batch")
    fields = {**batch.fields, "producer_id": P}
    evaluator = builder.evaluator()
    request = builder.record(model.messages.ProduceRequest, "request")
    request = type(request)(request.cls, {"batch": type(batch)(batch.cls, fields)})
    step = evaluator.call(model.leader.on_produce, [k, leader, request])
    answer, after = step.fields["sends"].slots[0].fields, step.fields["actor"].fields
    last = evaluator.call(model.messages.last_sequence, [k, type(batch)(batch.cls, fields)])
    assumed: list[Formula] = [
        ((), dag.eq(fields["producer_epoch"], known.fields["producer_epoch"])),
        ((), dag.le(ZERO, fields["producer_epoch"])),
        ((), within(fields["base_sequence"], ZERO, MAX_SEQUENCE)),
        ((), within(fields["record_count"], const(1), MAX_SEQUENCE)),
    ]
    for i, slot in enumerate(known.fields["batches"].slots):
        remembered = slot.fields
        delta = dag.sub(fields["record_count"], const(1))
        same = dag.conjunction(
            (
                dag.lt(const(i), known.fields["batches"].length),
                dag.eq(last, remembered["last_sequence"]),
                dag.eq(delta, remembered["offset_delta"]),
            )
        )
        answered = dag.both(
            dag.eq(answer["error"], ZERO), dag.eq(after["log"].length, leader.fields["log"].length)
        )
        name = f"on_produce/duplicate_{i}_is_answered"
        yield obligation(name, [*assumed, ((), same)], ((), answered))


SAFETY = (
    ("at_most_once", "4.3.1", ()),
    ("order_within_epoch", "4.3.1", ()),
    ("acked_is_stored", "4.3.1", ("high_watermark_survives",)),
    ("no_gap", "first_sequence=strict", ()),
    ("order_kept", "first_sequence=strict", ()),
)


def safety(regime: Regime) -> tuple[Theorem, ...]:
    """What holds in every state, in one regime."""
    suffix = "_across_wraps" if regime.wraps else ""
    order = "/sequence_order=wraps" if regime.wraps else ""
    return tuple(
        Theorem(
            f"{name}{suffix}",
            PROMISED[name].says,
            f"{variant}{order}",
            regime,
            rests_on,
            ("order_kept" if name == "order_within_epoch" else name,),
            PROMISED[name],
            extra=(*WHOLE, *ORDERED) if name == "order_kept" else (),
        )
        for name, variant, rests_on in SAFETY
    )


CALM = ("high_watermark_survives", "answers_in_order", "nothing_times_out")


def resting_on(clause: Clause, *assumptions: str) -> Clause:
    """The clause, its induction resting on assumptions, too."""
    return replace(clause, uses=clause.uses.union(assumptions))


def in_its_turn(name: str) -> Iterator[Theorem]:
    """What holds where answers come in the order of their batches: with leaders that are strict and
    remember all, and with those of today, if none of them restarts."""
    acked, five, whole = PROMISED["acked_is_stored"], PROMISED["remembers_five"], WHOLE[0]
    today = (resting_on(five, NO_RESTART), resting_on(whole, IN_LINE))
    for suffix, variant, rests_on, memory in (
        ("", "first_sequence=strict/restart_window=full", (), (five, whole)),
        ("_without_restarts", "4.3.1", (IN_LINE, NO_RESTART), today),
    ):
        yield Theorem(
            f"{name}{suffix}",
            PROMISED[name].says,
            variant,
            NO_WRAP,
            (*CALM, *rests_on),
            (name,),
            PROMISED[name],
            extra=(acked, *memory, *IN_TURN),
        )


THEOREMS: tuple[Theorem, ...] = (
    *safety(NO_WRAP),
    Theorem(
        "remembers_five",
        PROMISED["remembers_five"].says,
        "restart_window=full",
        NO_WRAP,
        (),
        ("acked_once", "no_false_error"),
        PROMISED["remembers_five"],
    ),
    *safety(WRAPS),
    *in_its_turn("acked_once"),
    *in_its_turn("no_false_error"),
    *in_its_turn("bumps_have_causes"),
    Theorem(
        "out_of_order_as_duplicate",
        "A leader that answers success to every sequence below the next expected one acknowledges"
        " only what is stored.",
        "first_sequence=strict",
        NO_WRAP,
        ("high_watermark_survives", "strict_first_sequence", "own_producer_id"),
        ("acked_is_stored",),
        PROMISED["acked_is_stored"],
        extra=WHOLE,
        patches=BELOW_IS_DUPLICATE,
    ),
    Theorem(
        "why_five",
        "With F batches in flight and W remembered, F <= W, a batch that is sent again is the next"
        " one or a remembered one: it is answered without error, and stored once.",
        "4.3.1",
        NO_WRAP,
        ("no_more_in_flight_than_remembered", "answers_in_order"),
        ("no_false_error",),
        lemmas=why_five_lemmas,
    ),
    Theorem(
        "sequences_wrap",
        "After the last sequence comes 0: it is accepted, and first sequences are derived rightly.",
        "4.3.1",
        WRAPPING,
        (),
        ("no_false_error", "no_gap"),
        lemmas=wrap_lemmas,
    ),
    Theorem(
        "duplicate_is_answered",
        "Each remembered batch that comes again is answered without error; nothing is appended.",
        "4.3.1",
        WRAPPING,
        (),
        ("no_false_error", "acked_once"),
        lemmas=duplicate_lemmas,
    ),
    Theorem(
        "producer_ids_unique",
        "No producer id is given twice: by any number of brokers, with any number of blocks of any"
        " size, allocated by the controller or by ZooKeeper, across restarts and lost answers.",
        "4.3.1",
        UNCOUNTED,
        (),
        ("producer_ids_unique", "blocks_have_one_owner"),
        composition=PRODUCER_IDS,
    ),
    Theorem(
        "transaction_epochs",
        "What InitProducerId tells never goes back, and was told to nobody before; only who shows"
        " the pair before the present one may hear the present one again. Of any requests, V1 and"
        " V2, every level and every release's rules, with appends that fail or seem to.",
        "v2",
        UNCOUNTED,
        (),
        ("epochs_unique",),
        composition=EPOCHS,
    ),
    Theorem(
        "coordinator_fences",
        "After InitProducerId has told a pair, no EndTxn and no AddPartitionsToTxn of an older pair"
        " changes anything at the coordinator: V1 and V2, every release's rules.",
        "v2",
        UNCOUNTED,
        (),
        ("fenced", "no_aborted_read"),
        composition=FENCING,
    ),
    Theorem(
        "transaction_decisions",
        "With V2 each (producer id, epoch) of a marker has one decision: PREPARE is never logged"
        " with another one, and every marker that was ever sent says it.",
        "v2",
        UNCOUNTED,
        ("appends_tell_the_truth", "epochs_rotate", "fence_takes_next_epoch"),
        ("one_outcome",),
        composition=DECISIONS,
    ),
    Theorem(
        "partition_is_sound",
        "At a leader that gets any batches and any markers: epochs in the log never go back,"
        " current_txn_first_offset is exact, a marker closes what is open, the last stable offset"
        " passes nothing open and never goes back; and where a marker must be newer (KIP-1228),"
        " none closes a batch of its own epoch or of a later one.",
        "v2",
        UNCOUNTED,
        (),
        ("last_stable_offset_sound", "no_dirty_read"),
        composition=PARTITION,
    ),
    Theorem(
        "no_write_outside",
        "What is open at a partition is open at the coordinator too, and in its transaction: with"
        " any requests and late markers, V1 and V2, where leaders ask before the first write.",
        "v2",
        UNCOUNTED,
        ("appends_tell_the_truth", "leaders_ask", "guards"),
        ("no_write_outside",),
        composition=NO_WRITE_OUTSIDE,
    ),
    Theorem(
        "visible_as_decided",
        "With V2 and KIP-1228 a partition has at most one transaction open, and the first marker"
        " behind a record is its own transaction's decision, whatever arrives late: a record is"
        " visible if and only if its transaction commits.",
        "v2",
        UNCOUNTED,
        (
            "appends_tell_the_truth",
            "epochs_rotate",
            "fence_takes_next_epoch",
            "markers_are_newer",
            "guards",
        ),
        ("no_aborted_read", "no_lost_write", "all_or_none", "one_outcome"),
        composition=VISIBILITY,
    ),
    Theorem(
        "visible_as_wanted",
        "With V1, where nothing is late, the first marker behind a record says what was decided of"
        " the record's own transaction, and no commit was decided that its application did not"
        " want.",
        "v1",
        UNCOUNTED,
        ("appends_tell_the_truth", "leaders_ask", "requests_on_time", "markers_on_time", "guards"),
        ("no_aborted_read", "no_lost_write", "all_or_none"),
        composition=VISIBILITY_V1,
    ),
)


@dataclass(frozen=True, slots=True)
class Duty:
    """An obligation, and the theorems that need it."""

    obligation: Obligation
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All obligations of some theorems, each question once; `unchanged` need no solver."""

    duties: tuple[Duty, ...]
    unchanged: tuple[str, ...]


def setting(model: Model, variant: str) -> Any:
    """The setting of the proofs: five in flight, five remembered, two partitions."""
    layout = model.setting.Layout(
        partitions=2, in_flight=5, records=0, log=0, max_epoch=1, max_timeouts=1
    )
    return model.setting.Setting(
        variant=model.variants.parse(variant), layout=layout, budgets=model.setting.Budgets()
    )


OPTIONAL = (*WHOLE, *ORDERED, *IN_TURN, PROMISED["remembers_five"])
"""Clauses of some theorems, under the rules of their variants."""

GROUPS = 5
"""A goal of many parts is asked for in so many groups: a slot each, where it is about slots."""


def split(goal: Formula) -> Iterator[tuple[str, Formula]]:
    """A goal of many parts as several, each with its number."""
    bound, body = goal
    parts = conjuncts(body)
    if len(parts) < GROUPS:
        yield "", goal
        return
    size = -(-len(parts) // GROUPS)
    for count, start in enumerate(range(0, len(parts), size), 1):
        yield f"/{count}", (bound, dag.conjunction(parts[start : start + size]))


class Induction:
    """The obligations by which clauses hold in every state.

    The helpers are inductive by themselves; the promise stands on them.
    """

    def __init__(
        self,
        model: Model,
        k: Any,
        regime: Regime,
        extra: tuple[Clause, ...] = (),
        rules: tuple[Formula, ...] = (),
    ) -> None:
        self.known = (*HELPERS, *extra)
        steps = Steps(model, k, regime)
        self.regime = regime
        self.state = steps.before
        self.steps = steps.all()
        self.first = initial(model, k, regime)
        self.before = {c.name: c.formula(self.state) for c in (*self.known, *PROMISED.values())}
        self.helpers = (*self.inductive(HELPERS), *self.inductive(extra, rules))

    def assumed(self, uses: Collection[str], step: StepOutcome | None) -> list[Formula]:
        """Clauses and cuts by name: of clauses about prefixes, what they say of the prefix in
        question and of those that the step is about."""
        lengths = (LENGTH, *(step.prefixes if step else ()))
        found: list[Formula] = []
        for c in {c.name: c for c in (*self.known, *PROMISED.values())}.values():
            if c.name in uses and c.of_prefix is not None:
                found += [c.of_prefix(self.state, length) for length in lengths]
            elif c.name in uses:
                found.append(self.before[c.name])
        if step:
            found += [lemma.formula for lemma in self.cuts(step) if lemma.name in uses]
            found += [formula for name, formula in step.given if name in uses]
            found += step.assumed
        return found

    def cuts(self, step: StepOutcome) -> list[Lemma]:
        """The lemmas of a step, but those that stand on clauses that are not known here."""
        unknown = {c.name for c in OPTIONAL} - {c.name for c in self.known}
        return [lemma for lemma in step.lemmas if not unknown.intersection(lemma.uses)]

    def posed(
        self, name: str, uses: Collection[str], assumed: Sequence[Formula], goal: Formula
    ) -> Obligation:
        """The obligation, with what sequences mean if it uses that."""
        if ARITHMETIC not in uses:
            return obligation(name, assumed, goal)
        ground = [body for bound, body in (*assumed, goal) if not bound]
        meant: list[Formula] = [((), node) for node in self.regime.definitions(ground)]
        return obligation(name, [*assumed, *meant], goal)

    def goals(
        self, clause: Clause, step: StepOutcome
    ) -> Iterator[tuple[str, Formula, frozenset[str]]]:
        """(name, clause after the step, clauses to use); if the log may grow, first of the old
        prefixes."""
        if clause.of_prefix is None or not step.grows:
            recalled = (*HISTORY, f"history/{clause.name}") if step.recalls else ()
            yield clause.name, clause.formula(step.after), clause.uses.union(recalled)
            return
        length = self.state.log.length
        bound, body = clause.of_prefix(step.after, LENGTH)
        old = dag.lt(LENGTH, dag.add(length, const(1)))
        parts = dag.conjunction(implies(old, part) for part in conjuncts(body))
        new = clause.of_prefix(step.after, dag.add(length, const(1)))
        yield f"{clause.name}/old", ((LENGTH, *bound), parts), clause.uses
        yield f"{clause.name}/new", new, clause.uses

    def promised(
        self, clause: Clause, rules: Sequence[Formula]
    ) -> Iterator[tuple[str, Obligation | None]]:
        """The helpers' obligations, whatever the variant's rules; and those of the promise that
        stands on them, under its variant's rules."""
        yield from self.helpers
        if not clause.follows:
            yield from self.inductive((clause,), rules)
            return
        name = f"always/{clause.name}"
        assumed = self.assumed(clause.uses - {clause.name}, None)
        yield name, obligation(name, assumed, self.before[clause.name])

    def inductive(
        self, clauses: Sequence[Clause], rules: Sequence[Formula] = ()
    ) -> Iterator[tuple[str, Obligation | None]]:
        """(name, obligation) of clauses and of the steps' lemmas, None where nothing changes."""
        for c in clauses:
            name = f"initial/{c.name}"
            yield name, self.posed(name, c.uses, [], c.formula(self.first))
        for step in self.steps:
            if clauses is HELPERS:
                yield from self.lemmas(step)
            for c in clauses:
                if c.formula(step.after) == self.before[c.name]:
                    yield f"{step.rule}/{c.name}", None
                else:
                    yield from self.changed(c, step, rules)

    def changed(
        self, clause: Clause, step: StepOutcome, rules: Sequence[Formula]
    ) -> Iterator[tuple[str, Obligation]]:
        """The obligations that a step leaves a clause true."""
        for name, goal, uses in self.goals(clause, step):
            assumed = [*self.assumed(uses, step), *(rules if RULED in uses else ())]
            for part, formula in split(goal):
                full = f"{step.rule}/{name}{part}"
                yield full, self.posed(full, uses, assumed, formula)

    def lemmas(self, step: StepOutcome) -> Iterator[tuple[str, Obligation]]:
        """The cuts of a step, and the inductions that it carries."""
        for lemma in self.cuts(step):
            assumed = self.assumed(lemma.uses, step)
            for part, formula in split(lemma.formula):
                name = f"{step.rule}/{lemma.name}{part}"
                yield name, self.posed(name, lemma.uses, assumed, formula)


def rules_of(model: Model, variant: str) -> tuple[Formula, ...]:
    """What a variant says of the rules that are unknown to the helpers."""
    parsed = model.variants.parse(variant)
    return tuple(
        ((), dag.eq(unknown, const(getattr(parsed, rule)))) for rule, unknown in VARIANT.items()
    )


class Planner:
    """Makes the obligations of theorems; those of the helpers once.

    `home` says which composition `model` is; the theorems of others are about their plain text.
    """

    def __init__(self, model: Model, home: str) -> None:
        self.model = model if home == "" else plain()
        self.composed = {home: model} if home else {}
        self.inductions: dict[tuple[Any, ...], Induction] = {}

    def induction(self, variant: str, theorem: Theorem) -> Induction:
        """The induction in a regime, for all variants that differ in unknown rules only; for a
        theorem with clauses of its own, under its rules."""
        parsed = self.model.variants.parse(variant)
        rules = rules_of(self.model, variant) if theorem.extra else ()
        same = parsed if rules else replace(parsed, name="", **dict.fromkeys(VARIANT, 0))
        extra = tuple(c.name for c in theorem.extra)
        key = (same, theorem.regime.name, theorem.patches, extra)
        if key not in self.inductions:
            model = patched((*self.model.patches, *theorem.patches))
            k = setting(model, variant)
            self.inductions[key] = Induction(model, k, theorem.regime, theorem.extra, rules)
        return self.inductions[key]

    def needs(self, theorem: Theorem, variant: str) -> Iterator[tuple[str, Obligation | None]]:
        """(name, obligation or None where nothing changes) of a theorem."""
        if theorem.composition is not None:
            model = self.composed.get(theorem.home) or composition(theorem.home)
            yield from WorldInduction(theorem.composition, model, variant).obligations()
        if theorem.lemmas is not None:
            for lemma in theorem.lemmas(self.model, setting(self.model, variant)):
                yield lemma.name, lemma
        if theorem.clause is not None:
            rules = rules_of(self.model, variant)
            yield from self.induction(variant, theorem).promised(theorem.clause, rules)


def plan(
    model: Model, theorems: tuple[Theorem, ...], under: Callable[[Theorem], str], home: str = ""
) -> Plan:
    """The obligations of the theorems, each under the variant that `under` says; see Planner."""
    planner = Planner(model, home)
    duties: dict[str, Duty] = {}
    unchanged: dict[str, None] = {}
    for theorem in theorems:
        for name, found in planner.needs(theorem, under(theorem)):
            if found is None:
                unchanged[f"{under(theorem)}: {name}"] = None
            else:
                known = duties.get(found.text)
                before = known.needed_by if known else ()
                duties[found.text] = Duty(found, (*before, theorem.name))
    return Plan(tuple(duties.values()), tuple(unchanged))
