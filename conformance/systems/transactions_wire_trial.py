"""One trace against a coordinator and leaders that run: what is asked, what each answer must be.

Theory of operation. `Trial.run` is a generator: it yields calls and is sent their answers, so that
one thread keeps many traces going. Each request of the script is asked; once the markers that the
model writes must be there, the server is asked what it shows of all that the step touched. While
the server says that a transaction is prepared it is asked again, for a bounded time: then the trace
is undecided. The first difference ends a trace.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from conformance.kafka.admin import ActiveProducer, TopicPartition
from conformance.kafka.connection import Request
from conformance.systems.base import Shape, View, differences
from conformance.systems.transactions.shapes import ANSWER
from conformance.systems.transactions_wire_script import (
    COORDINATOR_SHOWN,
    LEADER_SHOWN,
    Moved,
    Script,
    Shown,
)
from conformance.systems.wire_trial import Difference
from conformance.transactions.reading import (
    Fetched,
    Isolation,
    TransactionSeen,
    describe_transactions,
    fetch,
    see,
)
from conformance.transactions.wire import (
    Call,
    Conversation,
    Identified,
    Produced,
    Producer,
    by_topic,
    error_in,
)
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

NONE: Final = -1
SETTLE_TIMEOUT_S: Final = 30.0
"""How long a prepared transaction may take until it is complete."""
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""Longer than any trace takes, also on a busy machine."""

NOT_YET: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Nothing was done; also while a block of producer ids is fetched."""

_DESCRIBE_PRODUCERS_VERSION: Final = 0


class Ask(NamedTuple):
    """A call, and whether it goes over the connection of what is late; `to` is the partition whose
    leader is asked, NONE for the coordinator."""

    call: Call[Any]
    is_late: bool = False
    to: int = NONE


Asking = Generator[Sequence[Ask], list[Any], "Ended"]


@dataclass(frozen=True, slots=True)
class Ground:
    """What a trace has for itself: an id that nobody had, and partitions with their log ends."""

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    log_ends: tuple[int, ...]
    coordinator_epoch: int
    """That of the first coordinator: the model counts from 0."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a trace ended after so many `steps`; `log_ends` where the partitions can be used again.

    `told` is what the harness of other judges keeps.
    """

    difference: Difference | None = None
    is_undecided: bool = False
    log_ends: tuple[int, ...] | None = None
    steps: int = 0
    told: tuple[Any, ...] = ()


class Differs(Exception):
    """A difference on the way."""

    def __init__(self, difference: Difference) -> None:
        self.difference = difference


class Undecided(Exception):
    """The server did not come to rest."""


class Trial:
    """One trace on its ground."""

    not_yet = NOT_YET
    timeout_ms = TRANSACTION_TIMEOUT_MS

    def __init__(self, script: Script, ground: Ground, conversation: Conversation) -> None:
        self._script = script
        self._ground = ground
        self._speaks = conversation
        self._wires: list[int] = []  # producer ids of the wire, by the model's
        self._step = 0
        self._told: tuple[Any, ...] = ()

    def run(self) -> Asking:
        """All of it."""
        try:
            yield from self._followed()
            state, ends = yield from self._look(self._script.settled)
            left = yield from self._leave(state, ends)
        except Differs as differs:
            return Ended(differs.difference, steps=self._step)
        except Undecided:
            return Ended(is_undecided=True, steps=self._step)
        return Ended(log_ends=left, steps=len(self._script.steps), told=self._told)

    def _followed(self) -> Generator[Sequence[Ask], list[Any], None]:
        """Step by step."""
        for moved in self._script.moved:
            self._step = moved.step
            yield from self._compared(moved)

    def _compared(self, moved: Moved) -> Generator[Sequence[Ask], list[Any], None]:
        """One step: what is asked, and what is shown then."""
        if moved.sent is not None:
            answer = yield from self._asked(moved.sent.request, moved.sent.is_late)
            self._same("answer", ANSWER, moved.sent.answer, answer)
        if moved.shown is not None:
            yield from self._look(moved.shown)

    def _same(self, path: str, shape: Shape, expected: View, observed: View) -> None:
        if expected == observed:
            return
        found = list(differences(path, shape, expected, observed))
        raise Differs(
            Difference(
                self._step,
                self._script.instance(self._step),
                {field: of_model for field, of_model, _ in found},
                {field: of_server for field, _, of_server in found},
            )
        )

    # ---- requests

    def _asked(self, request: Any, is_late: bool) -> Generator[Sequence[Ask], list[Any], View]:
        """A request's answer, shaped as ANSWER. Raises Undecided."""
        of_leader = request.api.name == "PRODUCE"
        ask = Ask(self._call(request), is_late, request.partition if of_leader else NONE)
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            [answer] = yield [ask]
            if error_in(answer) not in self.not_yet:
                return self._answer(answer, request.partition)
            if time.monotonic() > deadline:
                raise Undecided

    def _call(self, request: Any) -> Call[Any]:
        """The model's request as the client sends it."""
        speaks, ground = self._speaks, self._ground
        wire_id = self._wires[request.producer_id] if request.producer_id != NONE else NONE
        producer = Producer(ground.transactional_id, wire_id, request.producer_epoch)
        match request.api.name:
            case "INIT_PRODUCER_ID":
                return speaks.init_producer_id(
                    ground.transactional_id,
                    (wire_id, request.producer_epoch),
                    timeout_ms=self.timeout_ms,
                )
            case "ADD_PARTITIONS_TO_TXN":
                added = [p for p, there in enumerate(request.partitions.values()) if there]
                return speaks.add_partitions(producer, [ground.partitions[p] for p in added])
            case "END_TXN":
                return speaks.end_txn(producer, request.committed)
            case api:
                assert api == "PRODUCE", f"{api} is in scopes that are refused"
                batch = request.batch
                value = f"{batch.instance} {batch.transaction} {batch.number}"
                partition = ground.partitions[request.partition]
                return speaks.produce(producer, partition, batch.base_sequence, value)

    def _answer(self, answer: Any, partition: int) -> View:
        """Shaped as ANSWER."""
        error = int(error_in(answer))
        if isinstance(answer, Identified):
            return (error, self._number(answer.producer_id), answer.producer_epoch, NONE)
        if isinstance(answer, Produced) and answer.base_offset != NONE:
            offset = answer.base_offset - self._ground.log_ends[partition]
            return (error, NONE, NONE, offset)
        return (error, NONE, NONE, NONE)

    def _number(self, wire_id: int) -> int:
        """The model's number of a producer id: they are counted as they come up."""
        if wire_id == NONE:
            return NONE
        if wire_id not in self._wires:
            self._wires.append(wire_id)
        return self._wires.index(wire_id)

    # ---- what the server shows

    def _look(self, shown: Shown) -> Generator[Sequence[Ask], list[Any], Any]:
        """Compare; the state's name and the log ends of what was looked at. Raises Differs."""
        state = None
        if shown.coordinator is not None:
            view = yield from self._at_rest(shown.coordinator)
            self._same("coordinator", COORDINATOR_SHOWN, shown.coordinator, view)
            state = view[0]
        ends = []
        for partition, expected in shown.leaders:
            view = yield from self._leader(partition)
            self._same(f"leader[{partition}]", LEADER_SHOWN, expected, view)
            ends.append((view[0], view[1]))
        return state, ends

    def _at_rest(self, expected: View | None) -> Generator[Sequence[Ask], list[Any], View]:
        """The transaction, when it is not on its way between two states, or where it is expected
        to stay. Raises Undecided."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            view = yield from self._described()
            if not is_prepared(view) or view == expected:
                return view
            if time.monotonic() > deadline:
                if expected is not None and is_prepared(expected):
                    return view
                raise Undecided

    def _described(self) -> Generator[Sequence[Ask], list[Any], View]:
        """The transaction as it is now, shaped as COORDINATOR_SHOWN."""
        name = self._ground.transactional_id
        [answer] = yield [Ask(describe_transactions([name]))]
        return self._transaction(answer[name])

    def _transaction(self, seen: TransactionSeen) -> View:
        """Shaped as COORDINATOR_SHOWN."""
        if seen.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return (None, NONE, NONE, None)
        has_partitions = seen.state == "Ongoing" or seen.state.startswith("Prepare")
        inside = tuple(partition in seen.partitions for partition in self._ground.partitions)
        who = self._number(seen.producer_id), seen.producer_epoch
        # A transaction that is over shows no partitions: any that it has is a difference.
        return (seen.state, *who, inside if has_partitions or seen.partitions else None)

    def _leader(self, partition: int) -> Generator[Sequence[Ask], list[Any], View]:
        """Shaped as LEADER_SHOWN."""
        base = self._ground.log_ends[partition]
        log, producers = yield from self._read(partition)
        return (
            log.high_watermark - base,
            log.last_stable_offset - base,
            self._log(log),
            self._producers(producers, base),
        )

    def _read(
        self, partition: int
    ) -> Generator[Sequence[Ask], list[Any], tuple[Fetched, Mapping[int, ActiveProducer]]]:
        """What a leader shows of its log and its producers."""
        where, base = self._ground.partitions[partition], self._ground.log_ends[partition]
        log, producers = yield [
            Ask(fetch(where, base, Isolation.READ_UNCOMMITTED), to=partition),
            Ask(describe_producers(where), to=partition),
        ]
        return log, producers

    def _log(self, fetched: Fetched) -> View:
        rows: list[View] = []
        for batch in map(see, fetched.batches):
            who = self._number(batch.producer_id), batch.producer_epoch
            if batch.marker is not None:
                rows.append((batch.marker, *who, None, None))
                continue
            rows += [
                ("DATA", *who, batch.base_sequence, tuple(map(int, value.split())))
                for value in batch.values
            ]
        return tuple(rows)

    def _producers(self, producers: Mapping[int, ActiveProducer], base: int) -> View:
        """Those that this trace has; the others were there before."""
        rows = []
        for number, wire_id in enumerate(self._wires):
            one = producers.get(wire_id)
            if one is not None:
                begun = one.current_txn_start_offset
                rows.append(
                    (
                        number,
                        one.producer_epoch,
                        self._coordinator_epoch(one.coordinator_epoch),
                        one.last_sequence,
                        begun if begun == NONE else begun - base,
                    )
                )
        return tuple(rows)

    def _coordinator_epoch(self, epoch: int) -> int:
        """As the model counts them."""
        return epoch if epoch == NONE else epoch - self._ground.coordinator_epoch

    # ---- afterwards

    def _leave(
        self, state: str | None, ends: Sequence[tuple[int, int]]
    ) -> Generator[Sequence[Ask], list[Any], tuple[int, ...] | None]:
        """Abort what is open, so that the partitions serve other traces; their ends if so."""
        if state == "Ongoing":
            yield [Ask(self._speaks.init_producer_id(self._ground.transactional_id))]
            yield from self._at_rest(None)
            ends = []
            for partition in range(len(self._ground.partitions)):
                view = yield from self._leader(partition)
                ends.append((view[0], view[1]))
        if any(end != stable for end, stable in ends):
            return None
        return tuple(base + end for base, (end, _) in zip(self._ground.log_ends, ends, strict=True))


def is_prepared(view: View) -> bool:
    """Whether what the coordinator shows is a decision that lacks markers."""
    state: str | None = view[0]
    return state is not None and state.startswith("Prepare")


def describe_producers(partition: TopicPartition) -> Call[Mapping[int, ActiveProducer]]:
    """What a leader remembers, by producer id. As `conformance.kafka.admin`, for a pipeline."""
    topics = [{"name": n, "partition_indexes": i} for n, i in by_topic([partition]).items()]
    request = Request(ApiKey.DESCRIBE_PRODUCERS, _DESCRIBE_PRODUCERS_VERSION, {"topics": topics})
    return Call(request, _producers)


def _producers(body: Value) -> Mapping[int, ActiveProducer]:
    [topic] = body["topics"]
    [partition] = topic["partitions"]
    return {
        row["producer_id"]: ActiveProducer(
            row["producer_id"],
            row["producer_epoch"],
            row["last_sequence"],
            row["last_timestamp"],
            row["coordinator_epoch"],
            row["current_txn_start_offset"],
        )
        for row in partition["active_producers"]
    }
