"""The threads of a scope: who moves, where PCT decides who moves next.

A thread is an actor, a channel that keeps its messages in order, or one kind of trouble: each event
of a model belongs to one. Trouble is a thread of its own, so that a schedule in which an answer is
lost or a leader restarts early is as likely as one in which that comes late or never.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from proofs.trace.format import Instance

Thread = tuple[str, tuple[int | None, ...]]
"""The kind's name, and which of that kind: None where the choice does not say."""


class NoThread(ValueError):
    """A rule that the table of kinds does not have."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Threads that do the same: `by` are the parameters that tell one from another."""

    name: str
    by: tuple[str, ...]
    rules: tuple[str, ...]


KINDS: Final = (
    # The idempotent producer, its leaders, and the links between them
    Kind(
        "client",
        ("producer",),
        ("client_sends", "client_retries", "client_bumps_epoch", "client_resolves"),
    ),
    Kind("producer ids", ("producer",), ("client_receives_producer_id",)),
    Kind("requests", ("producer", "partition"), ("request_arrives",)),
    Kind("answers", ("producer", "partition"), ("answer_arrives",)),
    Kind("broken connections", ("producer", "partition"), ("late_request_arrives",)),
    Kind("followers", ("partition",), ("high_watermark_advances",)),
    Kind("lost replicas", ("partition",), ("request_is_refused", "request_outlives_replicas")),
    Kind("breaks", ("producer", "partition"), ("connection_breaks",)),
    Kind(
        "delivery time",
        ("producer", "partition"),
        ("client_gives_up", "answer_arrives_late", "connection_breaks_late"),
    ),
    Kind("expiry of producer ids", ("partition",), ("producer_id_expires",)),
    Kind("retention", ("partition",), ("records_are_deleted",)),
    Kind("restarts", ("partition",), ("leader_restarts", "leader_crashes")),
    Kind("elections", ("partition",), ("leader_fails_over", "leader_fails_over_uncleanly")),
    # Instances of a transactional id, its coordinator, and the partitions
    Kind(
        "application",
        ("instance",),
        (
            "instance_begins",
            "transaction_begins",
            "record_is_sent",
            "commit_is_asked",
            "abort_is_asked",
        ),
    ),
    Kind(
        "requests to the coordinator",
        ("instance",),
        (
            "producer_id_is_asked",
            "partitions_are_added",
            "offsets_are_added",
            "transaction_is_ended",
        ),
    ),
    Kind("batches", ("instance", "partition"), ("batch_is_produced", "offsets_are_committed")),
    Kind("delivery time of batches", ("instance", "partition"), ("batch_expires",)),
    Kind(
        "delays",
        ("instance",),
        (
            "init_is_delayed",
            "addition_is_delayed",
            "end_is_delayed",
            "batch_is_delayed",
            "offsets_are_delayed",
        ),
    ),
    Kind(
        "late requests to the coordinator",
        (),
        ("late_init_arrives", "late_addition_arrives", "late_end_arrives"),
    ),
    Kind(
        "late batches",
        ("partition",),
        ("late_batch_arrives", "late_offsets_arrive", "late_batch_is_verified"),
    ),
    Kind("verified batches", ("partition",), ("verified_batch_arrives",)),
    Kind("markers", ("partition",), ("marker_is_written", "marker_is_skipped")),
    Kind("absence", ("partition",), ("leader_leaves",)),
    Kind("return", ("partition",), ("leader_returns",)),
    Kind("delays of markers", ("partition",), ("marker_is_delayed",)),
    Kind("late markers", ("partition",), ("late_marker_arrives",)),
    Kind("the coordinator's log", (), ("append_is_done",)),
    Kind("failures of the log", (), ("append_is_refused",)),
    Kind("connections to the coordinator", (), ("requester_leaves",)),
    Kind("moves", (), ("coordinator_moves", "coordinator_moves_with_append")),
    Kind("moves that nobody knows of", (), ("coordinator_is_replaced",)),
    Kind("loading", (), ("log_is_loaded",)),
    Kind("the former coordinator", (), ("former_resigns", "former_writes_marker")),
    Kind("lookups", ("instance",), ("coordinator_is_found",)),
    Kind("metadata", ("partition",), ("metadata_arrives",)),
    Kind("the transaction's time", (), ("transaction_times_out",)),
    Kind("expiry of the id", (), ("transactional_id_is_forgotten",)),
    Kind("another id", ("partition",), ("other_writes",)),
    Kind("reader", ("partition",), ("reader_reads",)),
)

UNHEARD: Final = Kind("lost answers", ("instance", "partition"), ())
"""Events of other kinds whose answer is lost on its way."""

KIND_OF: Final = {rule: kind for kind in KINDS for rule in kind.rules}


def thread_of(instance: Instance) -> Thread:
    """Whose event a rule instance is. Raises NoThread."""
    rule, values = instance
    choice = dict(values)
    if rule not in KIND_OF:
        raise NoThread(f"conformance/generate/threads.py: no kind has {rule}; say who moves in it")
    kind = UNHEARD if choice.get("heard") == 0 else KIND_OF[rule]
    return kind.name, tuple(choice.get(name) for name in kind.by)


def threads_of(instances: Iterable[Instance]) -> list[int]:
    """The thread of each instance as a number, in the order in which they first appear. Raises
    NoThread."""
    numbers: dict[Thread, int] = {}
    return [numbers.setdefault(thread_of(i), len(numbers)) for i in instances]
