"""A node's settings under Kafka's names: taken from text, and told as text.

Four rules:

1. Every setting of Kafka's brokers is accepted but for those of `ELSEWHERE`; a value that is none
   of its type, or out of range, is refused.
2. What a setting does here, or that it does nothing, is in `node_effects` and in its documentation.
3. A setting in larger units counts only where none in smaller units is given.
4. Those of an authorizer bring one with them.

Sources: `AbstractKafkaConfig`, `ConfigDef.parseType`, `StandardAuthorizer.configure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from impl.broker.config import NodeConfig
from impl.broker.kafka_settings import KAFKA_SETTINGS
from impl.broker.node_effects import ELSEWHERE, NODE_SETTINGS, find_reason
from impl.broker.setting_views import ConfigType, explain_inert, family_of, format_value
from impl.broker.topic_refused import TopicRefused
from impl.broker.topic_settings import (
    TOPIC_SETTINGS,
    TopicSetting,
    check_codec,
    explain_topic_setting,
    field_value,
    format_base,
    invalid_config,
    parse_boolean,
    parse_decimal,
    parse_number,
    parse_value,
)
from impl.partition.log_config import LogConfig
from impl.settings import LONG_MAX
from impl.suggestions import FEW, explain_unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

TOPIC_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {setting.broker_name: name for name, setting in TOPIC_SETTINGS.items() if setting.broker_name}
)
"""The topic's setting of which a broker's is the default, by the broker's name."""
TOPIC_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {topics_name: broker_name for broker_name, topics_name in TOPIC_DEFAULTS.items()}
)

_RETENTION: Final = "log.retention.ms"
_LEAST_MS: Final[Mapping[str, int]] = MappingProxyType({"log.roll.ms": 1, "log.roll.jitter.ms": 0})
_RULES: Final[Mapping[str, TopicSetting]] = MappingProxyType(
    {
        **{
            setting.broker_name: setting
            for setting in TOPIC_SETTINGS.values()
            if setting.broker_name
        },
        "group.consumer.assignment.interval.ms": TopicSetting(ConfigType.INT, "1000"),
        "log.cleaner.backoff.ms": TopicSetting(ConfigType.LONG, "15000"),
        "log.flush.interval.ms": TOPIC_SETTINGS["flush.ms"]._replace(least=-LONG_MAX - 1),
        "max.connections": TopicSetting(ConfigType.INT, ""),
        "max.connections.per.ip": TopicSetting(ConfigType.INT, ""),
        "log.segment.bytes": TOPIC_SETTINGS["segment.bytes"]._replace(least=1 << 20),
        "producer.id.expiration.ms": TopicSetting(ConfigType.INT, "86400000", least=1),
    }
)
"""The ranges of those that can be changed, where they are not in `NodeConfig` alone."""

_LOG: Final = "log."
_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_SUPER_USERS: Final = "super.users"
AUTHORIZER_SETTINGS: Final = (_EVERYONE, _SUPER_USERS)
"""Those of a class of Kafka, which its brokers describe without values, and only where given."""

_INTEGERS: Final = (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT)


class UnknownSetting(ValueError):
    """A name or value that is none of a node's."""


DYNAMIC: Final = frozenset(
    {
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "max.connections",
        "max.connections.per.ip",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
    }
)
"""The settings that are no topic's and take effect when they are changed."""


def can_change(name: str) -> bool:
    """Whether a change of a setting takes effect while brokers run."""
    return name in TOPIC_DEFAULTS or name in DYNAMIC


def path_of(name: str) -> str:
    """Where `NodeConfig` has a setting; "" for one without effect."""
    setting = NODE_SETTINGS.get(name)
    if setting is not None:
        return setting.path
    topics_name = TOPIC_DEFAULTS.get(name)
    field = TOPIC_SETTINGS[topics_name].field if topics_name else ""
    return f"{_LOG}{field}" if field else ""


def has_effect(name: str) -> bool:
    """Whether a setting of Kafka's brokers does anything here."""
    return bool(path_of(name)) or name in AUTHORIZER_SETTINGS or name in ELSEWHERE


def explain_node_setting(name: str) -> str:
    """The documentation of a setting, one sentence."""
    if name in NODE_SETTINGS:
        return NODE_SETTINGS[name].about
    if name in ELSEWHERE:
        return f"Described as it is; given by {ELSEWHERE[name]}."
    topics_name = TOPIC_DEFAULTS.get(name)
    if topics_name and path_of(name):
        return f"{topics_name} of topics without their own: {_lowered(topics_name)}"
    fact = KAFKA_SETTINGS[name]
    return explain_inert(fact.config_type, fact.default, find_reason(name))


def _lowered(topics_name: str) -> str:
    text = explain_topic_setting(topics_name)
    return text[0].lower() + text[1:]


# ---- from text


def configure(config: NodeConfig, name: str, text: str) -> NodeConfig:
    """The settings with another value of one, by Kafka's name.

    Raises `UnknownSetting`, `InvalidSetting`.
    """
    if name in AUTHORIZER_SETTINGS:
        return _remember(_configure_authorizer(config, name, text), name, text)
    if name not in KAFKA_SETTINGS:
        raise UnknownSetting(_explain_unknown(name))
    if name in ELSEWHERE:
        raise UnknownSetting(f"{name} is not given by name: it is that of {ELSEWHERE[name]}")
    try:
        value = parse_setting(name, text)
    except TopicRefused as error:
        raise UnknownSetting(_explain_value(name, text) or str(error)) from None
    return _remember(_apply(config, name, value, config.named), name, text)


def _remember(config: NodeConfig, name: str, text: str) -> NodeConfig:
    return replace(config, named={**config.named, name: text})


def _explain_unknown(name: str) -> str:
    names = (*KAFKA_SETTINGS, *AUTHORIZER_SETTINGS)
    having = [each for each in names if name in each]
    where = "docs/reference/settings.md lists all"
    if 0 < len(having) <= FEW:
        where = f"there are {', '.join(having)}"
    return explain_unknown("setting", name, names, where=where, aliases=TOPIC_NAMES)


def _explain_value(name: str, text: str) -> str:
    """What a text of the wrong type must be; "" for another problem."""
    kind = KAFKA_SETTINGS[name].config_type
    if kind is ConfigType.BOOLEAN:
        return f"{name} must be true or false, is {text!r}"
    if kind in _INTEGERS and not text.strip().lstrip("+-").isdecimal():
        return f"{name} must be an integer, is {text!r}"
    return ""


def _configure_authorizer(config: NodeConfig, name: str, text: str) -> NodeConfig:
    """Raises `UnknownSetting`, `InvalidSetting`."""
    security = config.security
    changes: dict[str, Any] = {"acls": security.acls or ()}
    if name == _SUPER_USERS:
        users = tuple(each.strip() for each in text.split(";") if each.strip())
        changes |= {"super_users": users}
    elif text not in ("true", "false"):
        raise UnknownSetting(f"{name} must be true or false, is {text!r}")
    elif text == "false" and security.acls is None:
        return config
    else:
        changes |= {"allow_everyone_if_no_acl_found": text == "true"}
    return replace(config, security=replace(security, **changes))


def parse_setting(name: str, text: str) -> Any:
    """The value of a text. Raises `TopicRefused` (INVALID_CONFIG).

    QUIRK: a retention below 0 is unlimited, and none at all is refused.
    """
    kind = KAFKA_SETTINGS[name].config_type
    if name == _RETENTION:
        return _parse_retention(text)
    if name in _LEAST_MS:
        return _parse_roll(name, text, _LEAST_MS[name])
    if name in _RULES:
        value = parse_value(name, _RULES[name], text)
        if name == "compression.type":
            check_codec(value)
        return value
    if kind is ConfigType.BOOLEAN:
        return parse_boolean(name, text)
    if kind is ConfigType.DOUBLE:
        return parse_decimal(name, text)
    if kind in _INTEGERS:
        return parse_number(name, text, kind)
    return text.strip().lower() if path_of(name) else text


def _parse_retention(text: str) -> int:
    number = parse_number(_RETENTION, text, ConfigType.LONG)
    if number == 0:
        may_be = "must be unlimited (-1) or, greater than or equal to 1"
        raise invalid_config(f"requirement failed: {_RETENTION} {may_be}")
    return max(number, -1)


def _parse_roll(name: str, text: str, least_ms: int) -> int:
    number = parse_number(name, text, ConfigType.LONG)
    if number < least_ms:
        may_be = f"must be greater than or equal to {least_ms}"
        raise invalid_config(f"requirement failed: {name} {may_be}")
    return number


def _apply(config: T, name: str, value: Any, named: Iterable[str], within: str = "") -> T:
    """Settings with a value where it belongs, if that is `within` them."""
    path = path_of(name)
    finer = family_of(name)[: family_of(name).index(name)]
    if not path.startswith(within) or not path or any(each in named for each in finer):
        return config
    if name in TOPIC_DEFAULTS:
        value = field_value(TOPIC_SETTINGS[TOPIC_DEFAULTS[name]], value)
    unit = NODE_SETTINGS[name].unit if name in NODE_SETTINGS else 1
    return _replace(config, path.removeprefix(within), value * unit if unit > 1 else value)


def _replace(settings: T, path: str, value: Any) -> T:
    """A dataclass with another value at the end of a path of fields."""
    name, _, rest = path.partition(".")
    return replace(
        settings, **{name: _replace(getattr(settings, name), rest, value) if rest else value}
    )


def apply_changes(config: NodeConfig, changes: Mapping[str, str]) -> NodeConfig:
    """The settings of a node with changes of it that take effect while it runs."""
    for name, value in _parse_changes(changes):
        config = _apply(config, name, value, ())
    return config


def apply_log_changes(config: LogConfig, changes: Mapping[str, str]) -> LogConfig:
    """The settings of topics without their own, with changes of a broker."""
    for name, value in _parse_changes(changes):
        config = _apply(config, name, value, (), _LOG)
    return config


def _parse_changes(changes: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """What can be applied: a directory of another broker may have more."""
    for name, text in changes.items():
        if can_change(name):
            with suppress(TopicRefused):
                yield name, parse_setting(name, text)


# ---- to text


def static_texts(config: NodeConfig, names: Iterable[str]) -> dict[str, str]:
    """What a node was started with, by Kafka's names: all that is not Kafka's default."""
    texts = {name: _static_text(config, name) for name in names}
    return {name: text for name, text in texts.items() if text is not None}


def _static_text(config: NodeConfig, name: str) -> str | None:
    given = config.named.get(name)
    coarser = family_of(name)[family_of(name).index(name) + 1 :]
    is_coarse = name in NODE_SETTINGS and NODE_SETTINGS[name].unit > 1
    if is_coarse or not path_of(name):
        return given
    if given is None and any(each in config.named for each in coarser):
        return None
    text = format_setting(config, name)
    if given is not None and format_value(KAFKA_SETTINGS[name].config_type, given) == text:
        return given
    return None if text == _kafkas_default(name) else text


def format_setting(config: NodeConfig, name: str) -> str:
    """The value of a setting with effect."""
    if name in TOPIC_DEFAULTS:
        return format_base(TOPIC_SETTINGS[TOPIC_DEFAULTS[name]], config.log)
    value = attrgetter(path_of(name))(config)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kafkas_default(name: str) -> str | None:
    """Also of settings whose default is counted in another unit."""
    if KAFKA_SETTINGS[name].default is None and name in TOPIC_DEFAULTS:
        return TOPIC_SETTINGS[TOPIC_DEFAULTS[name]].default
    return KAFKA_SETTINGS[name].default
