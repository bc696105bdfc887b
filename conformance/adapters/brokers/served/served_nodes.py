"""Three nodes of a served broker, which are stopped, moved and killed while traces are played.

Their roles are those in `cluster_nodes`: HOME and SEAT coordinate in turn, FAR leads the far
partitions. All nodes are one process, with one directory. So FAR is stopped as a node, which leaves
its partitions without a leader, while a coordinator moves in three ways, one after the other:

| the coordinator moves | because |
|---|---|
| alone | another node is told to lead the log of transactions |
| with its process, which is killed | the next process recovers all logs; another node coordinates |
| with its process, which stops in order | as before, from the files that it wrote when it stopped |

A process that dies takes all nodes with it. If FAR was down, it stays down after that, so that a
prepared transaction is recovered before its marker can be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from conformance.adapters.brokers.fault_schedule import HOLD, MOVE, RELEASE
from conformance.adapters.brokers.kafka.admin import TopicPartition, create_topic
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.wait import wait_until
from conformance.adapters.brokers.layouts import FAR, HOME, SEAT
from conformance.adapters.brokers.reading import (
    TRANSACTION_STATE,
    describe_transactions,
    leadership,
)
from conformance.adapters.brokers.served.served_broker import ServedBroker
from conformance.adapters.brokers.testbed import NOBODY
from conformance.adapters.brokers.transactions.nodes_script import NodeScript
from conformance.adapters.brokers.transactions.servers import ListeningServer
from conformance.adapters.brokers.transactions.testbed_of_nodes import NodesTestbed
from conformance.adapters.brokers.wire import CoordinatorConnection, find_coordinator
from impl.protocol.errors import ErrorCode

NODES: Final = 3
SETTLE_TIMEOUT_S: Final = 30.0


class ServedServer(ListeningServer):
    """A served broker, as its clients see it. Raises NoBroker, BackendFailed, KafkaError."""

    def __init__(self, broker: ServedBroker) -> None:
        self.broker = broker
        self.led_by: dict[str, int] = {}
        super().__init__("wire://{}:{}".format(*broker.address))

    def open_connection(self, node_id: int = HOME) -> BrokerConnection:
        """See `ListeningBroker`."""
        return self.broker.connect(node_id, self._timeout_ms)

    def connect(self, node_id: int = HOME) -> CoordinatorConnection:
        """See `TransactionServer`."""
        wire = CoordinatorConnection(self.open_connection(node_id))
        self._wires.append(wire)
        return wire

    def topic(
        self,
        partitions: int = 1,
        *,
        on: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> list[TopicPartition]:
        """See `TransactionServer`."""
        name, leader = self.fresh("topic"), on or HOME
        with self.open_connection(leader) as connection:
            create_topic(connection, name, partitions, replicas=(leader,), configs=configs)
        self.led_by[name] = leader
        return [(name, index) for index in range(partitions)]

    def close(self) -> None:
        """Close all connections; the directory goes with the broker."""
        for wire in self._wires:
            wire.close()


class ServedNodes:
    """Injects faults into the nodes of a served broker, as `ClusterNodes`. `done` counts faults by
    kind.

    Raises KafkaError.
    """

    def __init__(self, server: ServedServer) -> None:
        self.kafka = server
        self.done: Counter[str] = Counter()
        self.is_held = False
        self.coordinator = SEAT
        self._broker = server.broker
        self._ways = cycle((self._kill, self._elect, self._stop))
        server.epochs(TRANSACTION_STATE[0])  # from now on there is its log
        self._elect()

    @property
    def coordinator_epoch(self) -> int:
        """The number of elections of a coordinator; only differences mean something."""
        with self.kafka.open_connection() as connection:
            return CoordinatorConnection(connection).ask(leadership(TRANSACTION_STATE)).leader_epoch

    def inject(self, fault: str, *, gently: bool) -> str:
        """HOLD, RELEASE or MOVE; returns the kind of the fault. `gently`: the process is not
        stopped."""
        if fault == MOVE:
            self.coordinator = SEAT if self.coordinator == HOME else HOME
            kind = self._elect() if gently else next(self._ways)()
        else:
            kind = {HOLD: self._hold, RELEASE: self._release}[fault]()
        self.done[kind] += 1
        return kind

    def rest(self) -> None:
        """Bring all leaders back."""
        if self.is_held:
            self._release()

    def complete(self) -> None:
        """Nothing: nodes of one process always know of all changes."""

    def _hold(self) -> str:
        self._broker.tell("stop", FAR)
        self.is_held = True
        return "stop of a partition's leader"

    def _release(self) -> str:
        self._broker.tell("start", FAR)
        self.is_held = False
        return "return of a partition's leader"

    def _elect(self) -> str:
        self._broker.tell("move", *TRANSACTION_STATE, self.coordinator)
        self._await_coordinator()
        return "election of another coordinator"

    def _kill(self) -> str:
        self._restart(self._broker.kill)
        return "SIGKILL of the process"

    def _stop(self) -> str:
        self._restart(self._broker.stop)
        return "SIGTERM of the process"

    def _restart(self, end: Callable[[], None]) -> None:
        end()
        seats = {**self.kafka.led_by, TRANSACTION_STATE[0]: self.coordinator}
        self._broker.start_nodes(NODES - self.is_held, seats)
        self._await_coordinator()

    def _await_coordinator(self) -> None:
        """Raises BrokerFailed after SETTLE_TIMEOUT_S."""
        failure = BrokerFailed(f"node {self.coordinator} does not coordinate")
        with self.kafka.open_connection(self.coordinator) as connection:
            wire = CoordinatorConnection(connection)
            wait_until(lambda: self._coordinates(wire), SETTLE_TIMEOUT_S, failure)

    def _coordinates(self, wire: CoordinatorConnection) -> bool:
        if wire.ask(find_coordinator(NOBODY)).node_id != self.coordinator:
            return False
        seen = wire.ask(describe_transactions([NOBODY]))[NOBODY]
        return seen.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class ServedNodesTestbed(NodesTestbed):
    """A leader that is held is always stopped. The process is stopped, too, if no trace needs
    producer states that a stopped leader forgets, and no time-out is near: a start takes long."""

    def _holds_gently(self, scripts: Sequence[NodeScript]) -> bool:
        return any(script.times_out or not script.is_lenient for script in scripts)
