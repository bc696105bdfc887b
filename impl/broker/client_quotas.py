"""Client quotas: what administrators set for users, client ids and addresses; nobody is throttled.

Three rules:

1. An entity is a user, a client id, both, or an address; a name of None is the default of its type.
2. All changes of an entity are made, or none.
3. A change is stored before it is seen.

Sources: `ClientQuotaControlManager`, `ClientQuotasImage`, `QuotaConfig`; KIP-546, KIP-612.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names, by type. `ClientQuotaEntity`."""

LONG: Final = "a LONG"
DOUBLE: Final = "a DOUBLE"
INT: Final = "an INT"
_GREATEST: Final = {LONG: 2.0**63, INT: 2.0**31 - 1}
_EPSILON: Final = 1e-6
"""How far from a whole number a value may be that has to be one."""

_CLIENT_KEYS: Final = MappingProxyType(
    {
        "producer_byte_rate": LONG,
        "consumer_byte_rate": LONG,
        "request_percentage": DOUBLE,
        "controller_mutation_rate": DOUBLE,
    }
)
_IP_KEYS: Final = MappingProxyType({"connection_creation_rate": INT})


class QuotaRefused(ValueError):
    """An alteration is refused with INVALID_REQUEST; the message is for the client."""


class QuotaStorage(Protocol):
    """Where quotas are kept besides memory. It may raise `StorageError`."""

    def store_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Store values of an entity, None for those that are removed."""


class ClientQuotas:
    """Read-only: `values` by entity and key."""

    __slots__ = ("_storage", "values")

    def __init__(self) -> None:
        self.values: dict[QuotaEntity, dict[str, float]] = {}
        self._storage: QuotaStorage | None = None

    def keep_in(
        self, storage: QuotaStorage, known: Mapping[QuotaEntity, Mapping[str, float]]
    ) -> None:
        """Have what is kept there, and store each change there first."""
        self.values = {entity: dict(values) for entity, values in known.items()}
        self._storage = storage

    def alter(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Set values of an entity, or remove them (None). Raises `StorageError`."""
        before = self.values.get(entity, {})
        changed = {key: value for key, value in changes.items() if before.get(key) != value}
        if not changed:
            return
        if self._storage is not None:
            self._storage.store_quotas(entity, changed)
        change_quotas(self.values, entity, changed)


def change_quotas(
    values: dict[QuotaEntity, dict[str, float]],
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
) -> None:
    """Change the values of an entity; one that has none left is forgotten."""
    after: dict[str, float | None] = {**values.get(entity, {}), **changes}
    kept = {key: value for key, value in after.items() if value is not None}
    if kept:
        values[entity] = kept
    else:
        values.pop(entity, None)


def check_quotas(entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Raise `QuotaRefused` for an entity, a key or a value that Kafka refuses."""
    keys = _keys_of(entity)
    for key, value in changes.items():
        if value is not None:
            if key not in keys:
                raise QuotaRefused(f"Invalid configuration key {key}")
            _check_value(key, keys[key], value)


def _keys_of(entity: QuotaEntity) -> Mapping[str, str]:
    """The keys that an entity may have. Raises `QuotaRefused`."""
    names = dict(entity)
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            raise QuotaRefused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaRefused(f"Empty {kind} not supported")
    if not names:
        raise QuotaRefused("Invalid empty client quota entity")
    if IP not in names:
        return _CLIENT_KEYS
    if len(names) > 1:
        raise QuotaRefused(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId"
        )
    if not _is_address(names[IP]):
        raise QuotaRefused(f"{names[IP]} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(name: str | None) -> bool:
    """Names of hosts are not resolved here."""
    from ipaddress import ip_address  # few clusters have quotas

    try:
        return name is None or bool(ip_address(name))
    except ValueError:
        return False


def _check_value(key: str, kind: str, value: float) -> None:
    """`ClientQuotaControlManager.validateQuotaKeyValue`. Raises `QuotaRefused`."""
    if value <= 0:
        raise QuotaRefused(f"Quota {key} must be greater than 0")
    if kind == DOUBLE:
        return
    if not value <= _GREATEST[kind]:
        raise QuotaRefused(f"Proposed value for {key} is too large for {kind}.")
    if abs(int(value + _EPSILON) - value) > _EPSILON:
        raise QuotaRefused(f"{key} cannot be a fractional value.")
