"""Proofs of transactions: any number of requests, in any order; a planted bug fails its own
obligation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from proofs.lift import dag
from proofs.lift.patch import Patch
from proofs.lift.source import composition_of, load_model, model_folder
from proofs.mutants.table import TRANSACTIONAL
from proofs.prove.engine.composition import CompositionInduction
from proofs.prove.engine.missing_steps import MissingSteps
from proofs.prove.engine.scope_check import ScopeOfProof
from proofs.prove.engine.smt import Formula, obligation
from proofs.prove.engine.solvers import ask
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.assumption_necessity import trace_without
from proofs.prove.run.counterexamples import counterexample, places
from proofs.prove.run.plan import Planner
from proofs.prove.run.scope_jobs import explored
from proofs.prove.run.target import subject
from proofs.prove.run.vacuity import EXCLUDED
from proofs.prove.transactions.message_assumptions import refused_is_absent
from proofs.prove.transactions.scope_states import check_partitions
from proofs.prove.transactions.steps import Transactions
from proofs.prove.transactions.theorems import ONLY_EXPLORED, PROVED_AS, WITH_V1
from proofs.trace.replay import configuration_of
from tests.proofs.prove.transactions.planted import PLANTED
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("transactions proofs")  # what is explored is cached

ANSWERED = {m.name: m.theorem for m in TRANSACTIONAL if m.theorem}
UNANSWERED = {m.name: m.no_theorem for m in TRANSACTIONAL if m.no_theorem}
MINE = {t.name: t for t in THEOREMS if t.home == "transactions"}


@cache
def induction(theorem: str, variant: str = "", *patches: Patch) -> CompositionInduction:
    """The induction of a theorem, under its own variant or another, with patches."""
    found = MINE[theorem]
    model = load_model("transactions", patches)
    return CompositionInduction(found.composition, model, variant or found.variant)


def proved(of: CompositionInduction, name: str) -> bool:
    """Whether Z3 proves an obligation: of a clause after a step, or a lemma."""
    step, _, wanted = name.partition("/")
    clause = next((c for c in of.of.clauses if c.name == wanted), None)
    if clause is not None:
        assert isinstance(of.worlds, Transactions)
        [(_, found)] = of.kept(clause, of.worlds.named(step))
    else:
        assert of.of.lemmas is not None
        found = next(o for o in of.of.lemmas(of.worlds) if o.name == f"transactions/{name}")
    assert found is not None
    return ask("z3", found.text, timeout_s=5).result == "proved"


TRUNCATED = """
@event(Thread("truncation", ("partition",)))
def log_is_truncated(k: Configuration, w: World, partition: Partition) -> World:
    \"\"\"The log of a partition loses its last record.\"\"\"
    leader = w.leaders[partition]
    require(k.bounds.guards)
    require(len(leader.log) > 0)
    return with_leader(w, partition, replace(leader, log=leader.log[1:]))


"""


@pytest.mark.parametrize("name", ["all_or_none", "fenced", "stored_once"])
def test_an_event_that_is_no_step_is_refused(name: str) -> None:
    """It breaks `no_lost_write` in few steps, and no clause had failed."""
    truncated = Patch("model/transactions/world.py", *in_front_of_other_writes())
    model = load_model("transactions", (truncated,))
    assert "log_is_truncated" in model.rules
    theorem = MINE[name]
    with pytest.raises(MissingSteps, match="log_is_truncated builds a Leader"):
        list(Planner(model).needs(theorem, theorem.variant))


def in_front_of_other_writes() -> tuple[str, str]:
    """Lines of the world, and the same with the truncation in front of them."""
    text = (model_folder() / "transactions/world.py").read_text(encoding="utf-8")
    end = text.index("def other_writes(")
    begin = text.rindex("@event(", 0, end)
    lines = text[begin:end] + text[end : text.index("\n", end) + 1]
    return lines, TRUNCATED + lines


@pytest.mark.full  # test_prove.py plans some of them
def test_each_theorem_has_a_step_for_what_happens_in_the_world() -> None:
    assert [name for name, theorem in MINE.items() if lacks_steps(theorem)] == []


def lacks_steps(theorem: Theorem) -> bool:
    try:
        next(Planner().needs(theorem, theorem.variant))
    except MissingSteps:
        return True
    return False


def test_every_guarantee_has_a_theorem_or_is_said_to_be_explored_only() -> None:
    guarantees = {p.name for p in load_model("transactions").guarantees.GUARANTEES}
    assert set(PROVED_AS) | set(ONLY_EXPLORED) == guarantees
    assert all(
        ONLY_EXPLORED[name].startswith("with V1") for name in {*PROVED_AS} & {*ONLY_EXPLORED}
    )
    assert set(PROVED_AS.values()) | set(WITH_V1.values()) <= set(MINE)
    assert set(WITH_V1) <= set(PROVED_AS)


@pytest.mark.full  # test_prove.py has a sample of all theorems
@pytest.mark.parametrize("theorem", MINE)
def test_z3_proves_every_tenth_obligation(theorem: str) -> None:
    """All of them, by both solvers, are the verb's own work."""
    asked = [o for _, o in induction(theorem).obligations() if o is not None]
    said = {o.name: ask("z3", o.text, timeout_s=5).result for o in asked[::10]}
    assert set(said.values()) == {"proved"}


def contradictions(of: CompositionInduction, *more: Formula) -> list[str]:
    """The steps from no state at all: z3 needs no second for those; others it may leave open."""
    everything = {*of.before, *of.facts}
    steps = [(s.rule, (*of.assumed(everything, s), *more)) for s in of.worlds.steps()]
    asked = [obligation(rule, assumed, ((), dag.FALSE)) for rule, assumed in steps]
    return [o.name for o in asked if ask("z3", o.text, timeout_s=0.3).result == "proved"]


LARGER = {"all_or_none", "all_or_none_on_time", "acked_is_stored_once"}


@pytest.mark.parametrize("theorem", sized(MINE, LARGER))
def test_nothing_is_proved_of_contradictions(theorem: str) -> None:
    """But for steps that its variant excludes."""
    impossible = {step for step, assumed in EXCLUDED.items() if not assumed}
    assert set(contradictions(induction(theorem))) <= impossible


def test_a_contradiction_would_show() -> None:
    of = induction("all_or_none")
    assert len(contradictions(of, ((), dag.FALSE))) == len(list(of.worlds.steps()))


SLOW = {"settled_is_stored", "first_offset_is_exact"}
"""Z3 takes seconds to fail here; in the suite each theorem keeps other planted bugs."""


def is_slow(row: tuple[str, str, Patch | None, str]) -> bool:
    step, _, clause = row[-1].partition("/")
    return clause in SLOW and step != "give_up"


@pytest.mark.parametrize(
    ("theorem", "variant", "patch", "obligation"),
    sized(PLANTED, [row for row in PLANTED if is_slow(row)]),
)
def test_a_planted_bug_fails_its_own_obligation(
    theorem: str, variant: str, patch: Patch | None, obligation: str
) -> None:
    assert proved(induction(theorem), obligation)
    assert not proved(induction(theorem, variant, *([patch] if patch else [])), obligation)


@pytest.mark.parametrize(
    ("early", "late", "obligation"),
    [
        ("end_on_time", "end", "commits_are_wanted"),
        ("batch_arrives_on_time", "batch_arrives", "open_is_of_this_turn"),
        ("end_on_time", "marker_arrives", "visible_as_wanted"),
    ],
)
def test_without_the_assumptions_of_v1_its_own_obligation_fails(
    early: str, late: str, obligation: str
) -> None:
    """KAFKA-17754: with V1 what is late belongs to whichever transaction it meets."""
    of = MINE["visible_as_wanted"].composition
    assert of is not None
    steps = tuple(step for step in of.steps if step != early)
    dropped = replace(of, steps=(*steps, late))
    assert proved(
        CompositionInduction(of, load_model("transactions"), "v1"), f"{early}/{obligation}"
    )
    late_ones = CompositionInduction(dropped, load_model("transactions"), "v1")
    assert not proved(late_ones, f"{late}/{obligation}")


@pytest.mark.parametrize(
    ("late", "obligation"),
    [
        ("my_late_end", "its_turn_is_now"),
        ("my_late_batch", "log_says_its_turn"),
        ("marker_arrives", "visible_as_wanted"),
    ],
)
def test_what_is_told_with_v1_rests_on_what_may_arrive(late: str, obligation: str) -> None:
    """Of a transaction that has V1's pair, what is late may meet the next one."""
    of = MINE["all_or_none_on_time"].composition
    assert of is not None
    model = load_model("transactions")
    late_too = replace(of, steps=(*of.steps, late))
    assert proved(CompositionInduction(of, model, "v1"), f"transaction_is_ended/{obligation}")
    assert not proved(CompositionInduction(late_too, model, "v1"), f"{late}/{obligation}")


SLOW_MUTANTS = {"refusal_not_poisoning", "offsets_error_not_retried", "lso_inclusive"}


@pytest.mark.parametrize("mutant", sized(ANSWERED, SLOW_MUTANTS))
def test_a_mutant_fails_its_own_obligation(mutant: str) -> None:
    """What a release does takes its rule from the theorems; a defect changes the text."""
    theorem, failing = ANSWERED[mutant]
    of, found = subject(mutant, None), MINE[theorem]
    assert found in of.asks(THEOREMS)
    variant = of.under(found)
    model = of.models.get(found.home) or load_model(found.home)
    ruled = found.composition.ruled_by(model, variant, found.variant)
    assert proved(induction(theorem), failing)
    assert not proved(CompositionInduction(ruled, model, variant), failing)


def test_every_mutant_breaks_a_theorem_or_is_said_to_break_none() -> None:
    mine = {m.name for m in TRANSACTIONAL if composition_of(m.scope) == "transactions"}
    assert set(ANSWERED) | set(UNANSWERED) == mine
    assert not set(ANSWERED) & set(UNANSWERED)


def test_a_mutant_is_answered_by_its_trace() -> None:
    found = counterexample(MINE["last_stable_offset_sound"], subject("lso_inclusive", None))
    assert found is not None
    assert found.finding.property == "no_dirty_read"
    assert 0 < found.finding.events <= 25


def test_v1_without_its_assumption_is_answered_by_a_trace() -> None:
    of = subject(None, "v1")
    asked = of.asks(THEOREMS)
    assert all(theorem in asked for theorem in MINE.values())
    assert ("transactions-default", "v1") in places(MINE["all_or_none"], of)
    late = trace_without("requests_on_time")
    assert late is not None
    assert late.property in MINE["all_or_none"].answered_by


def test_without_pairs_that_are_kept_its_own_obligation_fails() -> None:
    """Whoever uses a pair of another may commit what the other has written."""
    of = induction("all_or_none")
    clause = next(c for c in of.of.clauses if c.name == "commits_are_asked")
    assert isinstance(of.worlds, Transactions)
    assert proved(of, "others_end/commits_are_asked")
    [(_, found)] = of.kept(clause, of.worlds.named("end"))
    assert found is not None
    assert ask("z3", found.text, timeout_s=5).result != "proved"


@pytest.mark.parametrize(
    ("late", "obligation"),
    [
        ("my_named_batch", "own_sequences_are_counted"),
        ("batch_is_produced", "own_sequences_are_counted"),
    ],
)
def test_what_is_acked_with_v1_rests_on_what_may_arrive(late: str, obligation: str) -> None:
    """With batches that are late, or refusals of what is stored, a sequence names two records."""
    of = MINE["acked_is_stored_once"].composition
    assert of is not None
    model = load_model("transactions")
    kept = tuple(promise for promise in of.promises if promise is not refused_is_absent)
    dropped = replace(of, steps=(*of.steps, "my_named_batch"), promises=kept)
    assert proved(CompositionInduction(of, model, "v1"), f"batch_is_produced/{obligation}")
    assert not proved(CompositionInduction(dropped, model, "v1"), f"{late}/{obligation}")


@pytest.mark.parametrize(
    ("theorem", "variant", "obligation"),
    [
        ("no_write_outside", "3.3.2", "batch_arrives/no_write_outside"),
        ("fenced", "3.3.2", "batch_arrives/nothing_older_is_written"),
        ("transaction_decisions", "rotation=clients", "time_out/ids_are_remembered"),
        ("markers_are_taken", "fence=same_epoch", "time_out/open_is_before_its_marker"),
        ("no_false_fencing", "pending=after_producer", "batch_is_produced/no_false_fencing"),
        ("all_or_none", "v1", "transaction_is_ended/who_waits"),
    ],
)
def test_without_a_rule_its_own_obligation_fails(
    theorem: str, variant: str, obligation: str
) -> None:
    """What is assumed of releases is not assumed under a variant that has another rule."""
    found = MINE[theorem]
    model = load_model("transactions")
    ruled = found.composition.ruled_by(model, variant, found.variant)
    assert proved(induction(theorem), obligation)
    assert not proved(CompositionInduction(ruled, model, variant), obligation)


@pytest.mark.parametrize("theorem", MINE)
def test_the_clauses_hold_in_every_world_of_a_scope(theorem: str) -> None:
    of = MINE[theorem].composition
    assert of is not None
    assert of.check is not None
    for variant in of.variants:
        assert of.check(of, explored("transactions", (), "transactions-tiny", variant)).failed == ()


def test_a_wrong_clause_fails_in_scope() -> None:
    """Where a complete transaction begins its epochs again, the check sees that they go back."""
    of = MINE["transaction_decisions"].composition
    assert of is not None
    patch = Patch("coordinator.completed", "0 if rotates else metadata.producer_epoch", "0")
    model = load_model("transactions", [patch])
    k = configuration_of(model, "transactions-tiny", "v2")
    assert check_partitions(of, ScopeOfProof(model, k, "transactions-tiny")).failed != ()


def test_an_epoch_that_is_told_twice_is_seen_while_its_append_is_on_its_way() -> None:
    """What an append is for is remembered in scopes, too."""
    of = MINE["transaction_epochs"].composition
    assert of is not None
    next_one = "with_epoch(k, c, next_epoch(epoch), NO_PRODUCER_EPOCH)"
    patch = Patch(
        "coordinator.on_finished", next_one, next_one.replace("next_epoch(epoch)", "epoch")
    )
    model = load_model("transactions", [patch])
    k = configuration_of(model, "transactions-log/begun=0", "v1")
    failed = check_partitions(of, ScopeOfProof(model, k, "transactions-log/begun=0")).failed
    assert {"what_is_awaited_is_new", "epochs_unique"} <= set(failed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("min(first, begins)", "min(first, begins) if begins < 4 else first"),
        ("min(first, begins)", "begins"),
        ("begins == NO_OFFSET", "begins == NO_OFFSET or first < 7"),
    ],
)
def test_where_readers_stop_is_proved_for_logs_of_any_length(before: str, after: str) -> None:
    """Each of these is right in logs that are short enough."""
    model = load_model("transactions", (Patch("leader.earlier", before, after),))
    theorem = MINE["last_stable_offset_sound"]
    asked = dict(Planner(model).needs(theorem, theorem.variant))
    lemmas = [o for name, o in asked.items() if o is not None and "fold_grows" in name]
    assert len(lemmas) == 3
    assert {ask("z3", lemma.text).result for lemma in lemmas} >= {"failed"}
