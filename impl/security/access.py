"""What the nodes of a cluster share: users, their credentials, ACLs, and how nodes know each other.

Nodes send each other requests on a listener of their own, with a password that only they know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from impl.security.config import Security
from impl.security.mechanisms import PLAIN, SCRAM_MECHANISMS, ScramMechanism
from impl.security.session import ClientSession

if TYPE_CHECKING:
    from impl.security.acls import AclBinding, AclOperation, Authorizer, ResourceType
    from impl.security.authenticator import SaslRules
    from impl.security.scram import CredentialKey, ScramCredential

BETWEEN_BROKERS: Final = "BETWEEN_BROKERS"
"""The name of the listener of nodes."""
BROKER_USER: Final = "broker"
_SECRET_BYTES: Final = 32


class AccessStorage(Protocol):
    """Where credentials and ACLs are kept besides memory. All of it may raise `StorageError`."""

    def adopt_credentials(
        self, configured: Mapping[CredentialKey, ScramCredential]
    ) -> dict[CredentialKey, ScramCredential]:
        """Those that are kept; those of settings are added if they are new."""

    def adopt_acls(self, configured: Iterable[AclBinding]) -> Iterable[AclBinding]:
        """Those that are kept; those of settings are added if they are new."""

    def store_credential(self, key: CredentialKey, credential: ScramCredential | None) -> None:
        """Store a credential; None deletes it."""

    def store_acls(self, created: Collection[AclBinding], deleted: Collection[AclBinding]) -> None:
        """Store that these ACLs are created, and those that exist deleted."""


class Access:
    """Read-only: `authorizer`, None without; `credentials` of SCRAM."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self.credentials = _credentials(security)
        self.authorizer: Authorizer | None = None
        self._storage: AccessStorage | None = None
        if security.acls is not None:
            from impl.security.acls import Authorizer

            self.authorizer = Authorizer(
                security.acls,
                super_users=security.super_users,
                allow_everyone_if_no_acl_found=security.allow_everyone_if_no_acl_found,
            )

    @cached_property
    def broker_password(self) -> str:
        """With which nodes know each other."""
        return _secret().hex()

    def keep_in(self, storage: AccessStorage) -> None:
        """Have what is kept there, and store each change there first. Raises `StorageError`."""
        self._storage = storage
        self.credentials = storage.adopt_credentials(self.credentials)
        if self.authorizer is not None:
            self.authorizer.acls = dict.fromkeys(storage.adopt_acls(self.authorizer.acls))

    def set_credential(self, key: CredentialKey, credential: ScramCredential | None) -> None:
        """Change a user's credential, or delete the one that there is. Raises `StorageError`."""
        if self._storage is not None:
            self._storage.store_credential(key, credential)
        if credential is None:
            del self.credentials[key]
        else:
            self.credentials[key] = credential

    def change_acls(
        self, created: Collection[AclBinding] = (), deleted: Collection[AclBinding] = ()
    ) -> None:
        """Create ACLs, or delete some that exist; there is an authorizer. Raises `StorageError`."""
        assert self.authorizer is not None, "without an authorizer there are no ACLs"
        if self._storage is not None:
            self._storage.store_acls(created, deleted)
        self.authorizer.acls.update(dict.fromkeys(created))
        for acl in deleted:
            self.authorizer.acls.pop(acl, None)

    def sasl_rules(self, listener: str) -> SaslRules:
        """What a listener accepts."""
        from impl.security.authenticator import SaslRules

        me = self._security
        rules = SaslRules(
            me.sasl_mechanisms,
            me.passwords_for(PLAIN),
            self.credentials,
            me.connections_max_reauth_ms,
        )
        if listener != BETWEEN_BROKERS:
            return rules
        nodes = {BROKER_USER: self.broker_password}
        return replace(rules, mechanisms=(PLAIN,), users=nodes, max_reauth_ms=0)

    def is_allowed(
        self,
        session: ClientSession,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether a connection may do this."""
        me = self.authorizer
        if me is None or session.is_broker:
            return True
        return me.is_allowed(session.principal, session.host, operation, resource_type, name)

    def is_allowed_for_some(
        self, session: ClientSession, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a connection may do this with some resource of the type."""
        me = self.authorizer
        if me is None or session.is_broker:
            return True
        return me.is_allowed_for_some(session.principal, session.host, operation, resource_type)


def _credentials(security: Security) -> dict[CredentialKey, ScramCredential]:
    """Those of all users, for the mechanisms that are enabled where there is SASL at all."""
    if not any(protocol.has_sasl for protocol in security.protocols):
        return {}
    return {
        (name, mechanism): _credential(mechanism, password)
        for title, mechanism in SCRAM_MECHANISMS.items()
        if title in security.sasl_mechanisms
        for name, password in security.passwords_for(title).items()
    }


def _credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    from impl.security.scram import MIN_ITERATIONS, derive_credential, salt_password

    salt = _secret()
    salted = salt_password(mechanism, password, salt, MIN_ITERATIONS)
    return derive_credential(mechanism, salt, salted, MIN_ITERATIONS)


def _secret() -> bytes:
    from secrets import token_bytes  # whoever has no secrets does not wait for it

    return token_bytes(_SECRET_BYTES)
