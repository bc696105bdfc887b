"""Many traces with transactions at a time at one broker, each over connections of its own.

1. A broker serves the requests of one connection one after the other, and one of these waits for
   replicas or coordinators: so each trace on its way has a connection, and one for what is late.
2. In a round each trace sends what it asks next; then all answers are read. Who waits for what a
   server does of itself rests meanwhile, and leaves its place to another.
3. A trace has a transactional id that nobody had. Its partitions served others before, whose
   transactions are all over: offsets count from where the trace found the log's end.
4. A trace that was too slow for the server's time-outs is played a second time, with more patience.
5. Before 4.3 a transaction at the last epoch can be stuck. Once it has lasted too long, the
   coordinator throws at it whenever it looks for time-outs, and comes to no other: KAFKA-20090.
   So traces that are stuck in the end come last, together. Whoever of them times out goes on only
   when all of them have; then their ids are buried (`worn`).
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from conformance.backends import BackendFailed
from conformance.kafka.admin import TopicPartition
from conformance.kafka.errors import KafkaError
from conformance.systems.brokers.transactions.transaction_script import TransactionScript
from conformance.systems.brokers.transactions.servers import Servers, TopicSource
from conformance.systems.brokers.transactions.transaction_session import (
    Ask,
    Asking,
    Rest,
    Times,
    TraceEnd,
    TraceResources,
    Trial,
)
from conformance.systems.brokers.transactions.exhausted_ids import LAST_EPOCH, Worn
from conformance.transactions.wire import Conversation, CoordinatorConnection
from impl import DecodeError

LANES: Final = 24
"""Traces at a time that ask."""
MOST_LANES: Final = 192
"""Traces at a time, with those that rest."""
TRANSACTION_S: Final = 3.0
"""How long transactions last of traces in which one times out."""
PATIENCE: Final = 4
TOPIC_PARTITIONS: Final = 48
"""Partitions that are made at a time."""
MOST_TRACES: Final = 16
"""Traces that a partition serves: its leader remembers the producers of all of them."""

Numbered = tuple[int, TransactionScript]


def _others(scripts: Iterable[Numbered], stuck: deque[Numbered]) -> Iterator[Numbered]:
    """Those that are not stuck in the end."""
    for numbered in scripts:
        if numbered[1].is_stuck:
            stuck.append(numbered)
        else:
            yield numbered


class PartitionPool:
    """Partitions, and where their logs end; led by the broker `on` where there are several."""

    def __init__(self, servers: TopicSource, on: int | None = None) -> None:
        self._servers = servers
        self._on = on
        self._free: deque[tuple[TopicPartition, int]] = deque()
        self._used: dict[TopicPartition, int] = {}

    def has(self, count: int) -> bool:
        """Whether so many are there without making any."""
        return len(self._free) >= count

    def take(self, count: int) -> list[tuple[TopicPartition, int]]:
        """Some partitions with their log ends."""
        if len(self._free) < count:
            made = self._servers.topic(TOPIC_PARTITIONS, on=self._on)
            self._free.extend((p, 0) for p in made)
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, partition: TopicPartition, log_end: int) -> None:
        """A partition on which nothing is open."""
        self._used[partition] = self._used.get(partition, 0) + 1
        if self._used[partition] < MOST_TRACES:
            self._free.append((partition, log_end))


class TransactionSession:
    """Two connections, and the trace that is on its way over them."""

    def __init__(self, servers: Servers) -> None:
        self._wire = servers.connect()
        self._late = servers.connect()
        self._asking: Asking | None = None
        self._asked: list[CoordinatorConnection] = []
        self.script: Numbered | None = None
        self.ground: TraceResources | None = None
        self.ended: TraceEnd | None = None
        self.rests_until = 0.0

    @property
    def is_free(self) -> bool:
        """No trace is on its way."""
        return self._asking is None

    def begin(self, script: Numbered, ground: TraceResources, asking: Asking) -> None:
        """A trace, with what it asks first."""
        self.script, self.ground, self._asking, self.ended = script, ground, asking, None
        self._send(next(asking))

    def go_on(self) -> None:
        """Read what was asked, and ask what follows."""
        assert self._asking is not None
        answers = [wire.receive() for wire in self._asked]
        try:
            self._send(self._asking.send(answers))
        except StopIteration as ended:
            self._asking, self.ended = None, ended.value

    def _send(self, asks: Iterable[Ask | Rest]) -> None:
        self._asked, self.rests_until = [], 0.0
        for ask in asks:
            if isinstance(ask, Rest):
                self.rests_until = ask.until
                continue
            wire = self._late if ask.is_late else self._wire
            wire.send(ask.call)
            self._asked.append(wire)


class TransactionHarness:
    """Plays scripts at a broker. With `has_group` the last partition is that of a group's offsets.

    `worn` are the ids whose epochs are used up but for `last_epochs`; without them each trace has
    an id that nobody had. `id_s`: ids that are not used so long expire there.
    """

    def __init__(
        self,
        servers: Servers,
        conversation: Conversation,
        partitions: int,
        *,
        has_group: bool = False,
        worn: Worn | None = None,
        last_epochs: int = LAST_EPOCH,
        id_s: float = 0.0,
    ) -> None:
        self._servers = servers
        self._speaks = conversation
        self._partitions = partitions - has_group
        self._has_group = has_group
        self._worn = worn
        self._first_epoch = LAST_EPOCH - last_epochs
        self._id_s = id_s
        self._supply = PartitionPool(servers)
        self._lanes: list[TransactionSession] = []
        self._timing_out: set[int] = set()
        """The traces that are played together and have not timed out."""

    def run(self, scripts: Iterable[Numbered]) -> Iterator[tuple[int, TraceEnd] | None]:
        """Each trace's end by its number, and None now and then. Raises BackendFailed."""
        again: list[Numbered] = []
        try:
            for script, ended in self._by_turns(scripts, 1):
                if ended.is_undecided and self._is_timed(script[1]):
                    again.append(script)
                else:
                    yield script[0], ended
                yield None
            for script, ended in self._by_turns(again, PATIENCE):
                yield script[0], ended
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(f"the broker stopped answering: {error}") from error

    def _is_timed(self, script: TransactionScript) -> bool:
        return bool(script.times_out or self._id_s)

    def _by_turns(
        self, scripts: Iterable[Numbered], patience: int
    ) -> Iterator[tuple[Numbered, TraceEnd]]:
        """Each script with its end; first all that are not stuck in it."""
        stuck: deque[Numbered] = deque()
        yield from self._play(_others(scripts, stuck), patience)
        while stuck:
            together = [stuck.popleft() for _ in range(min(len(stuck), MOST_LANES))]
            yield from self._play_and_bury(together, patience)

    def _play_and_bury(
        self, together: Sequence[Numbered], patience: int
    ) -> Iterator[tuple[Numbered, TraceEnd]]:
        """Scripts that are stuck in the end, all of them on their way at once; told of once the
        broker is as before."""
        assert self._worn is not None, "an epoch is the last where ids are worn"
        self._timing_out = {number for number, script in together if script.times_out}
        played = list(self._play(together, patience))
        self._worn.bury()
        self._lanes.clear()
        yield from played

    def _goes_on(self, number: int) -> bool:
        """A trace has timed out: whether all have that are played together."""
        self._timing_out.discard(number)
        return not self._timing_out

    def _play(
        self, scripts: Iterable[Numbered], patience: int
    ) -> Iterator[tuple[Numbered, TraceEnd]]:
        """Each script with its end."""
        waiting = iter(scripts)
        while on_way := self._fill(waiting, patience):
            now = time.monotonic()
            due = [lane for lane in on_way if lane.rests_until <= now]
            if not due:
                time.sleep(max(min(lane.rests_until for lane in on_way) - now, 0))
            for lane in due:
                lane.go_on()
                if lane.ended is not None:
                    assert lane.script is not None
                    self._timing_out.discard(lane.script[0])
                    yield lane.script, self._left(lane, lane.ended)

    def _fill(self, waiting: Iterator[Numbered], patience: int) -> list[TransactionSession]:
        """Begin traces where there is room; all that are on their way."""
        on_way = [lane for lane in self._lanes if not lane.is_free]
        asking = sum(not lane.rests_until for lane in on_way)
        while asking < LANES and len(on_way) < MOST_LANES:
            script = next(waiting, None)
            if script is None:
                break
            on_way.append(self._begin(script, patience))
            asking += 1
        return on_way

    def _begin(self, script: Numbered, patience: int) -> TransactionSession:
        """A trace on its way."""
        lane = next((lane for lane in self._lanes if lane.is_free), None)
        if lane is None:
            lane = TransactionSession(self._servers)
            self._lanes.append(lane)
        lasts_s = patience * TRANSACTION_S if script[1].times_out else 0.0
        ground = self._ground()
        trial = Trial(
            script[1],
            ground,
            self._speaks,
            times=Times(lasts_s, self._id_s),
            shows_producers=self._servers.shows_producers,
            goes_on=functools.partial(self._goes_on, script[0]),
        )
        lane.begin(script, ground, trial.run())
        return lane

    def _ground(self) -> TraceResources:
        taken = self._supply.take(self._partitions)
        partitions, ends = zip(*taken, strict=True)
        servers = self._servers
        name = self._worn.take() if self._worn else servers.fresh("judged")
        group = servers.fresh("group") if self._has_group else ""
        if group:
            partitions = (*partitions, servers.offsets_of(group))
        epoch = servers.coordinator_epoch(name)
        return TraceResources(name, partitions, ends, epoch, group, self._first_epoch)

    def _left(self, lane: TransactionSession, ended: TraceEnd) -> TraceEnd:
        """Partitions on which nothing is open serve other traces."""
        if ended.log_ends is not None and lane.ground is not None:
            for partition, log_end in zip(lane.ground.partitions, ended.log_ends, strict=False):
                self._supply.give_back(partition, log_end)
        return ended
