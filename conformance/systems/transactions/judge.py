"""Lockstep in transactions: `impl`'s client, coordinator and leaders against the model's.

1. One request with the fate of its answer is one step, as in `model.transactions.world`: all actors
   that it meets take part, and each is compared.
2. What is late is kept here, as the model has it and as the system made it; so is the one request
   whose answer waits for an append to the transaction log.
3. A client is asked, wherever it comes to, what it would send: what the model lets it, or nothing.

Theory of operation: each rule of the world is a method here, under its name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.systems.base import View
from conformance.systems.transactions.arrivals import NOBODY, Arrivals
from conformance.systems.transactions.client import COORDINATOR, GROUP_COORDINATOR
from conformance.systems.transactions.leader import Begun
from conformance.systems.transactions.messages import Payload
from conformance.systems.transactions.moves import Moves
from conformance.systems.transactions.pairs import (
    ASKING,
    WRITING,
    Answered,
    Late,
    Open,
    Pair,
)
from conformance.systems.transactions.shapes import ANSWER, MARKER, REQUEST
from conformance.systems.transactions.system import ImplTransactions
from conformance.systems.transactions.tables import TransactionTables
from conformance.tables import InternedMessage
from impl.partition.verification import NO_GUARD
from model.language import Map


class TransactionJudge(Moves):
    """Judges traces of one configuration; its tables and moments grow from trace to trace."""

    def __init__(self, tables: TransactionTables, system: ImplTransactions) -> None:
        super().__init__(tables, system)
        self._late: list[Late] = []
        self._late_markers: list[tuple[InternedMessage, Any]] = []
        self._arrivals = Arrivals(tables, self._verifies, self._leads)
        self._verifier = self.coordinator

    def begin(self) -> None:
        """All as the scope begins, and nothing is late. Raises Differs."""
        self._late, self._late_markers = [], []
        super().begin()

    # ---- the application

    def _calls(self, instance: int, rule: str, *given: Any) -> None:
        client = self.clients[instance]
        self._models(client, rule, *given)
        self._does(client, rule, *given)
        self._agree(client)

    def _instance_begins(self, instance: int) -> None:
        self._calls(instance, "init_transactions")

    def _transaction_begins(self, instance: int) -> None:
        self._calls(instance, "begin_transaction")

    def _record_is_sent(self, instance: int, partition: int) -> None:
        client = self.clients[instance]
        state = client.node.state
        number = state.partitions[partition].written
        self._models(client, "send", partition)
        self._does(client, "send", partition, state.begun - 1, number)
        self._agree(client)

    def _ends(self, instance: int, rule: str) -> None:
        client = self.clients[instance]
        row = self._models(client, rule)
        at_once = row.node.state.state.name not in ("COMMITTING", "ABORTING")
        self._does(client, rule, at_once)
        self._agree(client)

    def _commit_is_asked(self, instance: int) -> None:
        self._ends(instance, "commit_transaction")

    def _abort_is_asked(self, instance: int) -> None:
        self._ends(instance, "abort_transaction")

    def _batch_expires(self, instance: int, partition: int, waits: int) -> None:
        self._calls(instance, "give_up", partition, bool(waits))

    # ---- requests

    def _asked(self, instance: int, rule: str, *given: int) -> Late:
        """The client sends a request, on both sides the same. `given`: instance and partition."""
        client = self.clients[instance]
        message = self._models(client, rule, *given).sent[0]
        if rule == "produce":
            view, payload = self._does(client, "produce", given[1])
        else:
            api_key = ASKING[rule].api_key if rule in ASKING else WRITING[rule].api_key
            view, payload = self._does(client, "ask", api_key)
        self._same(f"{client.name}.sends", REQUEST, message.view, view)
        return Late(message, payload)

    def _told(
        self, instance: int, node_id: int, heard: int, answer: Answered, rule: str, *before: Any
    ) -> None:
        """The answer is heard, or the connection breaks."""
        client = self.clients[instance]
        if heard:
            self._models(client, rule, *before, answer[0])
            self._does(client, "hear", answer[1])
        else:
            self._does(client, "hang_up", node_id)
        self._agree(client)

    def _handled(self, rule: str, request: Late, requester: int, asked: Pair) -> Answered | None:
        """A coordinator handles a request, on both sides with the same answer."""
        asking = ASKING[rule]
        row = self._models(asked, asking.handled, request.message, requester)
        given = self._does(asked, asking.does, request.payload)
        return self._answered(row.sent[0] if row.sent else None, given, asked)

    def _answered(
        self, expected: InternedMessage | None, given: Any, asked: Pair
    ) -> Answered | None:
        """A coordinator has moved: the answer, None where both wait for an append."""
        view = given and given[0]
        self._same(f"{asked.name}.answers", ANSWER, expected and expected.view, view)
        self._has_moved(asked)
        return None if expected is None else (expected, given[1])

    def _coordinated(self, instance: int, rule: str, heard: int) -> None:
        """A request to the coordinator, and its answer."""
        request = self._asked(instance, rule)
        answer = self._handled(rule, request, instance, self._asked_by(instance))
        if answer is None:
            self._open = Open(instance, rule, request)
            self._agree(self.clients[instance])
        else:
            hears = ASKING[rule].heard, *before(rule, request)
            self._finds_out(instance, answer[0].value.error, heard)
            self._told(instance, COORDINATOR, heard, answer, *hears)

    def _producer_id_is_asked(self, instance: int, heard: int) -> None:
        self._coordinated(instance, "ask_producer_id", heard)

    def _partitions_are_added(self, instance: int, heard: int) -> None:
        self._coordinated(instance, "add_partitions", heard)

    def _offsets_are_added(self, instance: int, heard: int) -> None:
        self._coordinated(instance, "add_offsets", heard)

    def _transaction_is_ended(self, instance: int, heard: int) -> None:
        self._coordinated(instance, "end_transaction", heard)

    # ---- batches, and offsets

    def _written(self, instance: int, partition: int, heard: int) -> None:
        rule = self.leaders[partition].written_by
        request = self._asked(instance, rule, instance, partition)
        answer = self._arrives(request, partition)
        writing = WRITING[rule]
        node_id = partition if writing.node_id is None else writing.node_id
        self._told(instance, node_id, heard, answer, writing.heard, partition)

    def _batch_is_produced(self, instance: int, partition: int, heard: int) -> None:
        self._written(instance, partition, heard)

    def _offsets_are_committed(self, instance: int, partition: int, heard: int) -> None:
        self._written(instance, partition, heard)

    def _arrives(self, request: Late, partition: int) -> Answered:
        """A batch arrives: the coordinator is asked if it must be, then the leader has it."""
        self._verifier = self._asked_by_leader(partition)
        answer = self._arrivals.produced(request.message.value.batch, partition)
        view, payload = self._does_produced(request.payload, partition)
        self._agree_on_write(partition, answer.view, view)
        return answer, payload

    def _agree_on_write(self, partition: int, expected: View, observed: View) -> None:
        """Both sides have answered a batch. Raises Differs."""
        leader = self.leaders[partition]
        self._same(f"{leader.name}.answers", ANSWER, expected, observed)
        self._agree(leader)
        self._has_moved(self._verifier)

    def _verifies(self, rule: str, *inputs: Any) -> InternedMessage | None:
        """The model's coordinator that a leader asks moves; what it sends."""
        sent = self._models(self._verifier, rule, *inputs).sent
        return sent[0] if sent else None

    def _does_produced(self, request: Payload, partition: int) -> tuple[View, Payload]:
        leader = self.leaders[partition]
        begun = self._does(leader, "begin", request)
        error = begun.error or self._does_verify(begun, partition)
        if error:
            refused: tuple[View, Payload] = self._does(leader, "refuse", request, error)
            return refused
        answer: tuple[View, Payload] = self._does(leader, "produce", request, begun.guard)
        return answer

    def _does_verify(self, begun: Begun, partition: int) -> int:
        """What the system's coordinator that it asks says of a batch."""
        if begun.guard == NO_GUARD:
            return 0
        is_v2 = self.tables.is_v2
        error: int = self._does(self._verifier, "verify", begun.producer, partition, is_v2)
        return error

    # ---- what is late

    def _delayed(self, instance: int, node_id: int, rule: str, *given: int) -> None:
        self._late.append(self._asked(instance, rule, *given))
        self._does(self.clients[instance], "hang_up", node_id)
        self._agree(self.clients[instance])

    def _init_is_delayed(self, instance: int) -> None:
        self._delayed(instance, COORDINATOR, "ask_producer_id")

    def _addition_is_delayed(self, instance: int) -> None:
        self._delayed(instance, COORDINATOR, "add_partitions")

    def _end_is_delayed(self, instance: int) -> None:
        self._delayed(instance, COORDINATOR, "end_transaction")

    def _batch_is_delayed(self, instance: int, partition: int) -> None:
        self._delayed(instance, partition, "produce", instance, partition)

    def _offsets_are_delayed(self, instance: int, partition: int) -> None:
        self._delayed(instance, GROUP_COORDINATOR, "commit_offsets", instance, partition)

    def _late_init_arrives(self, late: int) -> None:
        self._handled("ask_producer_id", self._late.pop(late), NOBODY, self.coordinator)

    def _late_addition_arrives(self, late: int) -> None:
        self._handled("add_partitions", self._late.pop(late), NOBODY, self.coordinator)

    def _late_end_arrives(self, late: int) -> None:
        self._handled("end_transaction", self._late.pop(late), NOBODY, self.coordinator)

    def _late_batch_arrives(self, late: int, partition: int) -> None:
        self._arrives(self._late.pop(late), partition)

    def _late_batch_is_verified(self, late: int, partition: int) -> None:
        """Its leader knows what the coordinator says; the batch is not there yet."""
        request = self._late.pop(late)
        self._verifier = self._asked_by_leader(partition)
        refused = self._arrivals.verified(request.message.value.batch, partition)
        begun = self._does(self.leaders[partition], "begin", request.payload)
        asked = begun.guard != NO_GUARD and not begun.error
        self._same(f"{self.leaders[partition].name}.asks", None, True, asked)
        error = self._does_verify(begun, partition)
        self._same("coordinator.refuses", None, bool(refused), bool(error))
        if not refused:
            self._late.insert(late, self._guarded(request, partition, begun.guard))
        self._agree(self.leaders[partition])
        self._has_moved(self._verifier)

    def _guarded(self, request: Late, partition: int, guard: int) -> Late:
        """The request, with the guards that both leaders have given it."""
        value = request.message.value
        known = self.leaders[partition].node.state.verifications[value.batch.producer_id]
        message = self.tables.message(replace(value, guard=known.guard))
        return Late(message, request.payload, guard)

    def _verified_batch_arrives(self, late: int, partition: int) -> None:
        message, payload, guard = self._late.pop(late)
        leader, batch = self.leaders[partition], message.value.batch
        self._verifier = self.coordinator
        answer = self._models(leader, "on_verified", batch, message.value.guard).sent[0]
        view, _ = self._does(leader, "produce", payload, guard)
        self._agree_on_write(partition, answer.view, view)

    def _late_offsets_arrive(self, late: int, partition: int) -> None:
        self._arrives(self._late.pop(late), partition)

    # ---- markers

    def _marker(self, sender: Pair, partition: int) -> tuple[InternedMessage, Any]:
        message = self._models(sender, "marker_for", partition).sent[0]
        view, sent = self._does(sender, "marker_for", partition)
        self._same(f"{sender.name}.sends", MARKER, message.view, view)
        return message, sent

    def _on_marker(self, partition: int, marker: tuple[InternedMessage, Any]) -> tuple[Any, int]:
        leader = self.leaders[partition]
        expected = self._models(leader, "on_marker", marker[0]).sent[0]
        error: int = self._does(leader, "on_marker", marker[1])
        self._same(f"{leader.name}.error", None, expected.view, error)
        self._agree(leader)
        return expected.value, error

    def _marker_is_written(self, partition: int, heard: int) -> None:
        self._marker_goes(self.coordinator, partition, heard)

    def _former_writes_marker(self, partition: int) -> None:
        self._marker_goes(self.former, partition, 1)

    def _marker_goes(self, sender: Pair, partition: int, heard: int) -> None:
        """A marker comes to its partition, and the answer to its sender."""
        expected, error = self._on_marker(partition, self._marker(sender, partition))
        if heard:
            self._models(sender, "on_marker_written", partition, expected)
            self._does(sender, "on_marker_written", partition, error)
        else:
            self._does(sender, "marker_is_lost", partition)
        self._agree(sender)

    def _marker_is_delayed(self, partition: int) -> None:
        self._late_markers.append(self._marker(self.coordinator, partition))
        self._does(self.coordinator, "marker_is_lost", partition)
        self._agree(self.coordinator)

    def _late_marker_arrives(self, late: int, partition: int) -> None:
        self._on_marker(partition, self._late_markers.pop(late))

    # ---- partitions without a leader

    def _leader_leaves(self, partition: int) -> None:
        """Nobody moves: what goes to the partition now does not arrive."""

    def _leader_returns(self, partition: int) -> None:
        self._models(self.leaders[partition], "restarted")
        self._does(self.leaders[partition], "restarted")
        self._agree(self.leaders[partition])

    def _marker_is_skipped(self, partition: int) -> None:
        no_error = self.tables.model.messages.Error.NONE
        self._models(self.coordinator, "on_marker_written", partition, no_error)
        self._agree(self.coordinator)

    # ---- the coordinator, and readers

    def _happens(self, rule: str) -> None:
        self._models(self.coordinator, rule)
        self._does(self.coordinator, rule)
        self._agree(self.coordinator)

    def _transaction_times_out(self) -> None:
        self._happens("time_out")

    def _coordinator_moves(self) -> None:
        self._happens("take_over")
        self._hangs_up()

    def _coordinator_moves_with_append(self) -> None:
        pair, rules = self.coordinator, self.tables.model.coordinator
        state = pair.node.state
        pair.node = self.tables.node(replace(state, log=rules.stored(self.tables.k, state.image)))
        self._models(pair, "take_over")
        self._does(pair, "take_over_with_append")
        self._agree(pair)
        self._hangs_up()

    def _hangs_up(self) -> None:
        """The connection of whoever waits for an append breaks."""
        waits, self._open = self._open, None
        if waits is not None:
            self._does(self.clients[waits.instance], "hang_up", COORDINATOR)
            self._agree(self.clients[waits.instance])

    def _requester_leaves(self) -> None:
        pair = self.coordinator
        pair.node = self.tables.node(replace(pair.node.state, requester=NOBODY))
        self._does(pair, "requester_leaves")
        self._agree(pair)
        self._hangs_up()

    def _append_is_done(self) -> None:
        self._append_settles("append_succeeds", (), "append_is_done")

    def _append_is_refused(self, in_log: int) -> None:
        self._append_settles("append_fails", (bool(in_log),), "append_is_refused")

    def _append_settles(self, rule: str, inputs: tuple[Any, ...], does: str) -> None:
        """The outcome of an append; whoever waits for it hears."""
        waits, self._open = self._open, None
        row = self._models(self.coordinator, rule, *inputs)
        given = self._does(self.coordinator, does, *inputs)
        is_told = waits is not None or given is not None
        answer = self._answered(row.sent[0] if is_told else None, given, self.coordinator)
        if waits is not None and answer is not None:
            instance, asked, request = waits
            hears = ASKING[asked].heard, *before(asked, request)
            self._told(instance, COORDINATOR, 1, answer, *hears)

    def _transactional_id_is_forgotten(self) -> None:
        self._happens("forget")

    def _reader_reads(self, partition: int) -> None:
        """What readers get is in each leader's view."""
        self._agree(self.leaders[partition])

    def _other_writes(self, partition: int) -> None:
        leader = self.leaders[partition]
        self._models(leader, "on_other")
        self._does(leader, "on_other")
        self._agree(leader)


def before(rule: str, request: Late) -> tuple[Any, ...]:
    """What the model's client knows of its request when it hears the answer."""
    return (request.message.value.partitions,) if rule in ("add_partitions", "add_offsets") else ()


def judge_of_system(
    tables: TransactionTables, system: str, actors: str, on: str
) -> TransactionJudge:
    """The judge of `impl`, the only system in process. Raises NotApplicable."""
    assert system == "impl", "other systems are not in process"
    return TransactionJudge(tables, ImplTransactions(tables.k, is_v2=tables.is_v2, on=on))


def world_shown(judge: TransactionJudge) -> Any:
    """The system's logs and what its applications were told, in the model's last world."""
    tables = judge.tables
    world = tables.model.scopes.initial(tables.k)
    return replace(
        world,
        clients=Map(tuple(client_shown(tables, pair) for pair in judge.clients)),
        coordinator=judge.coordinator.node.state,
        leaders=Map(tuple(leader_shown(tables, pair) for pair in judge.leaders)),
    )


def client_shown(tables: TransactionTables, pair: Pair) -> Any:
    """The model's client, with the outcomes that the system's application knows."""
    client = pair.node.state
    told = [tables.model.client.Outcome[name] for name in pair.moment.view[-1]]
    outcomes = (*told, *client.outcomes.values()[len(told) :])
    return replace(client, outcomes=Map(outcomes))


def leader_shown(tables: TransactionTables, pair: Pair) -> Any:
    """The model's leader, with the log that the system's has."""
    rules = tables.model.leader
    log = []
    for kind, producer_id, producer_epoch, sequence, record in pair.moment.view[0]:
        instance, transaction, number = record or (0, 0, 0)
        log.append(
            rules.Stored(
                kind=rules.Kind[kind],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=sequence or 0,
                instance=instance,
                transaction=transaction,
                number=number,
            )
        )
    return replace(pair.node.state, log=tuple(log))
