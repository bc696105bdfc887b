"""The observer: which states of a leader explain all that its broker has shown.

1. It knows a broker by requests and answers alone. What it keeps is the set of the model's states
   that agree with all of them; an answer that none of these gives is a difference.
2. Its model of the leader runs on the wire's own numbers (sequences up to 2^31 - 1), so that
   nothing has to be mapped, and no probe is too far for a small scope.
3. Sets are interned, and what a set does with a request is computed once: (set, request) to
   {answer: set}. A set that grows beyond MAX_STATES is not followed: `Undecided`.

Theory of operation. A leader answers requests by rule, so a set has one state as long as nobody
stops its broker. What a broker chooses for itself, as how much of its log it replays after a crash,
makes a member of each choice; what it answers then leaves those that chose so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from conformance.judging.idempotent.system import WIRE_MAX_SEQUENCE, WireNumbers
from model.idempotent.configuration import Configuration
from model.idempotent.leader import Leader, ProducerStateEntry, awaited, nobody, on_produce, recover
from model.idempotent.messages import Batch, Error, ProduceRequest, ProduceResponse
from model.language import Disabled
from proofs.lift.source import load_model

MAX_STATES: Final = 1_000
"""States in one set; beyond, a trace is undecided."""

MAX_SETS: Final = 100_000
"""Sets that an observer remembers; then it begins to learn again."""


class Undecided(Exception):
    """Too many states explain what was observed: nobody can say what they allow together."""


class ObservedAnswer(NamedTuple):
    """What an answer to a batch says. Offsets count from the trace's first; UNTOLD is none."""

    error: int
    base_offset: int
    log_start_offset: int


UNTOLD: Final = -1


class ProducerState(NamedTuple):
    """What a broker tells of a producer in one partition; -1 and -1 of one it does not know."""

    producer_epoch: int
    last_sequence: int


CRASH: Final = ("recover", ())
"""Where a set keeps what became of it by a crash."""


def starts(leader: Leader) -> list[int]:
    """Where the log starts, and where it may have started before: at a batch."""
    return [
        *(b.base_offset for b in leader.log if b.base_offset < leader.log_start_offset),
        leader.log_start_offset,
    ]


class LeaderSet:
    """An interned set of leaders, never empty, in the order in which they were found."""

    __slots__ = ("leaders", "moves", "rows")

    def __init__(self, leaders: tuple[Leader, ...]) -> None:
        self.leaders = leaders
        self.rows: dict[Batch, Mapping[ObservedAnswer, LeaderSet]] = {}
        self.moves: dict[tuple[str, tuple[int, ...]], LeaderSet] = {}


def in_wire_numbers(k: Configuration) -> Configuration:
    """The same configuration with the wire's sequences in place of the scope's."""
    first = WireNumbers(k)[k.bounds.first_sequence]
    bounds = replace(k.bounds, max_sequence=WIRE_MAX_SEQUENCE, first_sequence=first)
    return replace(k, bounds=bounds)


def producer_state(leader: Leader, producer: int) -> ProducerState:
    """What the leader would tell of a producer."""
    entry: ProducerStateEntry = leader.producers[producer]
    last = entry.batches[-1].last_sequence if entry.batches else -1
    return ProducerState(entry.producer_epoch, last)


class Observer:
    """Follows the leaders of one configuration. `k` has the wire's numbers, `empty` an empty log.

    `tells_log_start` is False for a broker that speaks no Produce that has it (below 5).
    """

    def __init__(self, k: Configuration, *, tells_log_start: bool = True) -> None:
        self.k = in_wire_numbers(k)
        self._tells_log_start = tells_log_start
        self._actor_rules = load_model("idempotent").actor_rules
        self._sets: dict[frozenset[Leader], LeaderSet] = {}
        self.empty = self.of([Leader((), 0, 0, nobody(k))])

    def of(self, leaders: Iterable[Leader]) -> LeaderSet:
        """The set of some leaders, interned. Raises Undecided if they are too many."""
        members = tuple(leaders)
        if len(members) > MAX_STATES:
            raise Undecided(f"{len(members)} states explain what was seen, {MAX_STATES} may")
        key = frozenset(members)
        states = self._sets.get(key)
        if states is None:
            self._make_room()
            states = self._sets[key] = LeaderSet(members)
        return states

    def allowed(self, states: LeaderSet, batch: Batch) -> Mapping[ObservedAnswer, LeaderSet]:
        """The answers that some state gives, and the states that explain each.

        Raises Undecided.
        """
        row = states.rows.get(batch)
        if row is None:
            row = states.rows[batch] = self._computed(states, batch)
        return row

    def moved(self, states: LeaderSet, rule: str, inputs: tuple[int, ...]) -> LeaderSet | None:
        """The states after a rule of the leader, beside requests; None if no state has it.

        Raises Undecided.
        """
        after = states.moves.get((rule, inputs))
        if after is None:
            found = dict.fromkeys(self._moved(states, rule, inputs))
            if not found:
                return None
            after = states.moves[rule, inputs] = self.of(found)
        return after

    def that(self, states: LeaderSet, agrees: Callable[[Leader], bool]) -> LeaderSet | None:
        """The states that agree with something seen of them; None if none does."""
        left = [leader for leader in states.leaders if agrees(leader)]
        return self.of(left) if left else None

    def _computed(self, states: LeaderSet, batch: Batch) -> Mapping[ObservedAnswer, LeaderSet]:
        found: dict[ObservedAnswer, dict[Leader, None]] = {}
        for leader in states.leaders:
            step = on_produce(self.k, leader, ProduceRequest(batch))
            (answer,) = step.sends
            found.setdefault(self.told(answer), {})[step.actor] = None
        return {answer: self.of(leaders) for answer, leaders in found.items()}

    def told(self, answer: ProduceResponse) -> ObservedAnswer:
        """What a broker tells of an answer. A batch that is too large is refused unread."""
        is_untold = answer.error == Error.MESSAGE_TOO_LARGE or not self._tells_log_start
        start = UNTOLD if is_untold else answer.log_start_offset
        return ObservedAnswer(int(answer.error), answer.base_offset, start)

    def crashed(self, states: LeaderSet) -> LeaderSet:
        """The states after the broker was killed and came back. What it says then tells which.

        Its newest snapshot may cover any part of the log, and it may not have noted yet where the
        log starts (`LogManager` does once a minute): then what was deleted since is there again.
        Raises Undecided.
        """
        after = states.moves.get(CRASH)
        if after is None:
            found = dict.fromkeys(
                recover(self.k, replace(leader, log_start_offset=start), covered)
                for leader in states.leaders
                for start in starts(leader)
                for covered in range(len(leader.log) + 1)
            )
            after = states.moves[CRASH] = self.of(found)
        return after

    def awaited(self, offset: int) -> int:
        """Where the high watermark must be before a success is answered. `leader.awaited`."""
        return awaited(self.k, offset)

    def _moved(self, states: LeaderSet, rule: str, inputs: tuple[int, ...]) -> Iterator[Leader]:
        for leader in states.leaders:
            with suppress(Disabled):
                yield self._actor_rules[rule](self.k, leader, *inputs)

    def _make_room(self) -> None:
        """Sets in use stay valid: they only learn again."""
        if len(self._sets) >= MAX_SETS:
            for states in self._sets.values():
                states.rows, states.moves = {}, {}
            self._sets.clear()
