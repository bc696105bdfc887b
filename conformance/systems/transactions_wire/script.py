"""What a trace makes of a coordinator and leaders that are one server: requests, and what follows.

1. The harness is all clients and their network. The server sends its markers by itself, at once:
   so a script takes each marker that the model can write as soon as it can, in partition order.
2. A script is all of the model's answers ahead: no more is looked at in the model while it is
   played.
3. What is late is kept here and asked when it arrives; nobody of the model hears its answer.
4. A server does some things of itself when nothing is asked for long: the trace waits for them.
5. Behind the trace come its endings: what is open is aborted, and then probes, which tell states
   apart that the trace's own answers do not (`probes`).

Theory of operation: the model's actors are rows of tables, moved as `model.transactions.world`
moves them. `_moves` maps each rule of the world that can be played to a method here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from conformance.generate.served import FORGOTTEN, MARKER, PLAYED, TIMES_OUT
from conformance.systems.base import Many, NotApplicable, Shape, View
from conformance.systems.transactions.arrivals import NOBODY, Arrivals
from conformance.systems.transactions.tables import TransactionTables
from conformance.systems.transactions_wire.group import group_shown
from conformance.systems.transactions_wire.probes import PROBES, SETTLE, Probe, Sight, settle
from conformance.tables import InternedMessage, InternedState, MemoisedStep
from model.language import Disabled
from proofs.trace.format import Instance
from proofs.trace.shrink import Steps

STATES: Final = {
    "EMPTY": "Empty",
    "ONGOING": "Ongoing",
    "PREPARE_COMMIT": "PrepareCommit",
    "PREPARE_ABORT": "PrepareAbort",
    "COMPLETE_COMMIT": "CompleteCommit",
    "COMPLETE_ABORT": "CompleteAbort",
}
"""The model's states as DescribeTransactions names them."""

COORDINATOR_SHOWN: Final[Mapping[str, Shape]] = dict.fromkeys(
    ("state", "producer_id", "producer_epoch", "partitions")
)
"""What DescribeTransactions shows; partitions while a transaction is open, or lack their marker."""
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
"""What Fetch, ListOffsets and DescribeProducers show; offsets count from the trace's first."""


HANDLED: Final[Mapping[str, str]] = {
    "INIT_PRODUCER_ID": "on_init_producer_id",
    "ADD_PARTITIONS_TO_TXN": "on_add_partitions",
    "ADD_OFFSETS_TO_TXN": "on_add_partitions",
    "END_TXN": "on_end_txn",
}
"""What the model's coordinator does with a request."""


class ScriptedRequest(NamedTuple):
    """A request of the model, and the answer that it must have, shaped as ANSWER."""

    request: Any
    answer: View
    is_late: bool


class Shown(NamedTuple):
    """What a server must show of what was touched: None where the coordinator was not."""

    coordinator: View | None
    leaders: tuple[tuple[int, View], ...]


class Moved(NamedTuple):
    """One step as the server sees it: `step` counts from 1."""

    step: int
    sent: ScriptedRequest | None
    shown: Shown | None


class Ending(NamedTuple):
    """What is asked behind a trace: `settle`, or `probe_` and the name of a probe."""

    instance: Instance
    moved: Moved


@dataclass(frozen=True, slots=True)
class TransactionScript:
    """A trace with its markers, what of it a server meets, all that it shows in the end, what is
    asked behind it, and the points that the trace covers.

    `times_out` is the step at which the transaction times out, `forgotten` the one at which the
    transactional id expires; 0: there is none.
    """

    steps: Steps
    moved: tuple[Moved, ...]
    settled: Shown
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
        """Its transaction is open also behind the endings, which abort what is open: nothing ends
        it. KAFKA-20090."""
        last = self.endings[-1].moved.shown if self.endings else None
        shown = None if last is None else last.coordinator
        return shown is not None and shown[0] == STATES["ONGOING"]

    def _first(self, rule: str) -> int:
        """The first step of a rule, counted from 1; 0: there is none."""
        return next((at for at, (name, _) in enumerate(self.steps, start=1) if name == rule), 0)

    def instance(self, step: int) -> Instance:
        """The rule instance of a step that counts from 1; that of step 0 is the beginning."""
        return self.steps[step - 1] if step else ("initial", ())


def refuse(k: Any, *, nodes: bool = False) -> None:
    """Raises NotApplicable for scopes that a running server cannot be brought to, or `nodes`."""
    bounds = k.bounds
    for name, is_there in (
        ("appends", bounds.appends),
        ("guards", bounds.guards),
        ("offsets", bounds.offsets and nodes),
        ("other ids", bounds.faults.others > 0),
        ("partitions without a leader", k.budgets.leaves > 0 and not nodes),
        ("the last epoch", bounds.epochs_end and nodes),
    ):
        if is_there:
            raise NotApplicable(f"scopes with {name} are not driven at a running server")


# What is shown


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
    """Makes scripts of the traces of one configuration, whose logs have room for endings
    (`probes.with_room`). Raises NotApplicable."""

    def __init__(self, tables: TransactionTables) -> None:
        refuse(tables.k)
        self.tables = tables

    def script(self, steps: Iterable[Instance]) -> TransactionScript:
        """The script of what of `steps` is enabled, markers taken at once."""
        played = ModelReplay(self.tables)
        for instance in steps:
            if played.is_beyond:
                break
            if instance[0] != MARKER and played.move(instance):
                played.write_markers()
        return played.script()


class ModelReplay:
    """The model's actors in one trace."""

    rules = PLAYED
    probes: ClassVar[Mapping[str, Probe]] = PROBES

    def __init__(self, tables: TransactionTables) -> None:
        self.tables = tables
        self._clients = list(tables.clients)
        self._coordinator = tables.coordinator
        self._leaders = list(tables.leaders)
        self._late: list[InternedMessage] = []
        self._steps: list[Instance] = []
        self._moved: list[Moved] = []
        self._touched: set[int] = set()
        self._seen = 0
        self._sent: ScriptedRequest | None = None
        self._moves = {rule: getattr(self, f"_{rule}") for rule in self.rules}
        self._arrivals = Arrivals(tables, self._coordinates, self._leads)

    def move(self, instance: Instance) -> bool:
        """One step; whether it is enabled. Raises NotApplicable for a rule that is not played."""
        rule, choice = instance
        if rule not in self._moves:
            raise NotApplicable(f"{rule} is not brought about at a running server")
        self._sent = None
        try:
            self._moves[rule](*(value for _, value in choice))
        except Disabled:
            return False
        self._steps.append(instance)
        self._moved.append(self._told())
        return True

    def _told(self) -> Moved:
        """The step that was just made, as the server sees it."""
        return Moved(len(self._steps), self._sent, None if self._goes_on() else self._shown())

    def _goes_on(self) -> bool:
        """Whether the server does more by itself."""
        return self._next_marker() is not None

    def write_markers(self) -> None:
        """All that are on their way."""
        while (partition := self._next_marker()) is not None:
            self.move((MARKER, (("partition", partition), ("heard", 1))))

    @property
    def is_beyond(self) -> bool:
        """The next producer id has come to the scope's last epoch: a server's is far away."""
        bounds, metadata = self.tables.k.bounds, self._coordinator.state.known.metadata
        is_last = metadata.producer_epoch >= bounds.exhausted_epoch
        return bool(bounds.epochs_end and metadata.producer_id > 0 and is_last)

    def script(self) -> TransactionScript:
        """All that was played."""
        self._touched = {NOBODY, *range(len(self._leaders))}
        settled, seen = self._shown(), self._seen
        endings = tuple(self._endings())
        return TransactionScript(tuple(self._steps), tuple(self._moved), settled, endings, seen)

    def _endings(self) -> Iterator[Ending]:
        """What is open is aborted; then each probe."""
        for name, probe in {SETTLE: settle, **self.probes}.items():
            sight = self._sight()
            if self.is_beyond or not sight.is_known:
                return
            requests = list(probe(sight))
            for request in requests:
                yield self._ending(name, request, is_last=request is requests[-1])

    def _sight(self) -> Sight:
        leaders = [leader.state for leader in self._leaders]
        return Sight(self.tables, self._coordinator.state, leaders)

    def _ending(self, name: str, request: Any, *, is_last: bool) -> Ending:
        """One request, and its markers; behind the last of a probe comes a look."""
        message, partition = self.tables.message(request), request.partition
        choice: tuple[tuple[str, int], ...] = ()
        if request.api.name in HANDLED:
            self._handled(HANDLED[request.api.name], message, NOBODY, is_late=False)
        else:
            self._produced(message, partition, is_late=False)
            choice = (("partition", partition),)
        while (waiting := self._next_marker()) is not None:
            self._marker_is_written(waiting, 1)
        if name == SETTLE:
            self._touched = {NOBODY, *range(len(self._leaders))}
        moved = Moved(len(self._steps), self._sent, self._shown() if is_last else None)
        return Ending((name, choice), moved)

    def _next_marker(self) -> int | None:
        """The first partition that waits for its marker."""
        state = self._coordinator.state
        is_prepared = state.known.metadata.state.name.startswith("PREPARE")
        if not is_prepared or state.is_stopped:
            return None
        waiting = state.known.metadata.partitions.items()
        return next((partition for partition, waits in waiting if waits), None)

    def _shown(self) -> Shown:
        """What was touched since it was shown last. NOBODY stands for the coordinator."""
        touched = sorted(self._touched - {NOBODY})
        coordinator = coordinator_shown(self._coordinator.state)
        shown = Shown(
            coordinator if NOBODY in self._touched else None,
            tuple((p, self._leader_shown(p)) for p in touched),
        )
        self._touched = set()
        return shown

    def _leader_shown(self, partition: int) -> View:
        tables, leader = self.tables, self._leaders[partition].state
        of_group = tables.model.messages.is_of_group(tables.k, partition)
        return (group_shown if of_group else leader_shown)(tables, leader)

    # ---- actors

    def _acts(self, node: InternedState, rule: str, *inputs: Any) -> MemoisedStep:
        row: MemoisedStep = self.tables.after(node, rule, *inputs)
        self._seen |= row.seen
        return row

    def _client(self, instance: int, rule: str, *inputs: Any) -> tuple[InternedMessage, ...]:
        row = self._acts(self._clients[instance], rule, *inputs)
        self._clients[instance] = row.node
        return row.sent

    def _coordinates(self, rule: str, *inputs: Any) -> InternedMessage:
        row = self._acts(self._coordinator, rule, *inputs)
        self._coordinator = row.node
        self._touched.add(NOBODY)
        return row.sent[0]

    def _leads(self, partition: int, rule: str, *inputs: Any) -> InternedMessage | None:
        row = self._acts(self._leaders[partition], rule, *inputs)
        self._leaders[partition] = row.node
        self._touched.add(partition)
        return row.sent[0] if row.sent else None

    # ---- the application

    def _instance_begins(self, instance: int) -> None:
        self._client(instance, "init_transactions")

    def _transaction_begins(self, instance: int) -> None:
        self._client(instance, "begin_transaction")

    def _record_is_sent(self, instance: int, partition: int) -> None:
        self._client(instance, "send", partition)

    def _commit_is_asked(self, instance: int) -> None:
        self._client(instance, "commit_transaction")

    def _abort_is_asked(self, instance: int) -> None:
        self._client(instance, "abort_transaction")

    def _batch_expires(self, instance: int, partition: int, waits: int) -> None:
        self._client(instance, "give_up", partition, bool(waits))

    # ---- requests

    def _handled(
        self, rule: str, request: InternedMessage, requester: int, *, is_late: bool
    ) -> InternedMessage:
        answer = self._coordinates(rule, request, requester)
        self._sent = ScriptedRequest(request.value, answer.view, is_late)
        return answer

    def _producer_id_is_asked(self, instance: int, heard: int) -> None:
        [request] = self._client(instance, "ask_producer_id")
        answer = self._handled("on_init_producer_id", request, instance, is_late=False)
        if heard:
            self._client(instance, "on_producer_id", answer)

    def _partitions_are_added(self, instance: int, heard: int) -> None:
        [request] = self._client(instance, "add_partitions")
        answer = self._handled("on_add_partitions", request, instance, is_late=False)
        if heard:
            self._client(instance, "on_partitions_added", request.value.partitions, answer)

    def _offsets_are_added(self, instance: int, heard: int) -> None:
        [request] = self._client(instance, "add_offsets")
        answer = self._handled("on_add_partitions", request, instance, is_late=False)
        if heard:
            self._client(instance, "on_partitions_added", request.value.partitions, answer)

    def _transaction_is_ended(self, instance: int, heard: int) -> None:
        [request] = self._client(instance, "end_transaction")
        answer = self._handled("on_end_txn", request, instance, is_late=False)
        if heard:
            self._client(instance, "on_ended", answer)

    def _batch_is_produced(self, instance: int, partition: int, heard: int) -> None:
        [request] = self._client(instance, "produce", instance, partition)
        answer = self._produced(request, partition, is_late=False)
        if heard:
            self._client(instance, "on_produced", partition, answer)

    def _offsets_are_committed(self, instance: int, partition: int, heard: int) -> None:
        [request] = self._client(instance, "commit_offsets", instance, partition)
        answer = self._produced(request, partition, is_late=False)
        if heard:
            self._client(instance, "on_offsets_committed", partition, answer)

    def _produced(
        self, request: InternedMessage, partition: int, *, is_late: bool
    ) -> InternedMessage:
        """A batch, or a group's offsets, arrive; the leader may ask the coordinator."""
        answer = self._arrivals.produced(request.value.batch, partition)
        self._touched.add(NOBODY)  # also where the model's leader has asked nobody
        self._sent = ScriptedRequest(request.value, answer.view, is_late)
        return answer

    # ---- what is late

    def _delayed(self, instance: int, rule: str, *given: int) -> None:
        [request] = self._client(instance, rule, *given)
        self._late.append(request)

    def _init_is_delayed(self, instance: int) -> None:
        self._delayed(instance, "ask_producer_id")

    def _addition_is_delayed(self, instance: int) -> None:
        self._delayed(instance, "add_partitions")

    def _end_is_delayed(self, instance: int) -> None:
        self._delayed(instance, "end_transaction")

    def _batch_is_delayed(self, instance: int, partition: int) -> None:
        self._delayed(instance, "produce", instance, partition)

    def _offsets_are_delayed(self, instance: int, partition: int) -> None:
        self._delayed(instance, "commit_offsets", instance, partition)

    def _arriving(self, late: int, api: str, partition: int = 0) -> InternedMessage:
        """The late request; a trace that lost some of its steps may have none, or another."""
        if late < len(self._late):
            request = self._late[late].value
            if request.api.name == api and request.partition == partition:
                return self._late.pop(late)
        raise Disabled(by_scope=False)

    def _late_init_arrives(self, late: int) -> None:
        request = self._arriving(late, "INIT_PRODUCER_ID")
        self._handled("on_init_producer_id", request, NOBODY, is_late=True)

    def _late_addition_arrives(self, late: int) -> None:
        request = self._arriving(late, "ADD_PARTITIONS_TO_TXN")
        self._handled("on_add_partitions", request, NOBODY, is_late=True)

    def _late_end_arrives(self, late: int) -> None:
        request = self._arriving(late, "END_TXN")
        self._handled("on_end_txn", request, NOBODY, is_late=True)

    def _late_batch_arrives(self, late: int, partition: int) -> None:
        request = self._arriving(late, "PRODUCE", partition)
        self._produced(request, partition, is_late=True)

    def _late_offsets_arrive(self, late: int, partition: int) -> None:
        request = self._arriving(late, "TXN_OFFSET_COMMIT", partition)
        self._produced(request, partition, is_late=True)

    # ---- what the coordinator does of itself

    def _transaction_times_out(self) -> None:
        self._of_itself("time_out")

    def _transactional_id_is_forgotten(self) -> None:
        self._of_itself("forget")

    def _of_itself(self, rule: str) -> None:
        row = self._acts(self._coordinator, rule)
        self._coordinator = row.node
        self._touched.add(NOBODY)

    # ---- markers

    def _marker_is_written(self, partition: int, heard: int) -> None:
        marker = self._acts(self._coordinator, "marker_for", partition).sent[0]
        error = self._leads(partition, "on_marker", marker)
        assert error is not None, "a leader answers"
        row = self._acts(self._coordinator, "on_marker_written", partition, error.value)
        self._coordinator = row.node
        self._touched.add(NOBODY)
