"""Liveness properties of transactions, and the fairness assumptions that each rests on.

Theory of operation as in `model.idempotent.liveness`: a property names the assumptions under which
it holds, and each of them is needed. Faults may happen for ever; an assumption says which events
they must not prevent.
"""

from __future__ import annotations

from model.properties import Assumption, Ceases, EventPattern, Eventually, Happens, Repeats
from model.scope import read_scopes
from model.transactions.client_state import ClientState
from model.transactions.conditions import late_bumps_are_asked
from model.transactions.configuration import Bounds, Budgets, Configuration, Scope
from model.transactions.coordinator import is_prepared
from model.transactions.faults import Faults
from model.transactions.messages import NO_OFFSET
from model.transactions.world import World

# Pending things


def prepared(k: Configuration, w: World, instance: int, partition: int) -> int:
    """1 if the outcome is decided, and a marker or the completion is missing; else 0."""
    return 1 if is_prepared(w.coordinator.known.metadata) else 0


def unstable(k: Configuration, w: World, instance: int, partition: int) -> int:
    """1 if a transaction is open at the partition, so that the last stable offset waits for it;
    else 0."""
    entries = w.leaders[partition].producers.values()
    return 1 if any(e.current_txn_first_offset != NO_OFFSET for e in entries) else 0


def initializing(k: Configuration, w: World, instance: int, partition: int) -> int:
    """1 if the instance waits for its producer id, else 0."""
    return 1 if w.clients[instance].state == ClientState.INITIALIZING else 0


def ending(k: Configuration, w: World, instance: int, partition: int) -> int:
    """A number for the transaction whose end the instance waits for, and for the kind of the end; 0
    if it waits for none."""
    client = w.clients[instance]
    if client.state == ClientState.COMMITTING:
        return 2 * client.begun
    return 2 * client.begun + 1 if client.state == ClientState.ABORTING else 0


# Assumptions


HEARD = (("heard", 1),)
NOTHING: EventPattern[Configuration, World] = EventPattern(())

ASSUMPTIONS: dict[str, Assumption[Configuration, World]] = {
    a.name: a
    for a in (
        Assumption(
            "markers",
            "a marker that a partition waits for is written at last, and the coordinator hears so",
            Happens(EventPattern(("marker_is_written",), choice=HEARD)),
        ),
        Assumption(
            "answers",
            "a request of a client is handled at last, and its answer is heard",
            Happens(
                EventPattern(
                    ("producer_id_is_asked", "partitions_are_added", "transaction_is_ended"),
                    choice=HEARD,
                )
            ),
        ),
        Assumption(
            "writes",
            "a batch is produced at last, and its answer is heard",
            Happens(EventPattern(("batch_is_produced",), choice=HEARD)),
        ),
        Assumption(
            "time_outs",
            "a transaction that nobody ends lasts too long at last",
            Happens(EventPattern(("transaction_times_out",))),
        ),
        Assumption(
            "appends",
            "an append to the transaction log is refused or done at last",
            Happens(EventPattern(("append_is_done", "append_is_refused"))),
        ),
        Assumption(
            "appends_succeed",
            "appends are not refused for ever",
            Repeats(EventPattern(("append_is_refused",)), NOTHING),
        ),
        Assumption(
            "coordinators_stay",
            "at some time the coordinator moves no more",
            Repeats(EventPattern(("coordinator_moves", "coordinator_moves_with_append")), NOTHING),
        ),
    )
}

EVENTUALLY: tuple[Eventually[Configuration, World] | Ceases[Configuration, World], ...] = (
    Eventually(
        "completes",
        "a transaction whose outcome is decided is complete in all its partitions",
        prepared,
        ("markers", "coordinators_stay", "appends", "appends_succeed"),
    ),
    Eventually(
        "last_stable_offset_moves",
        "no transaction stays open at a partition",
        unstable,
        ("markers", "time_outs", "coordinators_stay", "appends", "appends_succeed"),
    ),
    Eventually(
        "makes_progress",
        "an instance that begins gets its producer id",
        initializing,
        ("markers", "coordinators_stay", "answers", "appends", "appends_succeed"),
        guaranteed=late_bumps_are_asked,
    ),
    Eventually(
        "ends_return",
        "a call of commit or abort returns",
        ending,
        ("markers", "coordinators_stay", "answers", "writes", "appends", "appends_succeed"),
    ),
)


# Scopes

UNBOUNDED = Bounds(
    instances=1,
    partitions=2,
    transactions=1,
    log=1,
    late=0,
    late_markers=0,
    max_epoch=5,
    begun=1,
    unbounded=True,
    faults=Faults(),
)
"""Room for one transaction, and no faults by default."""

SCOPES = read_scopes(
    Scope("", "", UNBOUNDED, Budgets()),
    """
live-transaction: answers are lost for ever, markers are, and the coordinator moves for ever
    | begun=1 unheard=1 marker_losses=1 moves=1 timeouts=1
live-two-instances: the same with a second instance, which waits for what the first has left
    | instances=2 begun=1 marker_losses=1 moves=1 timeouts=1
live-log: appends to the transaction log take their time, and fail for ever
    | partitions=1 producer_ids=4 appends begun=1 marker_losses=1 moves=1 timeouts=1 failures=1
live-expiry: a batch is given up at any time, also while its transaction aborts
    | partitions=1 begun=1 unheard=1 expirations=1 timeouts=1
""",
)
