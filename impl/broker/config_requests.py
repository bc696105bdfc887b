"""Handlers of settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and
ListConfigResources.

Four rules:

1. Settings of topics can be changed; their leaders apply them at once.
2. Those of groups and of client metrics can be changed, too, in the releases that have them. The
   group need not exist.
3. Of the settings of a node, and of all nodes, some can be changed: `dynamic_settings`.
4. Loggers have no settings here.

Sources: `ConfigHelper.describeConfigs`, `ConfigAdminManager`,
`ConfigurationControlManager.incrementalAlterConfigs`; answers of 4.3.1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.broker.client_metrics import check_client_metrics, describe_client_metrics
from impl.broker.config import NodeConfig
from impl.broker.dynamic_settings import check_changes, check_in_sync, check_values
from impl.broker.group_settings import check_group, describe_group
from impl.broker.handler import Handler, HandlerContext
from impl.broker.kafka_settings import KAFKA_SETTINGS
from impl.broker.node_views import (
    describe_all_brokers,
    describe_node,
    group_layers,
    topic_layers,
)
from impl.broker.outputs import DecodedRequest
from impl.broker.releases import is_in
from impl.broker.resource_configs import ALL_BROKERS, ConfigResourceType
from impl.broker.setting_views import ConfigSource, ConfigType, SettingView
from impl.broker.topic_refused import TopicRefused
from impl.broker.topic_settings import (
    TOPIC_SETTINGS,
    describe_settings,
    named_values,
)
from impl.broker.topics import Topic, is_legal_name
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

_E: Final = ErrorCode
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)

_SINCE: Final = MappingProxyType(
    {
        ConfigResourceType.TOPIC: "2.8",
        ConfigResourceType.BROKER: "2.8",
        ConfigResourceType.BROKER_LOGGER: "2.8",
        ConfigResourceType.CLIENT_METRICS: "3.9",
        ConfigResourceType.GROUP: "4.0",
    }
)
"""The oldest release served here that has them."""


def _types(node: HandlerContext) -> set[int]:
    """Those that the node's release has."""
    return {int(kind) for kind, since in _SINCE.items() if is_in(since, node.config.release)}


class _KeptSettings(NamedTuple):
    """The settings of a type of resource that are kept in the cluster's `resources`.

    `check` raises `TopicRefused`. `undescribed` and `unaltered` refuse a resource without a name.
    """

    check: Callable[[Mapping[str, str], NodeConfig], None]
    describe: Callable[[Mapping[str, str], HandlerContext], list[SettingView]]
    undescribed: str
    unaltered: str


_KEPT: Final[Mapping[int, _KeptSettings]] = MappingProxyType(
    {
        ConfigResourceType.CLIENT_METRICS: _KeptSettings(
            lambda configs, _: check_client_metrics(configs),
            lambda configs, _: describe_client_metrics(configs),
            "Client metrics subscription name must not be empty",
            "Subscription name can't be empty",
        ),
        ConfigResourceType.GROUP: _KeptSettings(
            lambda configs, me: check_group(configs, me.consumer_groups, me.release),
            lambda configs, node: describe_group(configs, node.config.release, group_layers(node)),
            "Group name must not be empty",
            "Default group resources are not allowed.",
        ),
    }
)


# ---- DescribeConfigs


def describe_configs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Each resource by itself; no names of settings, or null, asks for all.

    An unknown type is refused with all resources. `KafkaApis.handleDescribeConfigsRequest`.
    """
    resources = request.body["resources"]
    known = _types(node)
    unknown = [row["resource_type"] for row in resources if row["resource_type"] not in known]
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
    return row | {
        "configs": [
            _config_row(setting, body) for setting in found if not wanted or setting.name in wanted
        ]
    }


def _settings_of(node: HandlerContext, kind: int, name: str) -> list[SettingView]:
    """Raises `TopicRefused`."""
    if kind == ConfigResourceType.TOPIC:
        configs = _find_topic(node, name, "").configs
        base = node.topics.config_at(node.config.node_id)
        return describe_settings(configs, base, topic_layers(node))
    if kind == ConfigResourceType.BROKER:
        if name == ALL_BROKERS:
            return describe_all_brokers(node)
        _check_node_id(node, name, "Broker id", "expected {} or empty string")
        return describe_node(node)
    if kind == ConfigResourceType.BROKER_LOGGER:
        if not name:
            raise TopicRefused(_E.INVALID_REQUEST, "Broker id must not be empty")
        _check_node_id(node, name, "Broker id", "expected {}")
    kept = _KEPT.get(kind)
    if kept is None:
        return []
    if not name:
        raise TopicRefused(_E.INVALID_REQUEST, kept.undescribed)
    return kept.describe(node.cluster.resources.get(kind, name), node)


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
    me = node.config.node_id
    if not _INTEGER.fullmatch(name):
        problem = f"{what} must be an integer, but it is: {name}"
        raise TopicRefused(_E.INVALID_REQUEST, problem)
    if int(name) != me:
        problem = f"Unexpected broker id, {expected.format(me)}, but received {name}"
        raise TopicRefused(_E.INVALID_REQUEST, problem)


def _config_row(setting: SettingView, body: Value) -> Value:
    return {
        "name": setting.name,
        "value": setting.value,
        "read_only": setting.is_read_only,
        "is_default": setting.source is ConfigSource.DEFAULT,
        "config_source": setting.source,
        "is_sensitive": setting.is_sensitive,
        "synonyms": [row._asdict() for row in setting.synonyms] if body["include_synonyms"] else [],
        "config_type": setting.config_type,
        "documentation": setting.documentation if body["include_documentation"] else None,
    }


# ---- AlterConfigs, IncrementalAlterConfigs

_Alter = Callable[[Mapping[str, str], Sequence[Value], int], dict[str, str]]
"""The settings of a resource of a type after a request's rows. Raises `TopicRefused`."""


def alter_configs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The settings of the request replace all that a resource had of its own."""
    return _alter_resources(node, request.body, lambda _configs, rows, _kind: named_values(rows))


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
    if kind not in _types(node):
        raise TopicRefused(_E.INVALID_REQUEST, f"Unknown resource type {kind}")
    if kind == ConfigResourceType.BROKER:
        _alter_brokers(node, asked, alter, validate_only)
        return
    kept = _KEPT.get(kind)
    if kind != ConfigResourceType.TOPIC and kept is None:
        if name:
            _check_node_id(node, name, "Node id", "expected {}")
        refused = ", ".join(row["name"] for row in rows)
        problem = f"Cannot update these configs dynamically: [{refused}]"
        raise TopicRefused(_E.INVALID_REQUEST, problem)
    if not name:
        unaltered = kept.unaltered if kept else "Default topic resources are not allowed."
        raise TopicRefused(_E.INVALID_REQUEST, unaltered)
    named_values([row for row in rows if row.get("config_operation") != _Operation.DELETE])
    if kept is None:
        topic = _find_topic(node, name, f"The topic '{name}' does not exist.")
        configs = alter(topic.configs, rows, kind)
        node.topics.configure(topic, configs, validate_only=validate_only)
        return
    resources = node.cluster.resources
    configs = alter(resources.get(kind, name), rows, kind)
    kept.check(configs, node.config)
    if not validate_only:
        resources.replace(kind, name, configs)


def _alter_brokers(node: HandlerContext, asked: Value, alter: _Alter, validate_only: bool) -> None:
    """Change settings of this broker, or of all. Raises `TopicRefused`."""
    name, rows = asked["resource_name"], asked["configs"]
    if name != ALL_BROKERS:
        _check_node_id(node, name, "Node id", "expected {}")
        name = str(int(name))
    is_of_all = name == ALL_BROKERS
    kind = ConfigResourceType.BROKER
    kept = [row for row in rows if row.get("config_operation") != _Operation.DELETE]
    named_values(kept)
    before = node.cluster.resources.get(kind, name)
    after = alter(before, rows, kind)
    changed = [row["name"] for row in kept]
    check_changes(changed, of_all=is_of_all)
    check_values({each: after[each] for each in changed}, node.config)
    touched = [row["name"] for row in rows]
    check_in_sync(before, after, touched, node.config.release, of_all=is_of_all)
    if not validate_only:
        node.cluster.configure_brokers(name, after)


class _Operation(IntEnum):
    """`AlterConfigOp.OpType`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def _apply_operations(
    before: Mapping[str, str], rows: Sequence[Value], kind: int
) -> dict[str, str]:
    """Only topics and brokers have lists of which items are added or removed.

    Raises `TopicRefused`.
    """
    configs = dict(before)
    for row in rows:
        name, value, operation = row["name"], row["value"], row["config_operation"]
        if operation == _Operation.SET:
            configs[name] = value
        elif operation == _Operation.DELETE:
            configs.pop(name, None)
        elif operation in (_Operation.APPEND, _Operation.SUBTRACT):
            default = _default_list(name, kind, _Operation(operation))
            configs[name] = _change_list(configs.get(name, default), value, _Operation(operation))
        elif kind == ConfigResourceType.BROKER:
            raise TopicRefused(_E.INVALID_REQUEST, f"Unknown operations type {operation}")
        else:
            raise TopicRefused(_E.UNKNOWN_SERVER_ERROR, "")
    return configs


def _default_list(name: str, kind: int, operation: _Operation) -> str:
    """The items of a list that has none of its own. Raises `TopicRefused` where it is no list."""
    if kind == ConfigResourceType.BROKER:
        fact = KAFKA_SETTINGS.get(name)
        if fact is None:
            raise TopicRefused(_E.INVALID_CONFIG, f"Unknown config name: {name}")
        if fact.config_type is not ConfigType.LIST:
            verb = operation.name.lower()
            problem = f"Config value {verb} is not allowed for config key: {name}"
            raise TopicRefused(_E.INVALID_CONFIG, problem)
        return fact.default or ""
    setting = TOPIC_SETTINGS.get(name) if kind == ConfigResourceType.TOPIC else None
    if setting is None or setting.config_type is not ConfigType.LIST:
        problem = f"Can't {operation.name} to key {name} because its type is not LIST."
        raise TopicRefused(_E.INVALID_CONFIG, problem)
    return setting.default


def _change_list(before: str, value: str, operation: _Operation) -> str:
    items = _split(before)
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
    if wanted - _types(node):
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
    for number, name in node.cluster.resources:
        if number != ConfigResourceType.BROKER:
            yield ConfigResourceType(number), name


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.DESCRIBE_CONFIGS: describe_configs,
        ApiKey.ALTER_CONFIGS: alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
        ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    }
)
