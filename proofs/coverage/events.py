"""The events of the environment, each by the rule that is it and what must hold for that.

A condition is an expression in the names of its rule, lifted like the rule itself. Every rule of
a world is in its table, as an event or as none, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from proofs.coverage.pairs import Happens
from proofs.lift import dag
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.trace.format import Instance


class UnknownRule(ValueError):
    """The tables and the model's rules differ; the message says where."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the environment does: a rule, where the condition holds before it."""

    name: str
    rule: str
    condition: str = "True"


@dataclass(frozen=True, slots=True)
class Table:
    """The events of one model, and its rules that are none: what goes well, or mends something."""

    events: tuple[Event, ...]
    ordinary: frozenset[str]


LINK = "w.links[producer][partition]"
HEARD_NOT = "heard == 0 and not k.bounds.appends"
"""An answer is lost; where it waits for an append, it is the requester who leaves."""
LAST_EPOCH = "coordinator_rules.is_exhausted(k, w.coordinator.known.metadata.producer_epoch)"
REPLACED = "w.members[member].generation != w.group.generation"

TABLES: Mapping[str, Table] = {
    "idempotent": Table(
        (
            Event("lost_answer", "connection_breaks", f"len({LINK}.answers) > 0"),
            Event("lost_request", "connection_breaks", f"survivors < len({LINK}.requests)"),
            Event("lost_answer", "connection_breaks_late", f"len({LINK}.answers) > 0"),
            Event("lost_request", "connection_breaks_late", f"survivors < len({LINK}.requests)"),
            Event("delayed_request", "late_request_arrives"),
            Event("refusal", "request_is_refused"),
            Event("late_error", "request_outlives_replicas"),
            Event(
                "batch_too_large",
                "request_arrives",
                f"{LINK}.requests[0].batch.record_count > k.bounds.max_message",
            ),
            Event("restart", "leader_restarts"),
            Event("crash", "leader_crashes"),
            Event("failover", "leader_fails_over"),
            Event("unclean_failover", "leader_fails_over_uncleanly"),
            Event("producer_id_expiry", "producer_id_expires"),
            Event("deleted_records", "records_are_deleted"),
            Event("delivery_timeout", "client_gives_up"),
            Event("delivery_timeout", "answer_arrives_late"),
            Event("delivery_timeout", "connection_breaks_late"),
            Event(
                "exhausted_epochs",
                "client_bumps_epoch",
                "k.bounds.epochs_end and w.clients[producer].producer_epoch == k.bounds.max_epoch",
            ),
        ),
        frozenset(
            {
                "client_sends",
                "client_retries",
                "client_bumps_epoch",
                "client_receives_producer_id",
                "client_resolves",
                "answer_arrives",
                "request_arrives",
                "high_watermark_advances",
            }
        ),
    ),
    "producer_ids": Table(
        (
            Event("lost_block_answer", "block_is_written_unheard"),
            Event("lost_block_answer", "block_is_allocated_unheard"),
            Event(
                "lost_race",
                "block_is_written",
                "w.store.version != w.managers[broker].read_version",
            ),
            Event("burnt_block", "broker_restarts", "w.managers[broker].block >= 0"),
            Event("exhausted_blocks", "block_is_read", "w.store.block == k.bounds.last_block"),
            Event("exhausted_blocks", "block_is_allocated", "w.store.block == k.bounds.last_block"),
        ),
        frozenset(
            {
                "producer_asks",
                "producer_id_is_given",
                "producer_id_is_refused",
                "block_is_wanted",
                "block_turns_over",
                "block_is_read",
                "block_is_written",
                "block_is_allocated",
            }
        ),
    ),
    "transactions": Table(
        (
            Event("lost_answer", "producer_id_is_asked", HEARD_NOT),
            Event("lost_answer", "partitions_are_added", HEARD_NOT),
            Event("lost_answer", "offsets_are_added", HEARD_NOT),
            Event("lost_answer", "transaction_is_ended", HEARD_NOT),
            Event("lost_answer", "batch_is_produced", "heard == 0"),
            Event("lost_answer", "offsets_are_committed", "heard == 0"),
            Event("delayed_init", "late_init_arrives"),
            Event("delayed_addition", "late_addition_arrives"),
            Event("delayed_end", "late_end_arrives"),
            Event("delayed_batch", "late_batch_arrives"),
            Event("delayed_batch", "verified_batch_arrives"),
            Event("delayed_batch", "late_offsets_arrive"),
            Event("delivery_timeout", "batch_expires"),
            Event("lost_marker_answer", "marker_is_written", "heard == 0"),
            Event("delayed_marker", "late_marker_arrives"),
            Event("absent_leader", "leader_leaves"),
            Event("transaction_timeout", "transaction_times_out"),
            Event("coordinator_move", "coordinator_moves"),
            Event("coordinator_move", "coordinator_is_replaced"),
            Event("move_with_append", "coordinator_moves_with_append"),
            Event("append_refused", "append_is_refused", "in_log == 0"),
            Event("append_refused_in_log", "append_is_refused", "in_log == 1"),
            Event("requester_left", "requester_leaves"),
            Event("forgotten_id", "transactional_id_is_forgotten"),
            Event("exhausted_epochs", "producer_id_is_asked", LAST_EPOCH),
            Event("exhausted_epochs", "transaction_is_ended", LAST_EPOCH),
            Event("exhausted_epochs", "transaction_times_out", LAST_EPOCH),
            Event("other_transaction", "other_writes"),
            Event("second_instance", "instance_begins", "instance > 0"),
        ),
        frozenset(
            {
                "transaction_begins",
                "record_is_sent",
                "commit_is_asked",
                "abort_is_asked",
                "init_is_delayed",
                "addition_is_delayed",
                "end_is_delayed",
                "batch_is_delayed",
                "offsets_are_delayed",
                "late_batch_is_verified",
                "marker_is_delayed",
                "append_is_done",
                "log_is_loaded",
                "former_resigns",
                "former_writes_marker",
                "coordinator_is_found",
                "metadata_arrives",
                "leader_returns",
                "marker_is_skipped",
                "reader_reads",
            }
        ),
    ),
    "processing": Table(
        (
            Event("crash", "member_crashes"),
            Event("rebalance", "member_joins", "w.group.generation > 0"),
            Event("transaction_timeout", "transaction_times_out"),
            Event("fenced_by_id", "owner_fences"),
            Event("fenced_by_group", "offset_is_committed", REPLACED),
        ),
        frozenset(
            {
                "member_starts",
                "start_aborts",
                "offset_is_fetched",
                "record_is_produced",
                "transaction_is_committed",
                "member_is_told",
                "group_gets_marker",
            }
        ),
    ),
}
"""By composition. An event of several rules has a row for each."""


def events_of(model: Model, home: str) -> tuple[Event, ...]:
    """A model's events. Raises UnknownRule if its table and its rules differ."""
    table = TABLES[home]
    known = {event.rule for event in table.events} | table.ordinary
    forgotten, gone = model.rules.keys() - known, known - model.rules.keys()
    if forgotten or gone:
        raise UnknownRule(
            f"proofs/coverage/events.py, {home}: no row has"
            f" {sorted(forgotten)}, and no rule is called {sorted(gone)};"
            " say of each rule whether it is an event"
        )
    return table.events


def as_function(model: Model, event: Event) -> tuple[ast.FunctionDef, Callable[..., bool]]:
    """The condition as a function with its rule's parameters: its tree, and to be called."""
    rule = model.rules[event.rule]
    parameters = ", ".join(inspect.signature(rule).parameters)
    module = ast.parse(f"def {event.name}({parameters}): return {event.condition}")
    (tree,) = module.body
    assert isinstance(tree, ast.FunctionDef)
    made: dict[str, Any] = {}
    exec(compile(module, event.name, "exec"), made)
    return tree, FunctionType(made[event.name].__code__, rule.__globals__)


def conditions(
    model: Model, k: Any, world: Rec, event: Event, of: Iterable[Instance]
) -> Iterator[tuple[Instance, dag.Node]]:
    """The rule instances that can be an event, and when."""
    tree, function = as_function(model, event)
    home = function.__module__.rpartition(".")[2]
    extended = replace(model, functions={**model.functions, (home, event.name): tree})
    for rule, choice in of:
        if rule == event.rule:
            constants = [dag.const(value) for _, value in choice]
            condition = Evaluator(extended, k).call(function, [k, world, *constants])
            if condition is not dag.FALSE:
                yield (rule, choice), condition


def happening(
    model: Model, k: Any, world: Rec, events: Iterable[Event], of: Sequence[Instance]
) -> dict[str, Happens]:
    """The events that can happen in a lifted configuration, by name."""
    found: dict[str, dict[Instance, dag.Node]] = {}
    for event in events:
        for instance, condition in conditions(model, k, world, event, of):
            can_be = found.setdefault(event.name, {})
            can_be[instance] = dag.either(can_be.get(instance, dag.FALSE), condition)
    return dict(found)
