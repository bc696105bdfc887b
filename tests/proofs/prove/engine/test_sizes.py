"""What is proved is so in scopes of any size: no size of one scope decides what is looked at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.lift.patch import Patch, parse_diff
from proofs.lift.source import Model, load_model
from proofs.prove.engine.missing_steps import MissingSteps
from proofs.prove.engine.possible_events import ImpossibleEvent, demand_possible_events
from proofs.prove.engine.sizes import names_of
from proofs.prove.engine.solvers import ask
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.assumptions import ASSUMPTIONS
from proofs.prove.run.plan import Planner, plan

BY_NAME = {t.name: t for t in THEOREMS}
CUT = "replace(leader, log=leader.log[:-1])"
NEW_EVENT = f'''
@event(Thread("followers", ("partition",)), wire=Wire.BROKERS)
def log_is_cut(k: Configuration, w: World, partition: Partition) -> World:
    """The last batch goes."""
    leader = w.leaders[partition]
    require(GUARD)
    return replace(w, leaders=w.leaders.put(partition, {CUT}))
'''
GUARDS = (
    "k.bounds.in_flight > 2",
    "k.bounds.more_producer_ids > 0",
    "k.bounds.last_producer_id > 0",
    "k.bounds.faults.breaks > 1",
    "w.given_producer_ids > 1",
    "len(leader.log) > 4",
    "len(tuple(at for at in leader.log if at.base_offset > 0)) > 4",
    "sum(at.batch.record_count for at in leader.log) > 8",
    "leader.high_watermark > 8",
    "partition > 0",
    "any(p > 0 for p in range(k.bounds.partitions))",
    "any(p > 0 for p, entry in w.clients[0].partitions.items())",
)
"""What holds in no small scope, each said in another way."""


def diff_of(addition: str, before: str = "# Faults") -> str:
    """A unified diff of the world's text, with more text before a line of it."""
    lines = Path("model/idempotent/world.py").read_text(encoding="utf-8").splitlines()
    place = lines.index(before)
    added = addition.splitlines()
    head = f"@@ -{place + 1},1 +{place + 1},{len(added) + 1} @@"
    name = "model/idempotent/world.py"
    body = [*(f"+{line}" for line in added), f" {before}"]
    return "\n".join([f"--- a/{name}", f"+++ b/{name}", head, *body, ""])


@cache
def patched(*patches: Patch) -> Model:
    return load_model("idempotent", patches)


def with_event(guard: str) -> Model:
    """The model with an event that cuts a log, where the guard holds."""
    return load_model("idempotent", parse_diff(diff_of(NEW_EVENT.replace("GUARD", guard))))


@pytest.mark.parametrize("guard", GUARDS)
def test_an_event_whose_guard_no_small_scope_meets_needs_a_step(guard: str) -> None:
    asked = BY_NAME["no_gap"]
    with pytest.raises(MissingSteps, match="log_is_cut builds a Leader in log_is_cut"):
        list(Planner(with_event(guard)).needs(asked, asked.variant))


def test_the_command_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idea = tmp_path / "idea.diff"
    idea.write_text(diff_of(NEW_EVENT.replace("GUARD", GUARDS[0])), encoding="utf-8")
    code = main(["prove", "--only", "no_gap", "--no-scopes", "--patch", str(idea)])
    assert code == 2
    assert "log_is_cut builds a Leader" in capsys.readouterr().err


@pytest.mark.parametrize("guard", GUARDS[:4])
def test_a_branch_that_no_small_scope_takes_needs_a_step(guard: str) -> None:
    leader = "w.leaders[partition]"
    cut = f"replace({leader}, log={leader}.log[:-1]) if {guard} else {leader}"
    text = "leader_rules.on_produce(k, {}, request)"
    model = patched(Patch("world.request_arrives", text.format(leader), text.format(cut)))
    asked = BY_NAME["no_gap"]
    with pytest.raises(MissingSteps, match="request_arrives builds a Leader"):
        list(Planner(model).needs(asked, asked.variant))


FOLLOWS = ("no_gap", "leader.in_sequence", "following == last + 1")
GIVES = ("producer_ids_unique", "manager.give_id", "manager.used + 1")
FENCES = (
    "coordinator_fences",
    "end_txn.end_v2",
    "request.producer_epoch != metadata.producer_epoch",
)
RULES = (
    *((*FOLLOWS, "{} or {}", size) for size in ("in_flight < 5", "faults.timeouts == 0")),
    *((*FOLLOWS, "{} or {}", size) for size in ("records > 3", "partitions == 1")),
    *((*GIVES, "{} - (1 if {} else 0)", size) for size in ("brokers > 2", "producers > 2")),
    *((*FENCES, "{} and not {}", size) for size in ("writes > 1", "instances > 1")),
)
"""Of each composition a theorem, a rule of an actor, and what is wrong with it where a size is
another than that of the proofs: there the branch folds away."""


@pytest.mark.parametrize(("name", "function", "before", "wrong", "size"), RULES)
def test_a_rule_is_proved_whatever_the_size(
    name: str, function: str, before: str, wrong: str, size: str
) -> None:
    patch = Patch(function, before, wrong.format(before, f"(k.bounds.{size})"))
    changed = questions(name, patch) - questions(name)
    results = (ask("z3", question, timeout_s=2).result for question in sorted(changed))
    assert any(result != "proved" for result in results)


@cache
def questions(name: str, *patches: Patch) -> frozenset[str]:
    """What solvers are asked for a theorem about a model."""
    theorem = BY_NAME[name]
    duties = plan((theorem,), lambda t: t.variant, (load_model(theorem.home, patches),)).duties
    return frozenset(d.obligation.question for d in duties)


def test_an_event_that_no_scope_can_take_is_refused_by_name() -> None:
    with pytest.raises(ImpossibleEvent, match="log_is_cut"):
        demand_possible_events(with_event("k.bounds.in_flight > 100"))


def test_each_event_of_the_models_can_happen_somewhere() -> None:
    for home in ("producer_ids", "processing"):
        demand_possible_events(load_model(home))


def test_no_theorem_claims_a_size_that_no_assumption_is_about() -> None:
    for theorem in THEOREMS:
        assumed = {size for name in theorem.assumptions for size in ASSUMPTIONS[name].claims}
        claimed = theorem.composition.claimed
        assert claimed <= assumed, theorem.name
        assert theorem.home == "idempotent" or claimed == assumed, theorem.name


def test_a_claimed_size_is_one_that_the_bounds_have() -> None:
    homes = ("idempotent", "transactions")
    known = {n for home in homes for n in names_of(load_model(home).configuration.Bounds)}
    assert {size for assumption in ASSUMPTIONS.values() for size in assumption.claims} <= known
