"""The settings of topics: what Kafka has, and what this broker applies.

Four rules:

1. A value that Kafka takes is stored and described; any other is refused with Kafka's text.
2. A setting without a field of `LogConfig` changes nothing here, and its description says why.
3. What would need something that is not there is refused: remote storage, or a codec whose library
   is not installed.
4. A topic without a value of its own has the broker's: that of `LogConfig`, or the one that the
   broker was given for a setting without a field.

Sources: `TopicConfig`, `LogConfig`, `ServerTopicConfigSynonyms`, `ConfigDef.parseType`,
`ThrottledReplicaListValidator`, and the answers of 4.3.1 to DescribeConfigs and
IncrementalAlterConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.broker.setting_views import (
    ConfigSource,
    ConfigType,
    Layers,
    SettingView,
    Synonym,
    explain_inert,
    find_places,
    format_value,
)
from impl.broker.topic_refused import TopicRefused
from impl.partition.log_config import (
    CODECS,
    COMPACT,
    COMPRESSION_TYPES,
    DELETE,
    LogConfig,
)
from impl.protocol.compression import is_installed
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.settings import INT_MAX, LONG_MAX, MAX_REPLICAS


class TopicSetting(NamedTuple):
    """A topic's setting.

    `broker_name`: the broker's setting behind it, "" for none. `field`: that of `LogConfig` which
    applies it, "" for none. `least`, `greatest`: the range of a number; `also`: one outside of it.
    `choices`: the words that it takes.
    """

    config_type: ConfigType
    default: str
    broker_name: str = ""
    field: str = ""
    least: int = 0
    choices: tuple[str, ...] = ()
    greatest: int | None = None
    also: int | None = None


_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
)
_MOST: Final = {_INT: INT_MAX, _LONG: LONG_MAX, ConfigType.SHORT: MAX_REPLICAS}
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
        "compression.gzip.level": TopicSetting(
            _INT,
            "-1",
            "compression.gzip.level",
            "compression_gzip_level",
            least=1,
            greatest=9,
            also=-1,
        ),
        "compression.lz4.level": TopicSetting(
            _INT, "9", "compression.lz4.level", "compression_lz4_level", least=1, greatest=17
        ),
        "compression.type": TopicSetting(
            _STRING,
            "producer",
            "compression.type",
            "compression_type",
            choices=COMPRESSION_TYPES,
        ),
        "compression.zstd.level": TopicSetting(
            _INT,
            "3",
            "compression.zstd.level",
            "compression_zstd_level",
            least=-131_072,
            greatest=22,
        ),
        "delete.retention.ms": TopicSetting(
            _LONG, "86400000", "log.cleaner.delete.retention.ms", "delete_retention_ms"
        ),
        "file.delete.delay.ms": TopicSetting(_LONG, "60000", "log.segment.delete.delay.ms"),
        "flush.messages": TopicSetting(
            _LONG, _NEVER, "log.flush.interval.messages", "flush_messages", 1
        ),
        "flush.ms": TopicSetting(_LONG, _NEVER, "log.flush.interval.ms"),
        "follower.replication.throttled.replicas": TopicSetting(ConfigType.LIST, ""),
        "index.interval.bytes": TopicSetting(_INT, "4096", "log.index.interval.bytes"),
        "leader.replication.throttled.replicas": TopicSetting(ConfigType.LIST, ""),
        "local.retention.bytes": TopicSetting(_LONG, "-2", "log.local.retention.bytes", least=-2),
        "local.retention.ms": TopicSetting(_LONG, "-2", "log.local.retention.ms", least=-2),
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
        "retention.bytes": TopicSetting(
            _LONG, "-1", "log.retention.bytes", "retention_bytes", -LONG_MAX - 1
        ),
        "retention.ms": TopicSetting(_LONG, "604800000", "log.retention.ms", "retention_ms", -1),
        "segment.bytes": TopicSetting(_INT, "1073741824", "log.segment.bytes", "segment_bytes", 1),
        "segment.index.bytes": TopicSetting(_INT, "10485760", "log.index.size.max.bytes", least=4),
        "segment.jitter.ms": TopicSetting(_LONG, "0", "log.roll.jitter.ms"),
        "segment.ms": TopicSetting(_LONG, "604800000", "log.roll.ms", "segment_ms", 1),
        "unclean.leader.election.enable": TopicSetting(
            _BOOLEAN, "false", "unclean.leader.election.enable", "unclean_leader_election_enable"
        ),
    }
)
"""All of 4.3.1, by name."""

_NO_FILES: Final = "the rule for its files is the operating system's or this broker's own"
_NO_FOLLOWERS: Final = "all replicas share one log, and nothing is sent between them"
_NO_TIERS: Final = "there is no remote storage"
ABOUT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "Whether old segments are deleted, compacted, or both.",
        "compression.gzip.level": "The level at which the broker compresses batches with gzip.",
        "compression.lz4.level": "The level at which the broker compresses batches with lz4.",
        "compression.type": "The codec into which batches are converted; producer keeps theirs.",
        "compression.zstd.level": "The level at which the broker compresses batches with zstd.",
        "delete.retention.ms": "How long tombstones, and markers without data, stay.",
        "file.delete.delay.ms": _NO_FILES,
        "flush.messages": "After this many messages a log on disk is flushed.",
        "flush.ms": _NO_FILES,
        "follower.replication.throttled.replicas": _NO_FOLLOWERS,
        "index.interval.bytes": _NO_FILES,
        "leader.replication.throttled.replicas": _NO_FOLLOWERS,
        "local.retention.bytes": _NO_TIERS,
        "local.retention.ms": _NO_TIERS,
        "max.compaction.lag.ms": "After this time a record is compacted in any case.",
        "max.message.bytes": "The largest batch that is appended.",
        "message.timestamp.after.max.ms": "How far ahead of the broker a timestamp may be.",
        "message.timestamp.before.max.ms": "How far behind the broker a timestamp may be.",
        "message.timestamp.type": "Whether timestamps are the producer's or the broker's.",
        "min.cleanable.dirty.ratio": "A log is compacted when more of it than this is not yet.",
        "min.compaction.lag.ms": "Before this time a record is not compacted.",
        "min.insync.replicas": "How many replicas must be in sync for a batch with acks=all.",
        "preallocate": _NO_FILES,
        "remote.log.copy.disable": _NO_TIERS,
        "remote.log.delete.on.disable": _NO_TIERS,
        "remote.storage.enable": f"{_NO_TIERS}, and true is refused",
        "retention.bytes": "Above this size of a partition its oldest segments are deleted.",
        "retention.ms": "Segments whose records are all older than this are deleted; -1: none.",
        "segment.bytes": "The size at which a segment ends.",
        "segment.index.bytes": _NO_FILES,
        "segment.jitter.ms": "all segments of this age end at once",
        "segment.ms": "The age at which a segment ends.",
        "unclean.leader.election.enable": "Whether a replica that was not in sync may lead.",
    }
)
"""What a setting does; of one without a field, why it does nothing."""


def explain_topic_setting(name: str) -> str:
    """The documentation of a topic's setting."""
    setting = TOPIC_SETTINGS[name]
    if setting.field:
        return ABOUT[name]
    return explain_inert(setting.config_type, setting.default, ABOUT[name])


def named_values(
    rows: Sequence[Value], error: ErrorCode = ErrorCode.INVALID_REQUEST, what: str = ""
) -> dict[str, str]:
    """The settings of a request by name. Raises `TopicRefused` for values that are null.

    QUIRK: of alterations the error does not say `what` is null.
    """
    nulls = ",".join(row["name"] for row in rows if row["value"] is None)
    if nulls:
        raise TopicRefused(error, f"Null value not supported for {what}: {nulls}")
    return {row["name"]: row["value"] for row in rows}


def log_config(base: LogConfig, configs: Mapping[str, str]) -> LogConfig:
    """`base` with a topic's own settings. Raises `TopicRefused` (INVALID_CONFIG).

    QUIRK: what contradicts itself in `base` alone is met by topics with settings of their own.
    """
    for name in configs:
        if name not in TOPIC_SETTINGS:
            raise invalid_config(f"Unknown topic config name: {name}")
    config = with_topic_settings(base, configs)
    if not configs:
        return config
    least_ms, most_ms = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least_ms > most_ms:
        rows = f"min.compaction.lag.ms ({least_ms}) > max.compaction.lag.ms ({most_ms})"
        raise invalid_config(f"conflict topic config setting {rows}")
    if parse_boolean(_REMOTE, configs.get(_REMOTE, "false")):
        raise invalid_config(_NO_REMOTE_STORAGE)
    if _COMPRESSION in configs:
        check_codec(config.compression_type)
    return config


def with_topic_settings(base: LogConfig, configs: Mapping[str, str]) -> LogConfig:
    """`base` with settings that a topic has, however they go together."""
    values = {
        name: field_value(TOPIC_SETTINGS[name], _parse(name, configs[name])) for name in configs
    }
    fields = {TOPIC_SETTINGS[name].field: value for name, value in values.items()}
    fields.pop("", None)
    return replace(base, **fields)


def check_codec(compression_type: str) -> None:
    """Raise `TopicRefused` for a codec whose library is not installed."""
    if CODECS.get(compression_type) and not is_installed():
        problem = "its library is not installed, pip install 'kafka-eos[compression]' does it"
        raise invalid_value(_COMPRESSION, compression_type, problem)


_REMOTE: Final = "remote.storage.enable"
_COMPRESSION: Final = "compression.type"
_NO_REMOTE_STORAGE: Final = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote"
    " log storage."
)


def field_value(setting: TopicSetting, value: Any) -> Any:
    """A parsed value as `LogConfig` has it: a word of two is whether it is the second."""
    return value == _TIMESTAMP_TYPES[1] if setting.choices is _TIMESTAMP_TYPES else value


def parse_value(name: str, setting: TopicSetting, text: str) -> Any:
    """The value of a text, under this name. Raises `TopicRefused` (INVALID_CONFIG).

    `ConfigDef.parseType` and the validator of the setting.
    """
    return _PARSERS[setting.config_type](name, setting, text)


def _parse(name: str, text: str) -> Any:
    return parse_value(name, TOPIC_SETTINGS[name], text)


def parse_boolean(name: str, text: str) -> bool:
    """The value of a BOOLEAN. Raises `TopicRefused` (INVALID_CONFIG)."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise invalid_value(name, text, "Expected value to be either true or false")
    return value


def _parse_choice(name: str, setting: TopicSetting, text: str) -> str:
    word = text.strip()
    if word not in setting.choices:
        raise invalid_value(name, word, f"String must be one of: {', '.join(setting.choices)}")
    return word


def _parse_list(name: str, setting: TopicSetting, text: str) -> str:
    """The words with commas between; an empty text has none."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not setting.choices:
        return _check_replicas(name, words)
    if "" in words:
        raise invalid_config(f"Configuration '{name}' values must not be empty.")
    for word in words:
        if word not in setting.choices:
            raise invalid_value(name, word, f"String must be one of: {', '.join(setting.choices)}")
    return ",".join(dict.fromkeys(words))


def _check_replicas(name: str, words: list[str]) -> str:
    """`ThrottledReplicaListValidator`."""
    if words != ["*"] and not all(_REPLICA.fullmatch(word) for word in words):
        problem = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise invalid_value(name, f"[{', '.join(words)}]", problem)
    return ",".join(words)


def parse_decimal(name: str, text: str) -> float:
    """The number of a DOUBLE. Raises `TopicRefused` (INVALID_CONFIG)."""
    if not _DECIMAL.fullmatch(text.strip()):
        raise invalid_value(name, text, "Not a number of type DOUBLE")
    return float(text.strip().rstrip("dDfF"))


def _parse_ratio(name: str, setting: TopicSetting, text: str) -> float:
    value = parse_decimal(name, text)
    if not 0 <= value <= 1:
        limit = "at least 0" if value < 0 else "no more than 1"
        raise invalid_value(name, str(value), f"Value must be {limit}")
    return value


def _parse_integer(name: str, setting: TopicSetting, text: str) -> int:
    number = parse_number(name, text, setting.config_type)
    problem = "" if number == setting.also else _range_problem(setting, number)
    if problem:
        raise invalid_value(name, str(number), f"Value must be {problem}")
    return number


def parse_number(name: str, text: str, config_type: ConfigType) -> int:
    """The number of an INT, SHORT or LONG. Raises `TopicRefused` (INVALID_CONFIG)."""
    most = _MOST[config_type]
    number = int(text) if _INTEGER.fullmatch(text.strip()) else most + 1
    if not -most - 1 <= number <= most:
        raise invalid_value(name, text, f"Not a number of type {config_type.name}")
    return number


def _range_problem(setting: TopicSetting, number: int) -> str:
    """What a number outside of its range must be, "" for one inside."""
    least, greatest, also = setting.least, setting.greatest, setting.also
    is_large = greatest is not None and number > greatest
    if number >= least and not is_large:
        return ""
    if also is not None:
        return f"between {least} and {greatest} or equal to {also}"
    return f"no more than {greatest}" if is_large else f"at least {least}"


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_PARSERS: Final[Mapping[ConfigType, Callable[[str, TopicSetting, str], Any]]] = MappingProxyType(
    {
        _BOOLEAN: lambda name, _, text: parse_boolean(name, text),
        _STRING: _parse_choice,
        ConfigType.LIST: _parse_list,
        _DOUBLE: _parse_ratio,
        _INT: _parse_integer,
        _LONG: _parse_integer,
    }
)


def invalid_config(problem: str) -> TopicRefused:
    """The refusal of settings (INVALID_CONFIG)."""
    return TopicRefused(ErrorCode.INVALID_CONFIG, problem)


def invalid_value(name: str, text: str, problem: str) -> TopicRefused:
    """The refusal of a value (INVALID_CONFIG)."""
    return invalid_config(f"Invalid value {text} for configuration {name}: {problem}")


_JAVA_PLAIN_FROM: Final = 1e-3
"""Smaller numbers are written with an exponent. `Double.toString`."""


FindPlaces = Callable[[str, Layers], tuple[Synonym, ...]]


def describe_settings(
    configs: Mapping[str, str], base: LogConfig, layers: Layers, find: FindPlaces = find_places
) -> list[SettingView]:
    """All settings of a topic with these of its own, by name. `ConfigHelper.describeConfigs`.

    `base` is what a topic without its own has, `layers` say where that comes from, and `find` which
    of these places count.
    """
    on_broker = {
        name: find(setting.broker_name, layers) if setting.broker_name else ()
        for name, setting in TOPIC_SETTINGS.items()
    }
    return [_describe(name, configs.get(name), base, places) for name, places in on_broker.items()]


def _describe(
    name: str, own: str | None, base: LogConfig, on_broker: tuple[Synonym, ...]
) -> SettingView:
    setting = TOPIC_SETTINGS[name]
    places = on_broker
    value = format_base(setting, base)
    if not setting.field and on_broker and on_broker[0].value:
        value = format_value(setting.config_type, on_broker[0].value)
    if own is not None:
        value = _text_of(_parse(name, own))
        places = (Synonym(name, value, ConfigSource.DYNAMIC_TOPIC), *on_broker)
    source = places[0].source if places else ConfigSource.DEFAULT
    return SettingView(
        name, value, source, setting.config_type, places, explain_topic_setting(name)
    )


def format_base(setting: TopicSetting, base: LogConfig) -> str:
    """The value of topics without their own; Kafka's default where nothing applies it."""
    if not setting.field:
        return setting.default
    value = getattr(base, setting.field)
    return _TIMESTAMP_TYPES[value] if setting.choices is _TIMESTAMP_TYPES else _text_of(value)


def _text_of(value: Any) -> str:
    """A value as Java writes it. `ConfigDef.convertToString`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and 0 < value < _JAVA_PLAIN_FROM:
        from decimal import Decimal  # few values are written so

        digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
        return f"{digits}{'' if '.' in digits else '.0'}E{exponent}"
    return str(value)
