"""The story of the stale coordinator: a leader asks one that coordinates no more, and is told yes.

A transaction is open. The partition of `__transaction_state` moves to another broker, which aborts
the transaction; its marker is in the log. Two brokers have not heard of the move: the one that
coordinated before, and the leader of a partition (or the coordinator of a group). Then a delayed
Produce (or TxnOffsetCommit) of that transaction arrives. The leader asks whom it takes for the
coordinator whether the transaction is open (KIP-890, `AddPartitionsToTxnManager`), and that broker
answers from its memory (`TransactionCoordinator.handleVerifyPartitionsInTransaction`). With V2
requests the marker has a newer epoch than the late batch, and the leader needs nobody to tell it.

What became of it is decided by what is read back, never by what is expected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from conformance.kafka.elections import elect_preferred, order_replicas
from conformance.kafka.errors import RequestRefused
from conformance.kafka.metadata_proxy import MetadataProxy
from conformance.transactions.delayed_end_txn import Told
from conformance.transactions.facts.lab import Lab
from conformance.transactions.ground import HOME, NOBODY, SEAT, Ground
from conformance.transactions.reading import (
    TRANSACTION_STATE,
    describe_transactions,
    leadership,
)
from conformance.transactions.stale_targets import (
    FIRST,
    LATE,
    LEADER,
    NEXT,
    Look,
    Offsets,
    Records,
    Target,
)
from conformance.transactions.wire import (
    A,
    Call,
    Conversation,
    Produced,
    Producer,
    Requests,
    error_in,
    find_coordinator,
)
from impl.protocol.errors import ErrorCode

COORDINATOR, FORMER = HOME, SEAT
"""Who coordinates in the end, and who did before."""
ROLES: Final = {COORDINATOR: "coordinator", FORMER: "former", LEADER: "leader"}

PROPERTIES: Final = {
    # The coordinator need not wait long for one who follows it no more, as he has not heard.
    "replica.lag.time.max.ms": "1500",
    "broker.session.timeout.ms": "9000",  # Kafka's own
}
WATCH_S: Final = 2.0
"""How long readers are watched once all brokers know who coordinates."""
KNOWN_TIMEOUT_S: Final = 60.0
"""How long news and replicas may take."""
STABLE_TIMEOUT_S: Final = 5.0
"""How long readers may take to be past a transaction that is complete."""

ARRIVED, WATCHED, ENDED = "arrived", "watched", "ended"
"""When it is looked: the late write was answered; all know; the next transaction is committed."""

OF_ABORTED: Final = {False: "no_aborted_read", True: "offsets_with_outcome"}
"""The guarantee that nothing of what was aborted is shown: of records, and of offsets."""

ABORT, COMMIT = False, True
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """Who is `deaf` to the news of the move when the late write arrives, or `lost` to the
    controller at all; whether the next transaction begins with InitProducerId; what is written
    `to`."""

    name: str
    what: str
    deaf: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    begins_anew: bool = False
    to: Callable[[Ground, Conversation], Target] = Records

    @property
    def behind(self) -> tuple[int, ...]:
        """Who has not heard."""
        return self.deaf + self.lost


BOTH: Final = (FORMER, LEADER)

SHAPES: Final = (
    Shape("both_deaf", "neither has heard; the same producer goes on", BOTH),
    Shape("both_deaf_init", "neither has heard; InitProducerId is next", BOTH, begins_anew=True),
    Shape("former_lost", "the controller lost the former; no news", (LEADER,), (FORMER,)),
    Shape("leader_deaf", "only the leader has not heard", (LEADER,)),
    Shape("former_deaf", "only the former coordinator has not heard", (FORMER,)),
    Shape("nobody_deaf", "all have heard"),
    Shape("offsets_both_deaf", "neither has heard; offsets of a group", BOTH, to=Offsets),
    Shape("offsets_nobody_deaf", "all have heard; offsets of a group", to=Offsets),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the coordinator shows of the transaction at one moment, and what was written to."""

    state: str
    target: Look


@dataclass(frozen=True, slots=True)
class Ending:
    """What was asked and answered in one shape, and what was seen at each moment."""

    shape: Shape
    told: tuple[Told, ...]
    seen: Mapping[str, Seen]

    @property
    def broken(self) -> tuple[str, ...]:
        """Guarantees by their names."""
        return broken(self.seen, self.shape.to is Offsets)

    @property
    def verdict(self) -> str:
        """As the verbs have it."""
        return "violated" if self.broken else "holds"


def broken(seen: Mapping[str, Seen], of_offsets: bool) -> tuple[str, ...]:
    """The guarantees that were seen broken; the first transaction was aborted, and told so."""
    arrived, watched, ended = (seen[moment] for moment in (ARRIVED, WATCHED, ENDED))
    marked = [entry.endswith("!ABORT") for entry in arrived.target.log]
    shown = ended.target.committed
    findings = {
        "no_write_outside": True in marked and not marked[-1],
        "last_stable_offset_moves": watched.state.startswith("Complete")
        and not watched.target.is_stable,
        OF_ABORTED[of_offsets]: not {FIRST, LATE}.isdisjoint(shown),
        "no_lost_write": NEXT not in shown,
    }
    return tuple(name for name, is_broken in findings.items() if is_broken)


class Story:
    """One shape, step by step, on a fresh partition and id; the log is at FORMER before and after.

    The ground is seated, and `proxy` is between its brokers and the controller.
    """

    def __init__(
        self, ground: Ground, proxy: MetadataProxy, requests: Requests, shape: Shape, watch_s: float
    ) -> None:
        self._ground = ground
        self._proxy = proxy
        self._c = ground.conversation(requests)
        self._registers = requests == "v1"
        self._shape = shape
        self._watch_s = watch_s
        self._lab = Lab(ground, "stale_coordinator")
        self._told: list[Told] = []
        self._seen: dict[str, Seen] = {}
        self._target = shape.to(ground, self._c)

    def play(self) -> Ending:
        """The whole story. Raises RequestRefused, and what a `Wire` raises."""
        producer = self._begin()
        what, late = self._target.write(producer, 1, LATE)
        self._told.append(Told("-", what, "(delayed by the network)"))
        self._proxy.hold(self._shape.deaf, self._shape.lost)
        try:
            self._move()
            after = self._abort(producer)
            stored = self._arrive(producer, what, late)
        finally:
            self._proxy.hold()
        await_known(self._ground, COORDINATOR)
        time.sleep(self._watch_s)
        self._look(WATCHED, producer)
        self._next_transaction(after, 2 if stored else 1)
        lead(self._ground, FORMER)
        return Ending(self._shape, tuple(self._told), dict(self._seen))

    def _begin(self) -> Producer:
        """Begin at FORMER and write in time."""
        name = self._ground.fresh("id")
        told = self._accepted(FORMER, "InitProducerId", self._c.init_producer_id(name))
        producer = Producer(name, told.producer_id, told.producer_epoch)
        self._write(FORMER, producer, 0, FIRST)
        return producer

    def _write(self, coordinator: int, producer: Producer, sequence: int, value: str) -> None:
        if self._registers:
            self._accepted(coordinator, *self._target.register(producer))
        self._accepted(LEADER, *self._target.write(producer, sequence, value))

    def _move(self) -> None:
        """Who is lost is given up by the controller, after its session."""
        behind = self._shape.behind
        if not self._shape.lost:
            lead(self._ground, COORDINATOR, behind)
            return
        await_known(self._ground, COORDINATOR, behind)
        self._ground.await_takeover(FORMER)

    def _abort(self, producer: Producer) -> Producer:
        """Abort where the log is now; who the producer is then."""
        for node in ROLES:
            found = self._ground.wire(node).ask(find_coordinator(producer.transactional_id))
            self._tell(node, "FindCoordinator", ROLES[found.node_id])
        told = self._accepted(COORDINATOR, "EndTxn(abort)", self._c.end_txn(producer, ABORT))
        self._lab.await_state(producer, "CompleteAbort")
        for node in (COORDINATOR, FORMER):
            self._tell(node, "DescribeTransactions", self._state(node, producer))
        if told.producer_id < 0:
            return producer
        return replace(producer, producer_id=told.producer_id, producer_epoch=told.producer_epoch)

    def _arrive(self, producer: Producer, what: str, late: Call[object]) -> bool:
        """The late write, on a connection of its own; whether it was stored."""
        answer = self._ground.connect(LEADER).ask(late)
        error = error_in(answer)
        is_stored = error is ErrorCode.NONE
        at = ""
        if isinstance(answer, Produced) and is_stored:
            at = f" at offset {answer.base_offset}"
        self._tell(LEADER, f"{what} arrives", f"{error.name}{at}")
        self._look(ARRIVED, producer)
        return is_stored

    def _next_transaction(self, producer: Producer, sequence: int) -> None:
        """Write and commit at COORDINATOR; an epoch that is new begins its sequences anew."""
        if self._shape.begins_anew:
            call = self._c.init_producer_id(producer.transactional_id)
            told = self._accepted(COORDINATOR, "InitProducerId", call)
            producer = replace(
                producer, producer_id=told.producer_id, producer_epoch=told.producer_epoch
            )
        is_new = self._shape.begins_anew or not self._registers
        self._write(COORDINATOR, producer, 0 if is_new else sequence, NEXT)
        self._accepted(COORDINATOR, "EndTxn(commit)", self._c.end_txn(producer, COMMIT))
        self._lab.await_state(producer, "CompleteCommit")
        with suppress(RequestRefused):
            _await(lambda: self._target.look(self._lab.names).is_stable, STABLE_TIMEOUT_S)
        self._look(ENDED, producer)

    def _look(self, moment: str, producer: Producer) -> None:
        target = self._target.look(self._lab.names)
        self._seen[moment] = Seen(self._state(COORDINATOR, producer), target)

    def _state(self, node: int, producer: Producer) -> str:
        name = producer.transactional_id
        seen = self._ground.wire(node).ask(describe_transactions([name]))[name]
        return self._lab.names.state(seen)

    def _accepted(self, node: int, request: str, call: Call[A]) -> A:
        """Asked until the broker is not busy. Raises RequestRefused."""
        answer = self._ground.wire(node).retry(call)
        self._tell(node, request, self._lab.names.answer(answer))
        if error_in(answer) is not ErrorCode.NONE:
            raise RequestRefused(f"{request} at the {ROLES[node]}: {error_in(answer).name}")
        return answer

    def _tell(self, node: int, request: str, answer: str) -> None:
        self._told.append(Told(ROLES[node], request, answer))


def lead(ground: Ground, node: int, behind: Iterable[int] = ()) -> None:
    """Let `node` lead the log of transactions; those who are not `behind` know it then.

    Raises RequestRefused.
    """
    [gone] = {COORDINATOR, FORMER} - {node}
    controller = ground.wire(HOME)
    _await(lambda: controller.ask(leadership(TRANSACTION_STATE)).in_sync == {node, gone})
    order_replicas(controller.connection, TRANSACTION_STATE, (node, gone))
    elect_preferred(controller.connection, TRANSACTION_STATE)
    await_known(ground, node, behind)
    ground.await_takeover(gone)


def await_known(ground: Ground, node: int, behind: Iterable[int] = ()) -> None:
    """Wait until those who are not `behind` take `node` for the coordinator. As `lead`."""
    wires = [ground.wire(asked) for asked in ROLES.keys() - set(behind)]
    _await(lambda: {wire.ask(find_coordinator(NOBODY)).node_id for wire in wires} == {node})


def _await(is_so: Callable[[], bool], timeout_s: float = KNOWN_TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise RequestRefused(f"what was waited for did not come in {timeout_s:.0f} s")
        time.sleep(_PAUSE_S)
