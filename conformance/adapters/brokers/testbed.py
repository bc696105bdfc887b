"""The brokers of an experiment: one or three, of one release and level, with known leaders."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from types import TracebackType
from typing import Final, Self

from conformance.adapters.brokers.kafka.admin import (
    TopicPartition,
    acts_as_leader,
    api_versions,
    await_leader,
    create_topic,
    leaders,
)
from conformance.adapters.brokers.kafka.administration import elect_preferred, order_replicas
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.cluster import KafkaCluster
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.metadata_proxy import MetadataProxy, through
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.recipe import BrokerNode
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.kafka.wait import poll, wait_until
from conformance.adapters.brokers.layouts import (
    FAR,
    HOME,
    PATIENT,
    PROPERTIES,
    PROXIED,
    SEAT,
    create_internal_topics,
)
from conformance.adapters.brokers.reading import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    describe_transactions,
    fetch_offsets,
    leadership,
)
from conformance.adapters.brokers.wire import (
    BUSY_TIMEOUT_S,
    Conversation,
    CoordinatorConnection,
    Requests,
    conversation,
    find_coordinator,
    speaks,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

NOBODY: Final = "nobody"
"""The name of a group and a transactional id that do not exist."""
TAKEOVER_TIMEOUT_S: Final = 60.0


class KafkaTestbed:
    """Brokers of one release and level; a context manager that starts and ends them.

    `nodes` is 1 or 3. `properties` override the recipe's. If the `layout` is `seated`, only HOME
    votes, and the log of transactions is on SEAT, which is preferred, and on HOME: either or both
    of the other brokers can be down. If it is `proxied`, FAR also coordinates all groups, and
    `proxy` is the network between the other brokers and HOME. Raises UnknownRelease.
    """

    shows_producers = True
    """Since 2.8."""

    def __init__(
        self,
        release: str,
        *,
        level: int | None = None,
        nodes: int = 1,
        properties: Mapping[str, str] | None = None,
        layout: str = "",
    ) -> None:
        self.release = find_release(release)
        self.level = self.release.default_level if level is None else level
        self.release.check_level(self.level, is_stable=True)
        self.nodes = nodes
        self._layout = layout
        self._proxy: MetadataProxy | None = None
        self._proxy_port = free_ports(1)[0] if layout == PROXIED else 0
        self._open = ExitStack()
        self._below = ExitStack()
        usual = {**PATIENT, **PROPERTIES[layout]} if nodes > 1 else {}
        self._servers = KafkaCluster(
            release,
            nodes=nodes,
            level=self.level,
            properties={**usual, **(properties or {})},
            voters=(HOME,) if layout else (),
            properties_of=self._properties_of,
        )
        self._numbers = count(1)
        self._wires: dict[int, CoordinatorConnection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._asked = 1

    def _properties_of(self, node: BrokerNode) -> Mapping[str, str]:
        """The properties of one broker: the address at which it finds the controller."""
        if not self._proxy_port:
            return {}
        return through(self._proxy_port, HOME, self.release, node)

    @property
    def proxy(self) -> MetadataProxy:
        """The proxy to the controller, in a cluster that is proxied."""
        assert self._proxy is not None
        return self._proxy

    @property
    def brokers(self) -> dict[int, KafkaBroker]:
        """The brokers by id."""
        return self._servers.brokers

    @property
    def name(self) -> str:
        """The name for tables: `4.3.1 level 2`."""
        return f"{self.release.name} level {self.level}"

    def speaks(self, requests: Requests) -> bool:
        """Whether its brokers serve the requests."""
        return speaks(self._supported, requests)

    def can_use(self, requests: Requests) -> bool:
        """Whether a transaction can begin with them: V2 needs a level that can log it."""
        return self.speaks(requests) and (requests == "v1" or self.level > 0)

    def conversation(self, requests: Requests) -> Conversation:
        """The conversation in the newest versions of this kind. Raises RequestRefused."""
        return conversation(self._supported, requests)

    def newest(self, api: str) -> int:
        """The newest version of an API, by its name, that its brokers serve."""
        return self._supported.versions[ApiKey[api]][1]

    def fresh(self, word: str) -> str:
        """A name that no experiment has used."""
        return f"{word}-{next(self._numbers)}"

    def topic(
        self, partitions: int = 1, *, on: int | None = None, followers: Sequence[int] = ()
    ) -> list[TopicPartition]:
        """The partitions of a new topic, led by the broker `on` (by default 1)."""
        name, leader = self.fresh("topic"), on or 1
        replicas = [leader, *followers]
        create_topic(self.wire(leader).connection, name, partitions, replicas=replicas)
        found = [(name, index) for index in range(partitions)]
        self._await_known(found)
        self._leaders |= dict.fromkeys(found, leader)
        return found

    def _await_known(self, partitions: list[TopicPartition]) -> None:
        """Wait until all brokers know a topic: its leader may know it before the coordinator.
        Raises RequestRefused."""

        def unaware() -> list[int]:
            known = {node: leaders(self.wire(node).connection) for node in self.brokers}
            return [node for node in known if not known[node].keys() >= set(partitions)]

        if nodes := poll(unaware, operator.not_, BUSY_TIMEOUT_S):
            raise RequestRefused(f"brokers {nodes} do not hear of {partitions}")

    def wire(self, node_id: int) -> CoordinatorConnection:
        """The connection to a broker; it is made once."""
        if node_id not in self._wires:
            self._wires[node_id] = self.connect(node_id)
        return self._wires[node_id]

    def connect(self, node_id: int = 1) -> CoordinatorConnection:
        """One more connection to a broker, closed with the testbed."""
        wire = CoordinatorConnection(self.brokers[node_id].connect(timeout_ms=10_000))
        self._open.callback(wire.close)
        return wire

    def forget(self, node_id: int) -> None:
        """Drop the connection to a broker that is gone."""
        if node_id in self._wires:
            self._wires.pop(node_id).close()

    def leader_of(self, partition: TopicPartition) -> int:
        """The leader of a partition that `topic` made, or of an internal topic's partition."""
        if partition not in self._leaders:
            self._leaders[partition] = self._lookup(partition)
        return self._leaders[partition]

    def _lookup(self, partition: TopicPartition) -> int:
        """The answer of FindCoordinator. Both internal topics have one partition, so any key leads
        to it."""
        keys = {TRANSACTION_STATE: False, CONSUMER_OFFSETS: True}
        call = find_coordinator(NOBODY, of_group=keys[partition])
        answer = self.wire(self._asked).retry(call, BUSY_TIMEOUT_S)
        if answer.error is not ErrorCode.NONE:
            raise RequestRefused(f"FindCoordinator: {answer.error.name}")
        self._await_service(answer.node_id, of_group=keys[partition])
        return answer.node_id

    def _await_service(self, node_id: int, *, of_group: bool) -> None:
        """Wait until a coordinator serves: it is named some time before. Raises RequestRefused."""
        serves = _serves_groups if of_group else _serves_transactions
        failure = RequestRefused(f"the coordinator on {node_id} does not serve")
        wait_until(lambda: serves(self.wire(node_id)), BUSY_TIMEOUT_S, failure)

    def coordinator(self) -> CoordinatorConnection:
        """The connection to the coordinator of all transactional ids."""
        return self.wire(self.leader_of(TRANSACTION_STATE))

    def group_coordinator(self) -> CoordinatorConnection:
        """The connection to the coordinator of all groups."""
        return self.wire(self.leader_of(CONSUMER_OFFSETS))

    def transaction_logs(self) -> list[TopicPartition]:
        """The partitions of `__transaction_state`."""
        return [TRANSACTION_STATE]

    def offsets_log(self, group_id: str) -> TopicPartition:
        """The partition that keeps a group's offsets. This call creates the topic if necessary."""
        self.leader_of(CONSUMER_OFFSETS)
        return CONSUMER_OFFSETS

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The coordinator epoch of a transactional id."""
        return self.coordinator().ask(leadership(TRANSACTION_STATE)).leader_epoch

    def role(self, name: str) -> tuple[int, ...]:
        """The brokers in a role. Raises KeyError for an unknown role."""
        return ROLES[name](self)

    def leader(self, partition: TopicPartition) -> CoordinatorConnection:
        """The connection to a partition's leader."""
        return self.wire(self.leader_of(partition))

    def move_leader(self, partition: TopicPartition, to: int) -> None:
        """Move leadership of a partition to another of its two replicas; both know it then. Raises
        RequestRefused."""
        former = self.leader_of(partition)
        connection = self.wire(former).connection
        order_replicas(connection, partition, (to, former))
        elect_preferred(connection, partition)
        await_leader(self.wire(to).connection, [partition])
        failure = RequestRefused(f"broker {former} goes on to lead {partition}")
        wait_until(lambda: not acts_as_leader(connection, partition), BUSY_TIMEOUT_S, failure)
        self._leaders[partition] = to

    def restart(self) -> None:
        """Restart the only broker: its coordinators load their logs."""
        [broker] = self.brokers.values()
        broker.restart()
        self._forget()
        ours = [p for p in self._leaders if p not in (TRANSACTION_STATE, CONSUMER_OFFSETS)]
        self._leaders = dict.fromkeys(ours, broker.node.node_id)
        await_leader(self.wire(broker.node.node_id).connection, ours)

    def await_takeover(self, gone: int) -> int:
        """Wait until a broker other than `gone` coordinates transactions; returns that broker.

        From then on brokers other than `gone` are asked. Raises RequestRefused.
        """
        self._asked = next(node for node in self.brokers if node != gone)
        call = find_coordinator(NOBODY)
        wait_until(
            lambda: self.wire(self._asked).ask(call).node_id not in (gone, -1),
            TAKEOVER_TIMEOUT_S,
            RequestRefused(f"broker {gone} stays the coordinator"),
        )
        self._leaders.pop(TRANSACTION_STATE, None)
        return self.leader_of(TRANSACTION_STATE)

    def _forget(self) -> None:
        self._open.close()
        self._wires.clear()

    def __enter__(self) -> Self:
        try:
            if self._proxy_port:
                port = self.brokers[HOME].node.controller_port
                self._proxy = MetadataProxy(self._proxy_port, port)
                self._below.enter_context(self._proxy)
            self._below.enter_context(self._servers)
            with next(iter(self.brokers.values())).connect() as connection:
                self._supported = api_versions(connection)
                create_internal_topics(connection, self._layout)
        except BaseException:
            self._below.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._forget()
        self._below.__exit__(kind, error, traceback)


def _serves_groups(wire: CoordinatorConnection) -> bool:
    seen = wire.ask(fetch_offsets(NOBODY, [("nowhere", 0)], require_stable=False))
    return bool(seen) and all(row.error is ErrorCode.NONE for row in seen.values())


def _serves_transactions(wire: CoordinatorConnection) -> bool:
    seen = wire.ask(describe_transactions([NOBODY]))
    return seen[NOBODY].error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def _idle(testbed: KafkaTestbed) -> tuple[int, ...]:
    busy = {testbed.leader_of(TRANSACTION_STATE), testbed.leader_of(CONSUMER_OFFSETS)}
    return (max(set(testbed.brokers) - busy),)


def _followers(testbed: KafkaTestbed) -> tuple[int, ...]:
    return tuple(sorted(set(testbed.brokers) - {testbed.leader_of(TRANSACTION_STATE)}))


ROLES: Final[Mapping[str, Callable[[KafkaTestbed], tuple[int, ...]]]] = {
    "coordinator": lambda testbed: (testbed.leader_of(TRANSACTION_STATE),),
    "group_coordinator": lambda testbed: (testbed.leader_of(CONSUMER_OFFSETS),),
    "followers": _followers,  # brokers with the log of transactions where it is replicated
    "idle": _idle,  # a broker that coordinates nothing
    "home": lambda testbed: (HOME,),
    "seat": lambda testbed: (SEAT,),
    "far": lambda testbed: (FAR,),
}
