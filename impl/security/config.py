"""What secures a broker: its listeners, its users, and who may do what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from impl.security.acls import AclBinding
from impl.security.scram import SCRAM_MECHANISMS
from impl.security.tls import CLIENT_AUTHS, Tls
from impl.settings import InvalidSetting, Settings, integer


class SecurityProtocol(Enum):
    """What a connection uses. `SecurityProtocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether bytes are encrypted."""
        return self.name.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether a connection begins with SASL."""
        return self.name.startswith("SASL")


PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)

NO_USERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Security(Settings):
    """Listeners, users and access control of a broker.

    `listeners`: a security protocol each; clients are sent to ports of the listener that they use,
    and `bootstrap_servers` names the first. `users`: passwords by name, for SASL PLAIN and SCRAM.
    `tls`: the files of certificates; without, the openssl program makes some when the broker
    starts. `ssl_client_auth`: "none", "requested" or "required". `connections_max_reauth_ms`: how
    long an authentication lasts, 0 for ever (KIP-368). `acls`: those that exist first; None for no
    authorizer: everybody may do everything. `super_users`: principals that may do everything, as
    User:admin. Raises `InvalidSetting`.
    """

    listeners: tuple[str, ...] = (SecurityProtocol.PLAINTEXT.value,)
    users: Mapping[str, str] = field(default_factory=lambda: NO_USERS)
    sasl_mechanisms: tuple[str, ...] = MECHANISMS
    connections_max_reauth_ms: int = integer(0)
    tls: Tls | None = None
    ssl_client_auth: str = "none"
    acls: tuple[AclBinding, ...] | None = None
    super_users: tuple[str, ...] = ()
    allow_everyone_if_no_acl_found: bool = False

    def __post_init__(self) -> None:
        """Check each setting."""
        Settings.__post_init__(self)
        known = [protocol.value for protocol in SecurityProtocol]
        if not self.listeners or not set(self.listeners) <= set(known):
            raise InvalidSetting(self, "listeners", f"some of {', '.join(known)}")
        if len(set(self.listeners)) < len(self.listeners):
            raise InvalidSetting(self, "listeners", "each a protocol of its own")
        if not self.sasl_mechanisms or not set(self.sasl_mechanisms) <= set(MECHANISMS):
            raise InvalidSetting(self, "sasl_mechanisms", f"some of {', '.join(MECHANISMS)}")
        if self.ssl_client_auth not in CLIENT_AUTHS:
            raise InvalidSetting(self, "ssl_client_auth", f"one of {', '.join(CLIENT_AUTHS)}")
        if self.acls is None and (self.super_users or self.allow_everyone_if_no_acl_found):
            raise InvalidSetting(self, "acls", "() at least, for an authorizer")

    @property
    def protocols(self) -> tuple[SecurityProtocol, ...]:
        """The protocols of the listeners."""
        return tuple(SecurityProtocol(name) for name in self.listeners)

    @property
    def is_open(self) -> bool:
        """Whether anybody may do anything."""
        return self.listeners == (SecurityProtocol.PLAINTEXT.value,) and self.acls is None
