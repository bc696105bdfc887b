"""The settings of brokers, groups and client metrics: what has any of its own, by type and name.

A group has settings before its first member and after its last. Source: `ConfigRepository`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from impl.broker.topic_refused import TopicRefused
from impl.log.disk import StorageError
from impl.protocol.errors import ErrorCode


class ConfigResourceType(IntEnum):
    """What has settings. `ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ALL_BROKERS: Final = ""
"""The name of the broker that stands for all."""

NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})

StoreConfigs = Callable[[int, str, Mapping[str, str]], None]
"""Stores the settings of a resource of this type and name. May raise `StorageError`."""


def _forget(kind: int, name: str, configs: Mapping[str, str]) -> None:
    """Nothing is stored."""


class ResourceConfigs:
    """Those of a cluster; iterates over types and names. Read-only: `version` counts changes."""

    __slots__ = ("_configs", "_store", "version")

    def __init__(self) -> None:
        self._configs: dict[tuple[int, str], Mapping[str, str]] = {}
        self._store: StoreConfigs = _forget
        self.version = 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return iter(self._configs)

    def keep_in(
        self, known: Mapping[tuple[int, str], Mapping[str, str]], store: StoreConfigs
    ) -> None:
        """Begin with what is stored, and store what follows first."""
        self._configs = {key: dict(configs) for key, configs in known.items() if configs}
        self._store = store
        self.version += 1

    def get(self, kind: int, name: str) -> Mapping[str, str]:
        """A resource's own settings."""
        return self._configs.get((kind, name), NO_CONFIGS)

    def replace(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        """Give a resource other settings. Raises `TopicRefused` if they cannot be stored."""
        try:
            self._store(kind, name, configs)
        except StorageError as error:
            raise TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._configs.pop((kind, name), None)
        if configs:
            self._configs[kind, name] = dict(configs)
        self.version += 1
