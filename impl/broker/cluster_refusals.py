"""Answers that refuse a request as a whole, where they have a form of their own.

Most have one error at the top, or one in each row (`refusals`); these have both, or neither, or
name somebody.
Sources: `AbstractRequest.getErrorResponse` of each request; answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from impl.protocol.errors import ErrorCode
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey
from impl.security.session import ANONYMOUS

_Form = Callable[[Value, ErrorCode, str | None], Value]


def _error(error: ErrorCode, text: str | None) -> Value:
    return {"error_code": error, "error_message": text}


def _rows(topics: Iterable[Value], refused: Callable[[Value], Value]) -> list[Value]:
    return [
        {"name": topic["name"], "partitions": [refused(row) for row in topic["partitions"]]}
        for topic in topics
    ]


def _alter_partition_reassignments(body: Value, error: ErrorCode, text: str | None) -> Value:
    def refused(row: Value) -> Value:
        return _error(error, text) | {"partition_index": row["partition_index"]}

    return _error(error, text) | {
        "allow_replication_factor_change": body["allow_replication_factor_change"],
        "responses": _rows(body["topics"], refused),
    }


def _list_partition_reassignments(body: Value, error: ErrorCode, text: str | None) -> Value:
    none: Value = {"replicas": [], "adding_replicas": [], "removing_replicas": []}
    places = (
        (topic["name"], none | {"partition_index": index})
        for topic in body["topics"] or ()
        for index in topic["partition_indexes"]
    )
    return _error(error, text) | {"topics": topic_rows(places)}


def _elect_leaders(body: Value, error: ErrorCode, text: str | None) -> Value:
    places = (
        (topic["topic"], _error(error, text) | {"partition_id": index})
        for topic in body["topic_partitions"] or ()
        for index in topic["partitions"]
    )
    rows = topic_rows(places, "topic", "partition_result")
    return {"error_code": error, "replica_election_results": rows}


def _alter_replica_log_dirs(body: Value, error: ErrorCode, text: str | None) -> Value:
    places = (
        (topic["name"], {"partition_index": index, "error_code": error})
        for directory in body["dirs"]
        for topic in directory["topics"]
        for index in topic["partitions"]
    )
    return {"results": topic_rows(places, "topic_name")}


def _describe_client_quotas(body: Value, error: ErrorCode, text: str | None) -> Value:
    return _error(error, text) | {"entries": None}


def _alter_client_quotas(body: Value, error: ErrorCode, text: str | None) -> Value:
    return {"entries": [_error(error, text) | {"entity": row["entity"]} for row in body["entries"]]}


def _alter_user_scram_credentials(body: Value, error: ErrorCode, text: str | None) -> Value:
    names = dict.fromkeys(row["name"] for row in (*body["deletions"], *body["upsertions"]))
    return {"results": [_error(error, text) | {"user": name} for name in names]}


def _describe_user_scram_credentials(body: Value, error: ErrorCode, text: str | None) -> Value:
    """QUIRK: a row for each user, without its name; one for the users that null stands for."""
    row = {"error_code": error, "user": "", "credential_infos": []}
    users = body["users"]
    return {"error_code": error, "results": [row] * (1 if users is None else len(users))}


def _describe_log_dirs(body: Value, error: ErrorCode, text: str | None) -> Value:
    """QUIRK: before version 3 there is no place for the error."""
    return {"error_code": error, "results": []}


def _create_delegation_token(body: Value, error: ErrorCode, text: str | None) -> Value:
    """QUIRK: whoever asked, as if they were not authenticated."""
    kind, _, name = ANONYMOUS.partition(":")
    return {
        "error_code": error,
        "principal_type": kind,
        "principal_name": name,
        "token_requester_principal_type": kind,
        "token_requester_principal_name": name,
        "token_id": "",
        "hmac": b"",
    } | dict.fromkeys(("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"), -1)


WHOLE_ANSWERS: Final[Mapping[int, _Form]] = MappingProxyType(
    {
        ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
        ApiKey.ELECT_LEADERS: _elect_leaders,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
        ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
        ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    }
)
"""The answer to a request's body with this error and text, by API."""
