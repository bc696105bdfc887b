"""Folds constant leaves into a machine, before the machine is laid out and printed.

A leaf is constant when no rule that can ever fire writes anything but its initial value. Which
rules can fire depends on the constants, so both are found together: assume that every leaf is
constant, look for a rule that is enabled under the assumption and changes such a leaf, drop the
assumption for this leaf, and repeat until no rule changes one. By induction over steps, the
remaining leaves are constant in every reachable state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.simplifications import Facts, conjuncts, under_guard


def substitute(roots: Iterable[Node], leaves: Mapping[str, Node]) -> list[Node]:
    """Return each root with the named leaves replaced, and folded again."""
    return Facts(leaves).applied(roots)


def initial_node(leaf: Leaf, value: int) -> Node:
    """Return a leaf's value as a node of the leaf's kind."""
    return dag.const(bool(value)) if leaf.is_bool else dag.const(value)


def _contradicted(rule: RuleInstance, constants: Mapping[str, Node], facts: Facts) -> set[str]:
    """Return the constants that the rule changes, if it is enabled under them at all."""
    names = [name for name in rule.updates if name in constants]
    if not names or facts.applied([rule.guard])[0] is dag.FALSE:
        return set()
    values = facts.applied(rule.updates[name] for name in names)
    return {name for name, value in zip(names, values, strict=True) if value is not constants[name]}


def constant_leaves(machine: Machine) -> dict[str, Node]:
    """Return the leaves that keep their initial value in every reachable state, by name."""
    constants = {
        leaf.name: initial_node(leaf, value)
        for leaf, value in zip(machine.leaves, machine.initial, strict=True)
    }
    reads = [leaves_of(rule) for rule in machine.rules]
    unread = set(range(len(machine.rules)))
    facts = Facts(constants)
    while unread:
        number = min(unread)
        unread.remove(number)
        contradicted = _contradicted(machine.rules[number], constants, facts)
        if not contradicted:
            continue
        for name in contradicted:
            del constants[name]
        facts = Facts(constants)
        unread |= {n for n, names in enumerate(reads) if not names.isdisjoint(contradicted)}
    return constants


def leaves_of(rule: RuleInstance) -> frozenset[str]:
    """Return the leaves that a rule reads or writes; which constants it changes depends on no
    others."""
    read = dag.reachable([rule.guard, *rule.updates.values()])
    return frozenset(rule.updates).union(node.name for node in read if node.op == "leaf")


def _specialised_rule(
    rule: RuleInstance, constants: Mapping[str, Node], facts: Facts
) -> RuleInstance:
    names = [name for name in rule.updates if name not in constants]
    guard, *values = facts.applied([rule.guard, *(rule.updates[n] for n in names)])
    guard, updates = under_guard(guard, dict(zip(names, values, strict=True)))
    if guard is dag.FALSE:
        return replace(rule, guard=guard, updates={})
    written = {
        name: value
        for name, value in updates.items()
        if not (value.op == "leaf" and value.name == name)
    }
    return replace(rule, guard=guard, updates=written)


def with_constant_inputs(machine: Machine) -> Machine:
    """Return the machine for its budgets alone, with their values folded into the guards."""
    facts = Facts()
    for name, value in machine.inputs.items():
        facts.know(dag.run_time_input(name), value)
    guards = facts.applied(rule.guard for rule in machine.rules)
    pairs = zip(machine.rules, map(without_contradiction, guards), strict=True)
    return replace(machine, rules=tuple(replace(rule, guard=guard) for rule, guard in pairs))


def without_contradiction(guard: Node) -> Node:
    """Return the guard, or False if its conjuncts exclude each other. The smallest conjuncts are
    learned first, because folding them into a larger one may decide it."""
    facts = Facts()
    for conjunct in sorted(conjuncts(guard), key=size):
        folded = facts.applied([conjunct])[0]
        if folded is dag.FALSE:
            return dag.FALSE
        facts.learn(conjunct, True)
        facts.learn(folded, True)
    return guard


def size(node: Node) -> int:
    """Return the number of nodes below a node, itself included."""
    return sum(1 for _ in dag.reachable([node]))


def specialise(machine: Machine) -> Machine:
    """Return the same machine with its constant leaves folded in, and each guard into its updates.

    Updates are meaningful only where the guard holds. Leaves, their order and the order of the rule
    instances stay. A rule instance that can never fire keeps its place with the guard False and no
    updates. An update that changes nothing is dropped.
    """
    constants = constant_leaves(machine)
    facts = Facts(constants)
    guarantees = facts.applied(machine.guarantees.values())
    witnesses = facts.applied(machine.witnesses.values())
    return replace(
        machine,
        rules=tuple(_specialised_rule(rule, constants, facts) for rule in machine.rules),
        guarantees=dict(zip(machine.guarantees, guarantees, strict=True)),
        witnesses=dict(zip(machine.witnesses, witnesses, strict=True)),
    )


def rule_groups(machine: Machine) -> dict[str, list[tuple[int, RuleInstance]]]:
    """Return the instances that can fire, with their index in the machine, by rule name."""
    groups: dict[str, list[tuple[int, RuleInstance]]] = {}
    for index, rule in enumerate(machine.rules):
        if not (rule.guard.is_const and not rule.guard.value):
            groups.setdefault(rule.rule, []).append((index, rule))
    return groups
