"""Steps of the proofs are the world's events: what is missing is refused, what differs is named."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.explore.source import source_graph
from proofs.lift.patch import Patch, parse_diff
from proofs.lift.source import Model, composition_of, load_model
from proofs.prove.engine.composition import Worlds
from proofs.prove.engine.missing_steps import MissingSteps, messages_of, missing_steps
from proofs.prove.engine.scope_check import ScopeCheck
from proofs.prove.engine.solvers import ask
from proofs.prove.engine.unknowns import number
from proofs.prove.engine.world_events import WorldEvents, effects_of, has_requirements
from proofs.prove.engine.world_simulation import simulate_rules
from proofs.prove.idempotent.simulation import simulate_scope
from proofs.prove.producer_ids import composition as producer_ids
from proofs.prove.producer_ids.composition import PRODUCER_IDS
from proofs.prove.producer_ids.simulated_scopes import ALONE
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.plan import Planner, plan
from proofs.prove.run.scope_jobs import MORE_SIMULATED, ScopeJob, simulated_of, simulation_jobs
from proofs.prove.transactions.simulated_scopes import SIMULATED_SCOPES
from proofs.trace.replay import configuration_of
from proofs.verbs.prove import simulation_totals

HOMES = ("idempotent", "producer_ids", "transactions")
BY_NAME = {t.name: t for t in THEOREMS}
LOST_ANSWERS = "transactions-markers/begun=1/moves=0"


@cache
def producer(*patches: Patch) -> Model:
    return load_model("idempotent", patches)


def test_what_an_event_does_to_actors_is_read_from_its_text() -> None:
    model = producer()
    effects = effects_of(WorldEvents(model, "4.3.1", frozenset()))
    taken = {event: {rule.__name__ for rule in e.takes} for event, e in effects.items()}
    assert set(effects) == set(model.rules)
    assert taken["leader_fails_over"] == {"fail_over", "on_disconnect"}
    assert taken["request_outlives_replicas"] == {"on_produce_then_unreplicated"}
    assert not any(effect.edits for effect in effects.values())


NEVER = '''
--- a/model/idempotent/leader.py
+++ b/model/idempotent/leader.py
@@ -96,1 +96,2 @@
     """The offset of the next record."""
+    require(len(log) > 0)
'''


def test_what_an_event_requires_is_read_where_a_rule_of_an_actor_says_it() -> None:
    model = producer()
    assert has_requirements(model, model.client.send_new)
    assert not has_requirements(model, model.leader.advance_high_watermark)
    changed = producer(*parse_diff(NEVER))
    assert has_requirements(changed, changed.leader.advance_high_watermark)


@pytest.mark.parametrize("name", ["order_kept", "all_or_none"])
def test_what_inductions_share_is_what_each_would_evaluate(name: str) -> None:
    theorem, planner = BY_NAME[name], Planner(producer())
    induction = planner.obligations(theorem, theorem.variant).induction
    assert induction is not None
    shared = 0
    for step in induction.steps:
        for clause in [c for c in induction.known.values() if not c.follows][::7]:
            found = induction.formulas.of(clause, step.after)
            assert found == clause.formula(induction.lifter, step.after)
            shared += found is induction.before[clause.name]
    assert shared > 50


def test_a_part_that_a_clause_reads_is_not_shared() -> None:
    theorem, planner = BY_NAME["at_most_once"], Planner(producer())
    induction = planner.obligations(theorem, theorem.variant).induction
    assert induction is not None
    clause = next(c for c in induction.known.values() if c.name == "watermark_within_log")
    state = induction.state
    other = state.changed(leader=state.leader.changed(high_watermark=number("another")))
    same = state.changed(client=state.client.changed())
    formulas = induction.formulas
    assert formulas.of(clause, same) is formulas.of(clause, state)
    assert formulas.of(clause, other) != formulas.of(clause, state)


CATCHES_UP = "leader_rules.advance_high_watermark(k, leader)"


def refusal(theorem: str, instead: str) -> str:
    """What the prover says if followers catch up by something else."""
    model = producer(Patch("world.high_watermark_advances", CATCHES_UP, instead))
    asked = BY_NAME[theorem]
    with pytest.raises(MissingSteps) as refused:
        list(Planner(model).needs(asked, asked.variant))
    assert isinstance(refused.value, ValueError)  # which verbs take for bad input: exit code 2
    return str(refused.value)


def test_an_event_that_changes_an_actor_by_itself_has_no_step() -> None:
    said = refusal("at_most_once", "replace(leader, log=leader.log[1:])")
    assert "high_watermark_advances builds a Leader" in said


@pytest.mark.parametrize(("read", "refused"), [("leader", True), ("client", False)])
def test_an_actor_that_no_clause_reads_may_be_changed(read: str, refused: bool) -> None:
    model = producer(
        Patch("world.high_watermark_advances", CATCHES_UP, "replace(leader, log=leader.log[1:])")
    )
    actors = {"leader": model.leader.Leader, "client": model.client.Client}
    events = WorldEvents(model, "4.3.1", frozenset())
    found = {m.what for m in missing_steps(events, (), {actors[read]})}
    assert ("builds a Leader in high_watermark_advances" in found) == refused


def test_a_message_that_the_text_of_the_world_makes_counts_unless_anybody_may_send_it() -> None:
    model = load_model("transactions")
    counted = {cls.__name__ for cls in messages_of(model)}
    assert counted
    assert not counted & {"Request", "Client", "Coordinator", "Leader"}


def test_a_rule_that_no_step_evaluates_is_named() -> None:
    said = refusal("acked_is_replicated", "leader_rules.recover(k, leader, 0)")
    assert "high_watermark_advances takes leader.recover" in said


def test_an_answer_at_another_partition_is_a_step() -> None:
    """An answer of any partition is taken for one of the first: `acked_is_stored` fails."""
    wrong = Patch(
        "responses.on_answer", "with_entry(client, partition, told)", "with_entry(client, 0, told)"
    )
    theorem = BY_NAME["acked_is_stored"]
    asked = plan((theorem,), lambda t: t.variant, (producer(wrong),)).duties
    elsewhere = [d.obligation for d in asked if "on_success_elsewhere" in d.obligation.name]
    assert {ask("z3", o.text).result for o in elsewhere} >= {"failed"}


@pytest.mark.parametrize(
    ("scope", "matched"),
    [
        pytest.param("idempotent-tiny", 2482, marks=pytest.mark.full),
        ("idempotent-partitions/records=2", 1424),
    ],
)
def test_each_transition_of_a_scope_is_a_step(scope: str, matched: int) -> None:
    model = producer()
    k = configuration_of(model, scope, "4.3.1")
    simulated = simulate_scope(model, k, source_graph(model, k, scope))
    assert simulated.unmatched == {}
    assert simulated.matched.total() == matched


def test_a_message_that_nobody_has_sent_is_no_step() -> None:
    """A request that arrives late has another sequence than when it was sent."""
    request = "link.broken[connection].requests[0]"
    forged = f"replace({request}, batch=replace({request}.batch, base_sequence=1))"
    model = producer(Patch("world.late_request_arrives", request, forged))
    k = configuration_of(model, "idempotent-tiny/records=2", "4.3.1")
    found = source_graph(model, k, "idempotent-tiny/records=2")
    refused = simulate_scope(model, k, found).unmatched
    assert ("late_request_arrives", "leader.on_produce") in refused


def test_what_a_rule_makes_of_one_leader_belongs_to_no_other() -> None:
    """What the leader of any partition does is kept as the first one's."""
    put = "w.leaders.put(partition, step.actor)"
    model = producer(Patch("world.handled", put, put.replace("partition", "0")))
    scope = "idempotent-partitions/records=2"
    k = configuration_of(model, scope, "4.3.1")
    refused = simulate_scope(model, k, source_graph(model, k, scope)).unmatched
    assert ("request_arrives", "leader") in refused


@pytest.mark.parametrize(
    ("theorem", "matched"),
    [
        ("transaction_epochs", 1073),
        ("stored_once", 375),
        ("all_or_none_on_time", 475),
        ("markers_are_taken", 254),
        pytest.param("no_false_fencing", 860, marks=pytest.mark.full),
    ],
)
def test_each_transition_of_transactions_is_a_step(theorem: str, matched: int) -> None:
    scope, variant = SIMULATED_SCOPES[theorem]
    check = simulated_of(ScopeJob("simulated", theorem, scope, variant))
    assert check.failed == ()
    assert check.matched.total() == matched


def test_a_marker_whose_answer_is_lost_is_a_step() -> None:
    """The leader has taken it, and the coordinator is as it was: `prove --simulate` once had no
    step for that."""
    check = simulated_of(ScopeJob("simulated", "all_or_none", LOST_ANSWERS, "v2"))
    assert check.failed == ()
    assert check.matched["marker_is_written"] > 300


@pytest.mark.full
@pytest.mark.parametrize("scope", [scope for scope, _ in MORE_SIMULATED["all_or_none"]])
def test_each_transition_is_a_step_of_all_or_none(scope: str) -> None:
    check = simulated_of(ScopeJob("simulated", "all_or_none", scope, "v2"))
    assert check.failed == ()
    assert check.matched.total() > 200


def test_a_rule_that_is_another_than_its_step_is_named() -> None:
    """The store gives every second block; the step is that of the model as it stands."""
    patched = load_model(
        "producer_ids", (Patch("store.on_allocate", "store.block + 1", "store.block + 2"),)
    )
    k = configuration_of(patched, ALONE, "4.3.1")
    steps = tuple(Worlds(PRODUCER_IDS, load_model("producer_ids"), "4.3.1").steps())
    found = source_graph(patched, k, ALONE)
    ghosts = {name: getattr(producer_ids, name) for name in ("id_at", "block_of", "used_of")}
    seen = simulate_rules(steps, k, found, ghosts)
    assert {rule for rule, _ in seen.unmatched} >= {"block_is_allocated"}
    assert "the world" in str(seen.unmatched["block_is_allocated", "block_is_allocated"])
    assert seen.matched["producer_asks"] > 10


def test_ten_scopes_of_each_composition_are_simulated() -> None:
    plain = sorted({t.variant for t in THEOREMS if t.clause})
    jobs = [*simulation_jobs(THEOREMS, plain, {})]
    scopes = {home: {j.scope for j in jobs if composition_of(j.scope) == home} for home in HOMES}
    assert min(len(found) for found in scopes.values()) >= 4
    looks = Counter(composition_of(j.scope) for j in jobs)
    assert min(looks[home] for home in HOMES) >= 10
    assert {j.theorem for j in jobs} >= SIMULATED_SCOPES.keys()


@pytest.mark.full
def test_simulate_tells_how_many_rules_were_matched(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["prove", "--only", "producer_ids", "--simulate", "--processes", "1"]
    file = tmp_path / "report.json"
    assert main([*words, "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert len(report["simulated"]) == 10
    for one in report["simulated"]:
        assert sum(one["matched"].values()) == sum(one["firings"].values()) > 50
    total = "producer_ids: 10 scopes, 93,038 transitions, 93,038 rules matched"
    assert total in capsys.readouterr().out


def test_a_scope_that_several_theorems_are_compared_with_counts_once() -> None:
    check = ScopeCheck("transactions-tiny", "v2", 2, {"batch_is_produced": 3}, (), Counter(init=4))
    others = [replace(check, variant="v1"), replace(check, scope="producer-ids")]
    assert simulation_totals([check, check, *others]) == {
        "transactions": {"scopes": 2, "transitions": 6, "matched": 12},
        "producer_ids": {"scopes": 1, "transitions": 3, "matched": 4},
    }
