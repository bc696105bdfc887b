"""The proofs: what is proved, and that a planted bug makes its own obligation fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from model.language import declaration_of
from proofs.explore.source import source_graph
from proofs.lift import dag
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, load_model
from proofs.mutants import find
from proofs.prove.engine.assumptions import events_left_out
from proofs.prove.engine.scope_check import ScopeOfProof
from proofs.prove.engine.smt import Formula, obligation
from proofs.prove.engine.solvers import ask
from proofs.prove.engine.unknowns import number
from proofs.prove.idempotent.assumptions import OF_ONE_PRODUCER
from proofs.prove.idempotent.checked_scopes import CHECKED_SCOPES, RANGED_SCOPES
from proofs.prove.idempotent.clause_groups import GUARANTEED
from proofs.prove.idempotent.composition import OneProducer
from proofs.prove.idempotent.induction import IdempotentInduction
from proofs.prove.idempotent.scope_state import ScopeState, check_scope
from proofs.prove.run.all_theorems import ONLY_EXPLORED, THEOREMS
from proofs.prove.run.answer_source import AnswerSource
from proofs.prove.run.assumption_necessity import DROPPED, trace_without
from proofs.prove.run.assumptions import ASSUMPTIONS
from proofs.prove.run.broken_step import values_of
from proofs.prove.run.counterexamples import counterexample
from proofs.prove.run.plan import Duty, Planner, ProofPlan, plan
from proofs.prove.run.range_check import check_ranges
from proofs.prove.run.report import Proof
from proofs.prove.run.scope_jobs import ScopeJob, clauses_of, never_taken
from proofs.prove.run.seeds import ratio, unstable
from proofs.prove.run.target import subject
from proofs.prove.run.vacuity import EXCLUDED, ask_hypotheses, look_for_vacuity
from proofs.prove.run.verdicts import ObligationVerdict, solve
from proofs.prove.transactions.assumptions import OF_TRANSACTIONS
from proofs.run.journal import Journal
from proofs.trace.replay import configuration_of
from tests.sizes import sized

BY_NAME = {t.name: t for t in THEOREMS}


def results(
    theorem: str,
    variant: str | None = None,
    patches: Sequence[Patch] = (),
    *,
    solver: str = "z3",
    only: str = "",
    timeout_s: int = 5,
) -> dict[str, str]:
    """What a solver says of a theorem's obligations whose names contain `only`."""
    of = BY_NAME[theorem]
    asked = planner(tuple(patches)).needs(of, variant or of.variant)
    chosen = {o.text: o for name, o in asked if o is not None and only in name}
    return {o.name: ask(solver, o.text, timeout_s=timeout_s).result for o in chosen.values()}


@cache
def planner(patches: tuple[Patch, ...]) -> Planner:
    """Theorems share their inductions."""
    return Planner(load_model("idempotent", patches))


PLANNED = {16: (1645, 2881), 1: (5106, 8984)}
"""How many obligations every so many theorems have, and what needs none. `make full` plans them
all: half a minute."""


@cache
def plan_of(every: int) -> ProofPlan:
    """The obligations of every so many theorems."""
    return plan(THEOREMS[::every], lambda t: t.variant)


@pytest.mark.xdist_group("plans")
@pytest.mark.parametrize("every", sized(PLANNED, [1]))
def test_the_plan_names_each_obligation_and_what_needs_no_solver(every: int) -> None:
    asked = plan_of(every)
    counts = len(asked.duties), len(asked.unchanged)  # a plan is too long to be printed
    assert counts == PLANNED[every]
    named = {name for d in asked.duties for name in d.needed_by}
    assert named == {t.name for t in THEOREMS[::every]}


@pytest.mark.xdist_group("plans")
@pytest.mark.parametrize("every", sized(PLANNED, [1]))
def test_z3_proves_every_sixteenth_obligation(every: int) -> None:
    """All of them are the verb's own work."""
    duties = plan_of(every).duties[::16]
    found = {(d.needed_by, d.obligation.name): ask("z3", d.obligation.text) for d in duties}
    assert {name for name, answer in found.items() if answer.result != "proved"} == set()


def test_what_leaves_out_an_event_is_an_assumption_of_some_theorem_about_its_world() -> None:
    for home in COMPOSITIONS:
        rules = load_model(home).rules.values()
        excluded_by = {declaration_of(rule).excluded_by for rule in rules} - {""}
        assert excluded_by <= {a for t in THEOREMS if t.home == home for a in t.assumptions}


def test_each_event_that_is_left_out_says_so() -> None:
    left_out = {home: events_left_out(load_model(home), ASSUMPTIONS) for home in COMPOSITIONS}
    assert {home: len(events) for home, events in left_out.items() if events} == {
        "idempotent": 4,
        "transactions": 20,
    }
    assert all(set(t.assumptions) <= set(ASSUMPTIONS) for t in THEOREMS)


def test_every_guarantee_has_a_theorem_or_is_said_to_be_explored_only() -> None:
    proved = {name for t in THEOREMS for name in (t.clause.name if t.clause else t.name,)}
    homes = ("idempotent", "producer_ids")
    guarantees = {p.name for home in homes for p in load_model(home).guarantees.GUARANTEES}
    explored = {name for home in homes for name in ONLY_EXPLORED[home]}
    assert guarantees - proved - explored == {"blocks_have_one_owner"}
    assert "blocks_have_one_owner" in BY_NAME["producer_ids_unique"].uses
    assert explored <= guarantees


@pytest.mark.parametrize("theorem", ["duplicate_is_answered", "sequences_wrap"])
def test_cvc5_agrees(theorem: str) -> None:
    assert set(results(theorem, solver="cvc5").values()) == {"proved"}


@pytest.mark.parametrize(
    ("theorem", "variant", "patch", "obligation"),
    [
        ("no_gap", "4.3.1", None, "on_produce/no_gap"),
        ("remembers_five", "4.3.1", None, "restart/remembers_five"),
        (
            "at_most_once",
            None,
            Patch("leader.check_producer_epoch", "Error.INVALID_PRODUCER_EPOCH", "Error.NONE"),
            "on_produce/accepted_follows/3",
        ),
        (
            "acked_is_stored",
            None,
            find("gap_dropped_silently").patches[0],
            "on_produce/duplicate_is_the_same/3",
        ),
        ("order_kept", "4.3.1", None, "on_produce/log_is_whole"),
        pytest.param(
            "order_kept",
            None,
            Patch("client.has_old_batches", "len(entry.in_flight) > 0", "False"),
            "send_new/in_flight_was_numbered/1",
            marks=pytest.mark.full,
        ),
        (
            "sequences_follow",
            None,
            Patch("client.has_old_batches", "len(entry.in_flight) > 0", "False"),
            "send_new/neighbours_follow/3",
        ),
        pytest.param(
            "nothing_fails",
            None,
            Patch(
                "leader.remember",
                "ProducerStateEntry(producer_epoch=stored.batch.producer_epoch,"
                " batches=(metadata,))",
                "ProducerStateEntry(producer_epoch=stored.batch.producer_epoch + 1,"
                " batches=(metadata,))",
            ),
            "on_produce/epochs_in_turn",
            marks=pytest.mark.full,
        ),
        (
            "order_within_epoch",
            None,
            find("reassign_in_heap_order").patches[0],
            "bump_epoch/in_flight_in_order/3",
        ),
        pytest.param(
            "acked_once",
            None,
            Patch("client.send_new", "all(b.outstanding for b in entry.in_flight)", "True"),
            "send_new/requests_in_order/3",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "no_false_error",
            None,
            Patch(
                "leader.is_duplicate",
                "last_sequence(k, batch) == remembered.last_sequence",
                "last_sequence(k, batch) < remembered.last_sequence",
            ),
            "on_produce/is_answered",
            marks=pytest.mark.full,
        ),
        ("bumps_have_causes", "first_sequence=strict", None, "restart/remembers_five"),
        pytest.param(
            "no_false_error_across_wraps",
            None,
            Patch("leader.in_sequence", "last == k.bounds.max_sequence", "last == -2"),
            "on_produce/follows_in_sequence",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "at_most_once_in_2_4",
            None,
            Patch("responses.may_outlive_connection", "is_mine(client, b.batch)", "False"),
            "on_disconnect/nothing_is_lost",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "no_false_error_in_2_0",
            None,
            Patch("client.next_to_retry", "first_in_sequence(idle)", "idle[-1:]"),
            "send_again/requests_in_order/3",
            marks=pytest.mark.full,
        ),
        (
            "why_five",
            None,
            Patch("leader.remember", "k.bounds.window", "k.bounds.window - 1"),
            "remember/window_is_the_last/length",
        ),
        (
            "sequences_wrap",
            None,
            Patch("leader.in_sequence", "last == k.bounds.max_sequence", "last == -2"),
            "in_sequence/accepts_the_successor",
        ),
        (
            "duplicate_is_answered",
            None,
            Patch(
                "leader.is_duplicate",
                "last_sequence(k, batch) == remembered.last_sequence",
                "last_sequence(k, batch) < remembered.last_sequence",
            ),
            "on_produce/duplicate_0_is_answered",
        ),
        pytest.param(
            "acked_is_replicated",
            None,
            Patch("leader.advance_high_watermark", "log_end_offset(leader.log)", "0"),
            "advance_high_watermark/acked_is_replicated",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_planted_bug_fails_its_own_obligation(
    theorem: str, variant: str | None, patch: Patch | None, obligation: str
) -> None:
    assert set(results(theorem, only=obligation).values()) <= {"proved"}
    found = results(theorem, variant, [patch] if patch else [], only=obligation, timeout_s=2)
    assert list(found) == [obligation]
    assert found[obligation] != "proved"


@pytest.mark.parametrize(
    ("assumption", "obligation"),
    [
        ("answers_in_order", "on_error/nothing_to_recover"),
        ("nothing_times_out", "expire_batch/nothing_to_recover"),
        pytest.param(
            "nothing_times_out", "on_disconnect/nothing_to_recover", marks=pytest.mark.full
        ),
    ],
)
def test_without_an_assumption_its_own_obligation_fails(assumption: str, obligation: str) -> None:
    """no_false_error rests on each of its assumptions: what is left out is missed."""
    theorem = BY_NAME["no_false_error"]
    of = theorem.composition
    assert isinstance(of, OneProducer)
    extra = tuple(replace(c, uses=c.uses - {assumption}) for c in of.extra)
    less = replace(theorem, composition=replace(of, extra=extra))
    for asked, expected in ((theorem, True), (less, False)):
        duties = plan((asked,), lambda t: t.variant).duties
        texts = [d.obligation.text for d in duties if obligation in d.obligation.name]
        said = {ask("z3", text, timeout_s=5).result for text in texts}
        assert (said <= {"proved"}) == expected


def test_the_hypotheses_of_a_request_in_its_turn_can_hold_together() -> None:
    """A solver finds such a state: what is assumed is no contradiction."""
    theorem = BY_NAME["no_false_error"]
    induction = Planner(load_model("idempotent")).obligations(theorem, theorem.variant).induction
    assert isinstance(induction, IdempotentInduction)
    step = next(s for s in induction.steps if s.rule == "on_produce")
    uses = induction.proved | {lemma.name for lemma in induction.lemmas_of(step)}
    everything = induction.assumed({*uses, "answers_in_order", "nothing_times_out"}, step)
    in_turn: Formula = ((), dag.leaf("in_turn", 0, 1, is_bool=True))
    asked = obligation("in_turn/false", [*everything, in_turn], ((), dag.FALSE))
    assert values_of(asked, "idempotent") is not None


def test_a_connection_is_what_the_proofs_say_of_it() -> None:
    """Answers, then requests, are the batches in flight that await an answer, in their order."""
    model = load_model("idempotent")
    k = configuration_of(model, "idempotent-failover/refusals=0", "first_sequence=strict")
    worlds = source_graph(model, k, "idempotent-failover").worlds
    for world in worlds:
        link, entry = world.links[0][0], world.clients[0].partitions[0]
        travelling = [a.first_record for a in link.answers]
        travelling += [r.batch.first_record for r in link.requests]
        awaited = [b.batch.first_record for b in entry.in_flight if b.outstanding]
        assert travelling == awaited
        assert all(b.outstanding for b in entry.in_flight[: len(awaited)])


@pytest.mark.parametrize("scope", ["idempotent-tiny", "idempotent-failover"])
def test_what_arrives_finds_all_before_it_stored(scope: str) -> None:
    """connections_keep_order is so of the connections of the model."""
    model = load_model("idempotent")
    k = configuration_of(model, f"{scope}/refusals=0/restarts=0", "4.3.1")
    for world in source_graph(model, k, scope).worlds:
        link = world.links[0][0]
        connections = [link.requests, *(b.requests for b in link.broken)]
        arriving = [requests[0].batch for requests in connections if requests]
        end = sum(stored.batch.record_count for stored in world.leaders[0].log)
        assert all(batch.base_sequence <= end for batch in arriving)


def test_a_clause_stands_on_nothing_that_is_not_proved_beside_it() -> None:
    """A guarantee that is used has its own obligations; a theorem that lacks it is refused."""
    theorem = BY_NAME["at_most_once_in_2_4"]
    of = theorem.composition
    assert isinstance(of, OneProducer)
    with pytest.raises(AssertionError, match="what nothing proves"):
        replace(of, extra=()).induction(load_model("idempotent"), theorem.variant, {})


def test_a_theorem_is_asked_only_of_producers_that_recover_as_in_its_proof() -> None:
    mine = tuple(t for t in THEOREMS if t.home == "idempotent")
    names = {v: {t.name for t in subject(None, v).asks(mine)} for v in ("2.0.0", "4.3.1")}
    assert {"at_most_once_in_2_0", "why_five"} <= names["2.0.0"]
    assert "at_most_once" not in names["2.0.0"]
    assert "at_most_once_in_2_0" not in names["4.3.1"]


def test_answers_that_are_kept_are_not_asked_again(tmp_path: Path) -> None:
    asked = plan((BY_NAME["sequences_wrap"],), lambda t: t.variant)
    file = tmp_path / "journal.jsonl"

    def prove(seed: int) -> tuple[ObligationVerdict, ...]:
        return solve(asked, AnswerSource(journal=Journal(file)), seed=seed)

    first = prove(0)
    with file.open("a", encoding="utf-8") as lines:
        lines.write('{"unit": "0 z3 cut sho')
    assert len(Journal(file)) == len(first) == 2 * len(asked.duties)
    assert [v.answer.result for v in prove(0)] == [v.answer.result for v in first]
    assert len(Journal(file)) == len(first)
    prove(1)
    assert len(Journal(file)) == 2 * len(first)


def test_a_query_that_depends_on_the_seed_is_named() -> None:
    times = {"steady": [2.0, 2.1, 2.2], "slow once": [0.3, 0.3, 3.0], "never seen": [0.01, 0.2]}
    assert unstable(times) == {"slow once": (0.3, 3.0)}
    assert ratio([1.0, 2.0, 8.0]) == 4


def test_five_are_too_few_for_six() -> None:
    """Without F <= W the proof of why_five must fail."""
    asked = plan((BY_NAME["why_five"],), lambda t: t.variant)
    (text,) = (d.obligation.text for d in asked.duties if "no_false_error" in d.obligation.name)
    without = text.replace("(assert (<= |in_flight| |window|))\n", "")
    assert without != text
    assert ask("z3", text).result == "proved"
    assert ask("z3", without, timeout_s=2).result != "proved"


@pytest.mark.parametrize("name", sized(DROPPED, ["moves_are_known"]))
def test_a_dropped_assumption_is_answered_by_a_trace(name: str) -> None:
    found = trace_without(name)
    assert found is not None
    assert found.property == DROPPED[name].property
    assert 0 < found.events <= 25


def test_the_clauses_hold_in_every_state_of_a_scope_and_each_rule_fires_there() -> None:
    model = load_model("idempotent")
    variant = model.variants.parse("first_sequence=strict/restart_window=full")
    k = model.scopes.SCOPES["idempotent-tiny"].configuration(variant)
    found = check_scope(ScopeOfProof(model, k, "idempotent-tiny"))
    assert found.failed == ()
    assert {"client_sends", "request_arrives", "answer_arrives", "leader_restarts"} <= set(
        found.firings
    )


@pytest.mark.full  # `make prove` does the same: half a minute of states
def test_small_scopes_take_the_steps_that_trouble_needs() -> None:
    names = [name for name in CHECKED_SCOPES if name not in RANGED_SCOPES]
    checks = [
        clauses_of(ScopeJob("clauses", scope=name, variant=CHECKED_SCOPES[name] or ""))
        for name in names
    ]
    assert [check.failed for check in checks] == [()] * len(names)
    assert set(never_taken(checks)) <= {"client_bumps_epoch", "leader_restarts"}


def test_a_wrong_clause_fails_in_scope() -> None:
    """no_gap is not true under 4.3.1's own rule; the check in scope must see it."""
    model = load_model("idempotent")
    k = model.scopes.SCOPES["idempotent-tiny"].configuration(model.variants.parse("4.3.1"))
    worlds = source_graph(model, k, "idempotent-tiny").worlds
    assert not all(GUARANTEED["no_gap"].is_so(k, ScopeState(model, k, world)) for world in worlds)


def test_ranges_are_decided_and_a_wrong_one_is_found() -> None:
    model = load_model("idempotent")
    k = model.scopes.SCOPES["idempotent-tiny"].configuration(model.variants.parse("4.3.1"))
    found = check_ranges(model, k, "idempotent-tiny")
    assert found.failed == ()
    assert found.claims == found.by_interval + found.by_z3 + found.by_search
    assert min(found.by_interval, found.by_z3, found.by_search) > 0
    wrong = load_model(
        "idempotent", [Patch("leader.append", "stored.base_offset + batch.record_count", "99")]
    )
    (broken,) = check_ranges(wrong, k, "idempotent-tiny").failed
    assert "high_watermark" in broken


def test_a_failed_guarantee_is_answered_by_a_trace() -> None:
    found = counterexample(BY_NAME["no_gap"], subject(None, "4.3.1"))
    assert found is not None
    assert found.finding.property == "no_gap"
    assert 0 < found.finding.events <= 25


def test_below_is_no_duplicate_where_any_first_sequence_is_accepted() -> None:
    """The condition of out_of_order_as_duplicate is needed: its own clause fails without it."""
    name = "on_produce/log_is_whole"
    assert set(results("out_of_order_as_duplicate", only=name).values()) == {"proved"}
    found = results("out_of_order_as_duplicate", "4.3.1", only=name)
    assert "proved" not in found.values()


def test_equal_questions_are_asked_once() -> None:
    positive = ((), dag.lt(dag.const(0), number("length")))
    named = [
        obligation(f"{name}/grows", [positive], positive) for name in ("on_produce", "restart")
    ]
    asked = ProofPlan(tuple(Duty(one, ("no_gap",)) for one in named), ())
    source = AnswerSource()
    assert [v.answer.result for v in solve(asked, source)] == ["proved"] * 4
    assert source.asked == 2


def test_what_meets_hypotheses_meets_each_part_of_them() -> None:
    """Of sets in each other the largest are asked about; their parts, where nothing meets them."""
    length = number("length")
    above, below = (((), dag.lt(dag.const(0), length)), ((), dag.lt(length, dag.const(9))))
    never = ((), dag.lt(length, dag.const(-9)))
    sets = [(above, below), (above,), (above, never), (never,)]
    asked = [obligation("restart/grows", one, above) for one in sets]
    source = AnswerSource()
    found = ask_hypotheses({one.hypotheses: one for one in asked}, source)
    assert [found.get(one.hypotheses) for one in asked] == ["failed", None, "proved", "failed"]
    assert source.asked == 3


def test_what_is_excluded_is_named_and_assumed() -> None:
    """2.4 recovers by another producer id, which its theorems exclude; z3 says by what."""
    asked = plan((BY_NAME["no_false_error_in_2_4"],), lambda t: t.variant)
    some = ("restart", "in_order", "nothing_is_lost")
    duties = [d for d in asked.duties if any(name in d.obligation.name for name in some)]
    found = Proof(
        ProofPlan(tuple(duties), ()), (), look_for_vacuity(duties, AnswerSource())
    ).exclusions
    assert {e.step: e.by for e in found} == {
        "bump_epoch": ("nothing_to_recover",),
        "expire_batch": ("nothing_times_out",),
        "on_error": ("answers_in_order", "no_false_error"),
        "on_late_disconnect_elsewhere": ("nothing_times_out",),
        "on_error_elsewhere": ("answers_in_order", "no_false_error, elsewhere"),
        "on_produce_without_replicas": ("answers_in_order",),
        "on_invalid_produce": ("nothing_is_rejected",),
        "on_produce_then_unreplicated": ("answers_in_order",),
        "restart": ("no_restart",),
    }
    assert all(e.labelled for e in found)


@pytest.mark.xdist_group("plans")
@pytest.mark.parametrize("every", sized(PLANNED, [1]))
def test_what_is_trivial_is_told_apart_and_not_asked(every: int) -> None:
    duties = plan_of(every).duties
    trivial = [d for d in duties if d.obligation.is_trivial]
    assert 0 < len(trivial) < len(duties) / 10
    few = ProofPlan(tuple(trivial[:3]), ())
    source = AnswerSource()
    assert solve(few, source) == ()
    done = Proof(few, (), look_for_vacuity(few.duties, source))
    assert source.asked == 0
    assert done.counts(few.duties)["trivial"] == 3


def test_what_an_abstraction_leaves_out_is_an_assumption_of_each_proof_that_is_made_so() -> None:
    for theorem in THEOREMS:
        own = set(theorem.assumptions)
        assert (theorem.clause is None) or set(OF_ONE_PRODUCER) <= own
        assert (theorem.home != "transactions") or set(OF_TRANSACTIONS) <= own
        makes_steps = theorem.composition.worlds is not None
        assert ("steps_are_the_events" in own) == (makes_steps or theorem.clause is not None)


@pytest.mark.full
@pytest.mark.xdist_group("plans")
def test_all_that_is_excluded_is_what_the_table_says_and_is_assumed() -> None:
    duties = plan_of(1).duties
    done = Proof(plan_of(1), (), look_for_vacuity(duties, AnswerSource()))
    assert {e.step for e in done.exclusions} == set(EXCLUDED)
    assert done.is_labelled
