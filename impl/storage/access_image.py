"""The SCRAM credentials and ACLs that records of `__cluster_metadata` say, and once said.

What was removed stays known: settings do not bring it back.
Sources: `ScramControlManager`, `AclControlManager`; KIP-631, KIP-801, KIP-900.
"""

from __future__ import annotations

from impl.protocol.message_form import Value
from impl.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from impl.security.mechanisms import ScramMechanism
from impl.security.scram import CredentialKey, ScramCredential


class AccessImage:
    """`credentials`, `acl_ids` by entry: in the order of creation, None for what was removed."""

    def __init__(self) -> None:
        self.credentials: dict[CredentialKey, ScramCredential | None] = {}
        self.acl_ids: dict[AclBinding, bytes | None] = {}
        self._acls: dict[bytes, AclBinding] = {}

    def put_credential(self, body: Value) -> None:
        """A user has another password."""
        self.credentials[_key(body)] = ScramCredential(
            body["salt"], body["stored_key"], body["server_key"], body["iterations"]
        )

    def remove_credential(self, body: Value) -> None:
        """A user has no password any more."""
        self.credentials[_key(body)] = None

    def put_acl(self, body: Value) -> None:
        """An ACL is created."""
        acl = AclBinding(
            ResourceType(body["resource_type"]),
            body["resource_name"],
            body["principal"],
            AclOperation(body["operation"]),
            AclPermission(body["permission_type"]),
            PatternType(body["pattern_type"]),
            body["host"],
        )
        self.acl_ids.pop(acl, None)
        self.acl_ids[acl] = body["id"]
        self._acls[body["id"]] = acl

    def remove_acl(self, body: Value) -> None:
        """An ACL is deleted."""
        acl = self._acls.pop(body["id"], None)
        if acl is not None:
            self.acl_ids[acl] = None


def _key(body: Value) -> CredentialKey:
    return body["name"], ScramMechanism(body["mechanism"])
