"""What the arguments of `Broker` and of its methods may be: a table, and what checks it.

An argument has one meaning wherever it stands, so the table is by name. Whether a topic, a
partition or a node exists is not checked here.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Final

from impl.broker.config import NodeConfig
from impl.broker.topics import MAX_PARTITIONS
from impl.security.config import Security
from impl.settings import (
    BOOLEAN,
    INT_MAX,
    MAX_PORT,
    MAX_REPLICAS,
    TEXT,
    InvalidArgument,
    InvalidSetting,
    ValidValues,
    integers,
    is_text,
    maps_only,
    unmet,
)

_COUNT: Final = integers(1, MAX_PARTITIONS)
_NUMBER: Final = integers(0, INT_MAX)
_CENTURY_MS: Final = 36_525 * 86_400_000


def _is_place(value: object) -> bool:
    return is_text(value) or isinstance(value, os.PathLike)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


ARGUMENTS: Final = MappingProxyType(
    {
        "nodes": integers(1, MAX_PORT),
        "topics": ValidValues(
            'a mapping of topics to numbers of partitions, such as {"orders": 4}, each'
            f" {_COUNT.may_be}",
            lambda value: maps_only(value, is_text, _COUNT.allows),
        ),
        "config": ValidValues("a NodeConfig", lambda value: isinstance(value, NodeConfig)),
        "settings": ValidValues(
            'a mapping of names to texts, such as {"max.connections": "100"}',
            lambda value: maps_only(value, is_text, _is_string),
        ),
        "directory": ValidValues("a path of a directory", _is_place).or_none(),
        "security": ValidValues(
            "a Security(...)", lambda value: isinstance(value, Security)
        ).or_none(),
        "name": TEXT,
        "topic": TEXT,
        "partitions": _COUNT,
        "configs": ValidValues(
            'settings whose values are texts, such as retention_ms="1000"',
            lambda value: maps_only(value, is_text, _is_string),
        ),
        "partition": _NUMBER,
        "replication_factor": integers(1, MAX_REPLICAS).or_none(),
        "node_id": _NUMBER,
        "duration_ms": integers(greatest=_CENTURY_MS),
        "fail_over": BOOLEAN,
    }
)


def check_arguments(call: str, **values: object) -> None:
    """Check the arguments of a call. Raises `InvalidArgument` for the first that cannot be."""
    for name, may_be, value in unmet(ARGUMENTS, values):
        raise InvalidArgument(call, name, may_be, value)


def check_ports(config: NodeConfig, nodes: int) -> None:
    """Check that there is a port for each listener of each node: from the configured one on.

    Raises `InvalidSetting`.
    """
    wanted = nodes * len(config.security.listeners)
    most = max(0, MAX_PORT + 1 - wanted)
    if config.port > most:
        may_be = f"at most {most}, as {wanted} ports from there on are needed"
        raise InvalidSetting(config, "port", may_be)
