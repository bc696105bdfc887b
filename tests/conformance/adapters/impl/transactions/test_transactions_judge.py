"""impl's transactions in lockstep with the model: the judge itself, and what it finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.adapters.impl.judges import judge_of
from conformance.adapters.impl.shared.snapshots import ActorSnapshot, SnapshotStore
from conformance.campaigns.mutants import MUTANTS
from conformance.campaigns.mutants.patched_impl import hunt, hunt_unpatched
from conformance.generate.models import model_of_configuration
from conformance.judging.compositions import TRANSACTIONS
from conformance.judging.plan import BadPlan, Plan, PreparedPlan, configuration, prepare
from conformance.verbs.run import with_own_rules
from impl.partition.leader import PartitionLeader
from impl.partition.transactions import check_marker
from impl.protocol.errors import ErrorCode
from proofs.trace.replay import Stepper
from tests.sizes import sized

ACTORS = TRANSACTIONS.actors[0]


def plan_of(scope: str, variant: str, **changes: Any) -> Plan:
    name = TRANSACTIONS.model.variants.parse(variant).name
    return Plan(scope=scope, variant=name, actors=ACTORS, **changes)


@pytest.fixture(scope="module", params=["v2", "v1"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreparedPlan:
    """One instance, one transaction, two partitions."""
    plan = plan_of("transactions-tiny", request.param, traces_from=("cover",))
    return prepare(plan, tmp_path_factory.mktemp("prepared") / "tiny")


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> PreparedPlan:
    """Two transactions, and a request that is late."""
    plan = plan_of("transactions-default", "v1", traces=200)
    return prepare(plan, tmp_path_factory.mktemp("prepared") / "late")


def traces(prepared: PreparedPlan) -> Iterator[Any]:
    return (prepared.trace(number) for number in range(prepared.count))


# The judge


def test_the_judge_is_where_the_model_is(tiny: PreparedPlan, late: PreparedPlan):
    for prepared in (tiny, late):
        k = configuration(prepared.plan)
        judge, stepper = judge_of(prepared.plan), Stepper(model_of_configuration(k), k)
        for trace in traces(prepared):
            judge.begin()
            world = stepper.initial()
            for rule, choice in trace:
                judge.step((rule, choice))
                world = stepper.apply(rule, choice, world)
                there = judge.world()
                assert there.clients == world.clients
                assert there.coordinator == world.coordinator
                assert there.leaders == world.leaders
                assert there.late == world.late


def test_nothing_differs(tiny: PreparedPlan, late: PreparedPlan):
    for prepared in (tiny, late):
        judge = judge_of(prepared.plan)
        assert all(judge.judge(trace).divergence is None for trace in traces(prepared))


class Living(SnapshotStore):
    """An actor that lives, instead of being made anew for each step."""

    def after(self, snapshot: ActorSnapshot, name: str, *given: Any) -> tuple[ActorSnapshot, Any]:
        if snapshot is self.first:
            self.living = self.actor(snapshot)
        returned = getattr(self.living, name)(*given)
        self.living.tidy()
        return ActorSnapshot(b"", self.living.view()), returned

    def ask(self, snapshot: ActorSnapshot, name: str, *given: Any) -> Any:
        return super().ask(
            snapshot if snapshot.state else self._snapshot(self.living), name, *given
        )


def test_what_is_kept_does_what_lives(late: PreparedPlan):
    judge = judge_of.__wrapped__(late.plan)
    for actor in judge._actors.values():
        actor.store.__class__ = Living
    for trace in traces(late):
        judge.begin()
        for kind in ("Client", "Coordinator", "Leader"):
            for pair in judge.pairs(kind):
                pair.steps.clear()
        assert judge.judge(trace).divergence is None


def test_values_pass_without_the_codec():
    judge = judge_of(plan_of("transactions-tiny", "v2", on="values"))
    steps = (("instance_begins", (("instance", 0),)),)
    assert judge.judge(steps).divergence is None


def test_a_rule_that_no_release_of_impl_has_is_refused():
    with pytest.raises(BadPlan, match="another bump than goes_on; leave bump out of the variant"):
        judge_of(plan_of("transactions-tiny", "4.3.1/level=2/requests=v1/bump=goes_on"))


# Runs


@pytest.mark.parametrize("variant", sized(["v2", "v1"], ["v1"]))
def test_a_run_covers_every_transition(tmp_path: Path, variant: str):
    given = ["--scope", "transactions-tiny", "--variant", variant, "--traces-from", "cover"]
    where = ["--backend", "processes", "--partitions", "2", "--out", str(tmp_path / "out")]
    assert main(["run", *given, *where]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (
        report["coverage"]["transitions"]["covered"] == report["coverage"]["transitions"]["total"]
    )
    assert report["divergences"] == []
    assert report["guarantees"]["no_lost_write"] == "holds"
    assert report["guarantees"]["offsets_with_outcome"] == "not_exercised"


# What is found


def test_a_leader_that_shows_what_is_open_is_found(
    tiny: PreparedPlan, monkeypatch: pytest.MonkeyPatch
):
    end = property(lambda leader: leader.log_end_offset)
    monkeypatch.setattr(PartitionLeader, "last_stable_offset", end)
    judge = judge_of.__wrapped__(tiny.plan)
    found = [d for trace in traces(tiny) if (d := judge.judge(trace).divergence)]
    assert {tuple(d.expected) for d in found} <= {
        (f"leader[{p}].last_stable_offset",) for p in range(2)
    }
    assert min(d.step for d in found) >= 5


def test_each_trace_counts_what_its_masks_hide(tiny: PreparedPlan, monkeypatch: pytest.MonkeyPatch):
    end = property(lambda leader: leader.log_end_offset)
    monkeypatch.setattr(PartitionLeader, "last_stable_offset", end)
    judge = judge_of.__wrapped__(replace(tiny.plan, ignored=("leader.last_stable_offset",)))
    trace = next(t for t in traces(tiny) if judge.judge(t).masked)
    first, second = judge.judge(trace), judge.judge(trace)
    assert first.divergence is None
    assert first.masked == second.masked != {}


def test_a_marker_that_is_refused_is_found(tiny: PreparedPlan, monkeypatch: pytest.MonkeyPatch):
    def refuse(*given: Any) -> ErrorCode:
        return check_marker(*given) or ErrorCode.INVALID_PRODUCER_EPOCH

    monkeypatch.setattr("impl.partition.leader.check_marker", refuse)
    judge = judge_of.__wrapped__(tiny.plan)
    found = [d for trace in traces(tiny) if (d := judge.judge(trace).divergence)]
    assert {d.instance[0] for d in found} == {"marker_is_written"}


def fields_found(prepared: PreparedPlan) -> set[str]:
    """All fields in which a trace differs first."""
    judge = judge_of.__wrapped__(prepared.plan)
    found = (judge.judge(trace).divergence for trace in traces(prepared))
    return {field for divergence in found if divergence for field in divergence.observed}


@pytest.mark.parametrize(
    ("place", "bug", "field"),
    [
        ("partition.leader.check_open", lambda *_: ErrorCode.NONE, "leader[0].refuses"),
        (
            "coordinator.transactions._check_producer",
            lambda *_: ErrorCode.NONE,
            "coordinator.refuses",
        ),
        (
            "coordinator.state_manager.TransactionStateManager.resign",
            lambda self, partition, epoch: self._owned.pop(partition, None),
            "coordinator.leadership",
        ),
    ],
)
def test_what_no_client_of_a_scope_asks_is_asked(
    tiny: PreparedPlan, monkeypatch: pytest.MonkeyPatch, place: str, bug: Any, field: str
):
    monkeypatch.setattr(f"impl.{place}", bug)
    assert field in fields_found(tiny)


SHOWN = ("end_txn_retry_is_fenced", "end_overtakes_batches", "lso_ahead_of_applied")


@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize("names", [SHOWN[:1], pytest.param(SHOWN, marks=pytest.mark.full)])
def test_bugs_planted_in_transactions_are_found(tmp_path: Path, names: tuple[str, ...]):
    """Each is a hunt of seconds."""
    scopes = {MUTANTS[name].hunted_in for name in SHOWN}
    assert {hunted.scope for hunted in scopes} == {"transactions-tiny"}
    own = with_own_rules("v2", "impl", "transactions-tiny")
    prepared = prepare(plan_of("transactions-tiny", own), tmp_path / "prepared")
    assert hunt_unpatched(prepared.directory) is None
    for name in names:
        finding = hunt(MUTANTS[name], prepared.directory)
        assert finding is not None
        assert finding["one_minimal"]
