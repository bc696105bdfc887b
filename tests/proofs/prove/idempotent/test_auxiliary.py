"""Guarantees that stand by themselves: their own words, their planted bugs, and what they
assume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from proofs.explore.source import source_graph
from proofs.lift.dag import FALSE, reachable
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.mutants import find
from proofs.prove.engine.scope_check import ScopeOfProof
from proofs.prove.engine.smt import Formula, obligation
from proofs.prove.engine.solvers import SOLVERS, ask
from proofs.prove.engine.theorem import Theorem
from proofs.prove.engine.unknowns import bound, number
from proofs.prove.idempotent.assumptions import EVERYWHERE, OF_CLIENTS, OF_ONE_PRODUCER
from proofs.prove.idempotent.clause_groups import GUARANTEED
from proofs.prove.idempotent.composition import configuration
from proofs.prove.idempotent.high_watermark import OneLog, events_of_leaders
from proofs.prove.idempotent.induction import IdempotentInduction
from proofs.prove.idempotent.scope_state import states_of
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.counterexamples import counterexample
from proofs.prove.run.plan import Planner, plan
from proofs.prove.run.target import ProofTarget
from proofs.trace.replay import configuration_of
from tests.sizes import sized

BY_NAME = {t.name: t for t in THEOREMS}
NOTHING_ELSE = "/".join(
    f"{name}=0"
    for name in (
        "breaks",
        "refusals",
        "restarts",
        "failovers",
        "losses",
        "crashes",
        "expiries",
        "late_errors",
        "timeouts",
    )
)
LEMMAS = ("ids_come_first", "high_watermark_sound")


@cache
def planner(patches: tuple[Patch, ...]) -> Planner:
    """Theorems share their inductions."""
    return Planner(load_model("idempotent", patches))


def failed(theorem: Theorem, subject: ProofTarget, only: str, solver: str = "z3") -> set[str]:
    """The obligations, of those that begin so, that a solver does not prove."""
    asked = planner(subject.patches.get("idempotent", ())).needs(theorem, subject.under(theorem))
    chosen = {o.text: name for name, o in asked if o is not None and name.startswith(only)}
    assert chosen
    answers = {name: ask(solver, text, timeout_s=2).result for text, name in chosen.items()}
    return {name for name, result in answers.items() if result != "proved"}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", LEMMAS)
def test_inductions_over_the_rules_of_the_world_are_proved(name: str, solver: str) -> None:
    assert failed(BY_NAME[name], ProofTarget(), "", solver) == set()


@dataclass(frozen=True)
class Bug:
    """A planted bug: the theorem, its obligation that fails, and the scope whose trace answers."""

    theorem: str
    obligation: str
    scope: str
    patches: Sequence[Patch] = ()
    variant: str | None = None


BUGS = (
    Bug(
        "acked_is_replicated",
        "on_produce/answers_are_true",
        "idempotent-failover/records=1/refusals=0/restarts=0",
        variant="4.3.1/acks=leader",
    ),
    Bug(
        "sequences_follow",
        "on_disconnect/in_flight_is_numbered/1",
        "idempotent-tiny/refusals=0/restarts=0",
        find("sequence_used_by_unsent_record").patches,
    ),
    Bug(
        "high_watermark_sound",
        "leader_fails_over_uncleanly/leader/high_watermark_sound",
        "idempotent-loss/records=1/breaks=0",
        [
            Patch(
                "leader.fail_over",
                "min(leader.high_watermark, log_end_offset(log))",
                "leader.high_watermark",
            )
        ],
    ),
    Bug(
        "high_watermark_sound",
        "records_are_deleted/leader/high_watermark_sound",
        f"idempotent-replicas/records=1/{NOTHING_ELSE}",
        [Patch("leader.delete_records", "log_start_offset <= leader.high_watermark", "True")],
    ),
    Bug(
        "remembers_the_newest",
        "restart/history_agrees",
        "idempotent-restart/breaks=0",
        [Patch("leader.snapshot", "entry.batches[-1:]", "entry.batches[:1]")],
    ),
    Bug(
        "nothing_fails",
        "on_error/nothing_fails",
        "idempotent-tiny/records=1/breaks=0/restarts=0",
        [Patch("responses.is_retriable", "error == Error.NOT_ENOUGH_REPLICAS", "False")],
    ),
    Bug(
        "nothing_fails",
        "on_produce/nobody_is_fenced",
        "idempotent-tiny/refusals=0/restarts=0",
        [
            Patch(
                "leader.check_producer_epoch",
                "batch.producer_epoch < entry.producer_epoch",
                "batch.producer_epoch <= entry.producer_epoch",
            )
        ],
    ),
    Bug(
        "ids_come_first",
        "send_new/ids_come_first",
        "idempotent-exhaustion/records=1/breaks=0/restarts=0",
        [Patch("client.may_send", "client.producer_id != NO_PRODUCER_ID", "True")],
    ),
)


LONGER = {
    "on_produce/answers_are_true",
    "on_disconnect/in_flight_is_numbered/1",
    "restart/history_agrees",
    "on_produce/nobody_is_fenced",
}
"""Left to `make full`: their theorems have planted bugs in other tests, too."""


@pytest.mark.parametrize(
    "bug",
    sized(BUGS, [bug for bug in BUGS if bug.obligation in LONGER]),
    ids=lambda bug: bug.obligation.replace("/", "-"),
)
def test_a_planted_bug_fails_its_own_obligation_and_is_answered_by_a_trace(bug: Bug) -> None:
    theorem = BY_NAME[bug.theorem]
    variants = {"*": bug.variant} if bug.variant else {}
    subject = ProofTarget({"idempotent": tuple(bug.patches)}, variants, (bug.scope,))
    assert failed(theorem, ProofTarget(scopes=(bug.scope,)), bug.obligation) == set()
    assert failed(theorem, subject, bug.obligation) == {bug.obligation}
    found = counterexample(theorem, subject)
    assert found is not None
    assert found.finding.property == bug.theorem
    assert 0 < found.finding.events <= 25


@pytest.mark.parametrize(
    ("name", "scope", "variant", "patches"),
    [
        ("acked_is_replicated", "idempotent-failover/records=2/restarts=0", "acks=leader", ()),
        ("acked_is_stored", "idempotent-loss/records=2", "4.3.1", ()),
        (
            "remembers_the_newest",
            "idempotent-restart/breaks=0",
            "4.3.1",
            (Patch("leader.snapshot", "entry.batches[-1:]", "entry.batches[:1]"),),
        ),
        ("nothing_fails", "idempotent-timeout/records=1", "4.3.1", ()),
        ("at_most_once", "idempotent-expiry/records=2", "4.3.1", ()),
        ("no_gap", "idempotent-expiry/records=3", "first_sequence=strict", ()),
        ("order_kept", "idempotent-tiny/restarts=0", "4.3.1", ()),
        ("acked_once", "idempotent-restart", "4.3.1", ()),
        (
            "sequences_follow",
            "idempotent-tiny/refusals=0/restarts=0",
            "4.3.1",
            find("sequence_used_by_unsent_record").patches,
        ),
    ],
)
def test_a_formula_says_what_the_guarantee_says(
    name: str, scope: str, variant: str, patches: tuple[Patch, ...]
) -> None:
    """In every state of a scope, also where both are false."""
    model = load_model("idempotent", patches)
    k = configuration_of(model, scope, variant)
    guarantee: Any = getattr(model.guarantees, name)
    explored = ScopeOfProof(model, k, scope)
    said = [
        (GUARANTEED[name].is_so(k, s), guarantee(k, world))
        for world, s in zip(explored.graph.worlds, states_of(explored), strict=True)
    ]
    assert all(a == b for a, b in said)
    assert {b for _, b in said} == {True, False}


IN_WORDS = {
    "at_most_once": Patch(
        "guarantees.overlap",
        "a.first_record < b.first_record + b.record_count",
        "a.first_record <= b.first_record + b.record_count",
    ),
    "no_gap": Patch("guarantees.next_sequence_after", "earlier[-1]", "earlier[0]"),
    "order_kept": Patch("guarantees.in_order", "not has_record(log[:i], b.batch)", "True"),
    "acked_is_replicated": Patch(
        "guarantees.acknowledged_are_replicated",
        "end_offset(stored) <= leader.high_watermark",
        "end_offset(stored) < leader.high_watermark",
    ),
}
"""Guarantees that are proved as the model's text says them, each with a text that says too much."""


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", sized(IN_WORDS, ["no_gap", "order_kept"]))
def test_a_guarantee_is_proved_as_its_text_says_it(name: str, solver: str) -> None:
    obligation = f"always/{name}/in_words"
    assert failed(BY_NAME[name], ProofTarget(), obligation, solver) == set()
    changed = ProofTarget({"idempotent": (IN_WORDS[name],)})
    assert failed(BY_NAME[name], changed, obligation, solver) == {obligation}


def test_each_guarantee_that_is_proved_so_has_a_text_that_is_refused() -> None:
    assert {c.name for c in GUARANTEED.values() if c.in_words} == set(IN_WORDS)


def test_no_name_that_a_formula_binds_is_free_in_another() -> None:
    place, chosen = bound("place"), number("place")
    asked = obligation("fresh", [((place,), place >= 0)], ((), chosen >= 0))
    assert ask("z3", asked.text).result == "proved"
    for captured in (((chosen,), chosen >= 0), ((), place >= 0)):
        with pytest.raises(AssertionError, match="may be captured"):
            obligation("captured", [captured], ((), chosen >= 0))


def test_requests_come_as_they_were_sent() -> None:
    """What nothing_fails assumes is so of the connections of the model."""
    model = load_model("idempotent")
    k = configuration_of(model, "idempotent-tiny", "4.3.1")
    epochs_seen = set()
    for world in source_graph(model, k, "idempotent-tiny").worlds:
        link = world.links[0][0]
        late = [r.batch.producer_epoch for c in link.broken for r in c.requests]
        carried = [r.batch.producer_epoch for r in link.requests]
        assert carried == sorted(carried)
        assert not late or max(late) <= min(carried, default=world.clients[0].producer_epoch)
        epochs_seen.update(zip(late, carried, strict=False))
    assert (0, 1) in epochs_seen


def test_a_proof_about_clients_says_nothing_of_leaders() -> None:
    """Why it need not leave out what leaders forget, delete, or lose."""
    theorem = BY_NAME["sequences_follow"]
    assert set(theorem.assumptions) == {"no_wrap", *OF_CLIENTS, *OF_ONE_PRODUCER}
    assert set(OF_CLIENTS) < set(EVERYWHERE)
    induction = planner(()).obligations(theorem, theorem.variant).induction
    assert isinstance(induction, IdempotentInduction)
    by_name = {n: induction.known[n] for n in (*induction.proved, "sequences_follow")}
    needed, left = set[str](), ["sequences_follow"]
    while left:
        name = left.pop()
        if name in by_name and name not in needed:
            needed.add(name)
            left += by_name[name].uses
    spoken = {n.name for name in needed for n in reachable([induction.before[name][1]])}
    of_leaders = ("log", "known", "others", "history", "high_watermark", "answers", "where")
    assert not [name for name in spoken if name.startswith(of_leaders)]
    assert {"neighbours_follow", "in_flight_is_numbered"} <= needed


def test_every_rule_that_moves_a_leader_is_taken_but_a_crash() -> None:
    model = load_model("idempotent")
    events = events_of_leaders(model, "4.3.1")
    assert {"request_arrives", "records_are_deleted", "leader_fails_over_uncleanly"} < set(events)
    assert "leader_crashes" not in events
    assert len(events) == 11


def test_the_hypotheses_can_hold_together() -> None:
    """A solver finds a leader for each rule: what is assumed is no contradiction."""
    model = load_model("idempotent")
    of = OneLog(model, configuration(model, "4.3.1"))
    sound = of.clauses(of.before)["high_watermark_sound"]
    impossible: Formula = ((), FALSE)
    for rule in events_of_leaders(model, "4.3.1"):
        guards, _ = of.moved(rule)
        asked = obligation(f"{rule}/false", [sound, *guards], impossible)
        assert ask("z3", asked.text).result == "failed", rule
    duties = plan((BY_NAME["ids_come_first"],), lambda t: t.variant, [model]).duties
    for text in (duty.obligation.text for duty in duties):
        head, _, _ = text.rpartition("(assert (not ")
        assert ask("z3", f"{head}(check-sat)\n").result == "failed"
