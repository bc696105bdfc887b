"""ApiVersions: what a node serves, and which features the cluster has. `ApiVersionsResponse`."""

from __future__ import annotations

import re
from typing import Final

from impl.broker.outputs import DecodedRequest
from impl.broker.releases import announced_versions, newest_level
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode

TRANSACTION_VERSION: Final = "transaction.version"

ZERO_FEATURES_FROM: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(
    request: DecodedRequest, release: str, transaction_version: int, features_epoch: int
) -> Value:
    """`KafkaApis.handleApiVersionsRequest`. A level of 0 is not listed as finalized.

    Clients before version 4 fail on features that begin at 0, so they get none (KAFKA-17011).
    """
    body = request.body
    software = (body["client_software_name"], body["client_software_version"])
    if request.version >= 3 and not all(_SOFTWARE.fullmatch(word) for word in software):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    level = {"name": TRANSACTION_VERSION, "max_version_level": transaction_version}
    newest = newest_level(release)
    supported = {"name": TRANSACTION_VERSION, "min_version": 0, "max_version": newest}
    return {
        "error_code": ErrorCode.NONE,
        "api_keys": [
            {"api_key": api_key, "min_version": versions[0], "max_version": versions[-1]}
            for api_key, versions in announced_versions(release).items()
        ],
        "supported_features": [supported]
        if newest and request.version >= ZERO_FEATURES_FROM
        else [],
        "finalized_features_epoch": features_epoch,
        "finalized_features": [level | {"min_version_level": transaction_version}]
        if transaction_version
        else [],
    }
