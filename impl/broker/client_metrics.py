"""The settings of client metrics (KIP-714): kept and described; clients are never asked for any.

Source: `ClientMetricsConfigs`; answers of 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.broker.setting_views import (
    ConfigSource,
    ConfigType,
    SettingView,
    Synonym,
    explain_inert,
)
from impl.broker.topic_refused import TopicRefused
from impl.broker.topic_settings import parse_number
from impl.protocol.errors import ErrorCode

_LEAST_MS: Final = 100
_MOST_MS: Final = 3_600_000
_MATCHED: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What of a client can be matched."""


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raise `TopicRefused` for settings that client metrics may not have."""
    for name in configs:
        if name not in _SETTINGS:
            problem = f"Unknown client metrics configuration: {name}"
            raise TopicRefused(ErrorCode.INVALID_REQUEST, problem)
    for name, text in configs.items():
        _SETTINGS[name].check(text)


def describe_client_metrics(configs: Mapping[str, str]) -> list[SettingView]:
    """All settings of client metrics with these of their own, by name."""
    return [_describe(name, setting, configs.get(name)) for name, setting in _SETTINGS.items()]


def _describe(name: str, setting: _MetricsSetting, own: str | None) -> SettingView:
    kind = setting.config_type
    about = explain_inert(kind, setting.default, "clients are never asked for metrics")
    if own is None:
        return SettingView(name, setting.default, ConfigSource.DEFAULT, kind, (), about)
    value = own.strip()
    if kind is ConfigType.LIST:
        value = ",".join(_items(own))
    place = Synonym(name, value, ConfigSource.CLIENT_METRICS)
    return SettingView(name, value, place.source, kind, (place,), about)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _check_interval(text: str) -> None:
    interval_ms = parse_number("interval.ms", text, ConfigType.INT)
    if not _LEAST_MS <= interval_ms <= _MOST_MS:
        problem = (
            f"Invalid value {interval_ms} for interval.ms, interval must be between {_LEAST_MS} and"
            f" {_MOST_MS} (1 hour)"
        )
        raise TopicRefused(ErrorCode.INVALID_REQUEST, problem)


def _check_match(text: str) -> None:
    for item in _items(text):
        name, _, pattern = item.partition("=")
        if name.strip() not in _MATCHED or not _is_pattern(pattern):
            problem = f"Illegal client matching pattern: {item}"
            raise TopicRefused(ErrorCode.INVALID_CONFIG, problem)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return bool(text) and "=" not in text


def _check_nothing(text: str) -> None:
    """Any names of metrics are good."""


class _MetricsSetting(NamedTuple):
    """A setting; `check` raises `TopicRefused`."""

    default: str
    config_type: ConfigType
    check: Callable[[str], None]


_SETTINGS: Final[Mapping[str, _MetricsSetting]] = MappingProxyType(
    {
        "interval.ms": _MetricsSetting("300000", ConfigType.INT, _check_interval),
        "match": _MetricsSetting("", ConfigType.LIST, _check_match),
        "metrics": _MetricsSetting("", ConfigType.LIST, _check_nothing),
    }
)
