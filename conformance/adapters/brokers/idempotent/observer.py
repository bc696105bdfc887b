"""The observer keeps the states of a leader that explain everything that its broker has shown.

1. The observer knows a broker by requests and answers alone. It keeps the set of the model's states
   that agree with all of them; an answer that none of these states gives is a difference.
2. Its model of the leader uses the wire's own numbers (sequences up to 2^31 - 1). So nothing has to
   be mapped, and probes may leave a small scope.
3. Sets are interned. The effect of a request on a set is computed once, as a map from (set,
   request) to {answer: set}. A set that grows beyond MAX_STATES is not followed: `Undecided`.

Theory of operation. A leader answers requests deterministically, so a set has one state as long as
the broker is not stopped. A choice of the broker, such as how much of its log it replays after a
crash, adds one state for each possible choice. Later answers remove the states that do not explain
them.
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
"""The most states in one set; with more, a trace is undecided."""

MAX_SETS: Final = 100_000
"""The most sets that an observer remembers; then it begins anew."""


class Undecided(Exception):
    """Too many states explain the observations, so the allowed answers cannot be computed."""


class ObservedAnswer(NamedTuple):
    """The answer to a batch. Offsets count from the trace's first; UNTOLD stands for none."""

    error: int
    base_offset: int
    log_start_offset: int


UNTOLD: Final = -1


class ProducerState(NamedTuple):
    """A broker's description of a producer in one partition; -1 and -1 if the broker does not know
    it."""

    producer_epoch: int
    last_sequence: int


CRASH: Final = ("recover", ())
"""The key under which a set keeps the result of a crash."""


def starts(leader: Leader) -> list[int]:
    """The present start of the log, and batches at which it may have started before."""
    return [
        *(b.base_offset for b in leader.log if b.base_offset < leader.log_start_offset),
        leader.log_start_offset,
    ]


class LeaderSet:
    """An interned set of leader states, never empty, in the order in which they were found."""

    __slots__ = ("leaders", "moves", "rows")

    def __init__(self, leaders: tuple[Leader, ...]) -> None:
        self.leaders = leaders
        self.rows: dict[Batch, Mapping[ObservedAnswer, LeaderSet]] = {}
        self.moves: dict[tuple[str, tuple[int, ...]], LeaderSet] = {}


def in_wire_numbers(k: Configuration) -> Configuration:
    """The same configuration with the wire's sequences instead of the scope's."""
    first = WireNumbers(k)[k.bounds.first_sequence]
    bounds = replace(k.bounds, max_sequence=WIRE_MAX_SEQUENCE, first_sequence=first)
    return replace(k, bounds=bounds)


def producer_state(leader: Leader, producer: int) -> ProducerState:
    """The description that the leader would give of a producer."""
    entry: ProducerStateEntry = leader.producers[producer]
    last = entry.batches[-1].last_sequence if entry.batches else -1
    return ProducerState(entry.producer_epoch, last)


class Observer:
    """Follows the leaders of one configuration. `k` has the wire's numbers, `empty` an empty log.

    `tells_log_start` is False if the broker serves no version of Produce whose answer has the log
    start offset (5 or later).
    """

    def __init__(self, k: Configuration, *, tells_log_start: bool = True) -> None:
        self.k = in_wire_numbers(k)
        self._tells_log_start = tells_log_start
        self._actor_rules = load_model("idempotent").actor_rules
        self._sets: dict[frozenset[Leader], LeaderSet] = {}
        self.empty = self.of([Leader((), 0, 0, nobody(k))])

    def of(self, leaders: Iterable[Leader]) -> LeaderSet:
        """The interned set of these states. Raises Undecided if they are too many."""
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
        """The answers that some state gives, each with the states that explain it.

        Raises Undecided.
        """
        row = states.rows.get(batch)
        if row is None:
            row = states.rows[batch] = self._computed(states, batch)
        return row

    def moved(self, states: LeaderSet, rule: str, inputs: tuple[int, ...]) -> LeaderSet | None:
        """The states after an event of the leader other than a request; None if no state allows the
        event.

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
        """The states that agree with an observation; None if no state does."""
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
        """The observable part of an answer. A batch that is too large is refused unread."""
        is_untold = answer.error == Error.MESSAGE_TOO_LARGE or not self._tells_log_start
        start = UNTOLD if is_untold else answer.log_start_offset
        return ObservedAnswer(int(answer.error), answer.base_offset, start)

    def crashed(self, states: LeaderSet) -> LeaderSet:
        """The possible states after the broker was killed and came back; later answers select among
        them.

        Its newest snapshot may cover any part of the log. It may not have noted the log start
        offset yet (`LogManager` does so once a minute): then batches deleted since are present
        again. Raises Undecided.
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
        """The offset that the high watermark must reach before a success is answered.
        `leader.awaited`."""
        return awaited(self.k, offset)

    def _moved(self, states: LeaderSet, rule: str, inputs: tuple[int, ...]) -> Iterator[Leader]:
        for leader in states.leaders:
            with suppress(Disabled):
                yield self._actor_rules[rule](self.k, leader, *inputs)

    def _make_room(self) -> None:
        """Forget the results of all sets; sets in use stay valid."""
        if len(self._sets) >= MAX_SETS:
            for states in self._sets.values():
                states.rows, states.moves = {}, {}
            self._sets.clear()
