"""Handlers of security: ACLs, SCRAM credentials, delegation tokens, and SASL where it is not
expected.

There are no delegation tokens, as on a broker without `delegation.token.secret.key`.

Sources: `AclApis`, `AclControlManager`, `ScramControlManager`,
`KafkaApis.handleDescribeUserScramCredentialsRequest`, `KafkaApis.allowTokenRequests`; answers of
4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeVar

from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import CloseConnection, DecodedRequest
from impl.log.disk import StorageError
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey
from impl.security.access import Access
from impl.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from impl.security.mechanisms import ScramMechanism
from impl.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, derive_credential
from impl.security.session import ANONYMOUS

E = TypeVar("E", bound=IntEnum)

_E: Final = ErrorCode
_NO_AUTHORIZER: Final = "No Authorizer is configured."
_NOTHING_TO_DESCRIBE: Final = "No Authorizer is configured on the broker"


class _RequestRefused(Exception):
    """An item of a request is refused with `error`."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.error = error


# ---- SASL


def sasl_handshake(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """On a connection that expects none."""
    return {"error_code": _E.ILLEGAL_SASL_STATE, "mechanisms": []}


def sasl_authenticate(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """On a connection that expects none."""
    text = "SaslAuthenticate request received after successful authentication"
    return {"error_code": _E.ILLEGAL_SASL_STATE, "error_message": text, "auth_bytes": b""}


# ---- ACLs


@contextmanager
def _storing() -> Iterator[None]:
    """Refuse what cannot be stored. Raises `_RequestRefused`."""
    try:
        yield
    except StorageError as error:
        raise _RequestRefused(_E.KAFKA_STORAGE_ERROR, str(error)) from error


def create_acls(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Each by itself; one that exists is created again, without effect."""
    access = node.cluster.access
    found = [_try_binding(access, asked) for asked in request.body["creations"]]
    created = [acl for acl in found if isinstance(acl, AclBinding)]
    try:
        with _storing():
            if created:
                access.change_acls(created)
    except _RequestRefused as refusal:
        found = [refusal if isinstance(each, AclBinding) else each for each in found]
    return {"results": [_creation_row(each) for each in found]}


def _try_binding(access: Access, asked: Value) -> AclBinding | _RequestRefused:
    """Raises `CloseConnection`."""
    _refuse_unknown(asked, "resource_type", "resource_pattern_type", "operation", "permission_type")
    if access.authorizer is None:
        return _RequestRefused(_E.SECURITY_DISABLED, _NO_AUTHORIZER)
    try:
        return _read_binding(asked)
    except _RequestRefused as refusal:
        return refusal


def _creation_row(found: AclBinding | _RequestRefused) -> Value:
    if isinstance(found, AclBinding):
        return {"error_code": _E.NONE, "error_message": ""}
    return {"error_code": found.error, "error_message": str(found) or None}


def _read_binding(asked: Value) -> AclBinding:
    """Raises `_RequestRefused`, `CloseConnection`."""
    acl = AclBinding(
        _number(ResourceType, asked["resource_type"]),
        asked["resource_name"],
        asked["principal"],
        _number(AclOperation, asked["operation"]),
        _number(AclPermission, asked["permission_type"]),
        _number(PatternType, asked["resource_pattern_type"]),
        asked["host"],
    )
    if 1 in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission):
        raise _RequestRefused(_E.UNKNOWN_SERVER_ERROR, "")  # ANY
    if acl.pattern_type is PatternType.MATCH:
        raise _RequestRefused(_E.UNKNOWN_SERVER_ERROR, "")
    problem = _explain_refusal(acl)
    if problem:
        raise _RequestRefused(_E.INVALID_REQUEST, problem)
    return acl


def _refuse_unknown(asked: Value, *names: str) -> None:
    """Raises `CloseConnection` if one of these fields says UNKNOWN."""
    for name in names:
        if asked[name] == 0:
            raise CloseConnection(f"{name} is UNKNOWN")


_FILTERED: Final = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


def _number(kind: type[E], number: int) -> E:
    """UNKNOWN for an unknown number."""
    return kind(number) if number in tuple(kind) else kind(0)


def _explain_refusal(acl: AclBinding) -> str:
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if not acl.pattern_type:
        return "Invalid patternType UNKNOWN"
    if not acl.resource_type:
        return "Invalid resourceType UNKNOWN"
    if not acl.operation:
        return "Invalid operation UNKNOWN"
    if not acl.permission:
        return "Invalid permissionType UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the"
            " principal type from the principal name)"
        )
    return ""


def _read_filter(asked: Value) -> AclFilter:
    return AclFilter(
        _number(ResourceType, asked["resource_type_filter"]),
        asked["resource_name_filter"],
        _number(PatternType, asked["pattern_type_filter"]),
        asked["principal_filter"],
        asked["host_filter"],
        _number(AclOperation, asked["operation"]),
        _number(AclPermission, asked["permission_type"]),
    )


def describe_acls(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Those that pass the filter, by resource. Raises `CloseConnection`."""
    _refuse_unknown(request.body, *_FILTERED)
    authorizer = node.cluster.access.authorizer
    if authorizer is None:
        error = _E.SECURITY_DISABLED
        return {"error_code": error, "error_message": _NOTHING_TO_DESCRIBE, "resources": []}
    wanted = _read_filter(request.body)
    resources: dict[tuple[ResourceType, str, PatternType], list[Value]] = {}
    for acl in filter(wanted.matches, authorizer.acls):
        key = acl.resource_type, acl.resource_name, acl.pattern_type
        resources.setdefault(key, []).append(_entry(acl))
    rows = [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": entries}
        for (kind, name, pattern), entries in resources.items()
    ]
    return {"error_code": _E.NONE, "error_message": "", "resources": rows}


def _entry(acl: AclBinding) -> Value:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def delete_acls(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """All that pass one of the filters, each of which lists what it deletes."""
    for asked in request.body["filters"]:
        _refuse_unknown(asked, *_FILTERED)
    access = node.cluster.access
    filters = [_read_filter(asked) for asked in request.body["filters"]]
    try:
        matching = _delete_matching(access, filters)
    except _RequestRefused as refusal:
        refused = {"error_code": refusal.error, "error_message": str(refusal)}
        return {"filter_results": [refused | {"matching_acls": []} for _ in filters]}
    rows = [
        {"error_code": _E.NONE, "matching_acls": [_matching_row(acl) for acl in found]}
        for found in matching
    ]
    return {"filter_results": rows}


def _delete_matching(access: Access, filters: Iterable[AclFilter]) -> list[list[AclBinding]]:
    """What each filter deletes. Raises `_RequestRefused`."""
    if access.authorizer is None:
        raise _RequestRefused(_E.SECURITY_DISABLED, _NO_AUTHORIZER)
    acls = access.authorizer.acls
    matching = [list(filter(wanted.matches, acls)) for wanted in filters]
    with _storing():
        access.change_acls(deleted=[acl for found in matching for acl in found])
    return matching


def _matching_row(acl: AclBinding) -> Value:
    return _entry(acl) | {
        "error_code": _E.NONE,
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type,
    }


# ---- SCRAM credentials


def describe_user_scram_credentials(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value:
    """The mechanisms of each user; no users, or null, asks for all."""
    known: dict[str, list[Value]] = {}
    for (name, mechanism), credential in node.cluster.access.credentials.items():
        row = {"mechanism": mechanism, "iterations": credential.iterations}
        known.setdefault(name, []).append(row)
    asked = [row["name"] for row in request.body["users"] or ()]
    rows = [_described(name, asked.count(name), known) for name in dict.fromkeys(asked or known)]
    return {"error_code": _E.NONE, "error_message": "", "results": rows}


def _described(name: str, times: int, known: Mapping[str, list[Value]]) -> Value:
    row: Value = {"user": name, "error_code": _E.NONE, "credential_infos": []}
    if times > 1:
        problem = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        return row | {"error_code": _E.DUPLICATE_RESOURCE, "error_message": problem}
    if name not in known:
        problem = f"Attempt to describe a user credential that does not exist: {name}"
        return row | {"error_code": _E.RESOURCE_NOT_FOUND, "error_message": problem}
    return row | {"error_message": "", "credential_infos": known[name]}


def alter_user_scram_credentials(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value:
    """Delete or set credentials, one of each user."""
    body = request.body
    by_user: dict[str, list[tuple[Value, bool]]] = {}
    for rows, is_deletion in ((body["deletions"], True), (body["upsertions"], False)):
        for row in rows:
            by_user.setdefault(row["name"], []).append((row, is_deletion))
    return {"results": [_alter_user(node, name, rows) for name, rows in by_user.items()]}


def _alter_user(node: HandlerContext, name: str, rows: Sequence[tuple[Value, bool]]) -> Value:
    """The first of a user's rows that is refused is the answer to all; several are refused, too."""
    answer: Value = {"user": name, "error_code": _E.NONE}
    access = node.cluster.access
    try:
        row, is_deletion = rows[0]
        mechanism = _check_change(access, row, is_deletion)
        if len(rows) > 1:
            problem = "A user credential cannot be altered twice in the same request"
            raise _RequestRefused(_E.DUPLICATE_RESOURCE, problem)
        with _storing():
            access.set_credential((name, mechanism), _credential_of(mechanism, row, is_deletion))
    except _RequestRefused as refusal:
        return answer | {"error_code": refusal.error, "error_message": str(refusal) or None}
    return answer


def _credential_of(
    mechanism: ScramMechanism, row: Value, is_deletion: bool
) -> ScramCredential | None:
    if is_deletion:
        return None
    return derive_credential(mechanism, row["salt"], row["salted_password"], row["iterations"])


def _mechanism(row: Value) -> ScramMechanism:
    """Raises `_RequestRefused`."""
    if row["mechanism"] not in tuple(ScramMechanism):
        raise _RequestRefused(_E.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return ScramMechanism(row["mechanism"])


def _check_change(access: Access, row: Value, is_deletion: bool) -> ScramMechanism:
    """The mechanism of a row. Raises `_RequestRefused`."""
    if not row["name"]:
        raise _RequestRefused(_E.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _mechanism(row)
    if is_deletion:
        if (row["name"], mechanism) not in access.credentials:
            problem = "Attempt to delete a user credential that does not exist"
            raise _RequestRefused(_E.RESOURCE_NOT_FOUND, problem)
        return mechanism
    if not row["salted_password"]:
        raise _RequestRefused(_E.UNKNOWN_SERVER_ERROR)  # QUIRK: an exception of the controller
    if row["iterations"] < MIN_ITERATIONS:
        raise _RequestRefused(_E.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if row["iterations"] > MAX_ITERATIONS:
        raise _RequestRefused(_E.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return mechanism


# ---- delegation tokens


def refused_token(request: DecodedRequest, error: ErrorCode, time_ms: int = -1) -> Value:
    """The answer to a CreateDelegationToken, with the principals that it would be about."""
    body = request.body
    requester, _, name = request.session.principal.partition(":")
    owner = body["owner_principal_type"], body["owner_principal_name"]
    is_named = bool(owner[1]) and owner[0] is not None
    return {
        "error_code": error,
        "principal_type": owner[0] if is_named else requester,
        "principal_name": owner[1] if is_named else name,
        "token_requester_principal_type": requester,
        "token_requester_principal_name": name,
        "issue_timestamp_ms": time_ms,
        "expiry_timestamp_ms": time_ms,
        "max_timestamp_ms": time_ms,
        "token_id": "",
        "hmac": b"",
    }


def _token_error(request: DecodedRequest) -> tuple[ErrorCode, int]:
    """The error and the times; who is not authenticated may not even ask."""
    if request.session.principal == ANONYMOUS:
        return _E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1
    return _E.DELEGATION_TOKEN_AUTH_DISABLED, 0


def create_delegation_token(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Refused. QUIRK: an owner with a name and no type is an error of the server."""
    if request.body["owner_principal_name"] and request.body["owner_principal_type"] is None:
        return refused_token(request, _E.UNKNOWN_SERVER_ERROR)
    return refused_token(request, *_token_error(request))


def change_delegation_token(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """RenewDelegationToken and ExpireDelegationToken: refused."""
    error, time_ms = _token_error(request)
    return {"error_code": error, "expiry_timestamp_ms": time_ms}


def describe_delegation_token(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Refused."""
    return {"error_code": _token_error(request)[0], "tokens": []}


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.SASL_HANDSHAKE: sasl_handshake,
        ApiKey.SASL_AUTHENTICATE: sasl_authenticate,
        ApiKey.CREATE_ACLS: create_acls,
        ApiKey.DESCRIBE_ACLS: describe_acls,
        ApiKey.DELETE_ACLS: delete_acls,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
        ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
        ApiKey.RENEW_DELEGATION_TOKEN: change_delegation_token,
        ApiKey.EXPIRE_DELEGATION_TOKEN: change_delegation_token,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_delegation_token,
    }
)
