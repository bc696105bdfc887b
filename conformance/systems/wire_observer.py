"""The observer: which states of a leader explain all that its broker has shown.

1. It knows a broker by requests and answers alone. What it keeps is the set of the model's states
   that agree with all of them; an answer that none of these gives is a difference.
2. Its model of the leader runs on the wire's own numbers (sequences up to 2^31 - 1), so that
   nothing has to be mapped, and no probe is too far for a small scope.
3. Sets are interned, and what a set does with a request is computed once: (set, request) to
   {answer: set}. A set that grows beyond MAX_STATES is not followed: `Undecided`.

Theory of operation. A leader of one node that nobody stops does nothing of itself and is
deterministic, so a set has one state. Where a leader has choices, each is a member of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from conformance.systems.base import WIRE_MAX_SEQUENCE, WireNumbers
from model.leader import Leader, ProducerStateEntry, nobody, on_produce
from model.messages import Batch, ProduceRequest
from model.setting import Setting

MAX_STATES: Final = 1_000
"""States in one set; beyond, a trace is undecided."""

MAX_SETS: Final = 100_000
"""Sets that an observer remembers; then it begins to learn again."""


class Undecided(Exception):
    """Too many states explain what was observed: nobody can say what they allow together."""


class Answer(NamedTuple):
    """What an answer to a batch says. `base_offset` counts from the trace's first offset."""

    error: int
    base_offset: int


class ProducerState(NamedTuple):
    """What a broker tells of a producer in one partition; -1 and -1 of one it does not know."""

    producer_epoch: int
    last_sequence: int


class States:
    """An interned set of leaders, never empty, in the order in which they were found."""

    __slots__ = ("leaders", "rows")

    def __init__(self, leaders: tuple[Leader, ...]) -> None:
        self.leaders = leaders
        self.rows: dict[Batch, Mapping[Answer, States]] = {}


def in_wire_numbers(k: Setting) -> Setting:
    """The same setting with the wire's sequences in place of the scope's."""
    first = WireNumbers(k)[k.layout.first_sequence]
    layout = replace(k.layout, max_sequence=WIRE_MAX_SEQUENCE, first_sequence=first)
    return replace(k, layout=layout)


def producer_state(leader: Leader, producer: int) -> ProducerState:
    """What the leader would tell of a producer."""
    entry: ProducerStateEntry = leader.producers[producer]
    last = entry.batches[-1].last_sequence if entry.batches else -1
    return ProducerState(entry.producer_epoch, last)


class Observer:
    """Follows the leaders of one setting. `k` has the wire's numbers, `empty` an empty log."""

    def __init__(self, k: Setting) -> None:
        self.k = in_wire_numbers(k)
        self._sets: dict[frozenset[Leader], States] = {}
        self.empty = self.of([Leader((), 0, 0, nobody(k))])

    def of(self, leaders: Iterable[Leader]) -> States:
        """The set of some leaders, interned. Raises Undecided if they are too many."""
        members = tuple(leaders)
        if len(members) > MAX_STATES:
            raise Undecided(f"{len(members)} states explain what was seen, {MAX_STATES} may")
        key = frozenset(members)
        states = self._sets.get(key)
        if states is None:
            self._make_room()
            states = self._sets[key] = States(members)
        return states

    def allowed(self, states: States, batch: Batch) -> Mapping[Answer, States]:
        """The answers that some state gives, and the states that explain each.

        Raises Undecided.
        """
        row = states.rows.get(batch)
        if row is None:
            row = states.rows[batch] = self._computed(states, batch)
        return row

    def that(self, states: States, agrees: Callable[[Leader], bool]) -> States | None:
        """The states that agree with something seen of them; None if none does."""
        left = [leader for leader in states.leaders if agrees(leader)]
        return self.of(left) if left else None

    def _computed(self, states: States, batch: Batch) -> Mapping[Answer, States]:
        found: dict[Answer, dict[Leader, None]] = {}
        for leader in states.leaders:
            step = on_produce(self.k, leader, ProduceRequest(batch))
            (answer,) = step.sends
            told = Answer(int(answer.error), answer.base_offset)
            found.setdefault(told, {})[step.actor] = None
        return {answer: self.of(leaders) for answer, leaders in found.items()}

    def _make_room(self) -> None:
        """Sets in use stay valid: they only learn again."""
        if len(self._sets) >= MAX_SETS:
            for states in self._sets.values():
                states.rows = {}
            self._sets.clear()
