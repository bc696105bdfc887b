"""Groups that process on impl's nodes: as the model has them, however they work, and what a bug
shows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.adapters.impl.judges import judge_of
from conformance.adapters.impl.processing.membership import NOBODY
from conformance.adapters.impl.processing.world_judge import observed_world
from conformance.judging.compositions import judged_composition
from conformance.judging.guaranteed import observe_world
from conformance.judging.plan import BadPlan, Plan
from conformance.judging.signatures import INDEX
from impl.coordinator import offsets, state_manager
from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.group_messages import MemberIdentity
from impl.coordinator.groups import GroupCoordinator
from impl.coordinator.offsets import OffsetsCoordinator
from impl.coordinator.offsets_groups import GroupMembers
from impl.coordinator.offsets_state import GroupOffsets
from impl.protocol.errors import ErrorCode
from proofs.explore.source import instances
from proofs.trace.format import Instance
from proofs.trace.replay import Stepper

SCOPE = "processing"
RULES = (
    "generation_check=absent",
    "offset_reads=unstable",
    "transactional_ids=of_partition",
    "transactional_ids=of_partition/generation_check=absent/offset_reads=unstable",
    "processing=produce_first",
    "processing=commit_first",
)
"""All that an application may do otherwise, and the application of before KIP-447."""


def judge(rules: str = "", scope: str = SCOPE) -> Any:
    composition = judged_composition(scope)
    variant = composition.model.variants.parse("/".join(filter(None, ("4.3.1", rules)))).name
    return judge_of(Plan(scope=scope, variant=variant, actors=composition.actors[0]))


EVENTS = {
    "starts": "member_starts",
    "joins": "member_joins",
    "fetches": "offset_is_fetched",
    "produces": "record_is_produced",
    "commits": "offset_is_committed",
    "ends": "transaction_is_committed",
    "marker": "group_gets_marker",
    "late": "transaction_times_out",
    "told": "member_is_told",
    "crashes": "member_crashes",
}


def story(text: str) -> tuple[Instance, ...]:
    """Steps such as `starts 0`: an event, and its member."""
    steps = (step.split() for step in text.split(", "))
    return tuple((EVENTS[name], (("member", int(member)),)) for name, member in steps)


BEGINS = "starts 0, joins 0, fetches 0, produces 0"
STALE = f"{BEGINS}, starts 1, joins 1, commits 0"
"""Member 0 is removed, and commits."""
OLD = "starts 1, joins 1, fetches 1, produces 1, starts 0, joins 0, commits 1"
"""Member 1 rejoins, and commits with its old generation."""
DONE = f"{BEGINS}, commits 0, ends 0"
WHOLE = f"{DONE}, marker 0"
LATE = f"{BEGINS}, late 0, told 0, marker 0, starts 0"
BACK = "starts 1, joins 1, crashes 1, starts 1, joins 1"
"""A static member takes its own place."""
MOVED = f"{DONE}, marker 0, produces 0, commits 0, starts 1, crashes 1, ends 0, marker 0"
"""The group's coordinator moves while an offset is pending."""

STORIES = (STALE, OLD, WHOLE, LATE, BACK, MOVED)


@pytest.mark.parametrize("text", STORIES)
def test_the_stories_agree(text: str) -> None:
    result = judge().judge(story(text))
    assert result.divergence is None
    assert result.steps == len(story(text))


def test_who_was_replaced_is_refused_as_it_was_replaced() -> None:
    played = judge()
    for text, errors in (
        (STALE, ("UNKNOWN_MEMBER_ID", "NONE")),
        (OLD, ("ILLEGAL_GENERATION", "NONE")),
        (BACK, ("FENCED_INSTANCE_ID", "NONE")),
    ):
        played.judge(story(text))
        *of_members, of_nobody = played.system.view()[1]
        assert of_members == [(error,) * 3 for error in errors]
        assert of_nobody == NOBODY


def test_what_the_group_answers_is_covered() -> None:
    played = judge()
    for text, codes in ((STALE, {"ILLEGAL_GENERATION"}), (WHOLE, {"NONE"})):
        assert played.tables.points(played.judge(story(text)).seen)[1] == codes


@pytest.mark.parametrize("rules", RULES)
def test_an_application_may_work_otherwise(rules: str) -> None:
    played = judge(rules)
    stepper = Stepper(judged_composition(SCOPE).model, played.tables.k)
    draw = random.Random(0)
    for _ in range(8):
        steps = tuple(walk(stepper, draw))
        assert len(steps) > 10
        assert played.judge(steps).divergence is None


def walk(stepper: Stepper, draw: random.Random) -> Iterator[Instance]:
    """Steps at random."""
    world, of = stepper.initial(), list(instances(stepper.model, stepper.k))
    for _ in range(30):
        draw.shuffle(of)
        steps = ((instance, stepper.after(*instance, world)) for instance in of)
        step, world = next((found for found in steps if found[1] is not None), (None, world))
        if step is None:
            return
        yield step


def test_guarantees_are_observed_in_what_the_nodes_have() -> None:
    """A group that takes offsets of whoever was replaced lets two members write the same."""
    played = judge("generation_check=absent/offset_reads=unstable")
    twice = f"{STALE}, fetches 1, produces 1, commits 1, ends 0, ends 1"
    assert played.judge(story(twice)).divergence is None
    seen = observe_world(played.tables.k, observed_world(played))
    assert seen.broken == {"output_produced_once"}


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (Plan(scope=SCOPE, variant="2.4.1", actors="group,member"), "from 2.8 on"),
        (Plan(scope=SCOPE, variant="4.3.1", actors="group,member", on="values"), "--codec bytes"),
    ],
)
def test_what_impl_cannot_be_brought_to_is_refused(plan: Plan, why: str) -> None:
    with pytest.raises(BadPlan, match=why):
        judge_of(plan)


# Bugs


def accepts(_: GroupMembers, __: Any, **___: bool) -> ErrorCode:
    return ErrorCode.NONE


def beats(
    self: Any, group_id: str, generation_id: int, identity: MemberIdentity, now_ms: int
) -> Any:
    return ErrorCode.NONE


def keeps(self: ClassicGroup, member: Any, member_id: str) -> None:
    old = dict(self.static_members)
    replaces(self, member, member_id)
    self.static_members = old


replaces = ClassicGroup.replace_static


def plain(self: Any, group_id: str, rows: Any, header: Any, now_ms: int, expires_ms: int) -> Any:
    return decides(self, group_id, rows, offsets._PLAIN, now_ms, expires_ms)


decides = OffsetsCoordinator._decide


def loses_rows(self: GroupOffsets, producer_id: int, record: Any, offset: int) -> None:
    self.pending.pop(producer_id, None)
    applies(self, producer_id, record, offset)


applies = GroupOffsets._apply_record


def stable(self: GroupOffsets, key: Any) -> bool:
    return False


def early(entry: Any, now_ms: int) -> bool:
    return is_late(entry, now_ms + 1)


is_late = state_manager.is_timed_out


def forgets(self: GroupCoordinator, values: Any, now_ms: int) -> None:
    loads(self, values, now_ms)
    self._memberships.clear()


loads = GroupCoordinator.load


def drops(self: OffsetsCoordinator, partition: int, batches: Any) -> None:
    loads_offsets(self, partition, batches)
    known = self.partitions[partition]
    assert known is not None
    known.pending.clear()


loads_offsets = OffsetsCoordinator.load


@pytest.mark.parametrize(
    ("place", "bug", "text", "fields"),
    [
        ("impl.coordinator.offsets.check_committer", accepts, STALE, "identities.offset_commit"),
        ("impl.coordinator.groups.GroupCoordinator.heartbeat", beats, OLD, "identities.heartbeat"),
        ("impl.coordinator.classic_group.ClassicGroup.replace_static", keeps, BACK, "raised"),
        ("impl.coordinator.offsets.OffsetsCoordinator._decide", plain, WHOLE, "committed"),
        ("impl.coordinator.offsets_state.GroupOffsets._apply_record", loses_rows, WHOLE, "pending"),
        ("impl.coordinator.offsets_state.GroupOffsets.has_pending", stable, WHOLE, "stable"),
        ("impl.coordinator.transactions.is_timed_out", early, LATE, "raised"),
        ("impl.coordinator.groups.GroupCoordinator.load", forgets, MOVED, "identities"),
        ("impl.coordinator.offsets.OffsetsCoordinator.load", drops, MOVED, "pending"),
    ],
)
def test_a_bug_shows(
    monkeypatch: pytest.MonkeyPatch, place: str, bug: Callable[..., Any], text: str, fields: str
) -> None:
    monkeypatch.setattr(place, bug)
    divergence = judge().judge(story(text)).divergence
    assert divergence is not None
    assert any(fields in INDEX.sub("", path) for path in divergence.observed)
