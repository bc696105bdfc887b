"""Many traces with transactions at a time at one broker, each over connections of its own.

1. A broker serves the requests of one connection one after the other, and one of these waits for
   replicas or coordinators: so each trace on its way has a connection, and one for what is late.
2. In a round each trace sends what it asks next; then all answers are read.
3. A trace has a transactional id that nobody had. Its partitions served others before, whose
   transactions are all over: offsets count from where the trace found the log's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from conformance.backends import BackendFailed
from conformance.kafka.admin import TopicPartition
from conformance.kafka.errors import KafkaError
from conformance.systems.transactions_wire_script import Script
from conformance.systems.transactions_wire_trial import Ask, Asking, Ended, Ground, Trial
from conformance.transactions.ground import Ground as Servers
from conformance.transactions.reading import TRANSACTION_STATE, leadership
from conformance.transactions.wire import Conversation, Wire
from impl import DecodeError

LANES: Final = 24
"""Traces at a time."""
TOPIC_PARTITIONS: Final = 48
"""Partitions that are made at a time."""
MOST_TRACES: Final = 16
"""Traces that a partition serves: its leader remembers the producers of all of them."""


class Supply:
    """Partitions, and where their logs end; led by the broker `on` where there are several."""

    def __init__(self, servers: Servers, on: int | None = None) -> None:
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


class Lane:
    """Two connections, and the trace that is on its way over them."""

    def __init__(self, servers: Servers) -> None:
        self._wire = servers.connect()
        self._late = servers.connect()
        self._asking: Asking | None = None
        self._asked: list[Wire] = []
        self.number = -1
        self.ground: Ground | None = None
        self.ended: Ended | None = None

    @property
    def is_free(self) -> bool:
        """No trace is on its way."""
        return self._asking is None

    def begin(self, number: int, ground: Ground, asking: Asking) -> None:
        """A trace, with what it asks first."""
        self.number, self.ground, self._asking, self.ended = number, ground, asking, None
        self._send(next(asking))

    def go_on(self) -> None:
        """Read what was asked, and ask what follows."""
        assert self._asking is not None
        answers = [wire.receive() for wire in self._asked]
        try:
            self._send(self._asking.send(answers))
        except StopIteration as ended:
            self._asking, self.ended = None, ended.value

    def _send(self, asks: Iterable[Ask]) -> None:
        self._asked = []
        for ask in asks:
            wire = self._late if ask.is_late else self._wire
            wire.send(ask.call)
            self._asked.append(wire)


class Harness:
    """Plays scripts at a broker. Raises KafkaError where it cannot be begun."""

    def __init__(self, servers: Servers, conversation: Conversation, partitions: int) -> None:
        self._servers = servers
        self._speaks = conversation
        self._partitions = partitions
        self._supply = Supply(servers)
        self._lanes = [Lane(servers) for _ in range(LANES)]
        epoch = servers.coordinator().ask(leadership(TRANSACTION_STATE)).leader_epoch
        self._coordinator_epoch = epoch

    def run(self, scripts: Iterable[tuple[int, Script]]) -> Iterator[tuple[int, Ended] | None]:
        """Each trace's end by its number, and None now and then. Raises BackendFailed."""
        waiting = iter(scripts)
        try:
            while self._fill(waiting):
                yield None
                for lane in [lane for lane in self._lanes if not lane.is_free]:
                    lane.go_on()
                    if lane.ended is not None:
                        yield lane.number, self._left(lane, lane.ended)
        except (KafkaError, DecodeError) as error:
            raise BackendFailed(f"the broker stopped answering: {error}") from error

    def _fill(self, waiting: Iterator[tuple[int, Script]]) -> bool:
        """Begin a trace on each free lane; whether any is on its way."""
        for lane in self._lanes:
            if lane.is_free and (one := next(waiting, None)) is not None:
                number, script = one
                ground = self._ground()
                lane.begin(number, ground, Trial(script, ground, self._speaks).run())
        return any(not lane.is_free for lane in self._lanes)

    def _ground(self) -> Ground:
        taken = self._supply.take(self._partitions)
        partitions, ends = zip(*taken, strict=True)
        name = self._servers.fresh("judged")
        return Ground(name, partitions, ends, self._coordinator_epoch)

    def _left(self, lane: Lane, ended: Ended) -> Ended:
        """Partitions on which nothing is open serve other traces."""
        if ended.log_ends is not None and lane.ground is not None:
            for partition, log_end in zip(lane.ground.partitions, ended.log_ends, strict=True):
                self._supply.give_back(partition, log_end)
        return ended
