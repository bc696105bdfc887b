"""The faults of three brokers whose transactions are judged.

| broker | role | faults |
|---|---|---|
| HOME | the only controller, leader of near partitions | always up |
| SEAT | the preferred coordinator | killed, frozen, elected |
| FAR | leader of far partitions | frozen, or killed and restarted |

The log of transactions is on SEAT and HOME. While FAR is down, a decision stays open, and the
coordinator can move meanwhile: the voter and the replicas that must acknowledge are up.

Sessions are long, so that a slow machine does not lose a broker. A coordinator that is killed or
frozen is unregistered, so that its successor is elected at once. A leader that is frozen stays the
leader, and the marker waits in its socket. A leader that is killed is unregistered, too, and then
its partitions have no leader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from conformance.adapters.brokers.fault_schedule import HOLD, MOVE, RELEASE
from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.kafka.administration import elect_preferred, unregister
from conformance.adapters.brokers.kafka.errors import BrokerFailed, KafkaError
from conformance.adapters.brokers.kafka.wait import wait_until
from conformance.adapters.brokers.layouts import FAR, HOME, SEAT, SEATED
from conformance.adapters.brokers.reading import (
    TRANSACTION_STATE,
    describe_transactions,
    leadership,
)
from conformance.adapters.brokers.testbed import NOBODY, KafkaTestbed
from conformance.adapters.brokers.wire import (
    ClientIdentity,
    Conversation,
    WireCall,
    error_in,
    find_coordinator,
)
from impl.protocol.errors import ErrorCode

SETTLE_TIMEOUT_S: Final = 60.0


def seated_cluster(release: str, level: int) -> KafkaTestbed:
    """The three brokers, not started yet. Raises UnknownRelease."""
    return KafkaTestbed(release, level=level, nodes=3, layout=SEATED)


class ClusterNodes:
    """The present state of the brokers: which are frozen, down, or coordinating. `done` counts
    faults by kind.

    Raises KafkaError, JavaError.
    """

    def __init__(self, kafka: KafkaTestbed, conversation: Conversation) -> None:
        self.kafka = kafka
        self.done: Counter[str] = Counter()
        self.coordinator = SEAT
        self._speaks = conversation
        self._held: str | None = None
        self._moves = 0
        self._is_seated, self._is_coming = True, False
        self._await_coordinator(SEAT)
        self._near, self._far = kafka.topic(on=HOME)[0], kafka.topic(on=FAR)[0]
        self.rest()

    @property
    def is_held(self) -> bool:
        """Whether the far leader is down."""
        return self._held is not None

    @property
    def coordinator_epoch(self) -> int:
        """The number of elections of a coordinator; only differences mean something."""
        return self.kafka.wire(HOME).ask(leadership(TRANSACTION_STATE)).leader_epoch

    def inject(self, fault: str, *, gently: bool) -> str:
        """HOLD, RELEASE or MOVE; returns the kind of the fault. `gently`: a leader is frozen, not
        killed."""
        faults: Mapping[str, Callable[[], str]] = {
            HOLD: self._freeze if gently else self._kill,
            RELEASE: self._release,
            MOVE: self._move,
        }
        if self._is_coming:
            # Not later: when a follower comes back, 3.3 reads the log of transactions again, and
            # sends the markers of prepared transactions again, under the same coordinator epoch.
            self.complete()
        kind = faults[fault]()
        self.done[kind] += 1
        self._warm()
        return kind

    def rest(self) -> None:
        """Bring all leaders back; the former coordinator restarts, and `complete` waits for it."""
        if self._held is not None:
            self._release()
        if not self._is_seated and not self._is_coming:
            self.kafka.brokers[SEAT].kill()
            self.kafka.forget(SEAT)
            self.kafka.brokers[SEAT].launch()
            self._is_coming = True
        self._warm()

    def complete(self) -> None:
        """Wait until all brokers are up and in sync."""
        if self._is_coming:
            self.kafka.brokers[SEAT].await_answer()
            self._is_seated, self._is_coming = True, False
        self._await(self._is_in_sync, "the log of transactions is not in sync")

    # ---- a partition without a leader

    def _freeze(self) -> str:
        self._held = "SIGSTOP"
        self.kafka.brokers[FAR].pause()
        return "SIGSTOP of a partition's leader"

    def _kill(self) -> str:
        self._held = "SIGKILL"
        self.kafka.brokers[FAR].kill()
        self._give_up(FAR)
        return "SIGKILL of a partition's leader"

    def lose(self, *, moving: bool = False) -> None:
        """Kill the frozen leader. If `moving`, kill the coordinator first: the next one finds
        partitions without a leader."""
        if moving:
            self.kafka.brokers[SEAT].kill()
            self._is_seated = False
        self._kill()
        if moving:
            self._give_up(SEAT)
            self._await_coordinator(HOME)
        self._warm()

    def _release(self) -> str:
        held, self._held = self._held, None
        if held == "SIGSTOP":
            self.kafka.brokers[FAR].resume()
            return "SIGCONT of a partition's leader"
        self.kafka.brokers[FAR].start()
        return "return of a partition's leader"

    # ---- a coordinator that moves

    def _move(self) -> str:
        if self.coordinator == HOME:
            return self._elect()
        self._moves += 1
        self._is_seated = False
        seat = self.kafka.brokers[SEAT]
        if self._moves % 2:
            seat.kill()
            self._give_up(SEAT)
            self._await_coordinator(HOME)
            return "SIGKILL of the coordinator"
        seat.pause()
        self._give_up(SEAT)
        self._await_coordinator(HOME)
        seat.resume()
        return "SIGSTOP of the coordinator, SIGCONT behind its successor"

    def _give_up(self, node: int) -> None:
        """Unregister a broker, so that no other broker waits for it."""
        self.kafka.forget(node)
        unregister(self.kafka.wire(HOME).connection, node)

    def _elect(self) -> str:
        elect_preferred(self.kafka.wire(HOME).connection, TRANSACTION_STATE)
        self._await_coordinator(SEAT)
        return "election of another coordinator"

    def _await_coordinator(self, node: int) -> None:
        self._await(lambda: self._coordinates(node), f"broker {node} does not coordinate")
        self.coordinator = node

    def _coordinates(self, node: int) -> bool:
        named = self.kafka.wire(HOME).ask(find_coordinator(NOBODY)).node_id
        if named != node:
            return False
        seen = self.kafka.wire(node).ask(describe_transactions([NOBODY]))[NOBODY]
        return seen.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    # ---- the knowledge of the other brokers

    def _is_in_sync(self) -> bool:
        seen = self.kafka.wire(HOME).ask(leadership(TRANSACTION_STATE))
        return seen.in_sync == {HOME, SEAT}

    def _warm(self) -> None:
        """End a transaction of our own on all leaders that are up: then they know the coordinator,
        and it knows them."""
        homes = {HOME: self._near} if self._held else {HOME: self._near, FAR: self._far}
        self._await(lambda: self._ends_on(homes), "a transaction of ours does not end")

    def _ends_on(self, homes: Mapping[int, TopicPartition]) -> bool:
        ask = self.kafka.wire(self.coordinator).ask
        name, speaks = self.kafka.fresh("warm"), self._speaks
        answer = ask(speaks.init_producer_id(name))
        if answer.error is not ErrorCode.NONE:
            return False
        who = ClientIdentity(name, answer.producer_id, answer.producer_epoch)
        calls: list[tuple[int, WireCall[object]]] = []
        if speaks.end_txn_version < 5:
            calls.append((self.coordinator, speaks.add_partitions(who, homes.values())))
        calls += [(node, speaks.produce(who, p, 0, "warm")) for node, p in homes.items()]
        calls.append((self.coordinator, speaks.end_txn(who, committed=False)))
        if any(error_in(self.kafka.wire(n).ask(c)) is not ErrorCode.NONE for n, c in calls):
            return False
        self._await(lambda: self._is_complete(name), f"{name} is not complete")
        return True

    def _is_complete(self, name: str) -> bool:
        seen = self.kafka.wire(self.coordinator).ask(describe_transactions([name]))
        return seen[name].state == "CompleteAbort"

    def _await(self, holds: Callable[[], bool], problem: str) -> None:
        """Raises BrokerFailed after SETTLE_TIMEOUT_S."""

        def holds_now() -> bool:
            with suppress(KafkaError):
                return holds()
            for node in self.kafka.brokers:
                self.kafka.forget(node)
            return False

        failure = BrokerFailed(f"{problem} after {SETTLE_TIMEOUT_S:.0f} s")
        wait_until(holds_now, SETTLE_TIMEOUT_S, failure)
