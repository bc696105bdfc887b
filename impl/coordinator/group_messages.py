"""What members ask of the coordinator of groups, and what it wants done."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from impl.coordinator.offsets_groups import NO_GENERATION, NO_MEMBER
from impl.protocol.consumer_protocol import GroupProtocol
from impl.protocol.errors import ErrorCode


class JoinRequest(NamedTuple):
    """JoinGroup. `needs_known_id`: the client can be sent its id first (KIP-394).

    `may_skip_assignment`: its leader can be told to keep the assignment (KIP-814).
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    needs_known_id: bool = True
    may_skip_assignment: bool = True
    client_host: str = ""


class SyncRequest(NamedTuple):
    """SyncGroup; `assignments` by member id are the leader's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class MemberIdentity(NamedTuple):
    """A member that leaves."""

    member_id: str
    group_instance_id: str | None = None


class JoinedMember(NamedTuple):
    """A member, as its leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """Answer a JoinGroup; only the leader gets `members`."""

    request: Hashable
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncAnswer(NamedTuple):
    """Answer a SyncGroup."""

    request: Hashable
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class AppendGroup(NamedTuple):
    """Append the group's record to its partition; the result goes to `on_appended`."""

    group_id: str
    value: bytes


GroupEffect = JoinAnswer | SyncAnswer | AppendGroup
