"""The pieces of a rule instance: what they read, what they write, and how large they are."""

import itertools

import pytest

from benchmarks import exploration
from proofs.explore.explorer import prepare
from proofs.lift import dag
from proofs.lift.build import lift
from proofs.lift.dag import TRUE, both, const, eq, ite, leaf
from proofs.lift.layout import MAX_PARTS, NARROW_BITS, Layout, Part, lay_out
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.partition import split_rule
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of
from tests.proofs.lift.toys import counters, window

MAX_NODES = 3_000
"""Of a rule instance: what is larger compiles too slowly to be waited for."""

LAYOUT = Layout(
    leaves=tuple(Leaf(name, 0, 3, False) for name in "abcd"),
    places=lay_out(window()).places,
    constants={},
    words=1,
    parts=tuple(Part(n, 1, 0, 0, (name,)) for n, name in enumerate("abcd")),
)


def number(name: str) -> dag.Node:
    return leaf(name, 0, 3)


def nodes_of(rule: RuleInstance) -> int:
    return sum(1 for _ in dag.reachable([rule.guard, *rule.updates.values()]))


def breadth(scope: str) -> int:
    """How large a scope's rules may be: by what is repeated in its layout."""
    layout = load_model("idempotent").scopes.SCOPES[scope].bounds
    return int(layout.producers * layout.partitions * layout.log * layout.in_flight)


WIDEST = sorted(load_model("idempotent").scopes.SCOPES, key=breadth)[-4:]


@pytest.mark.parametrize("scope", WIDEST)
def test_no_rule_instance_is_too_large(scope: str) -> None:
    machine = lift(
        load_model("idempotent"),
        configuration_of(load_model("idempotent"), scope, "4.3.1"),
        scope,
        guarantees=False,
    ).machine
    sizes = {rule.label: nodes_of(rule) for rule in prepare(machine).machine.rules}
    assert {label: size for label, size in sizes.items() if size > MAX_NODES} == {}


def test_conjuncts_stand_with_the_part_that_they_read() -> None:
    guard = both(both(eq(number("a"), const(1)), eq(number("b"), number("c"))), TRUE)
    split = split_rule(RuleInstance("r", (), guard, {}), LAYOUT)
    assert {part: len(nodes) for part, nodes in split.local.items()} == {0: 1}
    (factor,) = split.factors
    assert (factor.reads, factor.writes, len(factor.guard)) == (0b0110, 0, 1)


def test_a_factor_reads_what_its_parts_become_and_were() -> None:
    chosen = ite(eq(number("a"), const(0)), number("c"), const(2))
    rule = RuleInstance("r", (), TRUE, {"b": chosen, "c": const(1), "d": number("b")})
    factors = {(f.reads, f.writes) for f in split_rule(rule, LAYOUT).factors}
    assert factors == {(0b0111, 0b0110), (0b1010, 0b1000)}


def test_constants_of_narrow_parts_are_masks() -> None:
    machine = prepare(exploration.machine_of(3))
    for rule in machine.machine.rules:
        split = split_rule(rule, machine.layout)
        assert not split.factors
        written = {part for part in range(len(machine.layout.parts))
                   if set(machine.layout.parts[part].leaves) & set(rule.updates)}  # fmt: skip
        assert {constant.part for constant in split.constants} == written


def test_a_value_that_may_leave_its_range_is_never_a_mask() -> None:
    prepared = prepare(counters(guard_at=5))
    up = next(r for r in prepared.machine.rules if r.choice == (("by", 1),))
    split = split_rule(up, prepared.layout)
    assert split.factors
    assert not split.constants


def test_parts_are_the_leaves_and_overlap_nowhere() -> None:
    many = tuple(Leaf(f"actor{n}.x", 0, (1 << 20) - 1, False) for n in range(3 * MAX_PARTS))
    updates = {x.name: dag.add(leaf(x.name, x.lo, x.hi), const(1)) for x in many}
    rule = RuleInstance("all", (), TRUE, updates)
    for machine in (Machine("many", many, (0,) * len(many), {}, (rule,), {}, {}), window()):
        layout = prepare(machine).layout
        assert len(layout.parts) <= MAX_PARTS
        named = list(itertools.chain(*(part.leaves for part in layout.parts)))
        assert sorted(named) == sorted(layout.places)
        for part in layout.parts:
            assert part.bits <= NARROW_BITS
            words = {layout.places[name].word for name in part.leaves}
            assert words <= set(range(part.word, part.word + part.words))
