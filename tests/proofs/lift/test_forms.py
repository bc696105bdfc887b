"""The printed forms against the graph evaluated as it stands."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs.explore.explorer import explore, load, prepare
from proofs.explore.result import RangeBroken
from proofs.lift.dag import (
    FALSE,
    TRUE,
    Node,
    add,
    both,
    const,
    either,
    eq,
    ite,
    le,
    leaf,
    lt,
    mod,
    mul,
    negate,
    run_time_input,
    sub,
)
from proofs.lift.ints_form import ints_form
from proofs.lift.layout import WrittenOutOfRange
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.step import out_of_range, successors, values_after
from tests.proofs.lift.toys import counters, two_phase_commit, window

NUMBERS = [leaf("a", -5, 6), leaf("b", 0, 20), leaf("c", 3, 90), run_time_input("k", 0, 9)]
FLAGS = [leaf("p", 0, 1, is_bool=True), leaf("q", 0, 1, is_bool=True)]
LEAVES = (
    Leaf("a", -5, 6, False),
    Leaf("b", 0, 20, False),
    Leaf("c", 3, 90, False),
    Leaf("p", 0, 1, True),
    Leaf("q", 0, 1, True),
)


def numbers_from(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pairs = st.tuples(children, children)
    divisors = st.integers(1, 30)
    return st.one_of(
        pairs.map(lambda p: add(*p)),
        pairs.map(lambda p: sub(*p)),
        st.tuples(children, st.integers(-3, 3)).map(lambda p: mul(p[0], const(p[1]))),
        st.tuples(children, divisors).map(lambda p: mod(*p)),
        st.tuples(pairs, pairs).map(lambda p: ite(lt(*p[0]), *p[1])),
    )


numbers = st.recursive(
    st.one_of(st.sampled_from(NUMBERS), st.integers(-9, 99).map(const)), numbers_from, max_leaves=12
)


def flags_from(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: both(*p)),
        pairs.map(lambda p: either(*p)),
        pairs.map(lambda p: eq(*p)),
        children.map(negate),
        st.tuples(children, pairs).map(lambda p: ite(p[0], *p[1])),
    )


compared = st.one_of(
    st.tuples(numbers, numbers).map(lambda p: lt(*p)),
    st.tuples(numbers, numbers).map(lambda p: le(*p)),
    st.tuples(numbers, numbers).map(lambda p: eq(*p)),
)
flags = st.recursive(
    st.one_of(st.sampled_from([*FLAGS, TRUE, FALSE]), compared), flags_from, max_leaves=10
)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    rules = []
    for number in range(draw(st.integers(1, 4))):
        updates: dict[str, Node] = {}
        for place in LEAVES:
            if draw(st.booleans()):
                # Every other value may be out of range: the forms must say so alike.
                value = draw(flags if place.is_bool else numbers)
                if not place.is_bool and draw(st.booleans()):
                    value = add(mod(value, place.hi - place.lo + 1), const(place.lo))
                updates[place.name] = value
        rules.append(RuleInstance("rule", (("n", number),), draw(flags), updates))
    initial = (
        draw(st.integers(-5, 6)),
        draw(st.integers(0, 20)),
        draw(st.integers(3, 90)),
        draw(st.integers(0, 1)),
        draw(st.integers(0, 1)),
    )
    return Machine(
        name="random",
        leaves=LEAVES,
        initial=initial,
        inputs={"k": draw(st.integers(0, 9))},
        rules=tuple(rules),
        guarantees={"first": draw(flags)},
        witnesses={"second": draw(flags)},
    )


def assert_ints_agree(machine: Machine, limit: int = 30) -> None:
    """Walks some states and compares the graph's successors with the ints form's."""
    prepared = prepare(machine)
    form = ints_form(prepared.machine, prepared.layout)
    ranges = {place.name: (place.lo, place.hi) for place in machine.leaves}
    todo = [dict(zip(ranges, map(int, machine.initial), strict=True))]
    for values in todo:
        packed = prepared.layout.pack(list(values.values()))
        expected = successors(machine, values)
        fits = all(ranges[n][0] <= v <= ranges[n][1] for _, s in expected for n, v in s.items())
        if not fits:
            with pytest.raises(WrittenOutOfRange):
                form.successors(packed)
            return
        found = [
            (rule, dict(zip(ranges, prepared.layout.unpack(state), strict=True)))
            for rule, state in form.successors(packed)
        ]
        assert found == expected
        if len(todo) < limit:
            todo += [state for _, state in expected if state not in todo]


@given(machines())
def test_ints_compute_what_the_graph_says(machine: Machine) -> None:
    assert_ints_agree(machine)


@settings(max_examples=12)
@given(machines())
def test_c_computes_what_ints_compute(machine: Machine) -> None:
    expected, found = (outcome(machine, engine) for engine in ("ints", "c"))
    assert found == expected
    if isinstance(found, tuple):
        assert out_of_range(machine, found[0])


def outcome(machine: Machine, engine: str) -> object:
    """All that an exploration tells, or the error that ends it."""
    try:
        found = explore(machine, engine, want_edges=True, max_depth=6)
    except RangeBroken as broken:
        return broken.steps, str(broken)
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


@pytest.mark.parametrize(
    "machine", [two_phase_commit(3), counters(), window(1)], ids=lambda m: m.name
)
def test_ints_compute_what_the_graph_of_a_toy_says(machine: Machine) -> None:
    assert_ints_agree(machine, limit=300)


@pytest.mark.parametrize("engine", ["c", "ints"])
def test_a_value_out_of_range_ends_a_search_with_its_steps(engine: str) -> None:
    machine = counters(9, guard_at=5)
    with pytest.raises(
        RangeBroken, match=r"sink\(by=1\), writes down = 5 \(of -4 .. 4\)"
    ) as caught:
        explore(machine, engine)
    assert caught.value.steps == (3, 3, 3, 3, 3)
    assert values_after(machine, caught.value.steps)["down"] == 5


def test_a_single_step_says_so_too() -> None:
    prepared = prepare(counters(9, guard_at=5))
    packed = prepared.layout.pack((3, 4, 2, 4, 0))
    with pytest.raises(WrittenOutOfRange) as caught:
        load(prepared).successors(packed)
    assert caught.value.rule == 3


def test_steps_that_are_not_enabled_are_refused() -> None:
    with pytest.raises(ValueError, match=r"step 1, never\(\), is not enabled"):
        values_after(counters(), (1,))
