"""The settings of a node as DescribeConfigs answers them.

Sources: `ConfigHelper.describeConfigs`, `KafkaConfig.nonInternalValues`; answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.cluster import BrokerEndPoint
from impl.broker.group_settings import BROKERS_NAMES
from impl.broker.kafka_settings import KAFKA_SETTINGS, UpdateMode
from impl.broker.node_settings import (
    AUTHORIZER_SETTINGS,
    TOPIC_DEFAULTS,
    explain_node_setting,
    static_texts,
)
from impl.broker.resource_configs import ALL_BROKERS, ConfigResourceType
from impl.broker.services import NodeServices
from impl.broker.setting_views import (
    ConfigSource,
    ConfigType,
    Layers,
    SettingView,
    Synonym,
    family_of,
    find_places,
    format_value,
)
from impl.security.access import BETWEEN_BROKERS
from impl.security.config import Security

_DEFAULTS: Final = MappingProxyType(
    {name: fact.default for name, fact in KAFKA_SETTINGS.items() if fact.default is not None}
)
_OF_TOPICS: Final = tuple({each: None for name in TOPIC_DEFAULTS for each in family_of(name)})
_BROKER: Final = ConfigResourceType.BROKER


def topic_layers(node: NodeServices) -> Layers:
    """Where topics without their own settings have them from."""
    return _layers(node, static_texts(node.started_with, _OF_TOPICS))


def group_layers(node: NodeServices) -> Layers:
    """Where groups without their own settings have them from."""
    names = [name for name in BROKERS_NAMES if name in KAFKA_SETTINGS]
    return _layers(node, static_texts(node.started_with, names))


def _layers(node: NodeServices, static: Mapping[str, str]) -> Layers:
    resources = node.cluster.resources
    return (
        (ConfigSource.DYNAMIC_BROKER, resources.get(_BROKER, str(node.config.node_id))),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, resources.get(_BROKER, ALL_BROKERS)),
        (ConfigSource.STATIC_BROKER, static),
        (ConfigSource.DEFAULT, _DEFAULTS),
    )


def describe_node(node: NodeServices) -> list[SettingView]:
    """All settings of a node."""
    static = static_texts(node.started_with, (*KAFKA_SETTINGS, *AUTHORIZER_SETTINGS))
    layers = _layers(node, static | _own_texts(node))
    return [
        _describe(name, layers, is_one_broker=True)
        for name in (*KAFKA_SETTINGS, *(each for each in AUTHORIZER_SETTINGS if each in static))
    ]


def describe_all_brokers(node: NodeServices) -> list[SettingView]:
    """The settings that all brokers were given while they ran."""
    changes = node.cluster.resources.get(_BROKER, ALL_BROKERS)
    layers = ((ConfigSource.DYNAMIC_DEFAULT_BROKER, changes),)
    return [_describe(name, layers, is_one_broker=False) for name in changes]


def _describe(name: str, layers: Layers, *, is_one_broker: bool) -> SettingView:
    fact = KAFKA_SETTINGS.get(name)
    places = find_places(name, layers)
    if fact is None:
        return _describe_unlisted(name, places)
    value = places[0].value if places else None
    if value is not None and is_one_broker:
        value = format_value(fact.config_type, value)
    if fact.is_sensitive:
        value, places = None, tuple(place._replace(value=None) for place in places)
    source = places[0].source if places else ConfigSource.DEFAULT
    is_read_only = fact.mode is UpdateMode.STATIC
    about = explain_node_setting(name)
    return SettingView(name, value, source, fact.config_type, places, about, is_read_only)


def _describe_unlisted(name: str, places: tuple[Synonym, ...]) -> SettingView:
    """One that Kafka's brokers take for a class of others, and tell nobody."""
    hidden = tuple(place._replace(value=None) for place in places)
    is_applied = name in AUTHORIZER_SETTINGS
    about = (
        "Applied by the authorizer." if is_applied else "Unknown to this broker, without effect."
    )
    return SettingView(name, None, places[0].source, ConfigType.UNKNOWN, hidden, about, True)


# ---- what the broker itself knows


def _own_texts(node: NodeServices) -> dict[str, str]:
    """The settings that are not given by name, as they are."""
    me, security = node.started_with, node.started_with.security
    address = node.cluster.brokers.get(me.node_id)
    texts = {"log.dirs": node.cluster.log_dir, "process.roles": "broker,controller"}
    if address is not None:
        names = security.listeners
        texts["listeners"] = _format_listeners(names, address, address.host)
        texts["advertised.listeners"] = _format_listeners(
            names, address, address.advertised_host or address.host
        )
    return texts | _security_texts(security)


def _format_listeners(names: Iterable[str], address: BrokerEndPoint, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    ports = ((name, address.ports.get(name, address.port)) for name in names)
    return ",".join(f"{name}://{shown}:{port}" for name, port in ports)


def _security_texts(security: Security) -> dict[str, str]:
    texts = {
        "inter.broker.listener.name": security.listeners[0] if security.is_open else BETWEEN_BROKERS
    }
    if any(protocol.has_sasl for protocol in security.protocols):
        texts["sasl.enabled.mechanisms"] = ",".join(security.sasl_mechanisms)
    if security.connections_max_reauth_ms:
        texts["connections.max.reauth.ms"] = str(security.connections_max_reauth_ms)
    if security.ssl_client_auth != "none":
        texts["ssl.client.auth"] = security.ssl_client_auth
    if not security.is_open:
        texts["security.inter.broker.protocol"] = "SASL_PLAINTEXT"
        texts["listener.security.protocol.map"] = ",".join(
            (
                *(f"{name}:{name}" for name in security.listeners),
                f"{BETWEEN_BROKERS}:SASL_PLAINTEXT",
            )
        )
    if security.acls is not None:
        texts["authorizer.class.name"] = "impl.security.acls.Authorizer"
    return texts
