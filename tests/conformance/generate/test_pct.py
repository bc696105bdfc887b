"""PCT: a function of seed and trace id, walks of the model, and the chance that it guarantees."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import factorial, sqrt

import pytest

from conformance.generate.graph import explored, machine_of
from conformance.generate.hunt import MAX_STEPS, GraphWalker, MachineWalker, hunt
from conformance.generate.pct import PROBES, Schedule, drawn, followed, longest, pct
from conformance.generate.threads import threads_of
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of

IN_VAIN = "delivery"
"""Here some traces come to where all that is enabled leads back."""
MODELS = {
    "idempotent-restart": load_model("idempotent"),
    IN_VAIN: load_model("idempotent"),
    "transactions-tiny": load_model("transactions"),
}
SCOPES = tuple(MODELS)


class Scope:
    """A scope, explored."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.k = configuration_of(MODELS[name], name, "4.3.1")
        self.machine = machine_of(self.k, name)
        self.graph = explored(self.machine, lambda _progress: None)
        self.walker = GraphWalker(self.graph, [1.0] * len(self.machine.rules))
        self.threads = threads_of(
            MODELS[name], [(rule.rule, rule.choice) for rule in self.machine.rules]
        )
        self.steps = longest(self.walker, self.threads, 0)

    def trace(self, seed: int, number: int, depth: int = 3) -> list[tuple[int, int]]:
        return pct(self.walker, self.threads, depth, self.steps, seed, number)


@pytest.fixture(scope="module", params=SCOPES)
def scope(request: pytest.FixtureRequest) -> Scope:
    return Scope(request.param)


# On scopes


def test_the_same_seed_and_id_give_the_same_trace(scope: Scope) -> None:
    first = [scope.trace(7, number) for number in range(40)]
    assert first == [scope.trace(7, number) for number in reversed(range(40))][::-1]
    assert first != [scope.trace(8, number) for number in range(40)]
    assert first != [scope.trace(7, number, depth=1) for number in range(40)]
    assert len({tuple(steps) for steps in first}) > 20


def test_each_step_is_enabled_in_the_model(scope: Scope) -> None:
    stepper = Stepper(MODELS[scope.name], scope.k)
    sources = scope.graph.sources
    for number in range(30):
        state, world = 0, stepper.initial()
        for instance, edge in scope.trace(0, number):
            assert sources[edge] == state
            state = int(scope.graph.targets[edge])
            rule = scope.machine.rules[instance]
            world = stepper.apply(rule.rule, rule.choice, world)


def test_the_highest_thread_moves(scope: Scope) -> None:
    for number in range(PROBES):
        draw = random.Random(number).random
        schedule = drawn(max(scope.threads) + 1, 1, 1, draw)
        fallen: set[int] = set()
        state = scope.walker.initial
        seen = {state}
        for instance, edge in followed(scope.walker, scope.threads, schedule, draw):
            moved = scope.threads[instance]
            can_move = {scope.threads[i] for i, _, _ in scope.walker.enabled(state)} - fallen
            if can_move:
                assert moved == min(can_move, key=schedule.order.index)
            state = int(scope.graph.targets[edge])
            fallen |= {moved} if state in seen else set()
            seen.add(state)


def test_a_trace_ends_where_nothing_is_enabled_or_nothing_new_comes(scope: Scope) -> None:
    in_vain = 0
    for number in range(PROBES):
        steps = scope.trace(0, number)
        states = [0, *scope.graph.targets[[edge for _, edge in steps]].tolist()]
        if scope.walker.enabled(states[-1]):
            in_vain += 1
            vain = range(len(states) - max(scope.threads) - 1, len(states))
            assert all(states[place] in states[:place] for place in vain)
        assert len(steps) < MAX_STEPS
    assert bool(in_vain) == (scope.name == IN_VAIN)


def test_traces_need_no_graph(scope: Scope) -> None:
    """The machine's walk is the same."""
    machine = MachineWalker(scope.machine)
    assert longest(machine, scope.threads, 3) == longest(scope.walker, scope.threads, 3)
    for number in range(20):
        walked = pct(machine, scope.threads, 3, scope.steps, 3, number)
        assert [i for i, _ in walked] == [i for i, _ in scope.trace(3, number)]


# What is guaranteed


Event = tuple[int, int]
"""A thread, and which of its events: the first is 0."""
Before = tuple[Event, Event]
"""Two events in their order."""


class Programs:
    """Threads that each do so many things, one after the other, and wait for nobody."""

    def __init__(self, lengths: tuple[int, ...]) -> None:
        self.lengths = lengths
        self.initial = (0,) * len(lengths)
        self.weights: Sequence[float] = (1.0,) * len(lengths)

    def enabled(self, state: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], int]]:
        done = enumerate(zip(state, self.lengths, strict=True))
        return [
            (thread, (*state[:thread], did + 1, *state[thread + 1 :]), did)
            for thread, (did, length) in done
            if did < length
        ]


def shows(trace: Sequence[Event], bug: Sequence[Before]) -> bool:
    """A planted bug shows if each of its pairs comes in its order."""
    return all(trace.index(first) < trace.index(then) for first, then in bug)


def schedules(threads: int, steps: int, depth: int) -> Iterator[Schedule]:
    """All that can be drawn, each as likely as any other."""
    for order in itertools.permutations(range(threads)):
        for changes in itertools.product(range(steps), repeat=depth - 1):
            yield Schedule(order, changes)


def chance(programs: Programs, bug: Sequence[Before], depth: int) -> Fraction:
    """The part of all schedules that show the bug."""
    threads, steps = len(programs.lengths), sum(programs.lengths)
    shown = [
        shows(followed(programs, range(threads), schedule, lambda: 0.0), bug)
        for schedule in schedules(threads, steps, depth)
    ]
    assert len(shown) == factorial(threads) * steps ** (depth - 1)
    return Fraction(sum(shown), len(shown))


def guaranteed(programs: Programs, depth: int) -> Fraction:
    """1 / (threads * steps ** (depth - 1))."""
    return Fraction(1, len(programs.lengths) * sum(programs.lengths) ** (depth - 1))


A, B, C = 0, 1, 2
LATE: tuple[Before, ...] = (((A, 5), (B, 0)),)
"""B begins when A has ended: one pair."""
BETWEEN: tuple[Before, ...] = (((A, 2), (B, 0)), ((B, 0), (A, 3)))
"""B's only event comes exactly between two of A: two pairs."""
WOVEN: tuple[Before, ...] = (((A, 0), (B, 1)), ((B, 1), (A, 2)), ((A, 2), (B, 2)))
"""In turns: three pairs."""


@pytest.mark.parametrize(
    ("lengths", "bug", "depth"),
    [
        ((6, 1), LATE, 1),
        ((6, 6, 6), LATE, 1),
        ((6, 1), BETWEEN, 2),
        ((4, 3, 2), BETWEEN, 2),
        ((5, 1, 1, 2), BETWEEN, 2),
        ((4, 4), WOVEN, 3),
        ((3, 3, 2), WOVEN, 3),
    ],
)
def test_a_bug_of_a_depth_has_the_chance_that_is_guaranteed(
    lengths: tuple[int, ...], bug: tuple[Before, ...], depth: int
) -> None:
    """All schedules are tried. The guarantee is that of the paper's theorem."""
    programs = Programs(lengths)
    assert len(bug) == depth
    assert chance(programs, bug, depth) >= guaranteed(programs, depth)


def test_the_guarantee_cannot_be_greater() -> None:
    """One schedule of 14 shows this bug: A is the highest, and falls before its fourth event."""
    programs = Programs((6, 1))
    assert chance(programs, BETWEEN, 2) == guaranteed(programs, 2) == Fraction(1, 14)
    trace = followed(programs, (A, B), Schedule((A, B), (3,)), lambda: 0.0)
    assert shows(trace, BETWEEN)


@pytest.mark.parametrize(("bug", "depth"), [(BETWEEN, 2), (WOVEN, 3)])
def test_without_the_changes_there_is_no_such_chance(bug: tuple[Before, ...], depth: int) -> None:
    """A scheduler that never changes a priority keeps no guarantee: the check would find it."""
    assert chance(Programs((4, 4)), bug, 1) == 0 < guaranteed(Programs((4, 4)), depth)


def test_order_is_found_that_a_walk_at_random_hardly_meets() -> None:
    """A has ended before B begins: half of the schedules, and of other walks one in 2 ** 20."""
    programs = Programs((20, 20))
    late: tuple[Before, ...] = (((A, 19), (B, 0)),)
    assert chance(programs, late, 1) == Fraction(1, 2)
    ids = range(2_000)
    assert sum(shows(pct(programs, (A, B), 1, 40, 0, n), late) for n in ids) > 900
    assert not any(shows(hunt(programs, (A, B), 0, n), late) for n in ids)


def test_drawn_schedules_are_as_likely_as_each_other() -> None:
    """How often 20,000 traces show each bug, against the chance by all schedules: no more than four
    standard deviations away. The seed is fixed."""
    tried = 20_000
    for lengths, bug, depth in (((6, 1), BETWEEN, 2), ((3, 3, 2), WOVEN, 3)):
        programs = Programs(lengths)
        threads, steps = range(len(lengths)), sum(lengths)
        exact = float(chance(programs, bug, depth))
        traces = (pct(programs, threads, depth, steps, 0, number) for number in range(tried))
        found = sum(shows(trace, bug) for trace in traces)
        assert abs(found - tried * exact) < 4 * sqrt(tried * exact * (1 - exact))


def test_changes_at_one_step_are_two() -> None:
    """The one that would move falls, and then the one that would move in its place."""
    programs = Programs((2, 2, 2))
    trace = followed(programs, (A, B, C), Schedule((A, B, C), (1, 1)), lambda: 0.0)
    assert [thread for thread, _ in trace] == [A, C, C, B, B, A]


def test_a_thread_that_gets_nowhere_lets_others_move() -> None:
    class Spins:
        """Thread 0 waits, again and again, until thread 1 has come."""

        initial = 0
        weights: Sequence[float] = (1.0, 1.0)

        def enabled(self, state: int) -> list[tuple[int, int, int]]:
            return [(0, 0, 0), (1, 1, 1)] if state == 0 else [(0, state, 2)]

    trace = followed(Spins(), (0, 1), Schedule((0, 1), ()), lambda: 0.0)
    assert [instance for instance, _ in trace] == [0, 1, 0, 0]


@pytest.mark.parametrize("draws", [(0.0, 0), (0.5, 1), (0.99, 1)])
def test_a_thread_draws_one_of_its_events(draws: tuple[float, int]) -> None:
    class Fork:
        initial = 0
        weights: Sequence[float] = (1.0, 1.0)

        def enabled(self, state: int) -> list[tuple[int, int, int]]:
            return [(0, 1, 0), (1, 2, 1)] if state == 0 else []

    point, chosen = draws
    draw: Callable[[], float] = lambda: point  # noqa: E731
    assert [i for i, _ in followed(Fork(), (0, 0), Schedule((0,), ()), draw)] == [chosen]
