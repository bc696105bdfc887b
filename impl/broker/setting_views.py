"""Settings as DescribeConfigs and CreateTopics answer them: values, and where they come from.

Two rules:

1. A value comes from the first place that has one: the resource itself, one broker, all brokers,
   what the broker was started with, Kafka's default.
2. Some settings of a broker count in smaller units what others count in larger ones: the places of
   the smaller one include those of the larger ones, but only behind the first of its own.

Sources: `ConfigHelper`, `DynamicBrokerConfig.brokerConfigSynonyms`; answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import dropwhile
from types import MappingProxyType
from typing import Final, NamedTuple


class ConfigType(IntEnum):
    """How a value is written. `DescribeConfigsResponse.ConfigType`."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from. `DescribeConfigsResponse.ConfigSource`."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A place that a value can come from."""

    name: str
    value: str | None
    source: ConfigSource


class SettingView(NamedTuple):
    """A setting as it is answered; the first synonym has the value."""

    name: str
    value: str | None
    source: ConfigSource
    config_type: ConfigType
    synonyms: tuple[Synonym, ...]
    documentation: str
    is_read_only: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether nobody is told the value."""
        return self.config_type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)


Layers = Sequence[tuple[ConfigSource, Mapping[str, str]]]
"""The settings of a broker by name, of each source, first those that count first."""

_FAMILIES: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_FAMILY_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: family for family in _FAMILIES for name in family}
)


def family_of(name: str) -> tuple[str, ...]:
    """The settings that count the same as this one, from the smallest unit to the largest."""
    return _FAMILY_OF.get(name, (name,))


def find_places(name: str, layers: Layers) -> tuple[Synonym, ...]:
    """Where a broker has a value of a setting, as it was written there. `configSynonyms`."""
    return tuple(dropwhile(lambda place: place.name != name, find_all_places(name, layers)))


def find_all_places(name: str, layers: Layers) -> tuple[Synonym, ...]:
    """The same with larger units that come first: the view of a controller.

    `KafkaConfigSchema.resolveEffectiveTopicConfig`.
    """
    names = family_of(name)
    return tuple(
        Synonym(each, values[each], source)
        for source, values in layers
        for each in names
        if each in values
    )


def format_value(config_type: ConfigType, text: str) -> str:
    """A value as Kafka describes it, whichever way it was written. `ConfigDef.convertToString`."""
    plain = text.strip()
    if config_type is ConfigType.LIST:
        return ",".join(item.strip() for item in plain.split(","))
    if config_type is ConfigType.BOOLEAN:
        return plain.lower()
    if config_type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG):
        return str(int(plain))
    return plain


def explain_inert(config_type: ConfigType, default: str | None, reason: str) -> str:
    """The documentation of a setting that changes nothing."""
    has = f"{default} by default" if default else "empty by default"
    return (
        f"A setting of Apache Kafka ({config_type.name}, {has}),"
        f" accepted and without effect in this broker: {reason}."
    )
