"""Prepares a trace for a coordinator and leaders that are one server: its requests, and their
effects.

1. The model's own events are run (`recorded_events`). The requests that clients send in them go to
   the server; the server must show the model's answers, and the states of the actors that moved.
2. The server sends its markers by itself, at once. So a script takes each marker as soon as the
   model can write it, in partition order. A late marker is a copy that the test sends.
3. A script has all of the model's answers: the model is not used while the script is played.
4. A server takes some steps by itself when it gets no request for long: the trace waits for them.
5. After the trace come its endings: an open transaction is aborted, then probes distinguish states
   that the trace's own answers do not (`transaction_probes`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, Self

from conformance.adapters.brokers.recorded_events import RecordedEvent, RecordedEvents
from conformance.adapters.brokers.transactions.group_offsets import group_shown
from conformance.adapters.brokers.transactions.transaction_probes import (
    PROBES,
    SETTLE,
    Probe,
    Situation,
    settle,
)
from conformance.adapters.impl.transactions.tables import TransactionTables
from conformance.generate.broker_graph import (
    AT_ONE,
    DELAYS_MARKER,
    FORGOTTEN,
    LATE_MARKER_ARRIVES,
    MARKER,
    TIMES_OUT,
    events_at,
)
from conformance.judging.system import Many, NotApplicable, Shape, View
from model.language import Disabled
from proofs.trace.format import Instance
from proofs.trace.shrink import Steps

NOBODY: Final = -1
"""Stands for the coordinator among partitions, and for no producer id."""

STATES: Final = {
    "EMPTY": "Empty",
    "ONGOING": "Ongoing",
    "PREPARE_COMMIT": "PrepareCommit",
    "PREPARE_ABORT": "PrepareAbort",
    "COMPLETE_COMMIT": "CompleteCommit",
    "COMPLETE_ABORT": "CompleteAbort",
}
"""The names of the model's states in DescribeTransactions."""

COORDINATOR_SHOWN: Final[Mapping[str, Shape]] = dict.fromkeys(
    ("state", "producer_id", "producer_epoch", "partitions")
)
"""The values that DescribeTransactions shows; it shows partitions while a transaction is open, or
lacks their markers."""
LEADER_SHOWN: Final[Mapping[str, Shape]] = {
    "high_watermark": None,
    "last_stable_offset": None,
    "log": Many(dict.fromkeys(("kind", "producer_id", "producer_epoch", "sequence", "record"))),
    "producers": Many(
        dict.fromkeys(
            (
                "producer_id",
                "producer_epoch",
                "coordinator_epoch",
                "last_sequence",
                "current_txn_first_offset",
            )
        )
    ),
}
"""The values that Fetch, ListOffsets and DescribeProducers show; offsets count from the trace's
first."""


ARRIVES: Final[Mapping[str, str]] = {
    "INIT_PRODUCER_ID": "late_init_arrives",
    "ADD_PARTITIONS_TO_TXN": "late_addition_arrives",
    "END_TXN": "late_end_arrives",
    "PRODUCE": "late_batch_arrives",
    "TXN_OFFSET_COMMIT": "late_offsets_arrive",
}
"""The event in which a request arrives whose answer no client of the model waits for."""
ARRIVES_AS: Final = {"ADD_OFFSETS_TO_TXN": "ADD_PARTITIONS_TO_TXN"}
"""AddOffsetsToTxn adds the partition of the group's offsets."""
OF_LEADERS: Final = frozenset({"PRODUCE", "TXN_OFFSET_COMMIT"})
"""Requests that name the partition whose leader handles them."""


class ScriptedRequest(NamedTuple):
    """A request of the model, or a marker, and its required answer, shaped as ANSWER."""

    request: Any
    answer: View
    is_late: bool


class ServerState(NamedTuple):
    """The required state of the parts that a step touched; None for the coordinator if it was not
    touched."""

    coordinator: View | None
    leaders: tuple[tuple[int, View], ...]


class ScriptedStep(NamedTuple):
    """One step as the server sees it; `step` counts from 1."""

    step: int
    sent: ScriptedRequest | None
    shown: ServerState | None


class Ending(NamedTuple):
    """The requests after a trace: `settle`, or `probe_` with the name of a probe."""

    instance: Instance
    sent: ScriptedRequest
    shown: ServerState | None


KnownEndings = dict[tuple[Any, ...], tuple[Ending, ...]]
"""Endings that were made already, by the final state of coordinator and leaders: few states
occur."""


@dataclass(frozen=True, slots=True)
class TransactionScript:
    """A trace prepared for a server: its markers, the requests sent, the expected final state, the
    endings, and the points that the trace covers.

    `times_out` is the step at which the transaction times out, `forgotten` the step at which the
    transactional id expires; 0 if no step does.
    """

    steps: Steps
    moved: tuple[ScriptedStep, ...]
    settled: ServerState
    endings: tuple[Ending, ...]
    seen: int

    @property
    def times_out(self) -> int:
        """The step at which the transaction times out."""
        return self._first(TIMES_OUT)

    @property
    def forgotten(self) -> int:
        """The step at which the transactional id expires."""
        return self._first(FORGOTTEN)

    @property
    def is_stuck(self) -> bool:
        """Whether its transaction stays open even after the endings, which abort open transactions:
        nothing ends it. KAFKA-20090."""
        last = self.endings[-1].shown if self.endings else None
        shown = None if last is None else last.coordinator
        return shown is not None and shown[0] == STATES["ONGOING"]

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults for which the trace waits together with others. A stuck trace waits, because
        it keeps the coordinator from seeing later time-outs."""
        return (TIMES_OUT,) if self.is_stuck and self.times_out else ()

    def _first(self, rule: str) -> int:
        """The first step of a rule, counted from 1; 0 if no step has this rule."""
        return next((at for at, (name, _) in enumerate(self.steps, start=1) if name == rule), 0)

    def instance(self, step: int) -> Instance:
        """The rule instance of a step; steps count from 1. The instance of step 0 is the
        beginning."""
        return self.steps[step - 1] if step else ("initial", ())


def refuse(k: Any, *, nodes: bool = False) -> None:
    """Raises NotApplicable for scopes into which a running server, or `nodes`, cannot be
    brought."""
    bounds = k.bounds
    for name, is_there in (
        ("appends", bounds.appends),
        ("guards", bounds.guards),
        ("offsets", bounds.offsets and nodes),
        ("the last epoch", bounds.epochs_end and nodes),
    ):
        if is_there:
            raise NotApplicable(f"scopes with {name} are not driven at a running server")


# Observable state


@functools.lru_cache(maxsize=100_000)
def coordinator_shown(coordinator: Any) -> View:
    """Shaped as COORDINATOR_SHOWN."""
    metadata = coordinator.known.metadata
    name = metadata.state.name
    if name == "ABSENT":
        return (None, NOBODY, NOBODY, None)
    has_partitions = name == "ONGOING" or name.startswith("PREPARE")
    partitions = metadata.partitions.values() if has_partitions else None
    return (STATES[name], metadata.producer_id, metadata.producer_epoch, partitions)


def leader_shown(tables: TransactionTables, leader: Any) -> View:
    """Shaped as LEADER_SHOWN."""
    log, producers, _, stable = tables.node(leader).view
    known = tuple(
        (who, epoch, coordinator_epoch, sequence, first)
        for who, (epoch, coordinator_epoch, sequence, _, first) in enumerate(producers)
        if epoch != NOBODY
    )
    return (len(log), stable, log, known)


# Scripts


class TransactionScriptWriter:
    """Turns the traces of one configuration into scripts; its logs have room for endings
    (`transaction_probes.with_room`). Raises NotApplicable."""

    def __init__(self, tables: TransactionTables) -> None:
        refuse(tables.k)
        self.tables = tables
        self._events = events_of(tables)
        self._endings = KnownEndings()

    def script(self, steps: Iterable[Instance]) -> TransactionScript:
        """The script of the enabled steps among `steps`, with markers taken at once."""
        played = ModelReplay(self.tables, self._events, self._endings)
        for instance in steps:
            if instance[0] == MARKER:
                continue
            if instance[0] != DELAYS_MARKER:
                played.write_markers()
            if played.is_beyond:
                break
            played.move(instance)
        played.write_markers()
        return played.script()


def events_of(tables: TransactionTables) -> RecordedEvents:
    """The model's events, with the answers to clients."""
    messages = tables.model.messages
    return RecordedEvents(tables.model, tables, (messages.Answer, messages.ProduceAnswer))


class ModelReplay:
    """The model's world in one trace, and the part of each event that reaches a server."""

    rules = events_at(AT_ONE)
    probes: ClassVar[Mapping[str, Probe]] = PROBES

    def __init__(
        self, tables: TransactionTables, events: RecordedEvents, endings: KnownEndings
    ) -> None:
        self.tables = tables
        self._known_endings = endings
        self._model = tables.model
        self._events = events
        self._world = events.initial
        self._steps: list[Instance] = []
        self._moved: list[ScriptedStep] = []
        self._touched: set[int] = set()
        self._seen = 0
        self._sent: ScriptedRequest | None = None

    def move(self, instance: Instance) -> bool:
        """Take one step; returns whether it is enabled. Raises NotApplicable for a rule that is not
        played."""
        if instance[0] not in self.rules:
            raise NotApplicable(f"{instance[0]} is not brought about at a running server")
        try:
            self._play(instance)
        except Disabled:
            return False
        self._steps.append(instance)
        self._moved.append(self._format_step())
        return True

    # ---- from any world

    def at(self, world: Any) -> Self:
        """The same replay in another world."""
        self._world = world
        return self

    @property
    def world(self) -> Any:
        """The model's world now."""
        return self._world

    def send(self, instance: Instance) -> ScriptedRequest | None:
        """The request of a step that reaches the server, and its answer. Raises Disabled."""
        self._play(instance)
        return self._sent

    def finish_markers(self) -> None:
        """Write the markers under way, without steps of the trace. Raises Disabled."""
        while (waiting := self._next_marker()) is not None:
            self._play(marker_at(waiting))

    def finish(self) -> None:
        """Let everything under way arrive. Raises Disabled."""
        self.finish_markers()

    def show(self) -> ServerState:
        """The whole observable state of the server."""
        self._touched = self._everybody()
        return self._shown()

    # ---- steps

    def _format_step(self) -> ScriptedStep:
        """The last step as the server sees it."""
        return ScriptedStep(
            len(self._steps), self._sent, None if self._goes_on() else self._shown()
        )

    def _goes_on(self) -> bool:
        """Whether the server takes another step by itself."""
        return self._next_marker() is not None

    def write_markers(self) -> None:
        """Write all markers under way."""
        while (partition := self._next_marker()) is not None:
            self.move(marker_at(partition))

    @property
    def is_beyond(self) -> bool:
        """Whether the next producer id has reached the scope's last epoch: a server's last epoch is
        far away."""
        bounds, metadata = self.tables.k.bounds, self._world.coordinator.known.metadata
        is_last = metadata.producer_epoch >= bounds.exhausted_epoch
        return bool(bounds.epochs_end and metadata.producer_id > 0 and is_last)

    def script(self) -> TransactionScript:
        """The script of everything that was played."""
        settled, seen = self.show(), self._seen
        left = (self._world.coordinator, *self._world.leaders.values())
        endings = self._known_endings.get(left)
        if endings is None:
            endings = self._known_endings[left] = tuple(self._endings())
        return TransactionScript(tuple(self._steps), tuple(self._moved), settled, endings, seen)

    # ---- one event

    def _play(self, instance: Instance) -> None:
        """Run the world's own event; returns the request that reaches a server, and the actors that
        it touched. Raises Disabled."""
        choice = dict(instance[1])
        event = self._events.run(self._world, instance)
        self._world = event.world
        self._seen |= event.seen(is_heard=choice.get("heard", 1) == 1)
        request = self._arrived(event, instance)
        answer = event.answer if event.answer is not None else answer_of_leader(event)
        self._sent = request and self._scripted(request, answer, is_late="late" in choice)
        moved = {type(call.actor) for call in event.calls}
        # A leader may have asked the coordinator even if the model's leader has not.
        if request is not None or self._model.coordinator.Coordinator in moved:
            self._touched.add(NOBODY)
        if self._model.leader.Leader in moved:
            self._touched.add(choice["partition"])

    def _arrived(self, event: RecordedEvent, instance: Instance) -> Any:
        """The request that reached a server, if any: a client's, or a late one. A request that is
        late from now on has not reached it."""
        rule, choice = instance[0], dict(instance[1])
        if "late" in choice:
            before = event.before
            late = before.late_markers if rule == LATE_MARKER_ARRIVES else before.late
            return late[choice["late"]]
        if len(event.world.late) > len(event.before.late):
            return None
        sent = [message for call in event.calls for message in call.sends]
        return next((m for m in sent if isinstance(m, self._model.messages.Request)), None)

    def _scripted(self, request: Any, answer: Any, *, is_late: bool) -> ScriptedRequest:
        view = self.tables.message(answer).view
        whole = view if isinstance(view, tuple) else (view, NOBODY, NOBODY, NOBODY)
        return ScriptedRequest(request, whole, is_late)

    # ---- after the trace

    def _endings(self) -> Iterator[Ending]:
        """The endings: open transactions are aborted; then come the probes."""
        for name, probe in {SETTLE: settle, **self.probes}.items():
            situation = Situation(self.tables, self._world)
            if self.is_beyond or not situation.is_known:
                return
            requests = list(probe(situation))
            for request in requests:
                yield self._ending(name, request, is_last=request is requests[-1])

    def _ending(self, name: str, request: Any, *, is_last: bool) -> Ending:
        """One request, which arrives as a late one does, and its markers. The last request of a
        probe is followed by a comparison of the observable state."""
        late, api = self._world.late, request.api.name
        where = (("partition", request.partition),) if api in OF_LEADERS else ()
        arriving = replace(request, api=self._model.messages.Api[ARRIVES_AS.get(api, api)])
        self._world = replace(self._world, late=(*late, arriving))
        self._play((ARRIVES[arriving.api.name], (("late", len(late)), *where)))
        assert self._sent is not None
        sent = ScriptedRequest(request, self._sent.answer, is_late=False)
        self.finish_markers()
        if name == SETTLE:
            self._touched = self._everybody()
        return Ending((name, where), sent, self._shown() if is_last else None)

    # ---- observable state

    def _next_marker(self) -> int | None:
        """The first partition that waits for its marker."""
        state = self._world.coordinator
        is_prepared = state.known.metadata.state.name.startswith("PREPARE")
        if not is_prepared or state.is_stopped:
            return None
        waiting = state.known.metadata.partitions.items()
        return next((partition for partition, waits in waiting if waits), None)

    def _shown(self) -> ServerState:
        """The states that were touched since the last call. NOBODY stands for the coordinator."""
        touched = sorted(self._touched - {NOBODY})
        coordinator = coordinator_shown(self._world.coordinator)
        shown = ServerState(
            coordinator if NOBODY in self._touched else None,
            tuple((p, self._leader_shown(p)) for p in touched),
        )
        self._touched = set()
        return shown

    def _everybody(self) -> set[int]:
        return {NOBODY, *range(self.tables.k.bounds.partitions)}

    def _leader_shown(self, partition: int) -> View:
        tables, leader = self.tables, self._world.leaders[partition]
        of_group = self._model.messages.is_of_group(tables.k, partition)
        return (group_shown if of_group else leader_shown)(tables, leader)


def answer_of_leader(event: RecordedEvent) -> Any:
    """The answer of a leader to a marker, whether it is received or not; None if no marker was
    written."""
    sent = [message for call in event.calls for message in call.sends]
    return sent[-1] if sent else None


def marker_at(partition: int) -> Instance:
    """A partition gets its marker, and the coordinator receives the answer."""
    return MARKER, (("partition", partition), ("heard", 1))
