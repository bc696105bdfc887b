"""Changes of brokers' settings, as those that were started with other ones follow them.

A new cluster has changes from the start, which say only what is so without them. The tables of all
settings (`node_settings`) are imported with the first change that says anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from impl.broker.releases import is_in

if TYPE_CHECKING:
    from impl.broker.config import NodeConfig
    from impl.partition.log_config import LogConfig

MIN_IN_SYNC: Final = "min.insync.replicas"
ELIGIBLE_REPLICAS_SINCE: Final = "4.1"
"""The first release that formats a cluster with eligible replicas (KIP-966)."""


def format_defaults(release: str, min_insync_replicas: int) -> Mapping[str, str]:
    """What all brokers of a new cluster have: as if it had been changed already."""
    if not is_in(ELIGIBLE_REPLICAS_SINCE, release):
        return MappingProxyType({})
    return MappingProxyType({MIN_IN_SYNC: str(min_insync_replicas)})


def with_changes(config: NodeConfig, changes: Mapping[str, str]) -> NodeConfig:
    """The settings of a node with changes of it that take effect while it runs."""
    if _are_met(changes, config.log):
        return config
    from impl.broker.node_settings import apply_changes

    return apply_changes(config, changes)


def with_log_changes(config: LogConfig, changes: Mapping[str, str]) -> LogConfig:
    """The settings of topics without their own, with changes of a broker."""
    if _are_met(changes, config):
        return config
    from impl.broker.node_settings import apply_log_changes

    return apply_log_changes(config, changes)


def _are_met(changes: Mapping[str, str], config: LogConfig) -> bool:
    """Whether changes say only what is so without them."""
    return changes.items() <= {MIN_IN_SYNC: str(config.min_insync_replicas)}.items()
