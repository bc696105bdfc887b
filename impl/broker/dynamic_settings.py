"""Settings of brokers that are changed while they run: which may be, and what is refused.

Five rules:

1. A setting can be changed that Kafka lets change and that does something here from then on: the
   defaults of topics, and `node_settings.DYNAMIC`. Any other is refused with what is true of it.
2. A setting that Kafka does not change while it runs is refused with Kafka's text.
3. A value is refused that Kafka refuses, with its text.
4. While Kafka knows eligible replicas (4.1 and later), all brokers have a `min.insync.replicas`
   that cannot be removed, and no broker has one of its own.
5. Kafka keeps a name that it does not know, for classes of others; here it is refused.

Sources: `DynamicBrokerConfig.validateConfigs`, `ConfigAdminManager.preprocess`,
`ConfigurationControlManager.validateAlterConfig`; answers of 4.3.1 to a change of each setting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.config import NodeConfig
from impl.broker.kafka_settings import KAFKA_SETTINGS, UpdateMode
from impl.broker.node_effects import ELSEWHERE, find_reason
from impl.broker.node_settings import TOPIC_NAMES, can_change, parse_setting
from impl.broker.releases import is_in
from impl.broker.setting_changes import ELIGIBLE_REPLICAS_SINCE, MIN_IN_SYNC
from impl.broker.topic_refused import TopicRefused
from impl.coordinator.group_config import ConsumerGroupConfig
from impl.protocol.errors import ErrorCode
from impl.suggestions import explain_unknown

_E: Final = ErrorCode
_INTERVAL: Final = "group.consumer.assignment.interval.ms"
_NOT_ZERO: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max.connections": "Invalid value org.apache.kafka.common.config.ConfigException: Invalid"
        " max.connections 0 for configuration Invalid dynamic configuration",
        "max.connections.per.ip": "requirement failed: max.connections.per.ip can be set to zero"
        " only if max.connections.per.ip.overrides property is set.",
    }
)
"""How Kafka refuses 0 while it runs."""


def check_changes(changed: Collection[str], *, of_all: bool) -> None:
    """Raise `TopicRefused` for settings that cannot be changed, of one broker or of all."""
    facts = {name: KAFKA_SETTINGS[name] for name in changed if name in KAFKA_SETTINGS}
    for mode, is_refused, text in (
        (UpdateMode.STATIC, True, "Cannot update these configs dynamically"),
        (
            UpdateMode.LISTENER,
            True,
            "These security configs can be dynamically updated only per-listener using the listener"
            " prefix",
        ),
        (
            UpdateMode.BROKER,
            of_all,
            "Cannot update these configs at default cluster level, broker id must be specified",
        ),
    ):
        refused = [name for name, fact in facts.items() if fact.mode is mode]
        if refused and is_refused:
            raise TopicRefused(_E.INVALID_REQUEST, f"{text}: [{', '.join(refused)}]")
    for name in changed:
        if not can_change(name):
            raise TopicRefused(_E.INVALID_REQUEST, _explain(name))


def _explain(name: str) -> str:
    """Why a setting is not changed that Kafka would change."""
    if name not in KAFKA_SETTINGS:
        where = "docs/reference/settings.md lists all"
        return explain_unknown("setting", name, KAFKA_SETTINGS, where=where, aliases=TOPIC_NAMES)
    if name in ELSEWHERE:
        return f"{name} stays what it is while this broker runs: it is that of {ELSEWHERE[name]}"
    return f"{name} has no effect in this broker, and so it cannot be changed: {find_reason(name)}"


def check_values(configs: Mapping[str, str], me: NodeConfig) -> None:
    """Raise `TopicRefused` for a value that Kafka refuses on a node with these settings."""
    for name, text in configs.items():
        try:
            parse_setting(name, text)
        except TopicRefused as refusal:
            raise TopicRefused(_E.INVALID_REQUEST, str(refusal)) from refusal
        if name in _NOT_ZERO and int(text) == 0:
            raise TopicRefused(_E.INVALID_REQUEST, _NOT_ZERO[name])
    if _INTERVAL in configs:
        _check_interval(int(configs[_INTERVAL]), me.consumer_groups)


def _check_interval(interval_ms: int, groups: ConsumerGroupConfig) -> None:
    """Raise `TopicRefused` for what no group may set either. `GroupCoordinatorConfig`."""
    for is_out, words, bound in (
        (interval_ms < groups.min_assignment_interval_ms, "greater", "min"),
        (interval_ms > groups.max_assignment_interval_ms, "less", "max"),
    ):
        if is_out:
            limit = _INTERVAL.replace(".assignment", f".{bound}.assignment")
            problem = f"{_INTERVAL} must be {words} than or equal to {limit}"
            raise TopicRefused(_E.INVALID_REQUEST, problem)


def check_in_sync(
    before: Mapping[str, str],
    after: Mapping[str, str],
    changed: Collection[str],
    release: str,
    *,
    of_all: bool,
) -> None:
    """Raise `TopicRefused` where eligible replicas need a setting of all brokers."""
    if not is_in(ELIGIBLE_REPLICAS_SINCE, release):
        return
    if of_all and MIN_IN_SYNC in before and MIN_IN_SYNC not in after:
        problem = f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled."
        raise TopicRefused(_E.INVALID_CONFIG, problem)
    if not of_all and MIN_IN_SYNC in changed:
        problem = f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled."
        raise TopicRefused(_E.INVALID_CONFIG, problem)
