"""The settings of groups: what Kafka has, and what consumer groups (KIP-848) follow.

Four rules:

1. Those of `consumer.` are followed; those of share and streams groups, which are not served, are
   kept and described.
2. A value is refused that Kafka refuses: by its own range, by that of the broker, and a session
   that is no longer than an interval between heartbeats.
3. A value that is out of the broker's range since the broker has another one counts as its nearest.
4. What a group does not set comes from the broker.

Sources: `GroupConfig`, `GroupConfigManager`, `ConfigHelper.createGroupConfigEntry`; answers of
4.3.1, and of 4.0.2 to 4.2.1 for the releases that have a setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.broker.releases import is_in
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
from impl.broker.topic_settings import (
    invalid_config,
    invalid_value,
    parse_number,
)
from impl.coordinator.group_config import ConsumerGroupConfig


class GroupSetting(NamedTuple):
    """A group's setting, of the releases from `since` on.

    `least`: the smallest number. `field`: that of `ConsumerGroupConfig` which it overrides, and
    whose range is there, too. `bounds`: the broker's range of others, None for none. `choices`: the
    words that it takes. `has_synonym`: whether the broker has one for groups without their own.
    """

    default: str
    since: str
    least: int = 0
    field: str = ""
    bounds: tuple[int | None, int | None] = (None, None)
    config_type: ConfigType = ConfigType.INT
    choices: tuple[str, ...] = ()
    has_synonym: bool = True


_SESSION_MS: Final = (45_000, 60_000)
_HEARTBEAT_MS: Final = (5_000, 15_000)
_INTERVAL_MS: Final = (0, 15_000)
_RESETS: Final = ("earliest", "latest")
_LEVELS: Final = ("read_committed", "read_uncommitted")
_STRING: Final = ConfigType.STRING

GROUP_SETTINGS: Final[Mapping[str, GroupSetting]] = MappingProxyType(
    {
        "consumer.heartbeat.interval.ms": GroupSetting("5000", "4.0", 1, "heartbeat_interval_ms"),
        "consumer.session.timeout.ms": GroupSetting("45000", "4.0", 1, "session_timeout_ms"),
        "consumer.assignment.interval.ms": GroupSetting(
            "1000", "4.3", field="assignment_interval_ms"
        ),
        "share.heartbeat.interval.ms": GroupSetting("5000", "4.0", 1, bounds=_HEARTBEAT_MS),
        "share.session.timeout.ms": GroupSetting("45000", "4.0", 1, bounds=_SESSION_MS),
        "share.record.lock.duration.ms": GroupSetting(
            "30000", "4.0", 1_000, bounds=(15_000, 60_000)
        ),
        "share.delivery.count.limit": GroupSetting("5", "4.3", 2, bounds=(2, 10)),
        "share.partition.max.record.locks": GroupSetting("2000", "4.3", 100, bounds=(100, 4_000)),
        "share.assignment.interval.ms": GroupSetting("1000", "4.3", bounds=_INTERVAL_MS),
        "share.auto.offset.reset": GroupSetting(
            "latest", "4.0", config_type=_STRING, choices=_RESETS, has_synonym=False
        ),
        "share.isolation.level": GroupSetting(
            "read_uncommitted", "4.1", config_type=_STRING, choices=_LEVELS, has_synonym=False
        ),
        "share.renew.acknowledge.enable": GroupSetting(
            "true", "4.3", config_type=ConfigType.BOOLEAN, has_synonym=False
        ),
        "streams.heartbeat.interval.ms": GroupSetting("5000", "4.1", 1, bounds=_HEARTBEAT_MS),
        "streams.session.timeout.ms": GroupSetting("45000", "4.1", 1, bounds=_SESSION_MS),
        "streams.num.standby.replicas": GroupSetting("0", "4.1", bounds=(None, 2)),
        "streams.assignment.interval.ms": GroupSetting("1000", "4.3", bounds=_INTERVAL_MS),
        "streams.initial.rebalance.delay.ms": GroupSetting("3000", "4.2"),
    }
)
"""In the order in which ranges are checked."""

_FAMILIES: Final = ("consumer", "share", "streams")
_BY_DURATION: Final = re.compile(
    r"by_duration:(?i:\+?P(?=.)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?)"
)
"""`Duration.parse`, without what is negative."""


def check_group(configs: Mapping[str, str], base: ConsumerGroupConfig, release: str) -> None:
    """Raise `TopicRefused` (INVALID_CONFIG) for settings that a group may not have."""
    known = settings_of(release)
    for name in configs:
        if name not in known:
            raise invalid_config(f"Unknown group config name: {name}")
    values = {name: _parse(name, configs[name]) for name in known if name in configs}
    for name, value in values.items():
        _check_range(name, value, base)
    for family in _FAMILIES:
        _check_session(family, values, base)


def settings_of(release: str) -> dict[str, GroupSetting]:
    """Those that a release has."""
    return {name: each for name, each in GROUP_SETTINGS.items() if is_in(each.since, release)}


def _parse(name: str, text: str) -> str:
    """A value as it is described. Raises `TopicRefused`. `ConfigDef.parseType`."""
    setting, trimmed = GROUP_SETTINGS[name], text.strip()
    if setting.config_type is ConfigType.INT:
        number = parse_number(name, text, ConfigType.INT)
        if number < setting.least:
            raise invalid_value(name, str(number), f"Value must be at least {setting.least}")
        return str(number)
    if setting.config_type is ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return trimmed.lower()
    if trimmed not in setting.choices:
        _check_word(name, setting, trimmed)
    return trimmed


def _check_word(name: str, setting: GroupSetting, text: str) -> None:
    """Raise `TopicRefused`, unless it is a duration where that is a choice."""
    if setting.choices is not _RESETS:
        raise invalid_value(name, text, f"String must be one of: {', '.join(setting.choices)}")
    if not _BY_DURATION.fullmatch(text):
        problem = (
            f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest',"
            " 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise invalid_value(name, text, problem)


def _bounds(setting: GroupSetting, base: ConsumerGroupConfig) -> tuple[int | None, int | None]:
    """The broker's range."""
    if not setting.field:
        return setting.bounds
    return getattr(base, f"min_{setting.field}"), getattr(base, f"max_{setting.field}")


def _check_range(name: str, value: str, base: ConsumerGroupConfig) -> None:
    """Raise `TopicRefused`. `GroupConfig.validateValues`."""
    least, most = _bounds(GROUP_SETTINGS[name], base)
    bound = "group." + name.replace(".num.", ".").replace(".", ".{}.", 1)
    if least is not None and int(value) < least:
        raise invalid_config(f"{name} must be greater than or equal to {bound.format('min')}")
    if most is not None and int(value) > most:
        raise invalid_config(f"{name} must be less than or equal to {bound.format('max')}")


def _check_session(family: str, values: Mapping[str, str], base: ConsumerGroupConfig) -> None:
    """Raise `TopicRefused` for a session that no interval between heartbeats fits into."""
    session, heartbeat = f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms"
    session_ms, heartbeat_ms = (
        int(values.get(name) or _broker_value(GROUP_SETTINGS[name], base))
        for name in (session, heartbeat)
    )
    if session_ms <= heartbeat_ms:
        raise invalid_config(f"{session} must be greater than {heartbeat}")


def _broker_value(setting: GroupSetting, base: ConsumerGroupConfig) -> str:
    """The value of groups without their own."""
    return str(getattr(base, setting.field)) if setting.field else setting.default


# ---- what is described, and what is followed


BROKERS_NAMES: Final = tuple(f"group.{name}" for name in GROUP_SETTINGS)
"""The broker's settings of groups without their own, and names that no broker has."""


def describe_group(configs: Mapping[str, str], release: str, layers: Layers) -> list[SettingView]:
    """All settings of a group with these of its own, by name; `layers` are the broker's."""
    return [
        _describe(name, setting, configs.get(name), layers)
        for name, setting in sorted(settings_of(release).items())
    ]


def _describe(name: str, setting: GroupSetting, own: str | None, layers: Layers) -> SettingView:
    places: tuple[Synonym, ...] = (Synonym(name, setting.default, ConfigSource.DEFAULT),)
    if setting.has_synonym:
        places = find_places(f"group.{name}", layers)
    if own is not None:
        places = (Synonym(name, _parse(name, own), ConfigSource.GROUP), *places)
    first = places[0]
    value = format_value(setting.config_type, first.value or "")
    about = _explain(name, setting)
    return SettingView(name, value, first.source, setting.config_type, places, about)


def _explain(name: str, setting: GroupSetting) -> str:
    family, _, rest = name.partition(".")
    if setting.field:
        return f"{rest} of this group, instead of the broker's group.{name}."
    reason = f"{family} groups are not served"
    return explain_inert(setting.config_type, setting.default, reason)


def with_settings(configs: Mapping[str, str], base: ConsumerGroupConfig) -> ConsumerGroupConfig:
    """What a consumer group with these settings follows. `GroupConfig.evaluate`."""
    changes: dict[str, Any] = {}
    for name, text in configs.items():
        setting = GROUP_SETTINGS.get(name)
        if setting is not None and setting.field:
            least, most = _bounds(setting, base)
            changes[setting.field] = sorted((least or 0, int(text), most or 0))[1]
    return replace(base, **changes)
