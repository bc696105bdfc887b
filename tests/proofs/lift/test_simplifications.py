import itertools

from hypothesis import given
from hypothesis import strategies as st

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
    negate,
    reachable,
)
from proofs.lift.simplifications import Branch, Facts, Written, branched, conjuncts, under_guard
from proofs.lift.specialise import specialise
from proofs.lift.step import evaluate
from tests.proofs.lift.toys import window

X, Y = leaf("x", 0, 4), leaf("y", -2, 2)
P = leaf("p", 0, 1, is_bool=True)
STATES = [
    {"x": x, "y": y, "p": p} for x, y, p in itertools.product(range(5), range(-2, 3), range(2))
]
atoms = st.one_of(
    st.just(P),
    st.tuples(
        st.sampled_from([lt, le, eq]), st.sampled_from([X, Y]), st.integers(-3, 5), st.booleans()
    ).map(lambda t: t[0](t[1], const(t[2])) if t[3] else t[0](const(t[2]), t[1])),
    st.just(lt(X, Y)),
)
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: both(*p)),
        st.tuples(inner, inner).map(lambda p: either(*p)),
        inner.map(negate),
    ),
    max_leaves=8,
)
values = st.recursive(
    st.one_of(st.sampled_from([X, Y]), st.integers(-2, 4).map(const)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: add(*p)),
        st.tuples(conditions, inner, inner).map(lambda t: ite(*t)),
    ),
    max_leaves=8,
)


@given(conditions, conditions, values)
def test_behind_a_guard_nothing_changes_its_value(a: Node, b: Node, value: Node) -> None:
    guard, updates = under_guard(both(a, b), {"x": value})
    for state in STATES:
        before, after = evaluate([both(a, b), guard], state, {})
        assert before == after
        if after:
            assert evaluate([value], state, {}) == evaluate([updates["x"]], state, {})


def outcome(written: Written, state: dict[str, int]) -> dict[str, int]:
    """The state behind what is written."""
    if isinstance(written, Branch):
        (holds,) = evaluate([written.condition], state, {})
        return outcome(written.then if holds else written.otherwise, state)
    results = evaluate(written.values(), state, {})
    return {**state, **dict(zip(written, results, strict=True))}


@given(conditions, values, values, values, conditions)
def test_decisions_first_change_nothing(
    c: Node, one: Node, two: Node, three: Node, flag: Node
) -> None:
    updates = {"x": ite(c, one, X), "y": ite(c, two, three), "p": flag}
    written = branched(updates)
    for state in STATES:
        assert outcome(written, state) == outcome(updates, state)


def test_a_condition_is_known_behind_itself() -> None:
    facts = Facts()
    facts.learn(lt(X, Y), True)
    assert facts.applied([ite(lt(X, Y), const(1), const(2))]) == [const(1)]
    facts = Facts()
    facts.learn(negate(either(P, eq(X, const(2)))), True)
    assert facts.applied([P, eq(X, const(2))]) == [FALSE, FALSE]


def test_a_comparison_narrows_a_leaf() -> None:
    facts = Facts()
    facts.learn(lt(const(0), X), True)
    facts.learn(eq(X, const(4)), False)
    (narrow,) = facts.applied([X])
    assert (narrow.lo, narrow.hi) == (1, 3)
    facts.learn(le(X, const(1)), True)
    assert facts.applied([X, eq(X, const(1))]) == [const(1), TRUE]


def test_conjuncts_keep_their_order() -> None:
    a, b, c = lt(X, const(3)), P, lt(Y, const(1))
    assert conjuncts(both(both(a, b), c)) == [a, b, c]
    assert conjuncts(TRUE) == []


def size(written: Written) -> int:
    if isinstance(written, Branch):
        return max(size(written.then), size(written.otherwise))
    return sum(1 for _ in reachable(written.values()))


def test_decisions_leave_less_to_compute() -> None:
    """An arrival that the log does not want writes the slot and nothing else."""
    arrive = next(rule for rule in specialise(window()).rules if rule.rule == "arrive")
    written = branched(arrive.updates)
    assert isinstance(written, Branch)
    sizes = sorted((size(written.then), size(written.otherwise)))
    assert sizes[0] < 5 < sizes[1] < size(arrive.updates)
