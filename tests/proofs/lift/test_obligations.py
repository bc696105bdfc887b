import builtins
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.explore.explorer import explore
from proofs.lift import dag
from proofs.lift.dag import TRUE, Node, add, both, const, eq, ite, leaf, lt, mod, mul, negate, sub
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.obligations import (
    Claim,
    Decision,
    NoSolver,
    as_guarantees,
    decide,
    decide_ranges,
    definedness_claims,
    range_claims,
)
from proofs.lift.specialise import specialise
from proofs.lift.step import evaluate
from tests.proofs.lift.toys import counters, two_phase_commit, window


def failing(decisions: Sequence[Decision]) -> list[str]:
    return [decision.name for decision in decisions if decision.result != "holds"]


@pytest.mark.parametrize(
    "machine", [two_phase_commit(4), counters(), window()], ids=lambda m: m.name
)
def test_ranges_of_the_toys_hold(machine: Machine) -> None:
    decisions = decide_ranges(specialise(machine))
    assert failing(decisions) == []
    assert decisions[0].name == "initial/ranges"


def test_a_guard_off_by_one_fails_and_says_where() -> None:
    decisions = decide_ranges(specialise(counters(guard_at=5)))
    assert failing(decisions) == ["sink(by=1)/down"]
    broken = next(decision for decision in decisions if decision.result == "fails")
    assert broken.by == "z3"
    assert broken.counterexample is not None
    assert broken.counterexample["down"] == 4
    assert set(broken.counterexample) == {"ring", "down", "fixed", "spent", "odd"}


def test_the_initial_state_is_a_claim_too() -> None:
    place = Leaf("x", 0, 3, False)
    assert failing(decide_ranges(Machine("m", (place,), (4,), {}, (), {}, {}))) == [
        "initial/ranges"
    ]


def test_what_no_range_shows_may_be_assumed() -> None:
    """`full` is set only below 3; that is a fact about two leaves, so no range has it."""
    full, x = leaf("full", 0, 1, is_bool=True), leaf("x", 0, 3)
    machine = Machine(
        name="full",
        leaves=(Leaf("full", 0, 1, True), Leaf("x", 0, 3, False)),
        initial=(0, 0),
        inputs={},
        rules=(
            RuleInstance("fill", (), lt(x, const(3)), {"full": TRUE}),
            RuleInstance("take", (), full, {"full": const(False), "x": add(x, const(1))}),
        ),
        guarantees={"room": dag.either(negate(full), lt(x, const(3)))},
        witnesses={},
    )
    assert failing(decide_ranges(machine)) == ["take()/x"]
    assert explore(machine, "ints").violations == {}
    assert failing(decide_ranges(machine, machine.guarantees.values())) == []


def test_intervals_decide_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Leaf("x", 0, 9, False)
    rule = RuleInstance("set", (), TRUE, {"x": mod(leaf("x", 0, 9), 5)})
    machine = Machine("m", (place,), (0,), {}, (rule,), {}, {})
    real = builtins.__import__

    def no_z3(name: str, *rest: object, **more: object) -> object:
        if name == "z3":
            raise ImportError(name)
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_z3)
    assert [decision.by for decision in decide(machine, range_claims(machine))] == ["interval"]
    with pytest.raises(NoSolver, match=r"kafka-eos\[proofs\]"):
        decide_ranges(specialise(counters()))


@dataclass(frozen=True)
class Condition:
    where: str
    holds: Node


def test_definedness_is_decided_under_the_path_that_leads_there() -> None:
    x = leaf("x", 0, 9)
    place = Leaf("x", 0, 9, False)
    machine = Machine("m", (place,), (0,), {}, (), {}, {})
    guarded = dag.either(negate(lt(x, const(3))), lt(mul(x, const(2)), const(6)))
    noted: Mapping[str, Sequence[Condition]] = {
        "rule()": (Condition("file.py:1", guarded), Condition("file.py:2", lt(x, const(9))))
    }
    decisions = decide(machine, definedness_claims(noted))
    assert [(d.name, d.result) for d in decisions] == [
        ("rule()/file.py:1", "holds"),
        ("rule()/file.py:2", "fails"),
    ]
    assert decisions[1].counterexample == {"x": 9}


def test_claims_of_one_name_are_decided_each() -> None:
    machine = Machine("m", (Leaf("x", 0, 9, False),), (0,), {}, (), {}, {})
    x = leaf("x", 0, 9)
    claims = [Claim("here", TRUE, lt(x, const(bound))) for bound in (9, 20, 5)]
    assert [d.result for d in decide(machine, claims)] == ["fails", "holds", "fails"]
    (guarantee,) = as_guarantees(claims).values()
    assert [evaluate([guarantee], {"x": value}, {}) for value in (4, 5)] == [[1], [0]]


def test_an_exploration_decides_what_ranges_leave_open() -> None:
    machine = counters(9)
    down = leaf("down", -4, 4)
    claims = [
        Claim("sink/far", lt(const(2), down), lt(down, const(4))),
        Claim("sink/near", TRUE, lt(down, const(5))),
    ]
    found = explore(replace(machine, guarantees=as_guarantees(claims)), "ints")
    assert {name: len(path) for name, path in found.violations.items()} == {"sink/far": 4}


def test_five_hundred_claims_take_less_than_two_seconds() -> None:
    names = [f"x{n}" for n in range(500)]
    nodes = [leaf(name, 0, 100) for name in names]
    rules = tuple(
        RuleInstance(
            "step",
            (("n", n),),
            both(lt(nodes[n], const(100)), eq(mod(nodes[n - 1], 2), const(1))),
            {names[n]: ite(lt(nodes[n - 1], nodes[n]), add(nodes[n], const(1)), nodes[n])},
        )
        for n in range(500)
    )
    leaves = tuple(Leaf(name, 0, 100, False) for name in names)
    machine = Machine("many", leaves, (0,) * 500, {}, rules, {}, {})
    began = time.process_time()
    decisions = decide_ranges(machine)
    assert time.process_time() - began < 2.0
    assert failing(decisions) == []
    assert sum(decision.by == "z3" for decision in decisions) == 500


OPERATIONS = (add, sub, mul, lambda a, b: ite(lt(a, b), a, b), lambda a, b: mod(sub(a, b), 3))


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9))))
def test_a_counterexample_is_one(steps: list[tuple[object, int, int]]) -> None:
    """Whatever the terms: what Z3 says fails, fails when it is computed."""
    pool = [leaf("x", -3, 4), leaf("y", 0, 6), const(2)]
    for operation, a, b in steps[:6]:
        pool.append(operation(pool[a % len(pool)], pool[b % len(pool)]))  # type: ignore[operator]
    claim = lt(pool[-1], const(5))
    machine = Machine(
        "m", (Leaf("x", -3, 4, False), Leaf("y", 0, 6, False)), (0, 0), {}, (), {}, {}
    )
    (decision,) = decide(machine, [Claim("any", TRUE, claim)])
    if decision.result == "fails":
        assert decision.counterexample is not None
        assert evaluate([claim], decision.counterexample, {}) == [0]
    else:
        values = [(x, y) for x in range(-3, 5) for y in range(7)]
        assert decision.result == "unknown" or all(
            evaluate([claim], {"x": x, "y": y}, {}) == [1] for x, y in values
        )
