"""Liveness properties of the idempotent producer, and the fairness assumptions that each rests on.

Theory of operation. Without fairness nothing ever needs to happen. Each property names the
assumptions under which it holds, and each of them is needed. An assumption has one of two forms.
*Happens*: an event that stays possible happens eventually (weak fairness). *Repeats*: if one event
happens again and again, so does another (strong fairness); if no other event is named, the first
one stops. No assumption demands a fault. Faults may happen for ever; an assumption says which
events they must not prevent.

Each property is about one producer and one partition, and is checked for all of them.
"""

from __future__ import annotations

from model.idempotent.configuration import (
    Bounds,
    Budgets,
    Configuration,
    FirstSequence,
    Idempotence,
    Recovery,
    Retries,
    Scope,
    SequenceOrder,
)
from model.idempotent.faults import Faults
from model.idempotent.leader import log_end_offset
from model.idempotent.messages import NO_SEQUENCE, Error
from model.idempotent.world import World
from model.properties import Assumption, Ceases, EventPattern, Eventually, Happens, Repeats
from model.scope import read_scopes

# Pending things


def first_unfinished(k: Configuration, w: World, producer: int, partition: int) -> int:
    """The first batch in flight, by the number of its first record plus 1; 0 if there is none."""
    in_flight = w.clients[producer].partitions[partition].in_flight
    return in_flight[0].batch.first_record + 1 if len(in_flight) > 0 else 0


def first_unacknowledged(k: Configuration, w: World, producer: int, partition: int) -> int:
    """The first record that was sent and is not acknowledged, by its number plus 1; 0 if there is
    none."""
    entry = w.clients[producer].partitions[partition]
    missing = tuple(
        number
        for number in range(k.bounds.records)
        if number < entry.records_sent and number not in entry.acknowledged
    )
    return missing[0] + 1 if len(missing) > 0 else 0


def travelling(k: Configuration, w: World, producer: int, partition: int) -> int:
    """The number of requests and answers on the open connection."""
    link = w.links[producer][partition]
    return len(link.requests) + len(link.answers)


def to_send_again(k: Configuration, w: World, producer: int, partition: int) -> int:
    """1 if the first batch in flight waits to be sent again, else 0."""
    in_flight = w.clients[producer].partitions[partition].in_flight
    return 1 if len(in_flight) > 0 and not in_flight[0].outstanding else 0


def to_bump(k: Configuration, w: World, producer: int, partition: int) -> int:
    """1 if the producer has to begin a new epoch, else 0."""
    return 1 if partition in w.clients[producer].bump_for else 0


def to_resolve(k: Configuration, w: World, producer: int, partition: int) -> int:
    """1 if the partition has an unresolved sequence, else 0."""
    entry = w.clients[producer].partitions[partition]
    return 1 if entry.unresolved_sequence != NO_SEQUENCE else 0


def to_replicate(k: Configuration, w: World, producer: int, partition: int) -> int:
    """1 if the high watermark is behind the log's end, else 0."""
    leader = w.leaders[partition]
    return 1 if leader.high_watermark < log_end_offset(leader.log) else 0


# Conditions


def gives_up(k: Configuration) -> bool:
    """Producers give batches up: delivery.timeout.ms."""
    return k.bounds.faults.timeouts > 0


def never_gives_up(k: Configuration) -> bool:
    """Producers retry for ever."""
    return not gives_up(k)


def takes_batches_in_turn(k: Configuration) -> bool:
    """No leader stores a producer's second batch while it still refuses the first. Otherwise the
    first is out of sequence for ever, and the producer sends it for ever. KAFKA-14359."""
    return k.variant.first_sequence == FirstSequence.STRICT or k.budgets.refusals == 0


def sees_what_is_next(k: Configuration) -> bool:
    """A producer whose sequences have wrapped still knows which batch is next, and begins a new
    epoch if its leader does not accept that batch. A producer that compares plain numbers retries
    for ever."""
    return k.variant.sequence_order == SequenceOrder.WRAPS or not k.bounds.streams


def tries_for_ever(k: Configuration) -> bool:
    """Producers keep sequences, begin epochs by themselves, and do not count their retries."""
    return (
        k.variant.idempotence == Idempotence.ENABLED
        and k.variant.recovery == Recovery.LOCAL_BUMP
        and k.variant.retries == Retries.ENDLESS
    )


def never_in_vain(k: Configuration) -> bool:
    """No producer retries for ever a batch that is never accepted, or stops before it is."""
    return tries_for_ever(k) and takes_batches_in_turn(k) and sees_what_is_next(k)


# Assumptions


def first_answer_decides(k: Configuration, w: World, producer: int, partition: int) -> bool:
    """The next answer says what the leader did with a batch, and not that too few replicas were in
    sync."""
    answers = w.links[producer][partition].answers
    return len(answers) > 0 and answers[0].error != Error.NOT_ENOUGH_REPLICAS


NOTHING: EventPattern[Configuration, World] = EventPattern(())
CUTS: EventPattern[Configuration, World] = EventPattern(
    ("connection_breaks", "leader_restarts", "leader_fails_over")
)


ASSUMPTIONS: dict[str, Assumption[Configuration, World]] = {
    a.name: a
    for a in (
        Assumption(
            "delivery",
            "a request on an open connection is handled at last, or the connection breaks",
            Happens(EventPattern(("request_arrives", "request_is_refused"))),
        ),
        Assumption(
            "answers",
            "an answer that may go arrives at last, or its connection breaks",
            Happens(EventPattern(("answer_arrives",))),
        ),
        Assumption(
            "replication",
            "followers catch up at last",
            Happens(EventPattern(("high_watermark_advances",))),
        ),
        Assumption(
            "retries",
            "a producer that can send a batch again does so at last",
            Happens(EventPattern(("client_retries",))),
        ),
        Assumption(
            "bumps",
            "a producer that can begin a new epoch does so at last",
            Happens(EventPattern(("client_bumps_epoch",))),
        ),
        Assumption(
            "resolution",
            "a producer that can find out about its sequences does so at last",
            Happens(EventPattern(("client_resolves",))),
        ),
        Assumption(
            "deadlines",
            "the time of a batch is up at last",
            Happens(EventPattern(("client_gives_up",))),
        ),
        Assumption(
            "connections_hold",
            "while connections are cut again and again, answers that decide get through again"
            " and again",
            Repeats(CUTS, EventPattern(("answer_arrives",), first_answer_decides)),
        ),
        Assumption(
            "replicas_return",
            "while requests are refused for lack of replicas, others are not, again and again",
            Repeats(EventPattern(("request_is_refused",)), EventPattern(("request_arrives",))),
        ),
        Assumption(
            "restarts_end",
            "at some time leaders restart no more",
            Repeats(EventPattern(("leader_restarts",)), NOTHING),
        ),
    )
}

ATTEMPTS = ("delivery", "answers", "replication", "retries", "bumps")
"""The assumptions that every actor takes its steps."""
TROUBLE = ("connections_hold", "replicas_return")
"""The assumptions that a fault does not prevent every attempt."""

EVENTUALLY: tuple[Eventually[Configuration, World] | Ceases[Configuration, World], ...] = (
    Eventually(
        "requests_end",
        "a request on an open connection is answered, or the connection breaks",
        travelling,
        ("delivery", "answers", "replication"),
    ),
    Eventually(
        "retries_go_out",
        "a batch that waits to be sent again is sent again",
        to_send_again,
        ("retries", "bumps"),
        asked=never_gives_up,
        guaranteed=tries_for_ever,
    ),
    Eventually(
        "bumps_happen",
        "a producer that has to begin a new epoch begins it",
        to_bump,
        ("bumps",),
    ),
    Eventually(
        "high_watermark_catches_up",
        "the high watermark reaches each offset that stays in the log",
        to_replicate,
        ("replication",),
    ),
    Eventually(
        "makes_progress",
        "a record that was sent is acknowledged",
        first_unacknowledged,
        (*ATTEMPTS, *TROUBLE),
        asked=never_gives_up,
        guaranteed=never_in_vain,
    ),
    Eventually(
        "completes",
        "a record that was sent is acknowledged or fails, whatever the network does",
        first_unfinished,
        ("deadlines", "bumps"),
        asked=gives_up,
    ),
    Eventually(
        "sequences_resolve",
        "a producer that lost sight of its sequences finds out what became of them",
        to_resolve,
        ("deadlines", "resolution", "bumps"),
        asked=gives_up,
    ),
    Ceases(
        "bumps_end",
        "new epochs do not follow each other for ever",
        EventPattern(("client_bumps_epoch",)),
        ("restarts_end",),
    ),
)


# Scopes


UNBOUNDED = Bounds(records=4, in_flight=3, log=9, max_epoch=5, unbounded=True, faults=Faults())
"""Room for three batches, all in flight at once, and no faults by default."""

NOT_REPLICATED = {"high_watermark_catches_up": "there is one replica"}
"""Properties that find nothing pending in a scope, unless it says otherwise."""

SCOPES = read_scopes(
    Scope("", "", UNBOUNDED, Budgets(), NOT_REPLICATED),
    """
live-retries: connections break for ever, requests are refused for ever
    | records=4 breaks=1 refusals=1
live-restarts: leaders restart for ever, and forget what makes a producer begin a new epoch
    | records=4 breaks=1 restarts=1
live-stream: an application that never stops sending: each restart can cost an epoch
    | records=4 max_sequence=7 streams breaks=1 restarts=1
live-failover: two replicas: leaders fail over for ever, and lose what only they had
    | records=4 replicas=2 breaks=1 restarts=1 failovers=1 | sometimes high_watermark_catches_up
live-partitions: two partitions share one epoch: what one of them loses, both begin again
    | partitions=2 records=3 in_flight=2 restarts=1
live-timeouts: producers give batches up for ever, and must find out what became of them
    | records=4 in_flight=2 breaks=1 refusals=1 timeouts=1
""",
)
