"""The settings of Kafka 4.3.1's brokers: facts, as one of them tells them.

One row a setting: its name, its type, how it can be changed while the broker runs, and its default.
`static` is not at all, `broker` of one broker, `cluster` of one or of all, `listener` of one
listener of a broker. A default `null` is none, `""` the empty text.

What the settings do here is told by `impl.broker.node_settings`.
Sources: the answers of 4.3.1 to DescribeConfigs, and to IncrementalAlterConfigs of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.broker.setting_views import ConfigType


class UpdateMode(Enum):
    """How a setting can be changed while a broker runs. `DynamicBrokerConfig`."""

    STATIC = "static"
    BROKER = "broker"
    CLUSTER = "cluster"
    LISTENER = "listener"


class KafkaSetting(NamedTuple):
    """A setting of Kafka's brokers; `default` is None where there is none."""

    config_type: ConfigType
    mode: UpdateMode
    default: str | None

    @property
    def is_sensitive(self) -> bool:
        """Whether nobody is told the value."""
        return self.config_type is ConfigType.PASSWORD


_TABLE: Final = """
add.partitions.to.txn.retry.backoff.max.ms int static 100
add.partitions.to.txn.retry.backoff.ms int static 20
advertised.listeners list static null
alter.config.policy.class.name class static null
alter.log.dirs.replication.quota.window.num int static 11
alter.log.dirs.replication.quota.window.size.seconds int static 1
authorizer.class.name string static ""
auto.create.topics.enable boolean static true
auto.leader.rebalance.enable boolean static true
background.threads int cluster 10
broker.heartbeat.interval.ms int static 2000
broker.id int static -1
broker.rack string static null
broker.session.timeout.ms int static 9000
client.quota.callback.class class static null
compression.gzip.level int cluster -1
compression.lz4.level int cluster 9
compression.type string cluster producer
compression.zstd.level int cluster 3
config.providers list cluster ""
connection.failed.authentication.delay.ms int static 100
connections.max.idle.ms long static 600000
connections.max.reauth.ms long static 0
controlled.shutdown.enable boolean static true
controller.listener.names list static null
controller.quorum.append.linger.ms int static 25
controller.quorum.auto.join.enable boolean static false
controller.quorum.bootstrap.servers list static ""
controller.quorum.election.backoff.max.ms int static 1000
controller.quorum.election.timeout.ms int static 1000
controller.quorum.fetch.max.bytes int static 1048576
controller.quorum.fetch.snapshot.max.bytes int static 1048576
controller.quorum.fetch.timeout.ms int static 2000
controller.quorum.request.timeout.ms int static 2000
controller.quorum.retry.backoff.ms int static 20
controller.quorum.voters list static ""
controller.quota.window.num int static 11
controller.quota.window.size.seconds int static 1
controller.socket.timeout.ms int static 30000
cordoned.log.dirs list broker ""
create.topic.policy.class.name class static null
default.replication.factor int static 1
delegation.token.expiry.check.interval.ms long static 3600000
delegation.token.expiry.time.ms long static 86400000
delegation.token.max.lifetime.ms long static 604800000
delegation.token.secret.key password static null
delete.records.purgatory.purge.interval.requests int static 1
delete.topic.enable boolean static true
early.start.listeners list static null
fetch.max.bytes int static 57671680
fetch.purgatory.purge.interval.requests int static 1000
follower.fetch.last.tiered.offset.enable boolean cluster false
group.consumer.assignment.interval.ms int cluster 1000
group.consumer.assignors list static uniform,range
group.consumer.heartbeat.interval.ms int static 5000
group.consumer.max.assignment.interval.ms int static 15000
group.consumer.max.heartbeat.interval.ms int static 15000
group.consumer.max.session.timeout.ms int static 60000
group.consumer.max.size int static 2147483647
group.consumer.migration.policy string static bidirectional
group.consumer.min.assignment.interval.ms int static 0
group.consumer.min.heartbeat.interval.ms int static 5000
group.consumer.min.session.timeout.ms int static 45000
group.consumer.session.timeout.ms int static 45000
group.coordinator.append.linger.ms int static -1
group.coordinator.background.threads int static 2
group.coordinator.cached.buffer.max.bytes int cluster 1048588
group.coordinator.rebalance.protocols list static classic,consumer,streams
group.coordinator.threads int static 4
group.initial.rebalance.delay.ms int static 3000
group.max.session.timeout.ms int static 1800000
group.max.size int static 2147483647
group.min.session.timeout.ms int static 6000
group.share.assignment.interval.ms int cluster 1000
group.share.assignors list static simple
group.share.delivery.count.limit int static 5
group.share.heartbeat.interval.ms int static 5000
group.share.max.assignment.interval.ms int static 15000
group.share.max.delivery.count.limit int static 10
group.share.max.heartbeat.interval.ms int static 15000
group.share.max.partition.max.record.locks int static 4000
group.share.max.record.lock.duration.ms int static 60000
group.share.max.session.timeout.ms int static 60000
group.share.max.share.sessions int static 2000
group.share.max.size int static 200
group.share.min.assignment.interval.ms int static 0
group.share.min.delivery.count.limit int static 2
group.share.min.heartbeat.interval.ms int static 5000
group.share.min.partition.max.record.locks int static 100
group.share.min.record.lock.duration.ms int static 15000
group.share.min.session.timeout.ms int static 45000
group.share.partition.max.record.locks int static 2000
group.share.record.lock.duration.ms int static 30000
group.share.session.timeout.ms int static 45000
group.streams.assignment.interval.ms int cluster 1000
group.streams.heartbeat.interval.ms int static 5000
group.streams.initial.rebalance.delay.ms int static 3000
group.streams.max.assignment.interval.ms int static 15000
group.streams.max.heartbeat.interval.ms int static 15000
group.streams.max.session.timeout.ms int static 60000
group.streams.max.size int static 2147483647
group.streams.max.standby.replicas int static 2
group.streams.min.assignment.interval.ms int static 0
group.streams.min.heartbeat.interval.ms int static 5000
group.streams.min.session.timeout.ms int static 45000
group.streams.num.standby.replicas int static 0
group.streams.session.timeout.ms int static 45000
initial.broker.registration.timeout.ms int static 60000
inter.broker.listener.name string static null
kafka.metrics.polling.interval.secs int static 10
kafka.metrics.reporters list static ""
leader.imbalance.check.interval.seconds long static 300
listener.security.protocol.map string broker SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners list broker PLAINTEXT://:9092
log.cleaner.backoff.ms long cluster 15000
log.cleaner.dedupe.buffer.size long cluster 134217728
log.cleaner.delete.retention.ms long cluster 86400000
log.cleaner.enable boolean static true
log.cleaner.io.buffer.load.factor double cluster 0.9
log.cleaner.io.buffer.size int cluster 524288
log.cleaner.io.max.bytes.per.second double cluster 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms long cluster 9223372036854775807
log.cleaner.min.cleanable.ratio double cluster 0.5
log.cleaner.min.compaction.lag.ms long cluster 0
log.cleaner.threads int cluster 1
log.cleanup.policy list cluster delete
log.dir list static /tmp/kafka-logs
log.dir.failure.timeout.ms long static 30000
log.dirs list static null
log.flush.interval.messages long cluster 9223372036854775807
log.flush.interval.ms long cluster null
log.flush.offset.checkpoint.interval.ms int static 60000
log.flush.scheduler.interval.ms long static 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int static 60000
log.index.interval.bytes int cluster 4096
log.index.size.max.bytes int cluster 10485760
log.local.retention.bytes long cluster -2
log.local.retention.ms long cluster -2
log.message.timestamp.after.max.ms long cluster 3600000
log.message.timestamp.before.max.ms long cluster 9223372036854775807
log.message.timestamp.type string cluster CreateTime
log.preallocate boolean cluster false
log.retention.bytes long cluster -1
log.retention.check.interval.ms long static 300000
log.retention.hours int static 168
log.retention.minutes int static null
log.retention.ms long cluster null
log.roll.hours int static 168
log.roll.jitter.hours int static 0
log.roll.jitter.ms long cluster null
log.roll.ms long cluster null
log.segment.bytes int cluster 1073741824
log.segment.delete.delay.ms long cluster 60000
max.connection.creation.rate int cluster 2147483647
max.connections int cluster 2147483647
max.connections.per.ip int cluster 2147483647
max.connections.per.ip.overrides string cluster ""
max.incremental.fetch.session.cache.slots int static 1000
max.request.partition.size.limit int static 2000
message.max.bytes int cluster 1048588
metadata.log.dir string static null
metadata.log.max.record.bytes.between.snapshots long static 20971520
metadata.log.max.snapshot.interval.ms long static 3600000
metadata.log.segment.bytes int static 1073741824
metadata.log.segment.ms long static 604800000
metadata.max.idle.interval.ms int static 500
metadata.max.retention.bytes long static 104857600
metadata.max.retention.ms long static 604800000
metric.reporters list cluster org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int static 2
metrics.recording.level string static INFO
metrics.sample.window.ms long static 30000
min.insync.replicas int cluster 1
node.id int static null
num.io.threads int cluster 8
num.network.threads int cluster 3
num.partitions int static 1
num.recovery.threads.per.data.dir int cluster 2
num.replica.alter.log.dirs.threads int static null
num.replica.fetchers int cluster 1
offset.metadata.max.bytes int static 4096
offsets.commit.timeout.ms int static 5000
offsets.load.buffer.size int static 5242880
offsets.retention.check.interval.ms long static 600000
offsets.retention.minutes int static 10080
offsets.topic.compression.codec int static 0
offsets.topic.num.partitions int static 50
offsets.topic.replication.factor short static 3
offsets.topic.segment.bytes int static 104857600
principal.builder.class class broker org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles list static null
producer.id.expiration.check.interval.ms int static 600000
producer.id.expiration.ms int cluster 86400000
producer.purgatory.purge.interval.requests int static 1000
queued.max.request.bytes long static -1
queued.max.requests int static 500
quota.window.num int static 11
quota.window.size.seconds int static 1
remote.fetch.max.wait.ms int cluster 500
remote.list.offsets.request.timeout.ms long cluster 30000
remote.log.index.file.cache.total.size.bytes long cluster 1073741824
remote.log.manager.copier.thread.pool.size int cluster 10
remote.log.manager.copy.max.bytes.per.second long cluster 9223372036854775807
remote.log.manager.copy.quota.window.num int static 11
remote.log.manager.copy.quota.window.size.seconds int static 1
remote.log.manager.expiration.thread.pool.size int cluster 10
remote.log.manager.fetch.max.bytes.per.second long cluster 9223372036854775807
remote.log.manager.fetch.quota.window.num int static 11
remote.log.manager.fetch.quota.window.size.seconds int static 1
remote.log.manager.follower.thread.pool.size int cluster 2
remote.log.manager.task.interval.ms long static 30000
remote.log.manager.thread.pool.size int static 2
remote.log.metadata.custom.metadata.max.bytes int static 128
remote.log.metadata.manager.class.name string static org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string static null
remote.log.metadata.manager.impl.prefix string static rlmm.config.
remote.log.metadata.manager.listener.name string static null
remote.log.reader.max.pending.tasks int static 100
remote.log.reader.threads int cluster 10
remote.log.storage.manager.class.name string static null
remote.log.storage.manager.class.path string static null
remote.log.storage.manager.impl.prefix string static rsm.config.
remote.log.storage.system.enable boolean static false
replica.fetch.backoff.ms int static 1000
replica.fetch.max.bytes int static 1048576
replica.fetch.min.bytes int static 1
replica.fetch.response.max.bytes int static 10485760
replica.fetch.wait.max.ms int static 500
replica.high.watermark.checkpoint.interval.ms long static 5000
replica.lag.time.max.ms long static 30000
replica.selector.class string static null
replica.socket.receive.buffer.bytes int static 65536
replica.socket.timeout.ms int static 30000
replication.quota.window.num int static 11
replication.quota.window.size.seconds int static 1
request.timeout.ms int static 30000
sasl.client.callback.handler.class class static null
sasl.enabled.mechanisms list broker GSSAPI
sasl.jaas.config password broker null
sasl.kerberos.kinit.cmd string broker /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long broker 60000
sasl.kerberos.principal.to.local.rules list broker DEFAULT
sasl.kerberos.service.name string broker null
sasl.kerberos.ticket.renew.jitter double broker 0.05
sasl.kerberos.ticket.renew.window.factor double broker 0.8
sasl.login.callback.handler.class class static null
sasl.login.class class static null
sasl.login.connect.timeout.ms int static null
sasl.login.read.timeout.ms int static null
sasl.login.refresh.buffer.seconds short broker 300
sasl.login.refresh.min.period.seconds short broker 60
sasl.login.refresh.window.factor double broker 0.8
sasl.login.refresh.window.jitter double broker 0.05
sasl.login.retry.backoff.max.ms long static 10000
sasl.login.retry.backoff.ms long static 100
sasl.mechanism.controller.protocol string static GSSAPI
sasl.mechanism.inter.broker.protocol string broker GSSAPI
sasl.oauthbearer.assertion.algorithm string static RS256
sasl.oauthbearer.assertion.claim.aud string static null
sasl.oauthbearer.assertion.claim.exp.seconds int static 300
sasl.oauthbearer.assertion.claim.iss string static null
sasl.oauthbearer.assertion.claim.jti.include boolean static false
sasl.oauthbearer.assertion.claim.nbf.seconds int static 60
sasl.oauthbearer.assertion.claim.sub string static null
sasl.oauthbearer.assertion.file string static null
sasl.oauthbearer.assertion.private.key.file string static null
sasl.oauthbearer.assertion.private.key.passphrase password static null
sasl.oauthbearer.assertion.template.file string static null
sasl.oauthbearer.client.credentials.client.id string static null
sasl.oauthbearer.client.credentials.client.secret password static null
sasl.oauthbearer.clock.skew.seconds int static 30
sasl.oauthbearer.expected.audience list static ""
sasl.oauthbearer.expected.issuer string static null
sasl.oauthbearer.jwks.endpoint.refresh.ms long static 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long static 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long static 100
sasl.oauthbearer.jwks.endpoint.url string static null
sasl.oauthbearer.jwt.retriever.class class static org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class static org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string static null
sasl.oauthbearer.scope.claim.name string static scope
sasl.oauthbearer.sub.claim.name string static sub
sasl.oauthbearer.token.endpoint.url string static null
sasl.server.callback.handler.class class static null
sasl.server.max.receive.size int static 524288
security.inter.broker.protocol string static PLAINTEXT
security.providers string static null
share.coordinator.append.linger.ms int static -1
share.coordinator.cached.buffer.max.bytes int cluster 1048588
share.coordinator.load.buffer.size int static 5242880
share.coordinator.snapshot.update.records.per.snapshot int static 500
share.coordinator.state.topic.compression.codec int static 0
share.coordinator.state.topic.min.isr short static 2
share.coordinator.state.topic.num.partitions int static 50
share.coordinator.state.topic.replication.factor short static 3
share.coordinator.state.topic.segment.bytes int static 104857600
share.coordinator.threads int static 1
share.coordinator.write.timeout.ms int static 5000
share.fetch.purgatory.purge.interval.requests int static 1000
socket.connection.setup.timeout.max.ms long static 30000
socket.connection.setup.timeout.ms long static 10000
socket.listen.backlog.size int static 50
socket.receive.buffer.bytes int static 102400
socket.request.max.bytes int static 104857600
socket.send.buffer.bytes int static 102400
ssl.allow.dn.changes boolean static false
ssl.allow.san.changes boolean static false
ssl.cipher.suites list broker ""
ssl.client.auth string broker none
ssl.enabled.protocols list broker TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string broker https
ssl.engine.factory.class class broker null
ssl.key.password password listener null
ssl.keymanager.algorithm string broker SunX509
ssl.keystore.certificate.chain password listener null
ssl.keystore.key password listener null
ssl.keystore.location string listener null
ssl.keystore.password password listener null
ssl.keystore.type string listener JKS
ssl.principal.mapping.rules string static DEFAULT
ssl.protocol string broker TLSv1.3
ssl.provider string broker null
ssl.secure.random.implementation string broker null
ssl.trustmanager.algorithm string broker PKIX
ssl.truststore.certificates password listener null
ssl.truststore.location string listener null
ssl.truststore.password password listener null
ssl.truststore.type string listener JKS
telemetry.max.bytes int static 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms int static 10000
transaction.max.timeout.ms int static 900000
transaction.partition.verification.enable boolean cluster true
transaction.remove.expired.transaction.cleanup.interval.ms int static 3600000
transaction.state.log.load.buffer.size int static 5242880
transaction.state.log.min.isr int static 2
transaction.state.log.num.partitions int static 50
transaction.state.log.replication.factor short static 3
transaction.state.log.segment.bytes int static 104857600
transaction.two.phase.commit.enable boolean static false
transactional.id.expiration.ms int static 604800000
unclean.leader.election.enable boolean cluster false
"""  # noqa: E501 - a class of Kafka has a long name


def _rows() -> Iterator[tuple[str, KafkaSetting]]:
    for line in _TABLE.strip().splitlines():
        name, config_type, mode, default = line.split(" ", 3)
        yield (
            name,
            KafkaSetting(
                ConfigType[config_type.upper()],
                UpdateMode(mode),
                {"null": None, '""': ""}.get(default, default),
            ),
        )


KAFKA_SETTINGS: Final[Mapping[str, KafkaSetting]] = MappingProxyType(dict(_rows()))
"""By name, in alphabetical order."""
