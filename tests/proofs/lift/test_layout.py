import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.lift.dag import TRUE, add, const, leaf
from proofs.lift.layout import Layout, OutOfRange, lay_out
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.specialise import specialise
from tests.proofs.lift.toys import counters, two_phase_commit, window

pytestmark = pytest.mark.fast


def machine_of(leaves: tuple[Leaf, ...]) -> Machine:
    """A machine that writes every leaf."""
    updates = {place.name: add(leaf(place.name, place.lo, place.hi), const(1)) for place in leaves}
    initial = tuple(place.lo for place in leaves)
    return Machine("any", leaves, initial, {}, (RuleInstance("all", (), TRUE, updates),), {}, {})


ranges = st.tuples(st.integers(-(1 << 40), 1 << 40), st.integers(0, 40)).map(
    lambda pair: (pair[0], pair[0] + (1 << pair[1]) - 1)
)


@given(st.lists(ranges, min_size=1, max_size=40), st.data())
def test_packed_states_come_back(bounds: list[tuple[int, int]], data: st.DataObject) -> None:
    leaves = tuple(Leaf(f"x{n}", lo, hi, False) for n, (lo, hi) in enumerate(bounds))
    layout = lay_out(machine_of(leaves)) if any(lo < hi for lo, hi in bounds) else None
    if layout is None:
        return
    written = [data.draw(st.integers(p.lo, p.hi)) if p.lo < p.hi else p.lo for p in leaves]
    assert layout.unpack(layout.pack(written)) == tuple(written)


@given(st.lists(ranges, min_size=1, max_size=60))
def test_no_leaf_straddles_words_or_overlaps(bounds: list[tuple[int, int]]) -> None:
    leaves = tuple(Leaf(f"x{n}", lo, hi, False) for n, (lo, hi) in enumerate(bounds))
    layout = lay_out(machine_of(leaves))
    taken = 0
    for place in layout.places.values():
        assert place.shift + place.bits <= 64
        field = place.mask << place.position
        assert taken & field == 0
        taken |= field
    assert taken < 1 << 64 * layout.words


def test_what_no_rule_writes_has_no_bits() -> None:
    layout = lay_out(specialise(counters()))
    assert layout.constants == {"fixed": 2}
    assert set(layout.places) == {"ring", "down", "spent", "odd"}
    assert layout.unpack(layout.pack((3, 0, 2, 0, 0))) == (3, 0, 2, 0, 0)


@pytest.mark.parametrize("values", [(2, 0, 2, 0, 0), (3, 5, 2, 0, 0), (3, 0, 1, 0, 0)])
def test_values_out_of_range_are_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(OutOfRange):
        lay_out(specialise(counters())).pack(values)


def test_a_leaf_wider_than_a_word_is_refused() -> None:
    with pytest.raises(OutOfRange, match="65 bits"):
        lay_out(machine_of((Leaf("wide", 0, 1 << 64, False),)))


def test_budgets_do_not_move_leaves() -> None:
    def places(machine: Machine) -> Layout:
        return lay_out(specialise(machine))

    assert places(counters(3)) == places(counters(9))


def test_a_rule_that_never_fires_keeps_its_place() -> None:
    rules = specialise(counters()).rules
    assert [rule.rule for rule in rules] == ["turn", "never", "sink", "sink", "forget"]
    assert not rules[1].guard.value
    assert rules[1].guard.is_const
    assert rules[1].updates == {}


def test_constants_are_found_through_the_rules_that_they_disable() -> None:
    """`b` is written only once `a` is 1, and nothing makes `a` 1."""
    a, b = Leaf("a", 0, 1, True), Leaf("b", 0, 3, False)
    node = leaf("a", 0, 1, is_bool=True)
    rules = (
        RuleInstance("first", (), node, {"b": const(1)}),
        RuleInstance("second", (), TRUE, {"a": node}),
    )
    machine = specialise(Machine("chain", (a, b), (0, 0), {}, rules, {}, {}))
    assert lay_out(machine).constants == {"a": 0, "b": 0}


def test_sizes_of_the_toys() -> None:
    assert lay_out(specialise(two_phase_commit(7))).words == 1
    assert lay_out(specialise(window())).words == 3
