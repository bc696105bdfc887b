"""The settings of topics: what Kafka has, and what this broker applies.

Three rules:

1. A setting is applied or refused; none is ignored.
2. A setting that is not applied may only have Kafka's default, and is described with it.
3. A value without a default of its own comes from the broker's `LogConfig`.

Sources: `TopicConfig`, `LogConfig`, `ServerTopicConfigSynonyms`, `ConfigDef.parseType`, and the
answers of 4.3.1 to DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from math import isnan, nan
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.partition.log_config import COMPACT, DELETE, LogConfig
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.settings import INT_MAX, LONG_MAX


class ConfigType(IntEnum):
    """How a value is written. `DescribeConfigsResponse.ConfigType`."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from. `DescribeConfigsResponse.ConfigSource`."""

    DYNAMIC_TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class TopicRefused(ValueError):
    """A topic or a change to one is refused; `error` and the message are the answer."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class TopicSetting(NamedTuple):
    """A topic's setting.

    `broker_name`: the broker's setting behind it, "" for none. `field`: that of `LogConfig` which
    applies it, "" for none. `least`: the smallest number. `choices`: the words that it takes.
    """

    config_type: ConfigType
    default: str
    broker_name: str = ""
    field: str = ""
    least: int = 0
    choices: tuple[str, ...] = ()


_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
)
_MOST: Final = {_INT: INT_MAX, _LONG: LONG_MAX}
_NEVER: Final = str(LONG_MAX)
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")

TOPIC_SETTINGS: Final[Mapping[str, TopicSetting]] = MappingProxyType(
    {
        "cleanup.policy": TopicSetting(
            ConfigType.LIST,
            DELETE,
            "log.cleanup.policy",
            "cleanup_policy",
            choices=(COMPACT, DELETE),
        ),
        "compression.gzip.level": TopicSetting(_INT, "-1", "compression.gzip.level"),
        "compression.lz4.level": TopicSetting(_INT, "9", "compression.lz4.level"),
        "compression.type": TopicSetting(_STRING, "producer", "compression.type"),
        "compression.zstd.level": TopicSetting(_INT, "3", "compression.zstd.level"),
        "delete.retention.ms": TopicSetting(
            _LONG, "86400000", "log.cleaner.delete.retention.ms", "delete_retention_ms"
        ),
        "file.delete.delay.ms": TopicSetting(_LONG, "60000", "log.segment.delete.delay.ms"),
        "flush.messages": TopicSetting(
            _LONG, _NEVER, "log.flush.interval.messages", "flush_messages", 1
        ),
        "flush.ms": TopicSetting(_LONG, _NEVER),
        "follower.replication.throttled.replicas": TopicSetting(ConfigType.LIST, ""),
        "index.interval.bytes": TopicSetting(_INT, "4096", "log.index.interval.bytes"),
        "leader.replication.throttled.replicas": TopicSetting(ConfigType.LIST, ""),
        "local.retention.bytes": TopicSetting(_LONG, "-2", "log.local.retention.bytes"),
        "local.retention.ms": TopicSetting(_LONG, "-2", "log.local.retention.ms"),
        "max.compaction.lag.ms": TopicSetting(
            _LONG, _NEVER, "log.cleaner.max.compaction.lag.ms", "max_compaction_lag_ms", 1
        ),
        "max.message.bytes": TopicSetting(
            _INT, "1048588", "message.max.bytes", "max_message_bytes"
        ),
        "message.timestamp.after.max.ms": TopicSetting(
            _LONG,
            "3600000",
            "log.message.timestamp.after.max.ms",
            "message_timestamp_after_max_ms",
        ),
        "message.timestamp.before.max.ms": TopicSetting(
            _LONG,
            _NEVER,
            "log.message.timestamp.before.max.ms",
            "message_timestamp_before_max_ms",
        ),
        "message.timestamp.type": TopicSetting(
            _STRING,
            "CreateTime",
            "log.message.timestamp.type",
            "is_log_append_time",
            choices=_TIMESTAMP_TYPES,
        ),
        "min.cleanable.dirty.ratio": TopicSetting(
            _DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", "min_cleanable_dirty_ratio"
        ),
        "min.compaction.lag.ms": TopicSetting(
            _LONG, "0", "log.cleaner.min.compaction.lag.ms", "min_compaction_lag_ms"
        ),
        "min.insync.replicas": TopicSetting(
            _INT, "1", "min.insync.replicas", "min_insync_replicas", 1
        ),
        "preallocate": TopicSetting(_BOOLEAN, "false", "log.preallocate"),
        "remote.log.copy.disable": TopicSetting(_BOOLEAN, "false"),
        "remote.log.delete.on.disable": TopicSetting(_BOOLEAN, "false"),
        "remote.storage.enable": TopicSetting(_BOOLEAN, "false"),
        "retention.bytes": TopicSetting(_LONG, "-1", "log.retention.bytes", "retention_bytes", -1),
        "retention.ms": TopicSetting(_LONG, "604800000", "log.retention.ms", "retention_ms", -1),
        "segment.bytes": TopicSetting(_INT, "1073741824", "log.segment.bytes", "segment_bytes", 1),
        "segment.index.bytes": TopicSetting(_INT, "10485760", "log.index.size.max.bytes"),
        "segment.jitter.ms": TopicSetting(_LONG, "0"),
        "segment.ms": TopicSetting(_LONG, "604800000", "log.roll.ms", "segment_ms", 1),
        "unclean.leader.election.enable": TopicSetting(
            _BOOLEAN, "false", "unclean.leader.election.enable"
        ),
    }
)
"""All of 4.3.1, by name."""


def named_values(
    rows: Sequence[Value], error: ErrorCode = ErrorCode.INVALID_REQUEST
) -> dict[str, str]:
    """The settings of a request by name. Raises `TopicRefused` for values that are null."""
    nulls = ",".join(row["name"] for row in rows if row["value"] is None)
    if nulls:
        raise TopicRefused(error, f"Null value not supported for : {nulls}")
    return {row["name"]: row["value"] for row in rows}


def is_applied(name: str) -> bool:
    """Whether a setting may have another value than Kafka's default."""
    return name in TOPIC_SETTINGS and bool(TOPIC_SETTINGS[name].field)


def log_config(base: LogConfig, configs: Mapping[str, str]) -> LogConfig:
    """`base` with a topic's own settings. Raises `TopicRefused` (INVALID_CONFIG)."""
    changes: dict[str, Any] = {}
    for name, text in configs.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise TopicRefused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if setting.field:
            changes[setting.field] = _parse(name, setting, text)
        elif text != setting.default:
            applied = ", ".join(filter(is_applied, TOPIC_SETTINGS))
            problem = f"{name} can only be {setting.default!r} here; settings applied: {applied}"
            raise TopicRefused(ErrorCode.INVALID_CONFIG, problem)
    config = replace(base, **changes)
    least_ms, most_ms = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least_ms > most_ms:
        rows = f"min.compaction.lag.ms ({least_ms}) > max.compaction.lag.ms ({most_ms})"
        raise TopicRefused(ErrorCode.INVALID_CONFIG, f"conflict topic config setting {rows}")
    return config


def _parse(name: str, setting: TopicSetting, text: str) -> int | float | str | bool:
    value: int | float | str | bool = _PARSERS[setting.config_type](name, setting, text)
    return value


def _parse_choice(name: str, setting: TopicSetting, text: str) -> bool:
    """Whether it is the second choice. The one setting of this type is a choice of two."""
    if text not in setting.choices:
        raise invalid_value(name, text, f"String must be one of: {', '.join(setting.choices)}")
    return setting.choices.index(text) == 1


def _parse_list(name: str, setting: TopicSetting, text: str) -> str:
    """The words with commas between; an empty text has none. `ConfigDef.ValidList`."""
    words = [word.strip() for word in text.split(",")] if text else []
    if "" in words:
        problem = f"Configuration '{name}' values must not be empty."
        raise TopicRefused(ErrorCode.INVALID_CONFIG, problem)
    for word in words:
        if word not in setting.choices:
            raise invalid_value(name, word, f"String must be one of: {', '.join(setting.choices)}")
    return ",".join(words)


def _parse_ratio(name: str, setting: TopicSetting, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 <= value <= 1:
        limit = "at least 0" if value < 0 else "no more than 1"
        raise invalid_value(
            name, text, "Not a number of type DOUBLE" if isnan(value) else f"Value must be {limit}"
        )
    return value


def _parse_number(name: str, setting: TopicSetting, text: str) -> int:
    return parse_integer(name, text, setting.config_type, setting.least)


def parse_integer(name: str, text: str, config_type: ConfigType, least: int) -> int:
    """The number of an INT or LONG. Raises `TopicRefused` (INVALID_CONFIG)."""
    most = _MOST[config_type]
    try:
        number = int(text)
    except ValueError:
        number = most + 1
    if abs(number) > most:
        raise invalid_value(name, text, f"Not a number of type {config_type.name}")
    if number < least:
        raise invalid_value(name, text, f"Value must be at least {least}")
    return number


_PARSERS: Final[Mapping[ConfigType, Callable[[str, TopicSetting, str], Any]]] = MappingProxyType(
    {
        _STRING: _parse_choice,
        ConfigType.LIST: _parse_list,
        _DOUBLE: _parse_ratio,
        _INT: _parse_number,
        _LONG: _parse_number,
    }
)


def invalid_value(name: str, text: str, problem: str) -> TopicRefused:
    """The refusal of a value (INVALID_CONFIG)."""
    return TopicRefused(
        ErrorCode.INVALID_CONFIG, f"Invalid value {text} for configuration {name}: {problem}"
    )


_NULL_BY_DEFAULT: Final = frozenset({"log.retention.ms", "log.roll.ms"})
"""Settings of a broker that count in hours, unless these are set."""


class Synonym(NamedTuple):
    """A place that a value can come from."""

    name: str
    value: str
    source: ConfigSource


class SettingView(NamedTuple):
    """A setting as DescribeConfigs and CreateTopics answer it; the first synonym has the value."""

    name: str
    value: str
    source: ConfigSource
    config_type: ConfigType
    synonyms: tuple[Synonym, ...]


def describe_settings(configs: Mapping[str, str], base: LogConfig) -> list[SettingView]:
    """All settings of a topic with these of its own, by name. `ConfigHelper.describeConfigs`."""
    return [
        _describe(name, setting, configs.get(name), base)
        for name, setting in TOPIC_SETTINGS.items()
    ]


def _describe(name: str, setting: TopicSetting, own: str | None, base: LogConfig) -> SettingView:
    places = [] if own is None else [Synonym(name, own, ConfigSource.DYNAMIC_TOPIC)]
    on_broker = _broker_value(setting, base)
    if on_broker != setting.default:
        places.append(Synonym(setting.broker_name, on_broker, ConfigSource.STATIC_BROKER))
    default = Synonym(setting.broker_name, setting.default, ConfigSource.DEFAULT)
    if setting.broker_name and setting.broker_name not in _NULL_BY_DEFAULT:
        places.append(default)
    first = places[0] if places else default
    return SettingView(name, first.value, first.source, setting.config_type, tuple(places))


def _broker_value(setting: TopicSetting, base: LogConfig) -> str:
    """The value of topics without their own."""
    if not setting.field:
        return setting.default
    value = getattr(base, setting.field)
    return setting.choices[value] if isinstance(value, bool) else str(value)
