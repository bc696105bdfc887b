"""Many traces at a time at nodes: what is done to these happens to all of them (`courses`).

1. Each trace on its way has its own connections: to the coordinator, and to each leader.
2. A deed waits until every trace wants it, or a later one.
3. Traces are played in batches, between which all leaders are there. Of two batches that hold a
   leader, one freezes it and the next kills it, as far as their traces allow that.
4. A trace that stays undecided is played a second time, with more patience.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from conformance.backends import BackendFailed
from conformance.kafka.errors import KafkaError
from conformance.systems.brokers.fault_schedule import course, lasting
from conformance.systems.brokers.transactions.cluster_nodes import HOLD, MOVE, RELEASE, ClusterNodes
from conformance.systems.brokers.transactions.nodes_script import NodeScript
from conformance.systems.brokers.transactions.nodes_session import NodeFault, NodesTrial
from conformance.systems.brokers.transactions.testbed_of_servers import PartitionPool
from conformance.systems.brokers.transactions.transaction_session import NONE, Rest, Times, TraceEnd, TraceResources
from conformance.transactions.layouts import FAR, HOME
from conformance.transactions.wire import Conversation, CoordinatorConnection
from impl import DecodeError
from proofs.java import JavaError

TOGETHER: Final = 32
"""Traces in a batch."""
PATIENCE: Final = 4

Numbered = tuple[int, NodeScript]


class ClusterSession:
    """A trace on its way."""

    def __init__(
        self,
        number: int,
        nodes: ClusterNodes,
        ground: TraceResources,
        trial: NodesTrial,
        places: tuple[int, ...],
    ) -> None:
        self.number = number
        self._places = places
        self._is_held = False
        self.ground = ground
        self.ended: TraceEnd | None = None
        self.deed: str | None = None
        self.taken = 0
        self._epoch: int | None = None
        self.rests_until = 0.0
        self._nodes = nodes
        self._wires: dict[int, CoordinatorConnection] = {}
        self._asked: list[CoordinatorConnection] = []
        self._asking = trial.run()
        self._go(None)

    @property
    def asks(self) -> bool:
        """It waits for answers, or for a moment."""
        return self.ended is None and self.deed is None

    def answered(self) -> None:
        """Read what was asked, and ask what follows. Who is silent leaves the trace undecided."""
        try:
            self._go([wire.receive() for wire in self._asked])
        except KafkaError:
            self.ended = TraceEnd(is_undecided=True)

    def wants(self, place: int) -> bool:
        """Whether it waits for what stands there in the course."""
        return self.deed is not None and self._epoch is None and self._places[self.taken] == place

    def takes(self, epoch: int) -> None:
        """What it waited for was done."""
        self._is_held = {HOLD: True, RELEASE: False}.get(self.deed or "", self._is_held)
        self._epoch = epoch
        self.taken += 1

    def goes_on(self, *, is_held: bool) -> None:
        """After a deed, if a leader is gone or there as the trace wants it. Old connections may
        lead to who is gone."""
        self.close()
        if self._epoch is None or self._is_held != is_held:
            return
        epoch, self._epoch, self.deed = self._epoch, None, None
        try:
            self._go([epoch])
        except KafkaError:
            self.ended = TraceEnd(is_undecided=True)

    def close(self) -> None:
        """Close its connections."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _go(self, answers: list[Any] | None) -> None:
        self._asked, self.rests_until = [], 0.0
        try:
            asks = next(self._asking) if answers is None else self._asking.send(answers)
        except StopIteration as ended:
            self.ended = ended.value
            return
        for ask in asks:
            self._ask(ask)

    def _ask(self, ask: Any) -> None:
        if isinstance(ask, NodeFault):
            self.deed = ask.deed
        elif isinstance(ask, Rest):
            self.rests_until = ask.until
        else:
            wire = self._wire(ask.to)
            wire.send(ask.call)
            self._asked.append(wire)

    def _wire(self, to: int) -> CoordinatorConnection:
        if to not in self._wires:
            far = len(self.ground.partitions) - 1
            node = self._nodes.coordinator if to == NONE else FAR if to == far else HOME
            self._wires[to] = self._nodes.ground.connect(node)
        return self._wires[to]


class ClusterHarness:
    """Plays scripts at nodes. `undecided` counts the tries that told nothing, `met` the traces that
    went through each kind of deed."""

    def __init__(
        self,
        nodes: ClusterNodes,
        conversation: Conversation,
        partitions: int,
        *,
        can_kill_leaders: bool,
        trial: type[NodesTrial] = NodesTrial,
    ) -> None:
        self._trial = trial
        self.nodes = nodes
        self._can_kill = can_kill_leaders
        self.undecided = 0
        self.met: Counter[str] = Counter()
        self._speaks = conversation
        near, far = PartitionPool(nodes.ground, HOME), PartitionPool(nodes.ground, FAR)
        self._supplies = [near] * (partitions - 1) + [far]
        self._kills_next = False

    def run(self, scripts: Iterable[Numbered]) -> Iterator[tuple[int, TraceEnd] | None]:
        """Each trace's end by its number, and None now and then. Raises BackendFailed."""
        again: list[Numbered] = []
        try:
            for batch in batches(scripts):
                known = dict(batch)
                for number, ended in self._play(batch, 1):
                    if ended.is_undecided:
                        again.append((number, known[number]))
                    else:
                        yield number, ended
                yield None
            for batch in batches(again):
                yield from self._play(batch, PATIENCE)
        except (KafkaError, JavaError, DecodeError) as error:
            raise BackendFailed(f"the nodes failed: {error}") from error

    def _play(self, batch: Sequence[Numbered], patience: int) -> Iterator[tuple[int, TraceEnd]]:
        """Scripts of one course, all together."""
        is_gentle = self._is_gentle(batch)
        if not all(s.has(len(batch) * self._supplies.count(s)) for s in self._supplies):
            self.nodes.complete()  # every broker must hear of a new topic
        deeds, places = course([script for _, script in batch])
        lasts = lasting([script for _, script in batch], places)
        lanes = [
            self._lane(*one, at, patience * lasts_s)
            for one, at, lasts_s in zip(batch, places, lasts, strict=True)
        ]
        finish(lanes)
        for place, deed in enumerate(deeds):
            self._do(lanes, place, deed, is_gentle)
            finish(lanes)
        self.nodes.rest()
        for lane in lanes:
            yield lane.number, self._left(lane)

    def _do(self, lanes: Sequence[ClusterSession], place: int, deed: str, is_gentle: bool) -> None:
        """What stands at a place of the course, if a trace wants it."""
        takers = [lane for lane in lanes if lane.wants(place)]
        if not takers and not (deed == RELEASE and self.nodes.is_held):
            return
        self.met[self.nodes.do(deed, gently=is_gentle)] += len(takers)
        epoch = self.nodes.coordinator_epoch
        for lane in takers:
            lane.takes(epoch)
        for lane in lanes:
            lane.goes_on(is_held=self.nodes.is_held)

    def _is_gentle(self, batch: Sequence[Numbered]) -> bool:
        """Whether a leader that is held is frozen: every second time, and where it must be."""
        if any(script.loses_leader for _, script in batch):
            return False
        holds = any(HOLD in script.signature for _, script in batch)
        can_kill = self._can_kill and holds and all(script.is_lenient for _, script in batch)
        can_kill &= not any(script.times_out for _, script in batch)  # a return takes long
        kills = can_kill and self._kills_next
        if can_kill:
            self._kills_next = not self._kills_next
        return not kills

    def _lane(
        self,
        number: int,
        script: NodeScript,
        places: tuple[int, ...],
        lasts_s: float,
    ) -> ClusterSession:
        partitions, ends = zip(*(s.take(1)[0] for s in self._supplies), strict=True)
        epoch = self.nodes.coordinator_epoch
        ground = TraceResources(self.nodes.ground.fresh("judged"), partitions, ends, epoch)
        trial = self._trial(script, ground, self._speaks, times=Times(transaction_s=lasts_s))
        return ClusterSession(number, self.nodes, ground, trial, places)

    def _left(self, lane: ClusterSession) -> TraceEnd:
        """Partitions on which nothing is open serve other traces."""
        lane.close()
        ended = lane.ended
        assert ended is not None, "nobody waits any more"
        self.undecided += ended.is_undecided
        if ended.log_ends is not None:
            places = zip(self._supplies, lane.ground.partitions, ended.log_ends, strict=True)
            for supply, partition, log_end in places:
                supply.give_back(partition, log_end)
        return ended


def finish(lanes: Sequence[ClusterSession]) -> None:
    """Until each has ended, or waits for a deed."""
    while asking := [lane for lane in lanes if lane.asks]:
        answer(asking)


def answer(lanes: Sequence[ClusterSession]) -> None:
    """One more answer for each that does not rest; where all rest, sleep."""
    now = time.monotonic()
    due = [lane for lane in lanes if lane.rests_until <= now]
    if not due:
        time.sleep(max(min(lane.rests_until for lane in lanes) - now, 0))
    for lane in due:
        lane.answered()


def batches(scripts: Iterable[Numbered]) -> Iterator[Sequence[Numbered]]:
    """Scripts with as many moves, that may be dealt with alike. Those in which transactions time
    out wait for each other's, and want just the same deeds: in between little time passes."""
    alike: dict[tuple[bool, bool, tuple[str, ...]], list[Numbered]] = {}
    for number, script in scripts:
        times_out = ("times out", *script.signature) if script.times_out else ()
        key = MOVE in script.signature, script.is_lenient or bool(times_out), times_out
        alike.setdefault(key, []).append((number, script))
    for key in sorted(alike):
        for first in range(0, len(alike[key]), TOGETHER):
            yield alike[key][first : first + TOGETHER]
