"""The members of the group as consumers: they join, rejoin, and are replaced.

1. Members with even numbers are dynamic. They do not rejoin, so the group removes them:
   UNKNOWN_MEMBER_ID.
2. Members with odd numbers are static. They rejoin in the background while they process with their
   old assignment: ILLEGAL_GENERATION. A restarted process takes the place of the previous one, and
   fences it: FENCED_INSTANCE_ID (KIP-345).
3. Each join carries something new, so that a new generation begins.

Theory of operation: `join` plays all members of one rebalance. The joiner is assigned the input,
whichever member leads the group. `refusals` asks the group how it answers each identity that it has
given out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from conformance.adapters.impl.processing.shapes import INPUT
from conformance.adapters.impl.shared.nodes import Nodes, Question
from conformance.judging.system import View
from impl import ApiKey, ErrorCode
from impl.client.arguments import GroupMetadata
from impl.coordinator.group_messages import MemberIdentity
from impl.coordinator.offsets import OffsetToCommit
from impl.coordinator.offsets_groups import Committer

GROUP: Final = "group-0"
"""The group; its offsets are in partition 0 of two."""
PROTOCOL: Final = "range"
PROTOCOL_TYPE: Final = "consumer"
ASSIGNED: Final = b"in"
SESSION_TIMEOUT_MS: Final = 1_800_000
REBALANCE_TIMEOUT_MS: Final = 1_000

JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5

JOINS: Final = 3
"""The most requests until a member has joined: it learns that it was removed, gets an id, and
joins."""


class NotJoined(AssertionError):
    """The group did something other than let a member join."""


def is_static(member: int) -> bool:
    """Whether the member has a group.instance.id."""
    return member % 2 == 1


def new_identity(member: int) -> GroupMetadata:
    """The identity of a process that has not joined yet."""
    return GroupMetadata(GROUP, group_instance_id=f"i{member}" if is_static(member) else None)


@dataclass
class GroupConsumer:
    """The consumer of one process, with the identity with which it joined last."""

    identity: GroupMetadata
    is_alive: bool

    @property
    def rejoins(self) -> bool:
        """Whether it rejoins when another member joins."""
        return self.is_alive and bool(self.identity.member_id and self.identity.group_instance_id)


class ProcessingGroup:
    """All consumers. `given` has, in order, the identities of those to which the input was
    assigned."""

    def __init__(self, nodes: Nodes, node_id: int, members: int) -> None:
        self._nodes = nodes
        self._node_id = node_id
        self._said = count()
        self._consumers = [GroupConsumer(new_identity(m), is_alive=False) for m in range(members)]
        self.given: list[GroupMetadata] = []

    def start(self, member: int) -> None:
        """A process starts."""
        self._consumers[member] = GroupConsumer(new_identity(member), is_alive=True)

    def stop(self, member: int) -> None:
        """A process ends, without a request."""
        self._consumers[member].is_alive = False

    def join(self, member: int) -> GroupMetadata:
        """The member is assigned the input, in a new generation. Raises NotJoined."""
        joiner = self._consumers[member]
        last = self.given[-1].generation_id if self.given else 0
        for _ in range(JOINS):
            asked = self._ask_to_join(joiner)
            consumers = [joiner]
            if asked.answer is None:
                consumers += [c for c in self._consumers if c is not joiner and c.rejoins]
            answers = self._wait([asked, *map(self._ask_to_join, consumers[1:])])
            is_removed = answers[0]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
            member_id = "" if is_removed else answers[0]["member_id"]
            joiner.identity = joiner.identity._replace(member_id=member_id)
            if answers[0]["generation_id"] > last:
                self._sync(consumers, answers)
                self.given.append(joiner.identity)
                return joiner.identity
        raise NotJoined(f"member {member} is answered {answers[0]}")

    def _ask_to_join(self, consumer: GroupConsumer) -> Question:
        _, _, member_id, instance_id = consumer.identity
        body = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "member_id": member_id,
            "group_instance_id": instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": PROTOCOL, "metadata": b"%d" % next(self._said)}],
        }
        return self._nodes.send(self._node_id, ApiKey.JOIN_GROUP, JOIN_VERSION, body)

    def _wait(self, asked: Sequence[Question]) -> list[Any]:
        """The answers, after the rebalance timeout if necessary."""
        for passes_ms in (0, REBALANCE_TIMEOUT_MS):
            if any(question.answer is None for question in asked):
                self._nodes.clocks_ms[self._node_id] += passes_ms
                self._nodes.advance(self._node_id)
        return [question.body for question in asked]

    def _sync(self, consumers: Sequence[GroupConsumer], answers: Sequence[Any]) -> None:
        """All members of a generation receive their assignments. Raises NotJoined."""
        asked = []
        for consumer, joined in zip(consumers, answers, strict=True):
            consumer.identity = consumer.identity._replace(generation_id=joined["generation_id"])
            leads = joined["leader"] == consumer.identity.member_id
            asked.append(self._ask_to_sync(consumer.identity, consumers[0] if leads else None))
        for consumer, synced in zip(consumers, self._wait(asked), strict=True):
            assignment = ASSIGNED if consumer is consumers[0] else b""
            if synced["error_code"] or synced["assignment"] != assignment:
                raise NotJoined(f"{consumer.identity} is assigned {synced}")

    def _ask_to_sync(self, identity: GroupMetadata, assigned: GroupConsumer | None) -> Question:
        rows = []
        if assigned is not None:
            rows = [{"member_id": assigned.identity.member_id, "assignment": ASSIGNED}]
        body = {
            "group_id": GROUP,
            "generation_id": identity.generation_id,
            "member_id": identity.member_id,
            "group_instance_id": identity.group_instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": PROTOCOL,
            "assignments": rows,
        }
        return self._nodes.send(self._node_id, ApiKey.SYNC_GROUP, SYNC_VERSION, body)

    # ---- how the group answers identities

    def refusals(self) -> View:
        """The errors with which the group answers each identity, and last a request without a
        member id, to Heartbeat, OffsetCommit and TxnOffsetCommit. No offset is committed: the
        coordinator only decides."""
        nobody = [GroupMetadata(GROUP)] if self.given else []
        return tuple([self._refusal(identity) for identity in [*self.given, *nobody]])

    def _refusal(self, identity: GroupMetadata) -> View:
        coordinators = self._nodes.by_id[self._node_id].coordinators
        _, generation_id, member_id, instance_id = identity
        clock_ms = self._nodes.clocks_ms[self._node_id]
        beat = coordinators.memberships.groups.heartbeat(
            GROUP, generation_id, MemberIdentity(member_id, instance_id), clock_ms
        )
        committer = Committer(generation_id, member_id, instance_id)
        rows = [OffsetToCommit(*INPUT[0], 0)]
        offsets = coordinators.offsets
        plain = offsets.commit(GROUP, committer, rows, now_ms=clock_ms)
        transactional = offsets.commit_in_transaction(
            GROUP, committer, rows, producer_id=0, producer_epoch=0, now_ms=clock_ms
        )
        answers = (beat, plain.rows[0].error, transactional.rows[0].error)
        return tuple([ErrorCode(error).name for error in answers])


# The answers that the group must give


Joins = tuple[tuple[int, int], ...]
"""(member, number of its process) for each process to which the input was assigned, in order."""


NOBODY: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID.name,
    ErrorCode.UNKNOWN_MEMBER_ID.name,
    ErrorCode.NONE.name,
)
"""The errors for a request without a member id, in a group that has members. Only producers of
before KIP-447 commit so."""


def expected_refusals(joins: Joins) -> View:
    """The errors for each identity, by the rules above, and last for a request without a
    member id."""
    of_members = [(expected_refusal(joins, i),) * 3 for i in range(len(joins))]
    return (*of_members, NOBODY) if joins else ()


def expected_refusal(joins: Joins, index: int) -> str:
    """The errors for one identity."""
    member, process = joins[index]
    later = joins[index + 1 :]
    if not later:
        return ErrorCode.NONE.name
    if not is_static(member):
        same = all(join == (member, process) for join in later)
        return (ErrorCode.ILLEGAL_GENERATION if same else ErrorCode.UNKNOWN_MEMBER_ID).name
    came_back = any(m == member and p != process for m, p in later)
    return (ErrorCode.FENCED_INSTANCE_ID if came_back else ErrorCode.ILLEGAL_GENERATION).name
