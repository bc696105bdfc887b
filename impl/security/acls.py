"""Access control lists, and the authorizer that applies them.

1. A DENY that matches wins over any ALLOW; without a match everybody is refused.
2. An ALLOW of READ, WRITE, DELETE or ALTER allows DESCRIBE, one of ALTER_CONFIGS DESCRIBE_CONFIGS.
3. A resource without any ACL is open to all where `allow_everyone_if_no_acl_found`.
4. Super users may do everything.

Source: `StandardAuthorizerData`, `Authorizer.authorizeByResourceType` of Kafka 4.3.1; KIP-11,
KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from impl.settings import InvalidSetting


class ResourceType(IntEnum):
    """What an ACL protects. `ResourceType`."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL's name matches; ANY and MATCH are for filters. `PatternType`."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What a principal does. `AclOperation`."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """What an ACL says. `AclPermissionType`."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = AclOperation

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
WILDCARD: Final = "*"
ANYBODY: Final = "User:*"

_IMPLIED_BY: Final = {
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
}
OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        *(_O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
        *(_O.IDEMPOTENT_WRITE, _O.ALTER, _O.DESCRIBE),
    ),
}
"""The operations that make sense for a resource. `AclEntry.supportedOperations`."""


class _AclEntry(NamedTuple):
    """The fields of an `AclBinding`."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission
    pattern_type: PatternType
    host: str


class AclBinding(_AclEntry):
    """One entry: who may (not) do what with which resources, from which host.

    `AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ)` allows alice to read t.
    Raises `InvalidSetting`: a text in the place of an enumeration would match nothing.
    """

    __slots__ = ()

    def __new__(
        cls,
        resource_type: ResourceType,
        resource_name: str,
        principal: str,
        operation: AclOperation,
        permission: AclPermission = AclPermission.ALLOW,
        pattern_type: PatternType = PatternType.LITERAL,
        host: str = WILDCARD,
    ) -> AclBinding:
        """Check that each field has its type."""
        names = resource_type, resource_name, principal, operation, permission, pattern_type, host
        me = super().__new__(cls, *names)
        for name, kind in _KINDS.items():
            if not isinstance(getattr(me, name), kind):
                raise InvalidSetting(me, name, _members_of(kind))
        return me

    def covers(self, resource_type: ResourceType, name: str) -> bool:
        """Whether it is about this resource."""
        if self.resource_type is not resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)

    def is_about(self, principal: str, host: str) -> bool:
        """Whether it is about this principal at this host."""
        return self.principal in (principal, ANYBODY) and self.host in (host, WILDCARD)

    def decides(self, operation: AclOperation) -> bool:
        """Whether it is about this operation. Only an ALLOW implies others."""
        if self.operation in (operation, _O.ALL):
            return True
        is_allowed = self.permission is AclPermission.ALLOW
        return is_allowed and self.operation in _IMPLIED_BY.get(operation, ())


_KINDS: Final[Mapping[str, type]] = {
    "resource_type": ResourceType,
    "resource_name": str,
    "principal": str,
    "operation": AclOperation,
    "permission": AclPermission,
    "pattern_type": PatternType,
    "host": str,
}
_IN_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
"""Members of the enumerations that no entry has."""


def _members_of(kind: type) -> str:
    if not issubclass(kind, IntEnum):
        return "text"
    names = [f"{kind.__name__}.{each.name}" for each in kind if each.name not in _IN_FILTERS]
    return f"one of {', '.join(names)}"


class AclFilter(NamedTuple):
    """Which entries an administrator asks for; None for any. `AclBindingFilter`."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission

    def matches(self, acl: AclBinding) -> bool:
        """Whether the entry passes."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (_O.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        any_pattern = PatternType.ANY, PatternType.MATCH, acl.pattern_type
        if self.pattern_type not in any_pattern or self.resource_name is None:
            return self.pattern_type in any_pattern
        if self.pattern_type is PatternType.MATCH:
            return acl.covers(acl.resource_type, self.resource_name)
        return self.resource_name == acl.resource_name


class Authorizer:
    """The ACLs of a cluster, and what they decide. Attributes: `acls`, in the order of creation."""

    def __init__(
        self,
        acls: Iterable[AclBinding] = (),
        *,
        super_users: Iterable[str] = (),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self.acls: dict[AclBinding, None] = dict.fromkeys(acls)
        self._super_users = frozenset(super_users)
        self._default = allow_everyone_if_no_acl_found

    def is_allowed(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether a principal may do this. `StandardAuthorizer.authorize`."""
        if principal in self._super_users:
            return True
        covering = [acl for acl in self.acls if acl.covers(resource_type, name)]
        if not covering:
            return self._default
        said = {
            acl.permission
            for acl in covering
            if acl.is_about(principal, host) and acl.decides(operation)
        }
        return AclPermission.DENY not in said and AclPermission.ALLOW in said

    def is_allowed_for_some(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether there can be a resource of this type with which a principal may do this.

        `Authorizer.authorizeByResourceType`, KIP-679.
        """
        if self.is_allowed(principal, host, operation, resource_type, "hardcode"):
            return True
        said = [
            acl
            for acl in self.acls
            if acl.resource_type is resource_type
            and acl.is_about(principal, host)
            and acl.operation in (operation, _O.ALL)
        ]
        denied = {
            (acl.pattern_type, acl.resource_name)
            for acl in said
            if acl.permission is AclPermission.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            not any(pattern in denied for pattern in _dominating(acl))
            for acl in said
            if acl.permission is AclPermission.ALLOW
        )


def _dominating(acl: AclBinding) -> Iterator[tuple[PatternType, str]]:
    """The patterns whose DENY leaves nothing of an ALLOW: its own, and prefixes of its name."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL and name == WILDCARD:
        return
    yield acl.pattern_type, name
    for end in range(1, len(name) + 1):
        yield PatternType.PREFIXED, name[:end]
