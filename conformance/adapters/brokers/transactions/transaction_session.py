"""One trace against a running coordinator and leaders: its requests, and their required answers.

Theory of operation. The session sends each request of the script. When the model's markers must be
written, the session reads the server's state of everything that the step touched. While the server
says that a transaction is prepared, it is asked again, for a bounded time; after that the trace is
undecided. The first difference ends a trace; its endings follow its last step.

The session waits for steps that a server takes by itself. A transaction that times out has a
time-out long enough for all steps before it; a trace that was slower is undecided. After a time-out
a trace that ends stuck waits for others, as if the time-out were a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from conformance.adapters.brokers.clock import MACHINE_CLOCK, BrokersClock
from conformance.adapters.brokers.exchange import (
    Ask,
    Asks,
    BrokerFault,
    Difference,
    DifferenceFound,
    Session,
    TraceEnd,
    Wait,
)
from conformance.adapters.brokers.kafka.admin import ActiveProducer, TopicPartition
from conformance.adapters.brokers.reading import (
    Fetched,
    ObservedTransaction,
    ReadIsolation,
    describe_producers,
    describe_transactions,
    fetch,
    fetch_offsets,
    list_latest,
    see,
)
from conformance.adapters.brokers.transactions.group_offsets import (
    GROUP_SHOWN,
    entries,
    offset_of,
    told,
)
from conformance.adapters.brokers.transactions.transaction_script import (
    COORDINATOR_SHOWN,
    LEADER_SHOWN,
    ScriptedRequest,
    ServerState,
    TransactionScript,
)
from conformance.adapters.brokers.wire import (
    ClientIdentity,
    Conversation,
    GroupMembership,
    Identified,
    Produced,
    TxnMarker,
    WireCall,
    error_in,
)
from conformance.adapters.impl.transactions.shapes import ANSWER
from conformance.adapters.impl.transactions.tables import record_in
from conformance.generate.broker_graph import TIMES_OUT
from conformance.judging.masks import NO_MASKS, MaskedTrace, Masks
from conformance.judging.system import Shape, View, differences
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from proofs.trace.format import Instance

NONE: Final = -1
WRITE_TXN_MARKERS: Final = ApiKey.WRITE_TXN_MARKERS.name
SETTLE_TIMEOUT_S: Final = 30.0
"""The longest time until a prepared transaction is complete."""
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""Longer than any trace takes, even on a busy machine."""

GROUP_TIMEOUT_S: Final = 20.0
"""The longest time until a group knows the end of a transaction whose markers are written."""
SCAN_S: Final = 20.0
"""The longest time until a coordinator notices that a transaction, or an id, has expired."""
MARGIN_S: Final = 0.5
PAUSE_S: Final = 0.1

NOT_YET: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Errors after which nothing was done; also returned while a block of producer ids is fetched."""


@dataclass(frozen=True, slots=True)
class TraceResources:
    """The resources of a trace: an id that was never used, and partitions with the ends of their
    logs.

    `group_id` names the group whose offsets are in the last partition, "" if there is none; other
    traces use that partition, too. The id's first producer id begins with `first_epoch`.
    `coordinator_epoch` is that of the first coordinator: the model counts from 0.
    """

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    log_ends: tuple[int, ...]
    coordinator_epoch: int
    group_id: str = ""
    first_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """Durations at a server, in seconds: the transaction time-out, and the expiration time of an
    unused transactional id; 0 for never."""

    transaction_s: float = 0.0
    id_s: float = 0.0


NEVER: Final = Times()


class ServerUnsettled(Exception):
    """The server did not settle."""


class TransactionSession:
    """Plays one trace, with its resources. `times` are those of the server, if the trace needs
    them."""

    not_yet = NOT_YET

    def __init__(
        self,
        script: TransactionScript,
        resources: TraceResources,
        conversation: Conversation,
        *,
        times: Times = NEVER,
        shows_producers: bool = True,
        masks: Masks = NO_MASKS,
        clock: BrokersClock = MACHINE_CLOCK,
    ) -> None:
        self._script = script
        self._own = resources
        self._speaks = conversation
        self._wires: list[int] = []  # producer ids of the wire, by the model's
        self._masked = MaskedTrace(masks)
        self._step = 0
        self._instance: Instance = ("initial", ())
        self._ends: dict[int, tuple[int, int]] = {}
        self._group_begin = 0
        self._departs_at = 0
        self._shows_producers = shows_producers
        self._clock = ServerClock(times, clock)

    def run(self) -> Session:
        """Play the trace."""
        end = yield from self._judged()
        played = end.steps if end.difference else len(self._script.steps)
        follows = end.difference is not None and self._masked.has_consequences
        return replace(end, masked=self._masked.behind(played), is_consequence=follows)

    def _judged(self) -> Session:
        """As `run`, without the record of masked differences."""
        try:
            yield from self._begun()
            yield from self._followed()
            self._instance = ("settled", ())
            yield from self._look(self._script.settled)
            for ending in self._script.endings:
                self._instance = ending.instance
                yield from self._compared(ending.sent, ending.shown)
        except DifferenceFound as differs:
            return TraceEnd(differs.difference, steps=self._step)
        except ServerUnsettled:
            return TraceEnd(is_undecided=True, steps=self._step)
        return TraceEnd(
            left=self._left(), steps=len(self._script.steps), departs_at=self._departs_at
        )

    def _begun(self) -> Asks:
        """Note the end of the group's partition before the trace."""
        if self._own.group_id:
            latest = list_latest(self._own.partitions[-1], ReadIsolation.READ_UNCOMMITTED)
            [self._group_begin] = yield [Ask(latest)]

    def _followed(self) -> Asks:
        """Play the steps."""
        for moved in self._script.moved:
            self._step = moved.step
            self._instance = self._script.instance(moved.step)
            yield from self._waited(moved.step)
            yield from self._compared(moved.sent, moved.shown)

    def _waited(self, step: int) -> Asks:
        """Wait for a step that the server takes by itself. Raises Undecided if the server may have
        taken it too early."""
        if step == self._script.times_out:
            yield from self._until(lambda view: view[0] != "Ongoing", self._clock.transaction_s)
            self._clock.transaction_is_over()
            if TIMES_OUT in self._script.faults:
                yield [BrokerFault(TIMES_OUT)]
        elif step == self._script.forgotten:
            yield from self._until(lambda view: view[0] is None, self._clock.id_s)
            self._clock.id_is_used()

    def _until(self, is_done: Callable[[View], bool], lasts_s: float) -> Asks:
        """Wait until the transaction shows the condition, for at most the given time."""
        if self._clock.is_over:
            raise ServerUnsettled
        deadline = self._clock.now_s() + lasts_s + SCAN_S
        while not is_done((yield from self._described())) and self._clock.now_s() < deadline:
            yield [Wait(self._clock.now_s() + PAUSE_S)]

    def _compared(self, sent: ScriptedRequest | None, shown: ServerState | None) -> Asks:
        """Play one step: send its request, and compare the observable state."""
        if sent is not None:
            self._clock.begin(sent)
            answer = yield from self._asked(sent.request, sent.is_late)
            self._same("answer", ANSWER, sent.answer, answer)
            self._clock.end(sent)
        if shown is not None:
            yield from self._look(shown)

    def _same(self, path: str, shape: Shape, expected: View, observed: View) -> None:
        """Compare two views. Raises Differs, unless masks hide the difference; Undecided if the
        server may have taken a step by itself."""
        if expected == observed:
            return
        if self._clock.is_over:
            raise ServerUnsettled
        rows = list(differences(path, shape, expected, observed))
        found = self._masked.visible(self._instance[0], self._step, rows)
        if not found:
            return
        raise DifferenceFound(
            Difference(
                self._step,
                self._instance,
                {field: of_model for field, of_model, _ in found},
                {field: of_server for field, _, of_server in found},
            )
        )

    # ---- requests

    def _asked(self, request: Any, is_late: bool) -> Asks:
        """The answer to a request, shaped as ANSWER. Raises Undecided."""
        of_leader = api_of(request) in ("PRODUCE", WRITE_TXN_MARKERS)
        ask = Ask(self._call(request), is_late, request.partition if of_leader else NONE)
        deadline = self._clock.now_s() + SETTLE_TIMEOUT_S
        while True:
            [answer] = yield [ask]
            if error_in(answer) not in self.not_yet:
                return self._answer(answer, request.partition)
            if self._clock.now_s() > deadline:
                raise ServerUnsettled

    def _call(self, request: Any) -> WireCall[Any]:
        """The model's request in the form that a client sends."""
        speaks, own = self._speaks, self._own
        producer = self._producer(request.producer_id, request.producer_epoch)
        match api_of(request):
            case "INIT_PRODUCER_ID":
                return speaks.init_producer_id(
                    own.transactional_id,
                    (producer.producer_id, producer.producer_epoch),
                    timeout_ms=self._clock.timeout_ms,
                )
            case "ADD_PARTITIONS_TO_TXN":
                added = [p for p, there in enumerate(request.partitions.values()) if there]
                return speaks.add_partitions(producer, [own.partitions[p] for p in added])
            case "ADD_OFFSETS_TO_TXN":
                return speaks.add_offsets(producer, own.group_id)
            case "END_TXN":
                return speaks.end_txn(producer, request.committed)
            case "TXN_OFFSET_COMMIT":
                group, offset = (
                    GroupMembership(own.group_id),
                    offset_of(record_in(request.batch)),
                )
                return speaks.txn_offset_commit(producer, group, own.partitions[0], offset)
            case "WRITE_TXN_MARKERS":
                return speaks.write_txn_markers(
                    TxnMarker(
                        producer.producer_id,
                        producer.producer_epoch,
                        request.committed,
                        [own.partitions[request.partition]],
                        request.coordinator_epoch + own.coordinator_epoch,
                        speaks.transaction_version,
                    )
                )
            case api:
                assert api == "PRODUCE", f"nobody sends {api}"
                batch = request.batch
                value = " ".join(map(str, record_in(batch)))
                partition = own.partitions[request.partition]
                return speaks.produce(producer, partition, batch.base_sequence, value)

    def _producer(self, producer_id: int, epoch: int) -> ClientIdentity:
        """The producer that the model's numbers stand for."""
        who = self._own.transactional_id
        if producer_id == NONE:
            return ClientIdentity(who, NONE, epoch)
        first = 0 if producer_id else self._own.first_epoch
        return ClientIdentity(who, self._wires[producer_id], epoch + first)

    def _answer(self, answer: Any, partition: int) -> View:
        """Shaped as ANSWER."""
        error = int(error_in(answer))
        if isinstance(answer, Identified):
            return (error, *self._who(answer.producer_id, answer.producer_epoch), NONE)
        if isinstance(answer, Produced) and answer.base_offset != NONE:
            offset = answer.base_offset - self._own.log_ends[partition]
            return (error, NONE, NONE, offset)
        return (error, NONE, NONE, NONE)

    def _number(self, wire_id: int) -> int:
        """The model's number of a producer id: ids are numbered in the order in which they
        appear."""
        if wire_id == NONE:
            return NONE
        if wire_id not in self._wires:
            self._wires.append(wire_id)
        return self._wires.index(wire_id)

    def _who(self, wire_id: int, wire_epoch: int) -> tuple[int, int]:
        """Producer id and epoch in the model's numbers."""
        number = self._number(wire_id)
        first = 0 if number or wire_epoch == NONE else self._own.first_epoch
        return number, wire_epoch - first

    # ---- the server's state

    def _look(self, shown: ServerState) -> Asks:
        """Compare the touched states. Raises Differs, Undecided."""
        if shown.coordinator is not None:
            view = yield from self._at_rest(shown.coordinator)
            self._same("coordinator", COORDINATOR_SHOWN, shown.coordinator, view)
        for partition, expected in shown.leaders:
            if self._is_of_group(partition):
                view = yield from self._group_at_rest(expected)
                self._same(f"group[{partition}]", GROUP_SHOWN, expected, view)
                continue
            view = yield from self._leader(partition, expected)
            self._same(f"leader[{partition}]", LEADER_SHOWN, expected, view)
            self._ends[partition] = view[0], view[1]

    def _is_of_group(self, partition: int) -> bool:
        return bool(self._own.group_id) and partition == len(self._own.partitions) - 1

    def _at_rest(self, expected: View | None) -> Asks:
        """The transaction, once it is not between two states, or is in the expected one. Raises
        Undecided."""
        deadline = self._clock.now_s() + SETTLE_TIMEOUT_S
        while True:
            view = yield from self._described()
            if not is_prepared(view) or view == expected:
                return view
            if self._clock.now_s() > deadline:
                if expected is not None and is_prepared(expected):
                    return view
                raise ServerUnsettled

    def _described(self) -> Asks:
        """The present transaction, shaped as COORDINATOR_SHOWN."""
        name = self._own.transactional_id
        [answer] = yield [Ask(describe_transactions([name]))]
        return self._transaction(answer[name])

    def _transaction(self, seen: ObservedTransaction) -> View:
        """Shaped as COORDINATOR_SHOWN."""
        is_exhausted = 0 < self._own.first_epoch == seen.producer_epoch + 1 and not self._wires
        if is_exhausted or seen.error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return (None, NONE, NONE, None)
        has_partitions = seen.state == "Ongoing" or seen.state.startswith("Prepare")
        inside = tuple(partition in seen.partitions for partition in self._own.partitions)
        who = self._who(seen.producer_id, seen.producer_epoch)
        # A transaction that is over shows no partitions: any partition is a difference.
        return (seen.state, *who, inside if has_partitions or seen.partitions else None)

    def _leader(self, partition: int, expected: View) -> Asks:
        """Shaped as LEADER_SHOWN."""
        base = self._own.log_ends[partition]
        log, producers = yield from self._read(partition)
        return (
            log.high_watermark - base,
            log.last_stable_offset - base,
            self._log(log),
            self._producers(producers, base) if self._shows_producers else expected[3],
        )

    def _read(self, partition: int) -> Asks:
        """The leader's log and its producers."""
        where, base = self._own.partitions[partition], self._own.log_ends[partition]
        return (yield from self._fetched(where, base, partition))

    def _fetched(self, where: TopicPartition, base: int, partition: int) -> Asks:
        log = Ask(fetch(where, base, ReadIsolation.READ_UNCOMMITTED), to=partition)
        if not self._shows_producers:
            [fetched] = yield [log]
            return fetched, {}
        return tuple((yield [log, Ask(describe_producers(where), to=partition)]))

    def _log(self, fetched: Fetched) -> View:
        rows: list[View] = []
        for batch in map(see, fetched.batches):
            who = self._who(batch.producer_id, batch.producer_epoch)
            if batch.marker is not None:
                rows.append((batch.marker, *who, None, None))
                continue
            rows += [
                ("DATA", *who, batch.base_sequence, tuple(map(int, value.split())))
                for value in batch.values
            ]
        return tuple(rows)

    def _producers(self, producers: Mapping[int, ActiveProducer], base: int) -> View:
        """The producers of this trace; the others were there before."""
        rows = []
        for wire_id in self._wires:
            one = producers.get(wire_id)
            if one is not None:
                begun = one.current_txn_start_offset
                rows.append(
                    (
                        *self._who(wire_id, one.producer_epoch),
                        self._coordinator_epoch(one.coordinator_epoch),
                        one.last_sequence,
                        begun if begun == NONE else begun - base,
                    )
                )
        return tuple(rows)

    def _coordinator_epoch(self, epoch: int) -> int:
        """The coordinator epoch in the model's numbers."""
        return epoch if epoch == NONE else epoch - self._own.coordinator_epoch

    # ---- the group

    def _group_at_rest(self, expected: View) -> Asks:
        """The group, once it knows of the written markers."""
        deadline = self._clock.now_s() + GROUP_TIMEOUT_S
        while True:
            view = yield from self._group(expected)
            if view == expected or self._clock.now_s() > deadline:
                return view

    def _group(self, expected: View) -> Asks:
        """Shaped as GROUP_SHOWN."""
        own, partition = self._own, len(self._own.partitions) - 1
        source = own.partitions[0]
        fetched, producers = yield from self._fetched(
            own.partitions[partition], self._group_begin, partition
        )
        plain, stable = yield [
            Ask(fetch_offsets(own.group_id, [source], require_stable=is_stable), to=partition)
            for is_stable in (False, True)
        ]
        log = list(entries(fetched, self._wires))
        places = {entry.offset: place for place, entry in enumerate(log)} | {NONE: NONE}
        return (
            tuple((e.kind, *self._who(e.producer_id, e.producer_epoch), e.record) for e in log),
            tuple(
                (who, epoch, coordinator_epoch, places.get(begun, begun))
                for who, epoch, coordinator_epoch, _, begun in self._producers(producers, 0)
            )
            if self._shows_producers
            else expected[1],
            told(plain, source),
            told(stable, source),
        )

    # ---- after the trace

    def _left(self) -> tuple[int, ...] | None:
        """The ends of the logs without open transactions: they serve other traces."""
        own = self._own
        mine = len(own.partitions) - bool(own.group_id)
        if any(self._ends[p][0] != self._ends[p][1] for p in range(mine)):
            return None
        return tuple(own.log_ends[p] + self._ends[p][0] for p in range(mine))


ENDS: Final = ("END_TXN", "INIT_PRODUCER_ID")
OPEN_NOTHING: Final = (*ENDS, WRITE_TXN_MARKERS)
"""The names of APIs whose requests end a transaction, and of those that open none."""


class ServerClock:
    """Tracks how long a transaction is open, and its id unused: after these times a server may act
    by itself."""

    def __init__(self, times: Times, clock: BrokersClock) -> None:
        self.now_s = clock.now_s
        self._times = times
        self._open_since: float | None = None
        self._used = self.now_s()
        self.timeout_ms = round(1_000 * times.transaction_s) or TRANSACTION_TIMEOUT_MS

    @property
    def transaction_s(self) -> float:
        """How long a transaction may be open."""
        return self._times.transaction_s

    @property
    def id_s(self) -> float:
        """How long an id may be unused."""
        return self._times.id_s

    @property
    def is_over(self) -> bool:
        """Whether a transaction may have timed out, or the id expired."""
        now, lasts_s = self.now_s(), self.timeout_ms / 1_000
        if self._open_since is not None and now - self._open_since > lasts_s - MARGIN_S:
            return True
        return self.id_s > 0 and now - self._used > self.id_s - MARGIN_S

    def begin(self, sent: ScriptedRequest) -> None:
        """Note a request that may open a transaction."""
        if self._open_since is None and api_of(sent.request) not in OPEN_NOTHING:
            self._open_since = self.now_s()

    def end(self, sent: ScriptedRequest) -> None:
        """Note an answer; its request may have ended a transaction."""
        if api_of(sent.request) in ENDS and sent.answer[0] == ErrorCode.NONE:
            self._open_since = None

    def transaction_is_over(self) -> None:
        """The transaction has timed out: no other will."""
        self._open_since, self.timeout_ms = None, TRANSACTION_TIMEOUT_MS

    def id_is_used(self) -> None:
        """The id has expired, and may be used again."""
        self._used = self.now_s()


def api_of(request: Any) -> str:
    """The name of the API of a request, or of a marker."""
    api = getattr(request, "api", None)
    return WRITE_TXN_MARKERS if api is None else str(api.name)


def is_prepared(view: View) -> bool:
    """Whether the coordinator shows a decision that lacks markers."""
    state: str | None = view[0]
    return state is not None and state.startswith("Prepare")
