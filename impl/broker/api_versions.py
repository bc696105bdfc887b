"""ApiVersions: what a node serves, and which features the cluster has. `ApiVersionsResponse`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.broker.releases import TRANSACTION_VERSION, announced_versions, supported_levels
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

ZERO_FEATURES_FROM: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """`KafkaApis.handleApiVersionsRequest`. A level of 0 is not listed as finalized.

    Clients before version 4 fail on features that begin at 0, so they get none (KAFKA-17011).
    """
    body, release = request.body, node.config.release
    software = (body["client_software_name"], body["client_software_version"])
    if request.version >= 3 and not all(_SOFTWARE.fullmatch(word) for word in software):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    features = supported_levels(release)
    newest = {name: levels[-1] for name, levels in features.items()}
    current = {**newest, TRANSACTION_VERSION: node.transaction_version}
    return {
        "error_code": ErrorCode.NONE,
        "api_keys": [
            {"api_key": api_key, "min_version": versions[0], "max_version": versions[-1]}
            for api_key, versions in announced_versions(release).items()
        ],
        "supported_features": [
            {"name": name, "min_version": levels[0], "max_version": levels[-1]}
            for name, levels in features.items()
            if request.version >= ZERO_FEATURES_FROM or levels[0] > 0
        ],
        "finalized_features_epoch": node.cluster.features_epoch,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in current.items()
            if name in newest and level
        ],
    }


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType({ApiKey.API_VERSIONS: api_versions})
