"""Classic groups: generations, static members, sessions; and whatever members do, in any order."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.group_config import GroupConfig
from impl.coordinator.group_messages import (
    AppendGroup,
    GroupEffect,
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from impl.coordinator.group_records import decode_group
from impl.coordinator.groups import GroupCoordinator
from impl.coordinator.offsets_groups import GroupMembers, GroupState
from impl.protocol.errors import ErrorCode

E = ErrorCode
SESSION_MS, REBALANCE_MS = 10_000, 30_000


class Members:
    """A coordinator, its log, and the answers by request."""

    def __init__(self, *, delay_ms: int = 0, **settings: int) -> None:
        self.memberships: dict[str, GroupMembers] = {}
        self._ids = count(1)
        self._numbers = count(1)
        self.config = GroupConfig(initial_rebalance_delay_ms=delay_ms, **settings)
        self.coordinator = self.new_coordinator()
        self.now_ms = 1_000_000
        self.log: dict[str, bytes] = {}
        self.answers: dict[int, JoinAnswer | SyncAnswer] = {}
        self.append_error = E.NONE

    def new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.memberships, lambda prefix, _: f"{prefix}-{next(self._ids)}", self.config
        )

    @property
    def group(self) -> ClassicGroup:
        return self.coordinator.groups["g"]

    def perform(self, effects: list[GroupEffect]) -> None:
        todo = list(effects)
        while todo:
            effect = todo.pop(0)
            if isinstance(effect, AppendGroup):
                if not self.append_error:
                    self.log[effect.group_id] = effect.value
                group, error = effect.group_id, self.append_error
                todo += self.coordinator.on_appended(group, error, self.now_ms)
            else:
                assert isinstance(effect.request, int)
                assert effect.request not in self.answers, "a request is answered once"
                self.answers[effect.request] = effect

    def advance(self, ms: int = 0) -> None:
        self.now_ms += ms
        self.perform(self.coordinator.advance(self.now_ms))

    def join(self, member_id: str = "", **more: Any) -> int:
        asked = JoinRequest(
            group_id="g",
            member_id=member_id,
            group_instance_id=None,
            client_id="c",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(("range", b"r"), ("sticky", b"s")),
        )
        number = next(self._numbers)
        self.perform(self.coordinator.join(number, asked._replace(**more), self.now_ms))
        return number

    def joined(self, request: int) -> JoinAnswer:
        answer = self.answers[request]
        assert isinstance(answer, JoinAnswer)
        return answer

    def begin_join(self, **more: Any) -> int:
        """A new member is sent its id, and joins with it."""
        answer = self.joined(self.join(**more))
        assert answer.error is E.MEMBER_ID_REQUIRED
        return self.join(answer.member_id, **more)

    def sync(self, joined: JoinAnswer, **more: Any) -> int:
        asked = SyncRequest(
            "g", joined.generation_id, joined.member_id, None, "consumer", joined.protocol_name, {}
        )
        number = next(self._numbers)
        self.perform(self.coordinator.sync(number, asked._replace(**more), self.now_ms))
        return number

    def synced(self, request: int) -> tuple[ErrorCode, bytes]:
        answer = self.answers[request]
        assert isinstance(answer, SyncAnswer)
        return answer.error, answer.assignment

    def assign(self, *joined: JoinAnswer) -> list[bytes]:
        """All members sync; the leader assigns to each its own id."""
        requests = []
        for one in sorted(joined, key=lambda each: each.leader == each.member_id):
            wanted = {each.member_id: each.member_id.encode() for each in one.members}
            requests.append(self.sync(one, assignments=wanted))
        return sorted(self.synced(request)[1] for request in requests)

    def heartbeat(self, joined: JoinAnswer) -> ErrorCode:
        who = MemberIdentity(joined.member_id)
        return self.coordinator.heartbeat("g", joined.generation_id, who, self.now_ms)

    def leave(self, *identities: MemberIdentity) -> list[ErrorCode]:
        errors, effects = self.coordinator.leave("g", identities, self.now_ms)
        self.perform(effects)
        return errors

    def first(self, **more: Any) -> JoinAnswer:
        """The only member of a stable group."""
        request = self.begin_join(**more)
        self.advance()
        joined = self.joined(request)
        self.assign(joined)
        return joined


@pytest.fixture
def members() -> Members:
    return Members()


def test_the_leader_alone_is_told_of_all_members(members: Members) -> None:
    one = members.first()
    assert (one.generation_id, one.leader, one.protocol_name) == (1, one.member_id, "range")
    assert [member.member_id for member in one.members] == [one.member_id]
    other = members.begin_join()
    assert other not in members.answers
    assert members.heartbeat(one) is E.REBALANCE_IN_PROGRESS
    again = members.joined(members.join(one.member_id))
    two = members.joined(other)
    assert (again.generation_id, two.generation_id) == (2, 2)
    assert (again.leader, two.leader) == (one.member_id, one.member_id)
    assert len(again.members) == 2
    assert two.members == ()
    both = [again.member_id.encode(), two.member_id.encode()]
    assert members.assign(again, two) == both
    assert members.memberships["g"].member_ids == {again.member_id, two.member_id}


def test_an_empty_group_waits_for_more_members() -> None:
    members = Members(delay_ms=3_000)
    first = members.begin_join()
    members.advance(2_000)
    second = members.begin_join()
    members.advance(1_000)
    assert first not in members.answers
    members.advance(3_000)
    assert members.joined(first).generation_id == members.joined(second).generation_id == 1


def test_the_protocol_is_common_to_all_and_preferred_by_most(members: Members) -> None:
    one = members.first()
    request = members.begin_join(protocols=(("sticky", b"s"),))
    again = members.joined(members.join(one.member_id))
    assert members.joined(request).protocol_name == again.protocol_name == "sticky"
    refused = members.join(protocols=(("roundrobin", b""),))
    assert members.joined(refused).error is E.INCONSISTENT_GROUP_PROTOCOL
    refused = members.join(protocol_type="connect")
    assert members.joined(refused).error is E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("asked", "error", "creates"),
    [
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT, False),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT, False),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL, True),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL, True),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID, False),
    ],
)
def test_joins_that_are_refused(
    members: Members, asked: dict[str, Any], error: E, creates: bool
) -> None:
    assert members.joined(members.join(**asked)).error is error
    assert bool(members.log) == bool(members.coordinator.groups) == creates


def test_old_clients_join_without_an_id(members: Members) -> None:
    request = members.join(needs_known_id=False)
    members.advance()
    assert members.joined(request).error is E.NONE


def test_a_member_without_heartbeats_expires(members: Members) -> None:
    one = members.first()
    members.advance(SESSION_MS - 1)
    assert members.heartbeat(one) is E.NONE
    members.advance(SESSION_MS - 1)
    assert members.group.state is GroupState.STABLE
    members.advance(1)
    assert (members.group.state, members.group.generation_id) == (GroupState.EMPTY, 2)
    assert members.heartbeat(one) is E.UNKNOWN_MEMBER_ID
    assert decode_group("g", members.log["g"]).members == {}


def test_who_does_not_rejoin_is_left_out(members: Members) -> None:
    one = members.first(session_timeout_ms=60_000)
    request = members.begin_join()
    members.advance(REBALANCE_MS - 1)
    assert request not in members.answers
    members.advance(1)
    assert members.joined(request).leader == members.joined(request).member_id
    assert members.heartbeat(one) is E.UNKNOWN_MEMBER_ID


def test_who_does_not_ask_for_its_assignment_is_left_out(members: Members) -> None:
    request = members.begin_join(session_timeout_ms=60_000)
    members.advance()
    members.advance(REBALANCE_MS)
    assert members.joined(request).error is E.NONE
    assert members.group.state is GroupState.EMPTY


def test_a_generation_is_over_when_the_next_one_begins(members: Members) -> None:
    one = members.first()
    members.begin_join()
    members.join(one.member_id)
    assert members.heartbeat(one) is E.ILLEGAL_GENERATION
    assert members.synced(members.sync(one))[0] is E.ILLEGAL_GENERATION


def test_a_rebalance_fails_those_who_wait_for_their_assignment(members: Members) -> None:
    one = members.first()
    request = members.begin_join()
    members.join(one.member_id)
    waiting = members.sync(members.joined(request))
    assert waiting not in members.answers
    assert members.leave(MemberIdentity(one.member_id)) == [E.NONE]
    assert members.synced(waiting)[0] is E.REBALANCE_IN_PROGRESS


def test_assignments_that_are_not_in_the_log_are_not_answered(members: Members) -> None:
    request = members.begin_join()
    members.advance()
    joined = members.joined(request)
    members.append_error = E.NOT_COORDINATOR
    synced = members.sync(joined, assignments={joined.member_id: b"all"})
    assert members.synced(synced) == (E.NOT_COORDINATOR, b"")
    assert members.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_member_that_comes_back_replaces_itself(members: Members, may_skip: bool) -> None:
    static = {"group_instance_id": "i", "may_skip_assignment": may_skip}
    request = members.join(**static)
    members.advance()
    one = members.joined(request)
    members.sync(one, group_instance_id="i", assignments={one.member_id: b"all"})
    again = members.joined(members.join(**static))
    assert (again.error, again.generation_id) == (E.NONE, 1)
    assert again.member_id != one.member_id
    assert (again.skip_assignment, len(again.members)) == (may_skip, int(may_skip))
    assert again.leader == (again.member_id if may_skip else one.member_id)
    synced = members.sync(again, group_instance_id="i")
    assert members.synced(synced) == (E.NONE, b"all")
    who = MemberIdentity(one.member_id, "i")
    assert members.coordinator.heartbeat("g", 1, who, members.now_ms) is E.FENCED_INSTANCE_ID
    assert members.leave(MemberIdentity("", "j"), MemberIdentity("", "i")) == [
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
    ]
    assert members.group.state is GroupState.EMPTY


@pytest.mark.parametrize("leaves", [True, False])
def test_a_rebalance_waits_for_those_who_were_sent_an_id(members: Members, leaves: bool) -> None:
    one = members.first()
    pending = members.joined(members.join()).member_id
    request = members.join(one.member_id)
    assert request not in members.answers
    if leaves:
        assert members.leave(MemberIdentity(pending)) == [E.NONE]
    else:
        members.advance(SESSION_MS)
    assert members.joined(request).generation_id == 2
    assert len(members.joined(request).members) == 1


def test_who_waits_in_the_place_of_a_static_member_is_fenced(members: Members) -> None:
    static = {"group_instance_id": "i"}
    waiting = members.join(**static)
    again = members.join(**static)
    assert members.joined(waiting).error is E.FENCED_INSTANCE_ID
    members.advance()
    assert members.joined(again).error is E.NONE


def test_a_member_that_waited_for_others_lives_on_heartbeats_again(members: Members) -> None:
    one = members.first()
    request = members.begin_join(session_timeout_ms=60_000)
    members.advance(SESSION_MS - 1)
    again = members.joined(members.join(one.member_id))
    members.assign(again, members.joined(request))
    members.advance(SESSION_MS)
    assert members.group.state is GroupState.PREPARING_REBALANCE
    assert members.heartbeat(again) is E.UNKNOWN_MEMBER_ID


def test_another_coordinator_goes_on_from_the_log(members: Members) -> None:
    one = members.first()
    waiting = members.begin_join()
    members.perform(members.coordinator.resign(["g"]))
    assert members.joined(waiting).error is E.NOT_COORDINATOR
    assert members.memberships == {}
    members.coordinator = members.new_coordinator()
    members.coordinator.load(members.log, members.now_ms)
    assert members.heartbeat(one) is E.NONE
    synced = members.sync(one)
    assert members.synced(synced) == (E.NONE, one.member_id.encode())
    members.advance(SESSION_MS)
    assert members.group.state is GroupState.EMPTY


# ---- how many members there may be


def fill(members: Members, count: int, **more: Any) -> list[JoinAnswer]:
    """So many members of a group that is stable."""
    requests = [members.begin_join(**more) for _ in range(count)]
    members.advance()
    joined = [members.joined(request) for request in requests]
    members.assign(*joined)
    return joined


def test_a_group_that_is_full_takes_nobody_but_its_members() -> None:
    members = Members(max_size=2)
    first, second = fill(members, 2)
    for asked in ({}, {"needs_known_id": False}, {"group_instance_id": "i"}, {"member_id": "x"}):
        refused = members.joined(members.join(**asked))
        assert (refused.error, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert members.group.state is GroupState.STABLE
    again = members.join(first.member_id, protocols=(("sticky", b"new"),))
    second_again = members.join(second.member_id)
    assert [members.joined(each).error for each in (again, second_again)] == [E.NONE, E.NONE]
    members.leave(MemberIdentity(second.member_id))
    assert members.joined(members.join()).error is E.MEMBER_ID_REQUIRED


def test_an_id_that_was_given_out_is_worth_nothing_once_the_group_is_full() -> None:
    members = Members(max_size=2)
    late = members.joined(members.join())
    requests = [members.join(needs_known_id=False) for _ in range(2)]
    members.advance()
    members.assign(*map(members.joined, requests))
    assert late.member_id in members.group.pending_member_ids
    refused = members.joined(members.join(late.member_id))
    assert (refused.error, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert not members.group.pending_member_ids


def test_who_rejoins_last_goes_when_another_took_the_place() -> None:
    members = Members(max_size=2)
    first, second = fill(members, 2)
    waits = members.join(first.member_id, protocols=(("range", b"new"),))
    newcomer = members.join(needs_known_id=False)
    refused = members.joined(members.join(second.member_id))
    assert (refused.error, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert not {waits, newcomer} & members.answers.keys(), "the rebalance ends when it is due"
    members.advance(REBALANCE_MS)
    assert [members.joined(each).error for each in (waits, newcomer)] == [E.NONE, E.NONE]
    assert len(members.group.members) == 2


def test_a_group_that_is_loaded_with_too_many_members_rebalances_them_away() -> None:
    members = Members()
    joined = fill(members, 3)
    members.config = GroupConfig(initial_rebalance_delay_ms=0, max_size=2)
    members.coordinator = members.new_coordinator()
    members.coordinator.load(members.log, members.now_ms)
    assert members.memberships["g"].state is GroupState.PREPARING_REBALANCE
    assert {members.heartbeat(each) for each in joined} == {E.REBALANCE_IN_PROGRESS}
    requests = [members.join(each.member_id) for each in joined]
    members.advance(REBALANCE_MS)
    errors = [members.joined(request).error for request in requests]
    assert errors == [E.NONE, E.NONE, E.GROUP_MAX_SIZE_REACHED]


# ---- whatever members do


class GroupClient:
    """A member as clients are: it joins, syncs, sends heartbeats, and rejoins when told to."""

    def __init__(self, members: Members, instance_id: str | None, protocols: str) -> None:
        self.members = members
        self.instance_id = instance_id
        self.protocols = tuple((name, b"") for name in protocols)
        self.member_id = ""
        self.joined: JoinAnswer | None = None
        self.assignment: bytes | None = None
        self.request: int | None = None

    def step(self) -> None:
        """The next request, if the last one is answered."""
        if self.request is None:
            self._begin()
        elif self.request in self.members.answers:
            answer = self.members.answers[self.request]
            self.request = None
            self._process(answer)

    def _begin(self) -> None:
        if self.assignment is None or self.joined is None:
            self._join()
            return
        who = MemberIdentity(self.member_id, self.instance_id)
        generation_id = self.joined.generation_id
        coordinator, now_ms = self.members.coordinator, self.members.now_ms
        self._react(coordinator.heartbeat("g", generation_id, who, now_ms))

    def _process(self, answer: JoinAnswer | SyncAnswer) -> None:
        if isinstance(answer, SyncAnswer) and not answer.error:
            self.assignment = answer.assignment
        elif isinstance(answer, JoinAnswer) and not answer.error:
            self.joined, self.member_id = answer, answer.member_id
            wanted = {each.member_id: each.member_id.encode() for each in answer.members}
            self.request = self.members.sync(
                answer, group_instance_id=self.instance_id, assignments=wanted
            )
        elif answer.error is E.MEMBER_ID_REQUIRED and isinstance(answer, JoinAnswer):
            self.member_id = answer.member_id
            self._join()
        else:
            self._react(answer.error)

    def _react(self, error: ErrorCode) -> None:
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.member_id = ""
        if error:
            self.assignment = None

    def _join(self) -> None:
        self.assignment = None
        self.request = self.members.join(
            self.member_id, group_instance_id=self.instance_id, protocols=self.protocols
        )

    def leave(self) -> None:
        self.members.leave(MemberIdentity(self.member_id, self.instance_id))


class AnyMembers(RuleBasedStateMachine):
    """Members that come, stay, leave and die, in any order; the log that fails; coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Members(delay_ms=1_000)
        self.clients: list[GroupClient] = []
        self.generation_id = 0

    @rule(protocols=st.sampled_from(["ab", "ba", "b"]))
    def come(self, protocols: str) -> None:
        if len(self.clients) < 4:
            self.clients.append(GroupClient(self.members, None, protocols))

    @rule()
    def come_statically(self) -> None:
        """It takes the place of the one before it, which is gone."""
        self.clients = [each for each in self.clients if each.instance_id is None]
        self.clients.append(GroupClient(self.members, "i", "ab"))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        if self.clients:
            data.draw(st.sampled_from(self.clients)).step()

    @rule(ms=st.sampled_from([0, 1_000, 4_000]), rounds=st.integers(1, 6))
    def all_step(self, ms: int, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.clients:
                client.step()
            self.members.advance(ms)

    @rule(data=st.data(), leaves=st.booleans())
    def go(self, data: st.DataObject, leaves: bool) -> None:
        if self.clients:
            client = data.draw(st.sampled_from(self.clients))
            self.clients.remove(client)
            if leaves:
                client.leave()

    @rule(ms=st.sampled_from([1_000, 9_000, 31_000]))
    def wait(self, ms: int) -> None:
        self.members.advance(ms)

    @rule(error=st.sampled_from([E.NONE, E.NONE, E.NOT_COORDINATOR]))
    def log_fails(self, error: E) -> None:
        self.members.append_error = error

    @rule()
    def coordinator_moves(self) -> None:
        members = self.members
        members.perform(members.coordinator.resign(list(members.coordinator.groups)))
        members.coordinator = members.new_coordinator()
        members.coordinator.load(members.log, members.now_ms)
        self.generation_id = 0

    @invariant()
    def the_group_is_consistent(self) -> None:
        for group in self.members.coordinator.groups.values():
            assert group.generation_id >= self.generation_id
            self.generation_id = group.generation_id
            assert (group.leader in group.members) == bool(group.members)
            assert set(group.static_members.values()) <= group.members.keys()
            assert not group.pending_member_ids & group.members.keys()
            assert bool(group.members) or group.state is not GroupState.STABLE
            assert not group.members or group.state is not GroupState.EMPTY
            assert self.members.memberships["g"] == group.membership

    @invariant()
    def generations_agree_on_the_protocol(self) -> None:
        held = Counter(c.assignment for c in self.current() if c.assignment)
        assert all(times == 1 for times in held.values()), "nobody has another's assignment"
        assert len({c.joined.protocol_name for c in self.current() if c.joined}) <= 1

    def current(self) -> list[GroupClient]:
        """The clients that have joined the newest generation."""
        group = self.members.coordinator.groups.get("g")
        joined = [c for c in self.clients if c.joined and c.member_id]
        return [c for c in joined if group and c.joined.generation_id == group.generation_id]  # type: ignore[union-attr]

    def teardown(self) -> None:
        """In the end all that are there, and no others, share a stable group."""
        self.members.append_error = E.NONE
        for _ in range(100):
            self.all_step(1_000, 1)
        group = self.members.coordinator.groups.get("g", ClassicGroup("g"))
        assert group.members.keys() == {client.member_id for client in self.clients}
        assert group.state is (GroupState.STABLE if self.clients else GroupState.EMPTY)
        assert not any(member.is_waiting for member in group.members.values())
        for client in self.clients:
            assert client.assignment
            assert client.instance_id or client.assignment == client.member_id.encode()


AnyMembers.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestAnyMembers = AnyMembers.TestCase
