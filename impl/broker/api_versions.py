"""ApiVersions: what a node serves, and which features the cluster has. `ApiVersionsResponse`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from impl.broker.outputs import DecodedRequest
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey

OLDEST_SERVED: Final[Mapping[int, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 3,
        ApiKey.FETCH: 4,
        ApiKey.LIST_OFFSETS: 1,
        ApiKey.CREATE_TOPICS: 2,
        ApiKey.DELETE_TOPICS: 1,
        ApiKey.OFFSET_COMMIT: 2,
        ApiKey.OFFSET_FETCH: 1,
        ApiKey.JOIN_GROUP: 2,
        ApiKey.WRITE_TXN_MARKERS: 1,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
        ApiKey.DESCRIBE_CONFIGS: 1,
        ApiKey.DESCRIBE_LOG_DIRS: 1,
    }
)
"""Versions below are refused. Those of Produce are advertised all the same (KAFKA-18659)."""

TRANSACTION_VERSION: Final = "transaction.version"
NEWEST_LEVEL: Final = 2

ZERO_FEATURES_FROM: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(
    request: DecodedRequest, rows: Sequence[Value], transaction_version: int, features_epoch: int
) -> Value:
    """`KafkaApis.handleApiVersionsRequest`. A level of 0 is not listed as finalized.

    Clients before version 4 fail on features that begin at 0, so they get none (KAFKA-17011).
    """
    body = request.body
    software = (body["client_software_name"], body["client_software_version"])
    if request.version >= 3 and not all(_SOFTWARE.fullmatch(word) for word in software):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    level = {"name": TRANSACTION_VERSION, "max_version_level": transaction_version}
    supported = {"name": TRANSACTION_VERSION, "min_version": 0, "max_version": NEWEST_LEVEL}
    return {
        "error_code": ErrorCode.NONE,
        "api_keys": list(rows),
        "supported_features": [supported] if request.version >= ZERO_FEATURES_FROM else [],
        "finalized_features_epoch": features_epoch,
        "finalized_features": [level | {"min_version_level": transaction_version}]
        if transaction_version
        else [],
    }


def version_rows(served: Iterable[ApiKey]) -> list[Value]:
    """The APIs that clients may use; the others are between brokers and controllers."""
    return [_row(key) for key in sorted(served) if key != ApiKey.ALLOCATE_PRODUCER_IDS]


def _row(api_key: ApiKey) -> Value:
    oldest = 0 if api_key == ApiKey.PRODUCE else OLDEST_SERVED.get(api_key, 0)
    newest = SUPPORTED_VERSIONS[api_key].last
    return {"api_key": api_key, "min_version": oldest, "max_version": newest}
