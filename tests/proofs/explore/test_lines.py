"""States that differ in a few bits share a slot of the visited set: drawn early here, in searches
of a size for tests. Where it is drawn at all, a planted bug tells."""

from dataclasses import replace
from pathlib import Path

import pytest

from proofs.explore import native
from proofs.explore.explorer import explore
from proofs.explore.result import Exploration, Interrupted, SearchProgress
from proofs.lift.dag import TRUE, negate
from proofs.lift.machine import Machine, RuleInstance
from tests.proofs.lift.toys import crowd, flag, node, two_phase_commit


def lit(machine: Machine, lamps: int) -> Machine:
    """The machine in a room with lamps that anybody turns on and off at any time."""
    lamp = [flag(f"lamps.number[{n}]") for n in range(lamps)]
    turns = [RuleInstance("turn", (("lamp", n),), TRUE, {x.name: negate(node(x))})
             for n, x in enumerate(lamp)]  # fmt: skip
    return replace(
        machine,
        name=f"{machine.name}-lit",
        leaves=(*machine.leaves, *lamp),
        initial=(*machine.initial, *(0 for _ in lamp)),
        rules=(*machine.rules, *turns),
    )


OUTGROWING = lit(crowd(40, 10), 4)
"""Its fields are laid out again when its lines are drawn already."""
MACHINES = [two_phase_commit(5), OUTGROWING]


def facts(found: Exploration) -> Exploration:
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = (*native._RUNTIME_FLAGS, "-DFIRST_LOOK=256", "-DSEGMENT_BITS=12")
    monkeypatch.setattr(native, "_RUNTIME_FLAGS", flags)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_sets_with_lines_find_every_state_once(machine: Machine, workers: int) -> None:
    assert facts(explore(machine, workers=workers)) == facts(explore(machine, "ints"))


def test_a_search_goes_on_with_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.explore.checkpoint.INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)

    def press(progress: SearchProgress) -> None:
        if progress.distinct > 5_000:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        explore(two_phase_commit(5), checkpoint=tmp_path, progress=press)
    found = explore(two_phase_commit(5), checkpoint=tmp_path)
    assert facts(found) == facts(explore(two_phase_commit(5)))


PLANTED = {
    "a line in ten thousand takes no further state": (
        "if (known && (S == K || slot[K] & bit)) return KNOWN;",
        "if (known && (S == K || slot[K] & bit || hash % 10007 == 0)) return KNOWN;",
        two_phase_commit(7),
        (296_448, 2_744_705),
    ),
    "two states share a bit": (
        "return (uint64_t)1 << (key[line_word(s, K)] >> s->line.from & s->line.ones);",
        "return (uint64_t)1 << (key[line_word(s, K)] >> s->line.from & s->line.ones >> 1);",
        two_phase_commit(5),
        (8_832, 58_145),
    ),
    "a line forgets all but its first state when fields are laid out again": (
        "for (; members; members &= members - 1) {",
        "for (; members; members = 0) {",
        OUTGROWING,
        (7_056, 35_264),
    ),
}
"""Each loses states, or finds some twice: states and transitions without it."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_state_that_a_line_loses_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = native.runtime_text()
    right, wrong, machine, counts = PLANTED[name]
    assert text.count(right) == 1
    found = explore(machine)
    assert (found.distinct, found.transitions) == counts
    monkeypatch.setattr(native, "runtime_text", lambda: text.replace(right, wrong))
    found = explore(machine)
    assert (found.distinct, found.transitions) != counts
