from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import exploration as two_phase_commit
from proofs.explore.explorer import explore
from proofs.explore.result import RangeBroken
from proofs.explore.scope import explore_scope
from proofs.explore.symmetry import NotSymmetric, Symmetry, symmetry_of
from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.machine import Machine, RuleInstance
from proofs.lift.patch import Patch
from proofs.lift.step import evaluate, values_after
from tests.proofs.lift.toys import crowd

PARTITIONS = "idempotent-partitions"


def managers(count: int, machine: Machine | None = None) -> tuple[Machine, Symmetry]:
    lifted = machine or two_phase_commit.machine_of(count)
    k = two_phase_commit.configuration_of(count)
    return lifted, symmetry_of(two_phase_commit.model(), k, lifted, "managers")


def changed(machine: Machine, rule: str, choice: int | None, **parts: Any) -> Machine:
    """The machine with one rule's instances changed, or only that of one element."""
    rules = tuple(
        replace(r, **{name: part(r) for name, part in parts.items()})
        if r.rule == rule and (choice is None or r.choice[0][1] == choice)
        else r
        for r in machine.rules
    )
    assert rules != machine.rules
    return replace(machine, rules=rules)


def whole(found: Any) -> Mapping[str, object]:
    """The numbers that must be those of the unreduced search, and how long its traces are."""
    names = ("distinct", "transitions", "depth", "levels", "deadlocks", "complete")
    paths = {**found.violations, **found.witnesses}
    return {**{n: getattr(found, n) for n in names}, **{n: len(p) for n, p in paths.items()}}


@pytest.mark.parametrize("engine", ["c", "ints"])
@pytest.mark.parametrize(("count", "orbits"), [(3, 80), (5, 314)])
def test_sizes_of_orbits_add_up_to_all_states(engine: str, count: int, orbits: int) -> None:
    machine, symmetry = managers(count)
    found = explore(machine, engine, symmetry=symmetry)
    assert found.orbits == orbits
    assert whole(found) == whole(explore(machine))


def test_nine_managers_are_few_orbits_of_many_states() -> None:
    machine, symmetry = managers(9)
    found = explore(machine, symmetry=symmetry, workers=2)
    assert (found.orbits, found.distinct, found.transitions) == (2_232, 10_340_352, 123_558_401)
    assert sum(found.firings.values()) == found.transitions


@pytest.mark.parametrize("engine", ["c", "ints"])
def test_traces_are_those_of_the_whole(engine: str) -> None:
    """Both managers may commit alone: the shortest way to a broken guarantee is genuine."""
    machine, _ = managers(3)
    broken = changed(machine, "resource_hears_commit", None, guard=lambda r: dag.TRUE)
    _, symmetry = managers(3, broken)
    found = explore(broken, engine, symmetry=symmetry)
    assert whole(found) == whole(explore(broken))
    for name, wanted, nodes in (
        ("consistent", 0, broken.guarantees),
        ("all_committed", 1, broken.witnesses),
    ):
        path = (found.violations if name == "consistent" else found.witnesses)[name]
        after = values_after(broken, path)
        assert evaluate([nodes[name]], after, broken.inputs) == [wanted]


def test_a_rule_that_treats_one_element_differently_is_refused() -> None:
    machine, _ = managers(3)
    for planted, said in (
        (changed(machine, "resource_aborts", 1, guard=lambda r: dag.FALSE), "different guards"),
        (changed(machine, "resource_prepares", 2, updates=fewer), "write different"),
        (replace(machine, initial=(1, *machine.initial[1:])), "begin with different values"),
        (replace(machine, witnesses={"first": only_first(machine)}), "first tells 0 from 1"),
        (replace(machine, rules=machine.rules[:-1]), "no counterpart"),
    ):
        with pytest.raises(NotSymmetric, match=said):
            managers(3, planted)


def fewer(rule: RuleInstance) -> Mapping[str, Node]:
    return dict(list(rule.updates.items())[:-1])


def only_first(machine: Machine) -> Node:
    leaf = machine.leaves[0]
    return dag.eq(dag.leaf(leaf.name, leaf.lo, leaf.hi), dag.const(1))


def test_a_range_broken_by_any_element_is_told_by_a_genuine_path() -> None:
    machine, _ = managers(3)

    def beyond(rule: RuleInstance) -> Mapping[str, Node]:
        name = next(n for n in rule.updates if n.startswith("status"))
        place = next(leaf for leaf in machine.leaves if leaf.name == name)
        more = dag.add(dag.leaf(name, place.lo, place.hi), dag.const(2))
        return {**rule.updates, name: more}

    broken = changed(machine, "resource_hears_abort", None, updates=beyond)
    _, symmetry = managers(3, broken)
    for engine in ("c", "ints"):
        with pytest.raises(RangeBroken, match="resource_hears_abort"):
            explore(broken, engine, symmetry=symmetry)


def test_orbits_of_many_values() -> None:
    machine = crowd(30, 120)
    names = [leaf.name for leaf in machine.leaves]
    symmetry = Symmetry("actors", 30, tuple(tuple(names[i : i + 3]) for i in range(0, 90, 3)))
    expected = whole(explore(machine))
    for engine, workers in (("c", 1), ("c", 2), ("ints", 1)):
        found = explore(machine, engine, symmetry=symmetry, workers=workers)
        assert found.orbits == 122
        assert whole(found) == expected


def test_a_kept_search_goes_on(tmp_path: Path) -> None:
    machine, symmetry = managers(5)
    first = explore(machine, symmetry=symmetry, checkpoint=tmp_path)
    again = explore(machine, "ints", symmetry=symmetry, checkpoint=tmp_path)
    assert whole(again) == whole(first)
    assert again.orbits == first.orbits


def test_two_partitions_are_interchangeable() -> None:
    found = explore_scope(PARTITIONS, symmetry="partitions")
    plain = explore_scope(PARTITIONS)
    assert found.counts.orbits is not None
    assert found.counts.orbits < plain.counts.distinct / 1.9
    assert found.counts.distinct == plain.counts.distinct
    assert found.counts.levels == plain.counts.levels
    assert found.verdict == plain.verdict
    assert [(f.property, f.steps) for f in found.violations] == [
        (f.property, f.steps) for f in plain.violations
    ]


def test_what_the_text_tells_apart_is_refused() -> None:
    patch = Patch(
        "world.next_request",
        "len(link.requests) > 0",
        "len(link.requests) > partition",
    )
    with pytest.raises(NotSymmetric, match=r"partitions are not interchangeable: request_arrives"):
        explore_scope(PARTITIONS, symmetry="partitions", patches=[patch])


def test_numbers_held_in_messages_and_unknown_types_are_refused() -> None:
    with pytest.raises(NotSymmetric, match="holds such an element by number"):
        explore_scope("idempotent-tiny", symmetry="records")
    with pytest.raises(NotSymmetric, match="choose one of"):
        explore_scope("idempotent-tiny", symmetry="brokers_of_old")
