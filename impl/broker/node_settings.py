"""A node's settings under Kafka's names, as DescribeConfigs shows them."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from impl.broker.config import NodeConfig
from impl.broker.topic_settings import (
    TOPIC_SETTINGS,
    ConfigSource,
    ConfigType,
    SettingView,
    Synonym,
    describe_settings,
)
from impl.settings import InvalidSetting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_STRING: Final = ConfigType.STRING


class NodeSetting(NamedTuple):
    """Where a setting stands in `NodeConfig`; `default` is Kafka's, "" where it has none."""

    path: str
    default: str
    config_type: ConfigType = _INT


NODE_SETTINGS: Final = MappingProxyType(
    {
        "add.partitions.to.txn.retry.backoff.max.ms": NodeSetting(
            "add_partitions_to_txn_retry_backoff_max_ms", "100"
        ),
        "add.partitions.to.txn.retry.backoff.ms": NodeSetting(
            "add_partitions_to_txn_retry_backoff_ms", "20"
        ),
        "auto.create.topics.enable": NodeSetting("auto_create_topics", "true", _BOOLEAN),
        "broker.id": NodeSetting("node_id", ""),
        "connections.max.idle.ms": NodeSetting("connections_max_idle_ms", "600000", _LONG),
        "default.replication.factor": NodeSetting("default_replication_factor", "1"),
        "fetch.max.bytes": NodeSetting("fetch_max_bytes", "57671680"),
        "group.consumer.assignment.interval.ms": NodeSetting(
            "consumer_groups.assignment_interval_ms", "1000"
        ),
        "group.consumer.heartbeat.interval.ms": NodeSetting(
            "consumer_groups.heartbeat_interval_ms", "5000"
        ),
        "group.consumer.max.assignment.interval.ms": NodeSetting(
            "consumer_groups.max_assignment_interval_ms", "15000"
        ),
        "group.consumer.max.heartbeat.interval.ms": NodeSetting(
            "consumer_groups.max_heartbeat_interval_ms", "15000"
        ),
        "group.consumer.max.size": NodeSetting("consumer_groups.max_size", "2147483647"),
        "group.consumer.max.session.timeout.ms": NodeSetting(
            "consumer_groups.max_session_timeout_ms", "60000"
        ),
        "group.consumer.migration.policy": NodeSetting(
            "consumer_groups.migration_policy", "bidirectional", _STRING
        ),
        "group.consumer.min.assignment.interval.ms": NodeSetting(
            "consumer_groups.min_assignment_interval_ms", "0"
        ),
        "group.consumer.min.heartbeat.interval.ms": NodeSetting(
            "consumer_groups.min_heartbeat_interval_ms", "5000"
        ),
        "group.consumer.min.session.timeout.ms": NodeSetting(
            "consumer_groups.min_session_timeout_ms", "45000"
        ),
        "group.consumer.session.timeout.ms": NodeSetting(
            "consumer_groups.session_timeout_ms", "45000"
        ),
        "group.initial.rebalance.delay.ms": NodeSetting(
            "groups.initial_rebalance_delay_ms", "3000"
        ),
        "group.max.size": NodeSetting("groups.max_size", "2147483647"),
        "group.max.session.timeout.ms": NodeSetting("groups.max_session_timeout_ms", "1800000"),
        "group.min.session.timeout.ms": NodeSetting("groups.min_session_timeout_ms", "6000"),
        "log.cleaner.backoff.ms": NodeSetting("log_cleaner_backoff_ms", "15000", _LONG),
        "log.retention.check.interval.ms": NodeSetting(
            "log_retention_check_interval_ms", "300000", _LONG
        ),
        "max.connections": NodeSetting("max_connections", "2147483647"),
        "max.connections.per.ip": NodeSetting("max_connections_per_ip", "2147483647"),
        "node.id": NodeSetting("node_id", ""),
        "num.partitions": NodeSetting("num_partitions", "1"),
        "offset.metadata.max.bytes": NodeSetting("offsets.offset_metadata_max_bytes", "4096"),
        "offsets.retention.check.interval.ms": NodeSetting(
            "offsets.retention_check_interval_ms", "600000", _LONG
        ),
        "offsets.retention.minutes": NodeSetting("offsets.retention_minutes", "10080"),
        "offsets.topic.replication.factor": NodeSetting("offsets.replication_factor", "3"),
        "offsets.topic.segment.bytes": NodeSetting("offsets.segment_bytes", "104857600"),
        "offsets.topic.num.partitions": NodeSetting("offsets.num_partitions", "50"),
        "producer.id.expiration.check.interval.ms": NodeSetting(
            "producer_id_expiration_check_interval_ms", "600000"
        ),
        "producer.id.expiration.ms": NodeSetting("log.producer_id_expiration_ms", "86400000"),
        "queued.max.request.bytes": NodeSetting("queued_max_request_bytes", "-1", _LONG),
        "socket.request.max.bytes": NodeSetting("socket_request_max_bytes", "104857600"),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": NodeSetting(
            "transactions.abort_timed_out_interval_ms", "10000"
        ),
        "transaction.max.timeout.ms": NodeSetting(
            "transactions.transaction_max_timeout_ms", "900000"
        ),
        "transaction.partition.verification.enable": NodeSetting(
            "log.rules.verifies", "true", _BOOLEAN
        ),
        "transaction.remove.expired.transaction.cleanup.interval.ms": NodeSetting(
            "transactions.remove_expired_interval_ms", "3600000"
        ),
        "transaction.state.log.min.isr": NodeSetting("transactions.min_insync_replicas", "2"),
        "transaction.state.log.replication.factor": NodeSetting(
            "transactions.replication_factor", "3"
        ),
        "transaction.state.log.segment.bytes": NodeSetting(
            "transactions.segment_bytes", "104857600"
        ),
        "transaction.state.log.num.partitions": NodeSetting("transactions.num_partitions", "50"),
        "transactional.id.expiration.ms": NodeSetting(
            "transactions.transactional_id_expiration_ms", "604800000"
        ),
    }
)
"""Those that are not also a topic's."""


def describe_node(config: NodeConfig) -> list[SettingView]:
    """The settings of a node, its topics' defaults included. `ConfigHelper.describeConfigs`."""
    own = [_describe(name, setting, config) for name, setting in NODE_SETTINGS.items()]
    return own + [
        setting._replace(name=broker_name)
        for setting in describe_settings({}, config.log)
        if (broker_name := TOPIC_SETTINGS[setting.name].broker_name)
    ]


def _describe(name: str, setting: NodeSetting, config: NodeConfig) -> SettingView:
    value = str(attrgetter(setting.path)(config))
    if setting.config_type is _BOOLEAN:
        value = value.lower()
    default = Synonym(name, setting.default, ConfigSource.DEFAULT)
    places = [Synonym(name, value, ConfigSource.STATIC_BROKER)] if value != setting.default else []
    if setting.default:
        places.append(default)
    return SettingView(name, value, places[0].source, setting.config_type, tuple(places))


class UnknownSetting(ValueError):
    """A name or value that is none of a node's."""


def configure(config: NodeConfig, name: str, text: str) -> NodeConfig:
    """The settings with another value of one, by Kafka's name.

    Raises `UnknownSetting`, `InvalidSetting`.
    """
    setting = NODE_SETTINGS.get(name)
    if setting is None:
        raise UnknownSetting(_explain_unknown(name))
    if setting.config_type is _BOOLEAN:
        if text not in ("true", "false"):
            raise UnknownSetting(f"{name} must be true or false, is {text!r}")
        return _replace(config, setting.path, text == "true")
    if setting.config_type is _STRING:
        return _replace(config, setting.path, text.lower())
    try:
        return _replace(config, setting.path, int(text))
    except ValueError as error:
        if isinstance(error, InvalidSetting):
            raise
        raise UnknownSetting(f"{name} must be an integer, is {text!r}") from None


def _explain_unknown(name: str) -> str:
    """What to write instead of a name."""
    from difflib import get_close_matches  # only who mistypes a name waits for it

    for topics_name, setting in TOPIC_SETTINGS.items():
        if name in (topics_name, setting.broker_name):
            return f"{name!r} is served for topics alone: create them with {topics_name}"
    near = get_close_matches(name, NODE_SETTINGS) or [
        each for each in NODE_SETTINGS if name in each
    ]
    if near:
        return f"{name!r} is no setting; did you mean {' or '.join(near)}?"
    return f"{name!r} is no setting that is served; there are {', '.join(NODE_SETTINGS)}"


def _replace(settings: T, path: str, value: int | str) -> T:
    """A dataclass with another value at the end of a path of fields."""
    name, _, rest = path.partition(".")
    return replace(
        settings, **{name: _replace(getattr(settings, name), rest, value) if rest else value}
    )
