"""Is what a client sent explained by the model of its release? A lazily determinised observer.

Theory of operation. The judge keeps the set of client states that explain all that was seen so
far. Before each request it lets every state do what a client may do unseen (`moves`), then keeps
those that send what was sent. If none is left, the model allows no such client: a divergence. At
the end some state must agree with what the application was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from conformance.client import moves
from conformance.client.moves import ENDED, Explanation, Moved, Unmodelled
from conformance.client.plan import PARTITIONS
from conformance.client.sight import Sight
from conformance.client.trace import ClientTrace, InitProducerId, Opened, Produce
from model import client as sending
from model.client import Client
from model.scopes import begun_client
from model.setting import Layout, Retries, Setting, Variant

MAX_STATES: Final = 1_000
"""Beyond, a run stays undecided."""

EXPLAINED: Final = "explained"
DIVERGES: Final = "diverges"
UNDECIDED: Final = "undecided"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a run. `position` is the event that nothing explains, `rule` what it is,
    `observed` and `expected` what was seen there and what the model would have allowed."""

    verdict: str
    requests: int
    rules: frozenset[str] = frozenset()
    most_states: int = 1
    position: int = -1
    rule: str = ""
    observed: str = ""
    expected: tuple[str, ...] = ()
    why: str = ""


Moves = Callable[[Setting, Sight, Explanation], Iterator[Moved]]


class TooManyStates(Exception):
    """More explanations than the limit."""


def setting_for(variant: Variant, trace: ClientTrace) -> Setting:
    """The model as large as a real client. Raises Unmodelled for retries that it does not have."""
    settings = trace.plan.settings
    retries = Retries.ENDLESS if settings.retries is None else Retries(settings.retries)
    layout = Layout(
        producer_ids=1 << 31,
        partitions=PARTITIONS,
        records=1 << 16,
        in_flight=settings.max_in_flight,
        max_batch=1 << 16,
        max_message=1,
        max_sequence=2**31 - 1,
        max_epoch=2**15 - 1,
        epochs_end=True,
        begun=False,
        without_producer_id=True,
        max_timeouts=1,
    )
    return Setting(replace(variant, retries=retries), layout)


def judged(variant: Variant, trace: ClientTrace) -> Judgement:
    """What became of a run under the model of a variant."""
    if trace.problem:
        return Judgement(UNDECIDED, 0, why=trace.problem)
    try:
        k = setting_for(variant, trace)
        simple = Observer(k, trace, (moves.hears, moves.hangs_up, moves.acts)).judged()
        if simple.verdict != DIVERGES:
            return simple
        return Observer(k, trace, (moves.hears, moves.hangs_up, moves.acts, moves.loses)).judged()
    except Unmodelled as error:
        return Judgement(UNDECIDED, 0, why=str(error))


class Observer:
    """The states that explain one trace."""

    def __init__(self, k: Setting, trace: ClientTrace, unseen: tuple[Moves, ...]) -> None:
        self.k = k
        self.unseen = unseen
        self.trace = trace
        self.sight = Sight(trace)
        self.states = {Explanation(begun_client(k, 0), ())}
        self.requests = 0
        self.most_states = 1
        self.rules: set[str] = set()

    def judged(self) -> Judgement:
        """The whole trace. Raises Unmodelled."""
        try:
            for position, event in enumerate(self.trace.events):
                self.sight.comes(position, event)
                if isinstance(event, Opened):
                    self.states = {replace(s, heard=(*s.heard, 0)) for s in self.states}
                elif isinstance(event, Produce | InitProducerId):
                    self.requests += 1
                    possible = self.closed(self.states)
                    self.states = set(self.after(possible, event))
                    if not self.states:
                        return self.diverges(position, event, possible)
                    if isinstance(event, Produce):
                        self.sight.was_sent(event)
            return self.ended()
        except TooManyStates:
            return self.judgement(UNDECIDED, why=f"more than {MAX_STATES:,} explanations")

    def judgement(self, verdict: str, **more: object) -> Judgement:
        """So far."""
        judgement = Judgement(verdict, self.requests, frozenset(self.rules), self.most_states)
        return replace(judgement, **more)  # type: ignore[arg-type]

    # Between what is seen

    def closed(self, states: Iterable[Explanation]) -> set[Explanation]:
        """All states that these may have become unseen. Raises TooManyStates."""
        found = set(states)
        waiting = list(found)
        while waiting:
            for following in self.moved(waiting.pop()):
                if following not in found:
                    found.add(following)
                    waiting.append(following)
                    if len(found) > MAX_STATES:
                        raise TooManyStates
        self.most_states = max(self.most_states, len(found))
        return found

    def moved(self, state: Explanation) -> Iterator[Explanation]:
        for moves_of in self.unseen:
            yield from self.named(moves_of(self.k, self.sight, state))

    def named(self, moved: Iterable[Moved]) -> Iterator[Explanation]:
        for name, state in moved:
            self.rules.add(name)
            yield state

    # What is seen

    def after(
        self, states: Iterable[Explanation], event: Produce | InitProducerId
    ) -> Iterator[Explanation]:
        """The states that send this request."""
        for state in states:
            if state.heard[event.connection] == ENDED:
                continue
            if isinstance(event, InitProducerId):
                if (event.producer_id, event.producer_epoch) == (-1, -1):
                    yield from self.named(moves.asks(state, event.connection))
            elif self.is_alone(state, event.connection):
                yield from self.all_sent(state, event)

    def is_alone(self, state: Explanation, connection: int) -> bool:
        """A client has one connection to a node: an older one has ended before."""
        return all(
            heard == ENDED
            for other, heard in enumerate(state.heard)
            if other < connection and self.sight.is_to_node(other)
        )

    def all_sent(self, state: Explanation, event: Produce) -> Iterator[Explanation]:
        """The states after each batch of a request, one after the other."""
        states = [state]
        for batch in event.batches:
            states = [
                following
                for before in states
                for following in self.named(moves.sends(self.k, self.sight, before, batch))
            ]
        yield from states

    # Ends

    def diverges(
        self, position: int, event: Produce | InitProducerId, possible: Iterable[Explanation]
    ) -> Judgement:
        """Nothing sends this."""
        allowed = {text for state in possible for text in self.allowed(state)}
        return self.judgement(
            DIVERGES,
            position=position,
            rule="produce" if isinstance(event, Produce) else "init_producer_id",
            observed=shown(event),
            expected=tuple(sorted(allowed)),
        )

    def allowed(self, state: Explanation) -> Iterator[str]:
        """What a state may send, in words; the number of records of a new batch is free."""
        if any(moves.asks(state, 0)):
            yield "InitProducerId"
        for partition in range(self.k.layout.partitions):
            again = moves.attempted(sending.send_again, self.k, state.client, partition)
            new = moves.attempted(sending.send_new, self.k, state.client, partition, 1)
            for step, what in ((again, "again"), (new, "new")):
                if step is not None:
                    b = step.sends[0].batch
                    count = f"{b.record_count} records" if what == "again" else "any records"
                    yield (
                        f"{what}: partition {partition}, producer id {b.producer_id}, epoch"
                        f" {b.producer_epoch}, sequence {b.base_sequence}, {count} from"
                        f" {b.first_record}"
                    )

    def ended(self) -> Judgement:
        """Some state must agree with what the application was told."""
        position = len(self.trace.events)
        silent = [s for s in self.trace.plan.sends if (s.partition, s.number) not in self.told]
        if silent:
            what = f"no word of record {silent[0].number} of partition {silent[0].partition}"
            return self.judgement(DIVERGES, position=position, rule="outcome", observed=what)
        possible = self.closed(self.states)
        if any(self.agrees(state.client) for state in possible):
            return self.judgement(EXPLAINED)
        return self.judgement(
            DIVERGES,
            position=position,
            rule="outcome",
            observed=self.outcomes(lambda p, n: not self.sight.has_failed(p, n)),
            expected=tuple(
                sorted(
                    {
                        self.outcomes(lambda p, n, c=s.client: n in c.partitions[p].acknowledged)
                        for s in possible
                    }
                )
            ),
        )

    @property
    def told(self) -> Iterable[tuple[int, int]]:
        """The records of which the application was told."""
        return self.trace.outcomes

    def agrees(self, client: Client) -> bool:
        """Each record that is said to be stored is acknowledged; each other is not on its way."""
        for partition, number in self.told:
            entry = client.partitions[partition]
            if self.sight.has_failed(partition, number):
                if number in entry.acknowledged or is_on_its_way(entry, number):
                    return False
            elif number not in entry.acknowledged:
                return False
        return True

    def outcomes(self, is_stored: Callable[[int, int], bool]) -> str:
        """The records that are acknowledged, in words."""
        return "acknowledged " + "; ".join(
            f"partition {partition}: "
            + ", ".join(str(n) for p, n in sorted(self.told) if p == partition and is_stored(p, n))
            for partition in range(self.k.layout.partitions)
        )


def is_on_its_way(entry: sending.PartitionEntry, number: int) -> bool:
    """Whether a record's batch is not finished."""
    return any(
        b.batch.first_record <= number < b.batch.first_record + b.batch.record_count
        for b in entry.in_flight
    )


def shown(event: Produce | InitProducerId) -> str:
    """A request in words."""
    if isinstance(event, InitProducerId):
        return f"InitProducerId for {event.producer_id}, {event.producer_epoch}"
    return "; ".join(
        f"partition {b.partition}, producer id {b.producer_id}, epoch {b.producer_epoch}, sequence"
        f" {b.base_sequence}, records {', '.join(map(str, b.records))}"
        for b in event.batches
    )
