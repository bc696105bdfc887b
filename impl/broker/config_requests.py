"""Handlers of settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and
ListConfigResources.

Three rules:

1. Settings of topics can be changed; their leaders apply them at once.
2. Settings of a node cannot: an attempt is refused, as Kafka refuses those that are read-only.
3. Client metrics, groups of KIP-848 and loggers have no settings here.

Sources: `ConfigHelper.describeConfigs`, `ConfigAdminManager`,
`ConfigurationControlManager.incrementalAlterConfigs`; answers of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from impl.broker.handler import Handler, HandlerContext
from impl.broker.node_settings import describe_node
from impl.broker.outputs import DecodedRequest
from impl.broker.topic_settings import (
    TOPIC_SETTINGS,
    ConfigSource,
    ConfigType,
    SettingView,
    TopicRefused,
    describe_settings,
    named_values,
)
from impl.broker.topics import Topic, is_legal_name
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey


class ConfigResourceType(IntEnum):
    """What has settings. `ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_TYPES: Final = frozenset(ConfigResourceType)
_E: Final = ErrorCode


# ---- DescribeConfigs


def describe_configs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Each resource by itself; no names of settings, or null, asks for all.

    An unknown type is refused with all resources. `KafkaApis.handleDescribeConfigsRequest`.
    """
    resources = request.body["resources"]
    unknown = [row["resource_type"] for row in resources if row["resource_type"] not in _TYPES]
    if unknown:
        problem = f"Unexpected resource type {unknown[0]}"
        refused = {"error_code": _E.INVALID_REQUEST, "error_message": problem, "configs": []}
        return {"results": [_resource(row) | refused for row in resources]}
    return {"results": [_describe_resource(node, request.body, row) for row in resources]}


def _resource(asked: Value) -> Value:
    return {"resource_type": asked["resource_type"], "resource_name": asked["resource_name"]}


def _describe_resource(node: HandlerContext, body: Value, asked: Value) -> Value:
    row = _resource(asked) | {"error_code": _E.NONE, "error_message": "", "configs": []}
    try:
        found = _settings_of(node, asked["resource_type"], asked["resource_name"])
    except TopicRefused as refusal:
        return row | {"error_code": refusal.error, "error_message": str(refusal)}
    wanted = asked["configuration_keys"]
    is_node = asked["resource_type"] == ConfigResourceType.BROKER
    return row | {
        "configs": [
            _config_row(setting, is_node, body["include_synonyms"])
            for setting in found
            if not wanted or setting.name in wanted
        ]
    }


def _settings_of(node: HandlerContext, kind: int, name: str) -> list[SettingView]:
    """Raises `TopicRefused`."""
    if kind == ConfigResourceType.TOPIC:
        return describe_settings(_find_topic(node, name, "").configs, node.topics.config)
    if kind == ConfigResourceType.BROKER and name:
        _check_node_id(node, name, "Broker id", "expected {} or empty string")
        return describe_node(node.config)
    if kind == ConfigResourceType.BROKER_LOGGER:
        if not name:
            raise TopicRefused(_E.INVALID_REQUEST, "Broker id must not be empty")
        _check_node_id(node, name, "Broker id", "expected {}")
    if kind == ConfigResourceType.GROUP and not name:
        raise TopicRefused(_E.INVALID_REQUEST, "Group name must not be empty")
    return []


def _find_topic(node: HandlerContext, name: str, missing: str) -> Topic:
    """Raises `TopicRefused`, for an unknown topic with this text."""
    if not is_legal_name(name):
        problem = f"{name!r} is no topic name" if name else "the empty string is not allowed"
        raise TopicRefused(_E.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    topic = node.topics.get(name)
    if topic is None:
        raise TopicRefused(_E.UNKNOWN_TOPIC_OR_PARTITION, missing)
    return topic


def _check_node_id(node: HandlerContext, name: str, what: str, expected: str) -> None:
    """Raises `TopicRefused` if this is not the node's id."""
    try:
        node_id = int(name)
    except ValueError:
        problem = f"{what} must be an integer, but it is: {name}"
        raise TopicRefused(_E.INVALID_REQUEST, problem) from None
    me = node.config.node_id
    if node_id != me:
        problem = f"Unexpected broker id, {expected.format(me)}, but received {name}"
        raise TopicRefused(_E.INVALID_REQUEST, problem)


def _config_row(setting: SettingView, read_only: bool, with_synonyms: bool) -> Value:
    return {
        "name": setting.name,
        "value": setting.value,
        "read_only": read_only,
        "is_default": setting.source is ConfigSource.DEFAULT,
        "config_source": setting.source,
        "is_sensitive": False,
        "synonyms": [row._asdict() for row in setting.synonyms] if with_synonyms else [],
        "config_type": setting.config_type,
    }


# ---- AlterConfigs, IncrementalAlterConfigs

_Alter = Callable[[Topic, Sequence[Value]], dict[str, str]]
"""A topic's settings after a request's rows. Raises `TopicRefused`."""


def alter_configs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The settings of the request replace all that a topic had of its own."""
    return _alter_resources(node, request.body, lambda _, rows: named_values(rows))


def incremental_alter_configs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Change single settings (KIP-339)."""
    return _alter_resources(node, request.body, _apply_operations)


def _alter_resources(node: HandlerContext, body: Value, alter: _Alter) -> Value:
    names = Counter((row["resource_type"], row["resource_name"]) for row in body["resources"])
    rows = []
    for asked in body["resources"]:
        key = asked["resource_type"], asked["resource_name"]
        row = {"resource_type": key[0], "resource_name": key[1], "error_code": _E.NONE}
        try:
            if names[key] > 1:
                problem = "Each resource must appear at most once."
                raise TopicRefused(_E.INVALID_REQUEST, problem)
            _alter_resource(node, asked, alter, body["validate_only"])
        except TopicRefused as refusal:
            row |= {"error_code": refusal.error, "error_message": str(refusal) or None}
        rows.append(row)
    return {"responses": rows}


def _alter_resource(node: HandlerContext, asked: Value, alter: _Alter, validate_only: bool) -> None:
    """Raises `TopicRefused`."""
    kind, name, rows = asked["resource_type"], asked["resource_name"], asked["configs"]
    if any(count > 1 for count in Counter(row["name"] for row in rows).values()):
        raise TopicRefused(_E.INVALID_REQUEST, "Error due to duplicate config keys")
    if kind not in _TYPES:
        raise TopicRefused(_E.INVALID_REQUEST, f"Unknown resource type {kind}")
    if kind != ConfigResourceType.TOPIC:
        if name and kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
            _check_node_id(node, name, "Node id", "expected {}")
        refused = ", ".join(row["name"] for row in rows)
        problem = f"Cannot update these configs dynamically: [{refused}]"
        raise TopicRefused(_E.INVALID_REQUEST, problem)
    if not name:
        raise TopicRefused(_E.INVALID_REQUEST, "Default topic resources are not allowed.")
    named_values([row for row in rows if row.get("config_operation") != _Operation.DELETE])
    topic = _find_topic(node, name, f"The topic '{name}' does not exist.")
    node.topics.configure(topic, alter(topic, rows), validate_only=validate_only)


class _Operation(IntEnum):
    """`AlterConfigOp.OpType`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def _apply_operations(topic: Topic, rows: Sequence[Value]) -> dict[str, str]:
    """Raises `TopicRefused`."""
    configs = dict(topic.configs)
    for row in rows:
        name, value, operation = row["name"], row["value"], row["config_operation"]
        if operation == _Operation.SET:
            configs[name] = value
        elif operation == _Operation.DELETE:
            configs.pop(name, None)
        elif operation in (_Operation.APPEND, _Operation.SUBTRACT):
            configs[name] = _change_list(name, configs, value, _Operation(operation))
        else:
            raise TopicRefused(_E.UNKNOWN_SERVER_ERROR, "")
    return configs


def _change_list(name: str, configs: Mapping[str, str], value: str, operation: _Operation) -> str:
    """Raises `TopicRefused` where the setting is no list."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None or setting.config_type is not ConfigType.LIST:
        problem = f"Can't {operation.name} to key {name} because its type is not LIST."
        raise TopicRefused(_E.INVALID_CONFIG, problem)
    items = _split(configs.get(name, setting.default))
    changes = _split(value)
    if operation is _Operation.APPEND:
        items += [item for item in changes if item not in items]
    else:
        items = [item for item in items if item not in changes]
    return ",".join(items)


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


# ---- ListConfigResources


def list_config_resources(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """All that have settings, or those of some types (KIP-1142); in version 0 client metrics."""
    wanted = set(request.body["resource_types"])
    if request.version == 0:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    if wanted - _TYPES:
        return {"error_code": _E.UNSUPPORTED_VERSION, "config_resources": []}
    rows = [
        {"resource_name": name, "resource_type": kind}
        for kind, name in _resources(node)
        if not wanted or kind in wanted
    ]
    return {"error_code": _E.NONE, "config_resources": rows}


def _resources(node: HandlerContext) -> Iterable[tuple[ConfigResourceType, str]]:
    for kind in (ConfigResourceType.BROKER_LOGGER, ConfigResourceType.BROKER):
        for node_id in node.cluster.brokers:
            yield kind, str(node_id)
    for topic in node.topics:
        yield ConfigResourceType.TOPIC, topic.name


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.DESCRIBE_CONFIGS: describe_configs,
        ApiKey.ALTER_CONFIGS: alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
        ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    }
)
