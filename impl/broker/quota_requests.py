"""Handlers of client quotas: DescribeClientQuotas, AlterClientQuotas.

Sources: `ClientQuotasImage.describe`, `ClientQuotaControlManager.alterClientQuotas`; KIP-546;
answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.client_quotas import (
    CLIENT_ID,
    ENTITY_TYPES,
    IP,
    USER,
    QuotaEntity,
    QuotaRefused,
    check_quotas,
)
from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.log.disk import StorageError
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

_E: Final = ErrorCode

_EXACT: Final = 0
_SPECIFIED: Final = 2
_MATCH_TYPES: Final = {_EXACT: "EXACT", 1: "DEFAULT", _SPECIFIED: "SPECIFIED"}
"""How a component of a filter matches names: this one, none, any. `DescribeClientQuotasRequest`."""


# ---- AlterClientQuotas


def alter_client_quotas(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Each entity by itself; one that is named again is refused, and keeps what it has got."""
    results: dict[QuotaEntity, tuple[ErrorCode, str | None]] = {}
    for row in request.body["entries"]:
        entity = _entity(row["entity"])
        changes = {op["key"]: None if op["remove"] else op["value"] for op in row["ops"]}
        if entity in results or len(changes) < len(row["ops"]):
            results[entity] = _E.INVALID_REQUEST, f"Ignoring duplicate entity {_text(entity)}"
            continue
        results[entity] = _alter(node, entity, changes, request.body["validate_only"])
    return {
        "entries": [
            {"error_code": error, "error_message": text, "entity": _entity_rows(entity)}
            for entity, (error, text) in results.items()
        ]
    }


def _entity(rows: list[Value]) -> QuotaEntity:
    """The last name of a type counts."""
    return tuple(sorted({row["entity_type"]: row["entity_name"] for row in rows}.items()))


def _text(entity: QuotaEntity) -> str:
    """`ClientQuotaEntity.toString`."""
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"


def _entity_rows(entity: QuotaEntity) -> list[Value]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


def _alter(
    node: HandlerContext, entity: QuotaEntity, changes: Mapping[str, float | None], only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        check_quotas(entity, changes)
        if not only:
            node.cluster.quotas.alter(entity, changes)
    except QuotaRefused as refusal:
        return _E.INVALID_REQUEST, str(refusal)
    except StorageError as error:
        return _E.KAFKA_STORAGE_ERROR, str(error)
    return _E.NONE, None


# ---- DescribeClientQuotas


class _FilterRefused(Exception):
    """A filter is refused with `error`; the message is for the client."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def describe_client_quotas(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The quotas of entities that match all components; `strict`: and have no other types."""
    try:
        wanted = _read_filter(request.body["components"])
    except _FilterRefused as refusal:
        return {"error_code": refusal.error, "error_message": str(refusal), "entries": None}
    is_strict = request.body["strict"]
    entries = [
        {
            "entity": _entity_rows(entity),
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        for entity, values in node.cluster.quotas.values.items()
        if _matches(dict(entity), wanted, is_strict)
    ]
    return {"error_code": _E.NONE, "error_message": "", "entries": entries}


_Filter = Mapping[str, tuple[int, str | None]]
"""Match type and name of each entity type."""


def _matches(names: Mapping[str, str | None], wanted: _Filter, is_strict: bool) -> bool:
    if is_strict and len(names) != len(wanted):
        return False
    return all(
        kind in names and (how == _SPECIFIED or names[kind] == name)
        for kind, (how, name) in wanted.items()
    )


def _read_filter(components: list[Value]) -> _Filter:
    """Raises `_FilterRefused`."""
    wanted: dict[str, tuple[int, str | None]] = {}
    for row in components:
        kind = row["entity_type"]
        _check_component(kind, kind in wanted, row["match_type"], row["match"])
        wanted[kind] = row["match_type"], row["match"]
    if IP in wanted and (USER in wanted or CLIENT_ID in wanted):
        raise _FilterRefused(
            _E.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component.",
        )
    return wanted


def _check_component(kind: str, is_repeated: bool, how: int, name: str | None) -> None:
    """Raises `_FilterRefused`."""
    if not kind:
        raise _FilterRefused(_E.INVALID_REQUEST, "Invalid empty entity type.")
    if is_repeated:
        problem = f"Entity type {kind} cannot appear more than once in the filter."
        raise _FilterRefused(_E.INVALID_REQUEST, problem)
    if kind not in ENTITY_TYPES:
        raise _FilterRefused(_E.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if how not in _MATCH_TYPES:
        raise _FilterRefused(_E.INVALID_REQUEST, f"Unknown match type {how}")
    if (how == _EXACT) == (name is None):
        also = (
            "but set match string to null" if name is None else "but also specified a match string"
        )
        problem = f"Request specified MATCH_TYPE_{_MATCH_TYPES[how]}, {also}."
        raise _FilterRefused(_E.INVALID_REQUEST, problem)


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    }
)
