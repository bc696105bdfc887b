"""What secures a broker: its listeners, its users, and who may do what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from impl.security.mechanisms import MECHANISMS
from impl.security.tls import CLIENT_AUTHS, Tls
from impl.settings import (
    BOOLEAN,
    InvalidSetting,
    Settings,
    ValidValues,
    has_only,
    integer,
    is_text,
    maps_only,
    required,
)

if TYPE_CHECKING:
    from impl.security.acls import AclBinding


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


USER: Final = "User:"
"""How principals begin."""

Password = str | Mapping[str, str]
"""A user's password for all mechanisms, or one for each of some, by mechanism."""

NO_USERS: Final[Mapping[str, Password]] = MappingProxyType({})


def _some_of(valid: Sequence[str]) -> ValidValues:
    """A tuple of some of these, each once."""
    return ValidValues(
        f"a tuple of some of {', '.join(valid)}, each once",
        lambda value: (
            has_only(value, valid.__contains__) and 0 < len(value) == len(frozenset(value))
        ),
    )


def _is_principal(value: object) -> bool:
    return isinstance(value, str) and value.startswith(USER) and value != USER


def _is_acl(value: object) -> bool:
    from impl.security.acls import AclBinding  # whoever has no ACLs does not wait for it

    return isinstance(value, AclBinding) and _is_principal(value.principal)


_LISTENERS: Final = _some_of([protocol.value for protocol in SecurityProtocol])


def _is_password(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and maps_only(value, MECHANISMS.__contains__, is_text)
    return is_text(value)


_USERS: Final = ValidValues(
    'a mapping of names to passwords, such as {"alice": "secret"}, or to a password of each'
    ' mechanism, such as {"alice": {"SCRAM-SHA-512": "secret"}}',
    lambda value: maps_only(value, is_text, _is_password),
)
_TLS: Final = ValidValues("a Tls(...)", lambda value: isinstance(value, Tls)).or_none()
_ACLS: Final = ValidValues(
    "a tuple of AclBinding(...) with principals such as User:alice",
    lambda value: has_only(value, _is_acl),
).or_none()
_SUPER_USERS: Final = ValidValues(
    'a tuple of principals, such as ("User:admin",)', lambda value: has_only(value, _is_principal)
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Security(Settings):
    """Listeners, users and access control of a broker.

    `listeners`: a security protocol each; clients are sent to ports of the listener that they use,
    and `bootstrap_servers` names the first. `users`: passwords by name, for SASL PLAIN and SCRAM:
    one for all mechanisms, or a mapping of mechanisms to passwords.
    `tls`: the files of certificates; without, the openssl program makes some when the broker
    starts. `ssl_client_auth`: "none", "requested" or "required". `connections_max_reauth_ms`: how
    long an authentication lasts, 0 for ever (KIP-368). `acls`: those that exist first; None for no
    authorizer: everybody may do everything. `super_users`: principals that may do everything, as
    User:admin. Raises `InvalidSetting`.
    """

    listeners: tuple[str, ...] = required((SecurityProtocol.PLAINTEXT.value,), _LISTENERS)
    users: Mapping[str, Password] = required(NO_USERS, _USERS)
    sasl_mechanisms: tuple[str, ...] = required(MECHANISMS, _some_of(MECHANISMS))
    connections_max_reauth_ms: int = integer(0)
    tls: Tls | None = required(None, _TLS)  # noqa: RUF009 - as the others; a `Tls` is frozen, too
    ssl_client_auth: str = "none"
    acls: tuple[AclBinding, ...] | None = required(None, _ACLS)
    super_users: tuple[str, ...] = required((), _SUPER_USERS)
    allow_everyone_if_no_acl_found: bool = required(False, BOOLEAN)

    def __post_init__(self) -> None:
        """Check each setting."""
        Settings.__post_init__(self)
        if self.ssl_client_auth not in CLIENT_AUTHS:
            raise InvalidSetting(self, "ssl_client_auth", f"one of {', '.join(CLIENT_AUTHS)}")
        if self.acls is None and (self.super_users or self.allow_everyone_if_no_acl_found):
            raise InvalidSetting(self, "acls", "() at least, for an authorizer")

    def passwords_for(self, mechanism: str) -> dict[str, str]:
        """The passwords of the users that this mechanism knows."""
        passwords = {
            name: password if isinstance(password, str) else password.get(mechanism, "")
            for name, password in self.users.items()
        }
        return {name: password for name, password in passwords.items() if password}

    @property
    def protocols(self) -> tuple[SecurityProtocol, ...]:
        """The protocols of the listeners."""
        return tuple(SecurityProtocol(name) for name in self.listeners)

    @property
    def is_open(self) -> bool:
        """Whether anybody may do anything."""
        return self.listeners == (SecurityProtocol.PLAINTEXT.value,) and self.acls is None
