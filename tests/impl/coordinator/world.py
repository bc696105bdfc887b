"""A coordinator with the log and the leaders around it, to be held and broken at will."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from impl.coordinator.config import TransactionConfig
from impl.coordinator.effects import AppendRecords, Effect, SendAnswer, SendMarkers
from impl.coordinator.inspection import TransactionView
from impl.coordinator.log_records import encode_key, encode_value
from impl.coordinator.metadata import TopicPartition, TransactionImage
from impl.coordinator.placement import partition_for
from impl.coordinator.transactions import TransactionCoordinator
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER, ProducerIdAndEpoch

A0 = TopicPartition("a", 0)
B0 = TopicPartition("b", 0)
T = "T"
FIRST_ID = 1000


def producer(producer_id: int, epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id, epoch)


class World:
    """One coordinator that leads every partition of `__transaction_state`.

    Appends and markers are carried out at once, unless `holds_appends` or `holds_markers`.
    """

    def __init__(self, config: TransactionConfig | None = None, **rules: object) -> None:
        self.config = config or TransactionConfig(**rules)  # type: ignore[arg-type]
        self.now_ms = 5_000
        self.next_producer_id = count(FIRST_ID)
        self.id_error = ErrorCode.NONE
        self.log: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.markers: list[SendMarkers] = []
        self.held_appends: list[AppendRecords] = []
        self.held_markers: list[SendMarkers] = []
        self.holds_appends = self.holds_markers = False
        self.answers: list[SendAnswer] = []
        self.coordinator_epoch = 0
        self.start()

    def start(self) -> None:
        """A coordinator that has loaded what the log says."""
        self.core = TransactionCoordinator(self.generate, self.config)
        self.held_appends, self.held_markers = [], []
        for partition in range(self.config.num_partitions):
            self.core.elect(partition, self.coordinator_epoch)
            records = self.log.get(partition, [])
            self.carry_out(self.core.load(partition, self.coordinator_epoch, records, self.now_ms))

    def fail_over(self) -> None:
        self.coordinator_epoch += 1
        self.start()

    def load(self, image: TransactionImage, name: str = T) -> None:
        """Start over with a log in which the last word on `name` is `image`."""
        value = encode_value(image, self.config)
        partition = partition_for(name, self.config.num_partitions)
        self.log = {partition: [(encode_key(name), value)]}
        self.start()

    def generate(self, now_ms: int) -> tuple[ErrorCode, int]:
        return (
            (self.id_error, -1) if self.id_error else (ErrorCode.NONE, next(self.next_producer_id))
        )

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendAnswer):
                self.answers.append(effect)
            elif isinstance(effect, AppendRecords):
                self.held_appends.append(effect)
                if not self.holds_appends:
                    self.append()
            else:
                self.markers.append(effect)
                self.held_markers.append(effect)
                if not self.holds_markers:
                    self.write_markers()

    def append(self, error: ErrorCode = ErrorCode.NONE, *, is_written: bool = True) -> None:
        """Carry out the oldest held append; it may say `error` although it `is_written`."""
        append = self.held_appends.pop(0)
        if is_written:
            self.log.setdefault(append.partition, []).extend(append.records)
        self.carry_out(self.core.on_appended(append.token, error, self.now_ms))

    def write_markers(self, error: ErrorCode = ErrorCode.NONE, *only: TopicPartition) -> None:
        """Carry out the oldest held markers, or of them those of `only`."""
        sent = self.held_markers[0]
        errors = dict.fromkeys(only or sent.partitions, error)
        if not only:
            self.held_markers.pop(0)
        self.carry_out(self.core.on_markers_written(sent, errors))

    # ---- requests, answered

    def _answer(self, effects: list[Effect]) -> SendAnswer | None:
        before = len(self.answers)
        self.carry_out(effects)
        return self.answers[-1] if len(self.answers) > before else None

    def init(
        self,
        expected: ProducerIdAndEpoch | None = None,
        *,
        name: str | None = T,
        timeout_ms: int = 60_000,
    ) -> tuple[ErrorCode, ProducerIdAndEpoch] | None:
        answer = self._answer(
            self.core.init_producer_id("init", name, timeout_ms, expected, self.now_ms)
        )
        return None if answer is None else (answer.error, answer.producer)

    def add(
        self,
        who: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        version: int = 0,
        name: str | None = T,
    ) -> ErrorCode | None:
        answer = self._answer(
            self.core.add_partitions("add", name, who, partitions or (A0,), version, self.now_ms)
        )
        return None if answer is None else answer.error

    def end(
        self,
        who: ProducerIdAndEpoch,
        *,
        commit: bool = True,
        version: int = 0,
        name: str | None = T,
    ) -> tuple[ErrorCode, ProducerIdAndEpoch] | None:
        answer = self._answer(self.core.end_txn("end", name, who, commit, version, self.now_ms))
        return None if answer is None else (answer.error, answer.producer)

    def view(self, name: str = T) -> TransactionView:
        return next(v for v in self.core.view().transactions if v.transactional_id == name)

    @property
    def state(self) -> str:
        return self.view().image.state.title


def refused(error: ErrorCode) -> tuple[ErrorCode, ProducerIdAndEpoch]:
    return error, NO_PRODUCER


def served(producer_id: int, epoch: int) -> tuple[ErrorCode, ProducerIdAndEpoch]:
    return ErrorCode.NONE, ProducerIdAndEpoch(producer_id, epoch)


P0 = producer(FIRST_ID, 0)


def begun(*partitions: TopicPartition, version: int = 0, **rules: object) -> World:
    world = World(**rules)
    world.init()
    world.add(P0, *(partitions or (A0,)), version=version)
    return world


def log_length(world: World) -> int:
    return sum(map(len, world.log.values()))
