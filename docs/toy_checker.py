"""A model checker in about a hundred lines: what the big one does, small enough to read at once.

Run it with `python docs/toy_checker.py`. Read it from top to bottom: first a protocol, then the
checker, which knows nothing of that protocol. `proofs/explore` does the same with states packed
into a few words, steps printed as C, and parents kept beside the states.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

# 1. A protocol is a state, and the events that lead from it to others.
#
# A producer sends records 0 and 1 to a broker, one at a time, and sends a record again until it
# is acknowledged. Answers can get lost. Everything has a limit, so the search ends: here, two
# records and one lost answer. A state is immutable, so that it can be a key of a dictionary.

RECORDS = 2
LOST_ANSWERS = 1
NOTHING = -1


class State(NamedTuple):
    """All there is: the producer, the broker, and what is on its way between them."""

    acknowledged: int = 0  # how many records the producer knows to be stored
    waiting: bool = False  # the producer has sent the next one and awaits its answer
    request: int = NOTHING  # the record that travels to the broker
    answer: int = NOTHING  # the record whose acknowledgement travels back
    log: tuple[int, ...] = ()  # what the broker has stored
    lost: int = 0  # answers lost so far


Events = Iterator[tuple[str, State]]


def steps(s: State, broker_compares: bool) -> Events:
    """Every event that can happen in `s`, with the state after it."""
    if not s.waiting and s.acknowledged < RECORDS:
        yield f"producer sends {s.acknowledged}", s._replace(waiting=True, request=s.acknowledged)
    if s.request != NOTHING:
        known = broker_compares and s.request in s.log
        log = s.log if known else (*s.log, s.request)
        verb = "knows" if known else "stores"
        yield f"broker {verb} {s.request}", s._replace(request=NOTHING, answer=s.request, log=log)
    if s.answer != NOTHING:
        done = s._replace(waiting=False, answer=NOTHING)
        yield f"producer hears of {s.answer}", done._replace(acknowledged=s.acknowledged + 1)
        if s.lost < LOST_ANSWERS:
            yield f"answer to {s.answer} is lost", done._replace(lost=s.lost + 1)


# 2. What is claimed of it: some things always, some at least sometimes.
#
# A protocol that does nothing keeps every guarantee. That is what the witnesses are for: if none of
# the states has a lost answer, nothing was learnt about lost answers.

Claims = dict[str, Callable[[State], bool]]

ALWAYS: Claims = {
    "no record is stored twice": lambda s: len(set(s.log)) == len(s.log),
    "what is acknowledged is stored": lambda s: set(range(s.acknowledged)) <= set(s.log),
}
SOMETIMES: Claims = {
    "an answer is lost": lambda s: s.lost > 0,
    "all is acknowledged": lambda s: s.acknowledged == RECORDS,
}

# 3. The checker. Breadth first: every state of level n is found before any of level n + 1, so the
# way to a state that is remembered, the first one, is as short as any.


class Found(NamedTuple):
    """Every reachable state, with the event and the state that it was first reached by."""

    parents: dict[State, tuple[str, State] | None]
    levels: list[int]
    transitions: int


def explore(first: State, successors: Callable[[State], Events]) -> Found:
    """Find all states that can be reached from `first`, level by level."""
    parents: dict[State, tuple[str, State] | None] = {first: None}
    level, levels, transitions = [first], [], 0
    while level:
        levels.append(len(level))
        following = []
        for state in level:
            for event, after in successors(state):
                transitions += 1
                if after not in parents:  # the visited set: without it, no end and no counts
                    parents[after] = event, state
                    following.append(after)
        level = following
    return Found(parents, levels, transitions)


def path_to(state: State, found: Found) -> list[str]:
    """The events from the first state to this one: a counterexample, or a witness."""
    events = []
    while (parent := found.parents[state]) is not None:
        event, state = parent
        events.append(event)
    return events[::-1]


# 4. The report. The counts are exact and belong into tests: a model that loses a rule by mistake
# still keeps its guarantees, but it has other counts.


def check(title: str, successors: Callable[[State], Events]) -> None:
    """Explore, then judge each claim by the first state that decides it."""
    found = explore(State(), successors)
    print(
        f"{title}: {len(found.parents)} states, {found.transitions} transitions, "
        f"levels {' '.join(map(str, found.levels))}"
    )
    for name, holds in ALWAYS.items():
        broken = next((s for s in found.parents if not holds(s)), None)
        print(f"  always {name}: {'yes' if broken is None else 'NO'}")
        for number, event in enumerate(path_to(broken, found) if broken else (), 1):
            print(f"    {number}. {event}")
    for name, holds in SOMETIMES.items():
        print(f"  sometimes {name}: {'yes' if any(map(holds, found.parents)) else 'NO'}")


if __name__ == "__main__":
    check("A broker that stores what it gets", lambda s: steps(s, broker_compares=False))
    check("A broker that compares first", lambda s: steps(s, broker_compares=True))
