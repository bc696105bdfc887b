"""Verbs that act on brokers; each raises RequestRefused, BrokerFailed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.adapters.brokers.kafka.admin import TopicPartition, api_versions
from conformance.adapters.brokers.kafka.administration import (
    elect_preferred,
    order_replicas,
    set_level,
    set_topic_config,
    unregister,
)
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.layouts import HOME, SEAT
from conformance.adapters.brokers.reading import TRANSACTION_STATE, leadership
from conformance.adapters.brokers.testbed import NOBODY
from conformance.adapters.brokers.wire import find_coordinator
from conformance.campaigns.stories.session import Session, await_true
from conformance.campaigns.stories.setup import begin, end, open_
from conformance.campaigns.stories.vocabulary import NO_NODES, Committed, Node, Nodes, verb

FEATURE: Final = "transaction.version"
SYNC_TIMEOUT_S: Final = 60.0
"""The longest time until brokers have news, and replicas are in sync."""
SCRATCH_TIMEOUT_MS: Final = 500


@verb
def node(s: Session, role: Node) -> str:
    """The number of a broker; it stays valid when the broker's role changes."""
    return str(role)


@verb
def restart(s: Session) -> None:
    """Stop and start the only broker: its coordinators load their logs."""
    s.testbed.restart()


@verb
def freeze(s: Session, nodes: Nodes) -> None:
    """Freeze brokers until `thaw`, or until the experiment ends."""
    for node in nodes:
        s.testbed.brokers[node].pause()
        s.cleanup.callback(s.testbed.brokers[node].resume)


@verb
def thaw(s: Session) -> None:
    """Resume all brokers."""
    s.cleanup.close()


@verb
def kill(s: Session, nodes: Nodes) -> None:
    """Kill brokers, and unregister them so that no broker waits for them, the last one first."""
    for node in nodes:
        s.testbed.brokers[node].kill()
        s.testbed.forget(node)
    for node in reversed(nodes):
        unregister(s.testbed.wire(HOME).connection, node)


@verb
def start(s: Session, node: Node) -> None:
    """Restart a broker, and let it lead its partitions again."""
    s.testbed.brokers[node].start()


@verb
def await_takeover(s: Session, gone: Node) -> None:
    """Wait until another broker coordinates transactions; all later steps ask that broker."""
    s.testbed.await_takeover(gone)


@verb
def await_service(s: Session, *partitions: TopicPartition) -> None:
    """Wait until a transaction of another id ends on partitions: then their leaders and the
    coordinator know each other."""
    await_true(
        lambda: _is_served(s, partitions),
        lambda: "a transaction of another id does not end",
        SYNC_TIMEOUT_S,
    )


def _is_served(s: Session, partitions: Sequence[TopicPartition]) -> bool:
    nodes = {s.testbed.leader_of(at) for at in partitions}
    try:
        who = begin(s)
        for at in partitions:
            open_(s, who, at)
        end(s, who, Committed(False))
    except KafkaError:
        for node in nodes:
            s.testbed.forget(node)
        return False
    return True


@verb
def await_in_sync(s: Session, count: int) -> None:
    """Wait until this many brokers have the log of transactions; a replica that misses nothing
    stays in sync."""
    missed = s.conversation().init_producer_id(
        s.testbed.fresh("scratch"), timeout_ms=SCRATCH_TIMEOUT_MS
    )
    s.testbed.coordinator().ask(missed)
    call = leadership(TRANSACTION_STATE)
    await_true(
        lambda: len(s.testbed.coordinator().ask(call).in_sync) == count,
        lambda: f"never {count} brokers are in sync",
        SYNC_TIMEOUT_S,
    )


@verb
def change_level(s: Session, level: int) -> None:
    """Change the cluster's `transaction.version` from here on."""
    connection = s.testbed.wire(HOME).connection
    set_level(connection, FEATURE, level, is_upgrade=level > s.testbed.level)
    await_true(
        lambda: api_versions(connection).levels.get(FEATURE, 0) == level,
        lambda: f"the broker does not go by level {level}",
        SYNC_TIMEOUT_S,
    )


@verb
def configure(s: Session, at: TopicPartition, name: str, value: str) -> None:
    """Change a setting of a partition's topic; its leader uses the new value a little later."""
    set_topic_config(s.testbed.leader(at).connection, at[0], name, value)


@verb
def lead(s: Session, node: Node, at: TopicPartition) -> None:
    """Let a broker lead a partition of two replicas."""
    s.testbed.move_leader(at, node)


# The coordinator moves between HOME and SEAT, and some brokers do not know


@verb
def hold_news(s: Session, *, of: Nodes, all_of: Nodes = NO_NODES) -> None:
    """Withhold the controller's news from brokers, and from the controller everything that some
    brokers send."""
    s.testbed.proxy.hold(of, all_of)
    s.cleanup.callback(s.testbed.proxy.hold)


@verb
def release_news(s: Session) -> None:
    """Let all brokers hear the controller again."""
    s.cleanup.close()


@verb
def coordinate(s: Session, node: Node, *, unknown_to: Nodes = NO_NODES) -> None:
    """Let HOME or SEAT lead the log of transactions; all brokers know it, with some exceptions."""
    [gone] = {HOME, SEAT} - {node}
    controller = s.testbed.wire(HOME)
    await_true(
        lambda: controller.ask(leadership(TRANSACTION_STATE)).in_sync == {node, gone},
        lambda: "the log of transactions is not in sync",
        SYNC_TIMEOUT_S,
    )
    order_replicas(controller.connection, TRANSACTION_STATE, (node, gone))
    elect_preferred(controller.connection, TRANSACTION_STATE)
    await_known(s, node, unknown_to=unknown_to)
    s.testbed.await_takeover(gone)


@verb
def await_known(s: Session, node: Node, *, unknown_to: Nodes = NO_NODES) -> None:
    """Wait until all brokers, with some exceptions, know the coordinator."""
    wires = [s.testbed.wire(asked) for asked in s.testbed.brokers.keys() - set(unknown_to)]
    await_true(
        lambda: {wire.ask(find_coordinator(NOBODY)).node_id for wire in wires} == {node},
        lambda: f"broker {node} is not known to coordinate",
        SYNC_TIMEOUT_S,
    )


@verb
def coordinator_of(s: Session, node: Node) -> str:
    """The broker that a broker believes is the coordinator: `home` or `seat`."""
    found = s.testbed.wire(node).ask(find_coordinator(NOBODY)).node_id
    return {HOME: "home", SEAT: "seat"}.get(found, str(found))
