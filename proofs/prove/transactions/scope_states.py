"""The states of transactions in small scopes: each world with its past, a partition and an
instance.

The ghosts have concrete values here, read from the logs and from the worlds on the path by which a
world was first found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Any

from model.transactions.leader import Kind, Stored
from proofs.explore.source import SourceGraph
from proofs.lift.source import load_model
from proofs.prove.engine.assumptions import events_left_out
from proofs.prove.engine.composition import Composition
from proofs.prove.engine.scope_check import ScopeCheck, ScopeOfProof, TotalLog, check_clauses
from proofs.prove.transactions.assumptions import ASSUMPTIONS
from proofs.prove.transactions.symbolic_state import (
    AGAIN,
    ANEW,
    NOBODY_WAITS,
    NONE,
    Image,
    InstanceState,
    Pair,
    pair,
)
from proofs.trace.events import actor_rules_of

NOBODY = (NONE, NONE)
NOWHERE = Stored(Kind.OTHER, NONE, NONE, NONE, NONE, NONE, NONE)
"""The value outside the bounds of a log."""

# Ghosts left by the worlds on the path


@dataclass(frozen=True, slots=True)
class Past:
    """The ghosts of a run that belong to coordinator and partitions; see
    `proofs.prove.transactions.symbolic_state`."""

    given: frozenset[Pair] = frozenset()
    sent: frozenset[tuple[int, int, int, int]] = frozenset()
    decision: dict[Pair, int] = field(default_factory=dict)
    turn: int = 0
    outcomes: dict[int, int] = field(default_factory=dict)
    turns: dict[Pair, int] = field(default_factory=dict)
    reign: Pair = (-1, -1)
    awaited: int = NOBODY_WAITS
    repeated: bool = False
    went_back: bool = False
    disturbed: bool = False
    contradicted: bool = False
    trespassed: bool = False


def prepared(known: Any) -> int | None:
    """Return the outcome that an image prepares: 1 is to commit. None if the image is not
    prepared."""
    return {2: 1, 3: 0}.get(int(known.metadata.state))


@cache
def events_taking(rule: str) -> frozenset[str]:
    """Return the events in which an actor applies a rule, without those that assumptions leave
    out."""
    model = load_model("transactions")
    events = set(model.rules) - events_left_out(model, ASSUMPTIONS)
    return frozenset(event for event in events if rule in actor_rules_of(model, event))


def sends_marker(event: str) -> bool:
    """Whether the event sends a marker."""
    return event in events_taking("marker_for")


def initializes(event: str) -> bool:
    """Whether InitProducerId arrives at the coordinator in the event."""
    return event in events_taking("on_init_producer_id")


def changes_transaction(event: str) -> bool:
    """Whether a client's AddPartitionsToTxn, AddOffsetsToTxn or EndTxn arrives at the coordinator
    in the event, not a leader's request for verification."""
    changing = events_taking("on_add_partitions") | events_taking("on_end_txn")
    return event in changing - events_taking("on_verify")


def sends_end(event: str) -> bool:
    """Whether the event sends an EndTxn."""
    return event in events_taking("end_transaction")


def sends_records(event: str) -> bool:
    """Whether the event sends a batch of records, which has a sequence."""
    return event in events_taking("produce")


def sends_batch(event: str) -> bool:
    """Whether the event sends a batch: of records, or of offsets, which have no sequence."""
    return sends_records(event) or event in events_taking("commit_offsets")


def with_marker(past: Past, rule: str, before: Any) -> Past:
    """Record a marker of what the coordinator knows, if one is sent."""
    outcome = prepared(before.coordinator.known)
    if not sends_marker(rule) or outcome is None:
        return past
    marker = (*known(before), outcome, before.coordinator.coordinator_epoch)
    return replace(past, sent=past.sent | {marker})


def shown(choice: Mapping[str, int], before: Any) -> Pair:
    """Return the pair of a request: its sender's, or that of a late request."""
    sender = before.late[choice["late"]] if "late" in choice else before.clients[choice["instance"]]
    return pair(sender)


def with_request(past: Past, rule: str, choice: Mapping[str, int], before: Any, after: Any) -> Past:
    """Record whether the client that waits for the append under way may be told an old pair again,
    and whether a pair older than the reign has changed what is known or on its way."""
    now, then = before.coordinator, after.coordinator
    same = (then.known, then.log, then.is_appending) == (now.known, now.log, now.is_appending)
    if changes_transaction(rule) and not same:
        past = replace(past, disturbed=past.disturbed or shown(choice, before) < past.reign)
    if now.is_appending and then.is_appending:
        return past
    tells = then.answer.error == 0 and then.answer.producer_id != NONE
    if not (then.is_appending and initializes(rule) and tells):
        return replace(past, awaited=NOBODY_WAITS)
    asked = shown(choice, before)
    again = asked[0] != NONE and asked != known(before)
    return replace(past, awaited=AGAIN if again else ANEW)


def with_decision(past: Past, known: Any) -> Past:
    """Record the decision if a prepared image is known."""
    outcome = prepared(known)
    if outcome is None:
        return past
    key = (known.metadata.producer_id, known.metadata.producer_epoch)
    earlier = past.decision.get(key, outcome)
    return replace(
        past,
        decision={**past.decision, key: outcome},
        contradicted=past.contradicted or earlier != outcome,
    )


def with_reign(past: Past, before: Any, after: Any) -> Past:
    """Record that a client has received a producer id, by InitProducerId if it was waiting for
    one."""
    for old, new in zip(before.clients.values(), after.clients.values(), strict=True):
        told = (new.producer_id, new.producer_epoch)
        if told == (old.producer_id, old.producer_epoch):
            continue
        if old.state.name == "INITIALIZING":
            anew = old.producer_id == -1 or (old.producer_id, old.producer_epoch) == known(before)
            past = replace(
                past,
                repeated=past.repeated or (anew and told in past.given),
                went_back=past.went_back or told < past.reign,
                reign=told,
            )
        past = replace(past, given=past.given | {told})
    return past


def with_turn(past: Past, before: Any, after: Any) -> Past:
    """Assign new records to the present transaction, and begin the next turn once it is
    complete."""
    new = {
        (partition, offset): past.turn
        for partition, leader in after.leaders.items()
        for offset in range(len(before.leaders[partition].log), len(leader.log))
    }
    now = after.coordinator.known
    outcome = prepared(now)
    decided = {} if outcome is None else {past.turn: outcome}
    over = is_complete(now) and not is_complete(before.coordinator.known)
    written = [after.leaders[partition].log[offset] for partition, offset in new]
    old = [s for s in written if s.kind == 0 and (s.producer_id, s.producer_epoch) < past.reign]
    return replace(
        past,
        trespassed=past.trespassed or bool(old),
        turns={**past.turns, **new},
        outcomes={**past.outcomes, **decided},
        turn=past.turn + int(over),
    )


def is_complete(known: Any) -> bool:
    """Whether an image is CompleteCommit or CompleteAbort."""
    return int(known.metadata.state) in (4, 5)


def known(world: Any) -> Pair:
    """Return the present pair."""
    metadata = world.coordinator.known.metadata
    return metadata.producer_id, metadata.producer_epoch


def pasts(found: SourceGraph) -> list[Past]:
    """Return for each world its past along the path by which it was first found."""
    known: dict[int, Past] = {0: Past()}
    for before, instance, after in found.edges:
        if after not in known:
            rule, choice = found.instances[instance]
            a, b = found.worlds[before], found.worlds[after]
            past = with_decision(known[before], b.coordinator.known)
            past = with_request(with_marker(past, rule, a), rule, dict(choice), a, b)
            known[after] = with_reign(with_turn(past, a, b), a, b)
    return [known[i] for i in range(len(found.worlds))]


Key = tuple[int, int, int, int]
"""A record: instance, partition, transaction, number."""


@dataclass(frozen=True, slots=True)
class Own:
    """The ghosts of the instances; see `proofs.prove.transactions.symbolic_state`."""

    held: Mapping[int, frozenset[Pair]] = field(default_factory=dict)
    pairs: Mapping[Pair, Pair] = field(default_factory=dict)
    turns: Mapping[Pair, int] = field(default_factory=dict)
    ends: frozenset[tuple[int, int, int]] = frozenset()
    batches: Mapping[Key, tuple[int, int, int]] = field(default_factory=dict)
    acked: frozenset[Key] = frozenset()

    def after(
        self, rule: str, choice: Mapping[str, int], before: Any, after: Any, turn: int
    ) -> Own:
        """Return the ghosts after a step that leads into this turn."""
        own = self
        for me, client in after.clients.items():
            pair = (client.producer_id, client.producer_epoch)
            if pair[0] != -1:
                known = own.held.get(me, frozenset())
                own = replace(own, held={**own.held, me: known | {pair}})
            if client.is_started:
                started = {(me, client.begun - 1): pair}
                turns = {(me, client.begun - 1): turn, **own.turns}
                own = replace(own, pairs={**started, **own.pairs}, turns=turns)
        if sends_end(rule):
            me = choice["instance"]
            sender = before.clients[me]
            commits = int(sender.state.name == "COMMITTING")
            own = replace(own, ends=own.ends | {(me, sender.begun - 1, commits)})
        if sends_batch(rule):
            me, here = choice["instance"], choice["partition"]
            sender = before.clients[me]
            own = own.with_batch((me, here), sender, after.clients[me], sends_records(rule))
        return own

    def with_batch(self, place: Pair, sender: Any, after: Any, counts: bool) -> Own:
        """Record that a batch was sent, first or again, and whether it was answered without error:
        then it is settled, its sequence is not given back, and the state is unchanged. `counts`
        says that the batch has a sequence."""
        at, then = sender.partitions[place[1]], after.partitions[place[1]]
        counted = at.next_sequence + int(at.write.name == "QUEUED" and counts)
        key = (*place, sender.begun - 1, at.written - 1)
        named = (sender.producer_id, sender.producer_epoch, counted - 1 if counts else 0)
        settled = then.write.name == "NONE" and after.state == sender.state
        acked = {key} if settled and then.next_sequence == counted else set()
        return replace(self, batches={key: named, **self.batches}, acked=self.acked | acked)


def owns(found: SourceGraph, pasts: Sequence[Past]) -> list[Own]:
    """Return for each world the instances' ghosts along the path by which it was first found."""
    known: dict[int, Own] = {0: Own()}
    for before, instance, after in found.edges:
        if after not in known:
            rule, choice = found.instances[instance]
            a, b = found.worlds[before], found.worlds[after]
            known[after] = known[before].after(rule, dict(choice), a, b, pasts[after].turn)
    return [known[i] for i in range(len(found.worlds))]


# States


class TransactionsScopeState(InstanceState):
    """One world, one partition and one instance, with the ghosts of the path to the world."""

    def __init__(self, k: Any, world: Any, past: Past, own: Own, here: int, me: int) -> None:
        self.k, self.world, self.past, self.own = k, world, past, own
        self.here, self.me = here, me
        self.coordinator, self.leader = world.coordinator, world.leaders[here]
        self.client = world.clients[me]
        self.given, self.sent, self.turn, self.reign = past.given, past.sent, past.turn, past.reign
        self.repeated, self.went_back = past.repeated, past.went_back
        self.awaited, self.disturbed = past.awaited, past.disturbed
        self.contradicted, self.trespassed = past.contradicted, past.trespassed
        bounds = k.bounds
        self.producer_ids = range(bounds.producer_ids)
        self.pairs = tuple(product(self.producer_ids, range(bounds.max_epoch + 1)))
        self.turns, self.offsets = range(past.turn + 2), range(len(self.leader.log))
        self.transactions, self.numbers = range(bounds.transactions), range(bounds.writes)
        self.sequences = range(bounds.max_sequence + 1)
        others = (held for who, held in own.held.items() if who != me)
        self.holds_pair, self.others_hold = own.held.get(me, frozenset()), union(others)
        self.sent_end = frozenset(end[1:] for end in own.ends if end[0] == me)
        self.batches = {key[2:]: it for key, it in own.batches.items() if key[:2] == (me, here)}
        self.sent_batch = self.batches.keys()
        self.acked = frozenset(key[2:] for key in own.acked if key[:2] == (me, here))
        self.works_at, self.asked_at = self.first_of("NEW", "ASKED", "IN"), self.first_of("ASKED")

    @cached_property
    def log(self) -> Sequence[Stored]:
        """The log here."""
        return TotalLog(self.leader.log, NOWHERE)

    @cached_property
    def known(self) -> Image:
        """The image that the coordinator knows."""
        return Image.of(self.coordinator.known)

    @cached_property
    def images(self) -> Sequence[Image]:
        """The images that are known, in the log, or on their way there."""
        return (self.known, *self.to_be_known)

    # Ghosts of the coordinator and the partition

    def decision(self, p: int, e: int) -> int:
        """Return the decision of a pair."""
        return self.past.decision.get((p, e), NONE)

    def outcome_of(self, turn: int) -> int:
        """Return the prepared outcome of a transaction."""
        return self.past.outcomes.get(turn, NONE)

    def turn_of(self, offset: int) -> int:
        """Return the turn of a record."""
        return self.past.turns.get((self.here, offset), NONE)

    def wanted(self, turn: int) -> int:
        """Return 1 if the application has asked to commit a transaction. A record of the
        transaction identifies it; for a transaction without records, the prepared outcome is
        taken."""
        for (partition, offset), mine in self.past.turns.items():
            stored = self.world.leaders[partition].log[offset]
            if mine == turn and stored.kind == Kind.DATA:
                outcome = self.world.clients[stored.instance].outcomes[stored.transaction]
                return int(outcome.name in ("COMMIT_ASKED", "COMMITTED"))
        return int(self.past.outcomes.get(turn) == 1)

    def ended(self, offset: int) -> int:
        """Return the offset of the first marker after an offset, of the same producer id."""
        mine = self.log[offset].producer_id
        return next((i for i in self.markers(mine) if i > offset), NONE)

    def last_marker(self, p: int) -> int:
        """Return the offset of a producer id's last marker."""
        return max(self.markers(p), default=NONE)

    def markers(self, p: int) -> Iterator[int]:
        """Yield the offsets of a producer id's markers."""
        ends = (Kind.COMMIT, Kind.ABORT)
        return (i for i, s in enumerate(self.log) if s.kind in ends and s.producer_id == p)

    # Ghosts of the instance

    def its_pair(self, t: int) -> Pair:
        """Return the pair under which a transaction has sent."""
        return self.own.pairs.get((self.me, t), NOBODY)

    def its_turn(self, t: int) -> int:
        """Return the turn in which a transaction was open."""
        return self.own.turns.get((self.me, t), NONE)

    def batch_pair(self, t: int, number: int) -> Pair:
        """Return the pair that a batch had when it was first sent."""
        return self.batches.get((t, number), NOBODY)[:2]

    def batch_sequence(self, t: int, number: int) -> int:
        """Return the sequence that a batch had when it was first sent."""
        return self.batches.get((t, number), (*NOBODY, NONE))[2]

    def copy_at(self, t: int, number: int) -> int:
        """Return the offset of the last copy of the instance's record."""
        return self.last("instance", "transaction", "number", of=(self.me, t, number))

    def placed(self, p: int, e: int, sequence: int) -> int:
        """Return the offset of the batch with a sequence."""
        return self.last("producer_id", "producer_epoch", "sequence", of=(p, e, sequence))

    def last(self, *names: str, of: tuple[int, ...]) -> int:
        """Return the offset of the last record with these fields."""
        found = (
            offset
            for offset, stored in enumerate(self.log)
            if stored.kind == Kind.DATA and tuple(getattr(stored, name) for name in names) == of
        )
        return max(found, default=NONE)

    def first_of(self, *names: str) -> int:
        """Return the first partition with one of these memberships."""
        found = (at for at, p in self.client.partitions.items() if p.membership.name in names)
        return next(found, NONE)


def union(sets: Iterable[frozenset[Pair]]) -> frozenset[Pair]:
    """Return the union of the sets."""
    return frozenset().union(*sets)


def check_states(of: Composition, scope: ScopeOfProof, *, instances: int) -> ScopeCheck:
    """Check each clause and axiom in each state of a scope: a world, a partition, and one of the
    first `instances` instances."""
    k, worlds = scope.k, scope.graph.worlds
    places = list(product(range(k.bounds.partitions), range(instances)))
    states = (
        TransactionsScopeState(k, world, *left, here, me)
        for world, left in zip(worlds, left_in(scope), strict=True)
        for here, me in places
    )
    return check_clauses((*of.clauses, *of.axioms), scope, states)


@lru_cache(maxsize=1)
def left_in(scope: ScopeOfProof) -> list[tuple[Past, Own]]:
    """Return for each world of a scope the ghosts of the path by which it was first found."""
    past = pasts(scope.graph)
    return list(zip(past, owns(scope.graph, past), strict=True))


def check_partitions(of: Composition, scope: ScopeOfProof) -> ScopeCheck:
    """Check a composition whose clauses are about a partition, and about one instance at most."""
    return check_states(of, scope, instances=1)


def check_instances(of: Composition, scope: ScopeOfProof) -> ScopeCheck:
    """Check a composition whose clauses are about each instance."""
    return check_states(of, scope, instances=scope.k.bounds.instances)
