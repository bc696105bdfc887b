"""What Kafka's settings of a broker do here: a table of those that do something, and why others do
not.

Three rules:

1. A setting with a row in `NODE_SETTINGS` is applied from where the row says; so is one that is the
   default of a topic's setting with a field of `LogConfig`.
2. A setting in `ELSEWHERE` is described as it is, and is given by other means.
3. Any other is accepted, described and changes nothing, for the reason that `find_reason` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class NodeSetting(NamedTuple):
    """Where a setting stands in `NodeConfig`, and what it does; its unit, of integers."""

    path: str
    about: str
    unit: int = 1


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000

NODE_SETTINGS: Final[Mapping[str, NodeSetting]] = MappingProxyType(
    {
        "add.partitions.to.txn.retry.backoff.max.ms": NodeSetting(
            "add_partitions_to_txn_retry_backoff_max_ms",
            "How long a produce request waits at most for the marker of the transaction before.",
        ),
        "add.partitions.to.txn.retry.backoff.ms": NodeSetting(
            "add_partitions_to_txn_retry_backoff_ms",
            "After this time a partition is added again to a transaction whose predecessor ends.",
        ),
        "auto.create.topics.enable": NodeSetting(
            "auto_create_topics", "Whether a topic is created when a client asks for its metadata."
        ),
        "broker.id": NodeSetting("node_id", "The id of the node."),
        "connections.max.idle.ms": NodeSetting(
            "connections_max_idle_ms", "A connection that is idle for longer is closed; -1: none."
        ),
        "default.replication.factor": NodeSetting(
            "default_replication_factor", "How many replicas a topic has that does not say it."
        ),
        "delete.topic.enable": NodeSetting("delete_topic_enable", "Whether topics can be deleted."),
        "fetch.max.bytes": NodeSetting(
            "fetch_max_bytes", "The size at which the answer to a fetch ends."
        ),
        "group.consumer.assignment.interval.ms": NodeSetting(
            "consumer_groups.assignment_interval_ms",
            "The least time between two assignments of a consumer group.",
        ),
        "group.consumer.heartbeat.interval.ms": NodeSetting(
            "consumer_groups.heartbeat_interval_ms",
            "How often members of a consumer group are told to send heartbeats.",
        ),
        "group.consumer.max.assignment.interval.ms": NodeSetting(
            "consumer_groups.max_assignment_interval_ms",
            "The largest interval between assignments that a consumer group may set.",
        ),
        "group.consumer.max.heartbeat.interval.ms": NodeSetting(
            "consumer_groups.max_heartbeat_interval_ms",
            "The largest interval between heartbeats that a consumer group may set.",
        ),
        "group.consumer.max.session.timeout.ms": NodeSetting(
            "consumer_groups.max_session_timeout_ms",
            "The longest session that a consumer group may set.",
        ),
        "group.consumer.max.size": NodeSetting(
            "consumer_groups.max_size", "How many members a consumer group may have."
        ),
        "group.consumer.migration.policy": NodeSetting(
            "consumer_groups.migration_policy",
            "Which groups of one protocol become groups of the other.",
        ),
        "group.consumer.min.assignment.interval.ms": NodeSetting(
            "consumer_groups.min_assignment_interval_ms",
            "The least interval between assignments that a consumer group may set.",
        ),
        "group.consumer.min.heartbeat.interval.ms": NodeSetting(
            "consumer_groups.min_heartbeat_interval_ms",
            "The least interval between heartbeats that a consumer group may set.",
        ),
        "group.consumer.min.session.timeout.ms": NodeSetting(
            "consumer_groups.min_session_timeout_ms",
            "The shortest session that a consumer group may set.",
        ),
        "group.consumer.session.timeout.ms": NodeSetting(
            "consumer_groups.session_timeout_ms",
            "A member of a consumer group that is silent for longer is removed.",
        ),
        "group.initial.rebalance.delay.ms": NodeSetting(
            "groups.initial_rebalance_delay_ms",
            "How long an empty classic group waits for more members.",
        ),
        "group.max.session.timeout.ms": NodeSetting(
            "groups.max_session_timeout_ms",
            "The longest session that a member of a classic group may ask for.",
        ),
        "group.max.size": NodeSetting(
            "groups.max_size", "How many members a classic group may have."
        ),
        "group.min.session.timeout.ms": NodeSetting(
            "groups.min_session_timeout_ms",
            "The shortest session that a member of a classic group may ask for.",
        ),
        "log.cleaner.backoff.ms": NodeSetting(
            "log_cleaner_backoff_ms", "How often logs are looked at that may be compacted."
        ),
        "log.flush.offset.checkpoint.interval.ms": NodeSetting(
            "log_flush_offset_checkpoint_interval_ms",
            "How often the checkpoints of a log directory are written.",
        ),
        "log.retention.check.interval.ms": NodeSetting(
            "log_retention_check_interval_ms", "How often old segments are deleted."
        ),
        "log.retention.hours": NodeSetting(
            "log.retention_ms", "retention.ms of topics without their own, in hours.", _HOUR_MS
        ),
        "log.retention.minutes": NodeSetting(
            "log.retention_ms", "retention.ms of topics without their own, in minutes.", _MINUTE_MS
        ),
        "log.roll.hours": NodeSetting(
            "log.segment_ms", "segment.ms of topics without their own, in hours.", _HOUR_MS
        ),
        "max.connections": NodeSetting(
            "max_connections", "Beyond this number a connection waits until another one ends."
        ),
        "max.connections.per.ip": NodeSetting(
            "max_connections_per_ip", "Beyond this number connections of an address are closed."
        ),
        "max.incremental.fetch.session.cache.slots": NodeSetting(
            "max_incremental_fetch_session_cache_slots", "How many fetch sessions there may be."
        ),
        "node.id": NodeSetting("node_id", "The id of the node."),
        "num.partitions": NodeSetting(
            "num_partitions", "How many partitions a topic has that does not say it."
        ),
        "offset.metadata.max.bytes": NodeSetting(
            "offsets.offset_metadata_max_bytes", "The largest metadata of a committed offset."
        ),
        "offsets.retention.check.interval.ms": NodeSetting(
            "offsets.retention_check_interval_ms",
            "How often offsets are looked at that may expire.",
        ),
        "offsets.retention.minutes": NodeSetting(
            "offsets.retention_minutes",
            "After this time without members a group loses its offsets.",
        ),
        "offsets.topic.num.partitions": NodeSetting(
            "offsets.num_partitions", "How many partitions __consumer_offsets gets."
        ),
        "offsets.topic.replication.factor": NodeSetting(
            "offsets.replication_factor", "How many replicas __consumer_offsets gets."
        ),
        "offsets.topic.segment.bytes": NodeSetting(
            "offsets.segment_bytes", "The size at which a segment of __consumer_offsets ends."
        ),
        "producer.id.expiration.check.interval.ms": NodeSetting(
            "producer_id_expiration_check_interval_ms", "How often expired producers are forgotten."
        ),
        "producer.id.expiration.ms": NodeSetting(
            "log.producer_id_expiration_ms",
            "After this time without a batch a partition forgets a producer.",
        ),
        "queued.max.request.bytes": NodeSetting(
            "queued_max_request_bytes",
            "The bytes of large requests that are in memory at a time; -1: any.",
        ),
        "socket.request.max.bytes": NodeSetting(
            "socket_request_max_bytes", "The largest request; its connection is closed beyond it."
        ),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": NodeSetting(
            "transactions.abort_timed_out_interval_ms",
            "How often transactions that took too long are aborted.",
        ),
        "transaction.max.timeout.ms": NodeSetting(
            "transactions.transaction_max_timeout_ms",
            "The longest transaction that a producer may ask for.",
        ),
        "transaction.partition.verification.enable": NodeSetting(
            "log.rules.verifies",
            "Whether the first batch of a transaction is verified with its coordinator.",
        ),
        "transaction.remove.expired.transaction.cleanup.interval.ms": NodeSetting(
            "transactions.remove_expired_interval_ms",
            "How often transactional ids are removed that nobody uses.",
        ),
        "transaction.state.log.min.isr": NodeSetting(
            "transactions.min_insync_replicas", "min.insync.replicas of __transaction_state."
        ),
        "transaction.state.log.num.partitions": NodeSetting(
            "transactions.num_partitions", "How many partitions __transaction_state gets."
        ),
        "transaction.state.log.replication.factor": NodeSetting(
            "transactions.replication_factor", "How many replicas __transaction_state gets."
        ),
        "transaction.state.log.segment.bytes": NodeSetting(
            "transactions.segment_bytes", "The size at which a segment of __transaction_state ends."
        ),
        "transactional.id.expiration.ms": NodeSetting(
            "transactions.transactional_id_expiration_ms",
            "After this time without a transaction a transactional id is forgotten.",
        ),
    }
)
"""Those that are not also a topic's."""

ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "advertised.listeners": "NodeConfig(advertised_host=...), or serve --advertise HOST",
        "authorizer.class.name": "Security(acls=...), or serve --super-user PRINCIPAL",
        "connections.max.reauth.ms": "Security(connections_max_reauth_ms=...)",
        "inter.broker.listener.name": "the broker itself",
        "listener.security.protocol.map": "the broker itself: a listener has its protocol's name",
        "listeners": "NodeConfig(host=..., port=...) and Security(listeners=...),"
        " or serve --listen HOST:PORT --listener PROTOCOL",
        "log.dir": "Broker(directory=...), or serve --dir DIR",
        "log.dirs": "Broker(directory=...), or serve --dir DIR",
        "process.roles": "the broker itself: each node is a broker and a controller",
        "sasl.enabled.mechanisms": "Security(sasl_mechanisms=...)",
        "security.inter.broker.protocol": "the broker itself",
        "ssl.client.auth": "Security(ssl_client_auth=...), or serve --tls-client-auth",
    }
)
"""What gives a setting its value, instead of its name and a text."""

_REASONS: Final = (
    (("remote.", "follower.fetch.last.tiered.", "log.local."), "there is no remote storage"),
    (("share.", "group.share."), "share groups are not served"),
    (("group.streams.",), "streams groups are not served"),
    (
        ("controller.", "metadata.", "initial.broker.", "broker.heartbeat.", "broker.session."),
        "the nodes of a cluster share its metadata, and no quorum decides it",
    ),
    (
        (
            "replica.",
            "replication.",
            "num.replica.",
            "alter.log.dirs.",
            "leader.imbalance.",
            "auto.leader.",
        ),
        "all replicas share one log, and nothing is sent between them",
    ),
    (
        ("sasl.", "ssl.", "security.", "principal.", "early.start.", "connection.failed."),
        "listeners, users and certificates are those of Security(...)",
    ),
    (("delegation.",), "there are no delegation tokens"),
    (("quota.", "client.quota.", "controller.quota."), "nobody is throttled"),
    (("metric", "kafka.metrics.", "telemetry."), "there are no metrics of Kafka's form"),
    (
        ("alter.config.policy.", "create.topic.policy.", "config.providers"),
        "no class of Java is loaded",
    ),
    (("log.cleaner.",), "the cleaner works within the broker's one thread"),
    (("log.", "cordoned.", "num.recovery."), "the rule for its files is the broker's own"),
    (
        ("background.", "num.", "queued.", "socket.", "max.connection"),
        "one event loop serves all connections",
    ),
)
_OTHERWISE: Final = "it is about the inside of Kafka's own process"


def find_reason(name: str) -> str:
    """Why a setting of a broker changes nothing here."""
    for prefixes, reason in _REASONS:
        if name.startswith(prefixes):
            return reason
    return _OTHERWISE
