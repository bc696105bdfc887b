"""Successors that are known are not looked up, checks that nothing touches are not evaluated again:
planted bugs tell that both are left out where they may be, and nowhere else."""

from dataclasses import replace

import pytest

from proofs.explore import native
from proofs.explore.explorer import explore
from proofs.explore.result import Exploration
from proofs.lift.dag import TRUE, Node, both, const, eq, negate
from proofs.lift.machine import Leaf, Machine, RuleInstance
from tests.proofs.explore.test_lines import lit
from tests.proofs.lift.toys import COMMITTED, flag, node, two_phase_commit


def steered(machine: Machine) -> Machine:
    """The machine with a wheel that is turned from two sides; each side notes that it did."""
    wheel, left, right = Leaf("wheel", 0, 2, False), flag("left"), flag("right")
    sides = ((1, left), (2, right))
    turns = [RuleInstance("steer", (("side", n),), TRUE, {wheel.name: const(n), side.name: TRUE})
             for n, side in sides]  # fmt: skip
    return replace(
        machine,
        leaves=(*machine.leaves, wheel, left, right),
        initial=(*machine.initial, 0, 0, 0),
        rules=(*machine.rules, *turns),
    )


def promising(machine: Machine, **broken: Node) -> Machine:
    """The machine with guarantees that do not hold."""
    return replace(machine, guarantees={**machine.guarantees, **broken})


def in_the_dark() -> Machine:
    """Two-phase commit beside lamps and a wheel: what breaks late depends on one manager, on the
    lamps, and on both."""
    machine = steered(lit(two_phase_commit(4), 4))
    lamps = [node(leaf) for leaf in machine.leaves if leaf.name.startswith("lamps")]
    committed = eq(node(machine.leaves[0]), const(COMMITTED))
    return promising(
        machine,
        never_commits=negate(committed),
        stays_dark=negate(both(lamps[0], lamps[3])),
        commits_dark=negate(both(committed, both(lamps[0], lamps[3]))),
    )


MACHINE = in_the_dark()


def facts(found: Exploration) -> Exploration:
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


@pytest.fixture(autouse=True)
def early_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_RUNTIME_FLAGS", (*native._RUNTIME_FLAGS, "-DFIRST_LOOK=256"))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_left_out_changes_nothing(workers: int) -> None:
    assert facts(explore(MACHINE, workers=workers)) == facts(explore(MACHINE, "ints"))


PLANTED = {
    "what one reads and the other writes does not matter": (
        "!bits_meet(a->reads, b->writes)",
        "1",
    ),
    "what both write does not matter": ("!bits_meet(a->writes, b->writes) &&", ""),
    "who stands behind is asleep as well": (
        "for (uint32_t r = 0; r < rule &&",
        "for (uint32_t r = 0; r < kx_model.rules &&",
    ),
    "nothing touches a check": (
        "bits_meet(kx_model.rule[rule]->writes, kx_model.check[c]->reads))",
        "0)",
    ),
    "no check reads what a line leaves open": (
        "if (bits_meet(kx_model.check[c]->reads, bits)) reading",
        "if (0) reading",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_left_out_wrongly_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = native.runtime_text()
    right, wrong = PLANTED[name]
    assert text.count(right) == 1
    monkeypatch.setattr(native, "runtime_text", lambda: text.replace(right, wrong))
    assert facts(explore(MACHINE)) != facts(explore(MACHINE, "ints"))


def test_successors_that_are_known_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of two-phase commit is independent. Lookups are counted with the states, here alone."""
    text = native.runtime_text()
    looked_up = "bench->kept = n;"
    assert text.count(looked_up) == 1
    monkeypatch.setattr(
        native, "runtime_text", lambda: text.replace(looked_up, f"{looked_up} me->tally.full += n;")
    )
    machine = two_phase_commit(5)
    found = explore(machine)
    lookups = found.distinct - explore(machine, "ints").distinct
    assert lookups < 0.3 * found.transitions
