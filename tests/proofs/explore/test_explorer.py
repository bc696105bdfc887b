import dataclasses
from collections.abc import Sequence

import pytest

from proofs.explore.explorer import explore, load, prepare
from proofs.explore.result import EndReason, Exploration, Interrupted, SearchProgress
from proofs.lift import partition
from proofs.lift.dag import FALSE, TRUE
from proofs.lift.ints_form import ints_form
from proofs.lift.layout import Layout
from proofs.lift.machine import Machine, RuleInstance
from proofs.lift.partition import Split
from tests.proofs.lift.toys import counters, crowd, two_phase_commit, window
from tests.sizes import sized

TOYS = [two_phase_commit(3), two_phase_commit(5), counters(), counters(9), window(), window(4, 2)]
VARYING = ("engine", "seconds", "peak_bytes")


def facts(found: Exploration) -> dict[str, object]:
    """All that must not depend on engine, workers or time."""
    return {
        field.name: getattr(found, field.name)
        for field in dataclasses.fields(found)
        if field.name not in VARYING
    }


def after(machine: Machine, path: Sequence[int]) -> tuple[int, ...]:
    """The leaf values behind a path, stepped by the ints form."""
    prepared = prepare(machine)
    form = ints_form(prepared.machine, prepared.layout)
    state = prepared.layout.pack(machine.initial)
    for rule in path:
        state = dict(form.successors(state))[rule]
    return prepared.layout.unpack(state)


@pytest.mark.parametrize(
    ("managers", "distinct"), [(3, 288), (5, 8832), pytest.param(7, 296_448, id="7")]
)
def test_two_phase_commit_has_its_known_number_of_states(managers: int, distinct: int) -> None:
    found = explore(two_phase_commit(managers))
    assert found.complete
    assert found.distinct == sum(found.levels) == distinct
    assert found.depth == 3 * managers + 1
    assert not found.violations


@pytest.mark.parametrize("machine", TOYS, ids=lambda m: m.name)
@pytest.mark.parametrize("stop", sized([False, True], [True]))
def test_engines_agree(machine: Machine, stop: bool) -> None:
    expected = facts(explore(machine, "ints", want_edges=True, stop=stop))
    for workers in (1, 2, 5):
        assert facts(explore(machine, workers=workers, want_edges=True, stop=stop)) == expected


def test_engines_agree_on_a_graph_of_many_batches() -> None:
    machine = two_phase_commit(6)
    expected = facts(explore(machine, "ints", want_edges=True))
    assert facts(explore(machine, workers=2, want_edges=True)) == expected


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_workers_agree_on_levels_of_many_blocks_and_of_one(workers: int) -> None:
    """A batch of one block is left to one worker: what others had before must not count again."""
    machine = two_phase_commit(7)
    alone = explore(machine)
    assert min(alone.levels) < 100 < 10_000 < max(alone.levels)
    assert facts(explore(machine, workers=workers)) == facts(alone)


@pytest.mark.parametrize("actors", [9, 30])
def test_engines_agree_where_values_outgrow_their_fields(actors: int) -> None:
    """Keys of one word become keys of several, in the middle of a search."""
    machine = crowd(actors, 120)
    expected = facts(explore(machine, "ints", want_edges=True))
    assert expected["distinct"] == 1 + actors * 121
    for workers, edges in ((1, True), (3, True), (2, False)):
        found = facts(explore(machine, workers=workers, want_edges=edges))
        assert found == (expected if edges else {**expected, "graph": None})


def test_a_factor_that_forgets_what_it_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what a rule instance writes is remembered for too few of the parts it reads."""

    def forgetful(rule: RuleInstance, layout: Layout) -> Split:
        split = partition.split_rule(rule, layout)
        factors = tuple(dataclasses.replace(f, reads=f.writes or f.reads) for f in split.factors)
        return dataclasses.replace(split, factors=factors)

    expected = explore(window(), "ints").distinct
    assert explore(window()).distinct == expected
    monkeypatch.setattr("proofs.lift.c_form.split_rule", forgetful)
    assert explore(window()).distinct != expected


def test_a_part_that_outgrows_its_room_is_no_limit() -> None:
    machine = crowd(2, 250)
    wide = dataclasses.replace(machine, inputs={"steps": 249})
    assert facts(explore(wide, workers=2)) == facts(explore(wide, "ints"))


def test_counts_of_the_window_stay() -> None:
    found = explore(window())
    assert (found.distinct, found.transitions, found.depth) == (27_613, 117_974, 14)


def test_a_path_leads_to_what_it_is_kept_for() -> None:
    machine = counters(9)
    found = explore(machine)
    names = [leaf.name for leaf in machine.leaves]
    broken = dict(zip(names, after(machine, found.violations["small"]), strict=True))
    assert broken["ring"] == 9
    assert broken["down"] < 0
    met = dict(zip(names, after(machine, found.witnesses["deep"]), strict=True))
    assert met["down"] == -4
    assert len(found.witnesses["deep"]) == 4
    assert "fixed_is_two" not in found.violations


def test_stop_ends_with_the_level_that_breaks_a_guarantee() -> None:
    found = explore(counters(9), stop=True)
    assert found.ended is EndReason.VIOLATION
    assert found.depth == len(found.violations["small"])
    assert found.distinct < explore(counters(9)).distinct


def test_max_depth_ends_a_search() -> None:
    whole = explore(window())
    for engine in ("c", "ints"):
        found = explore(window(), engine, max_depth=5)
        assert found.ended is EndReason.DEPTH
        assert found.levels == whole.levels[:6]


def test_firings_add_up_and_name_what_never_fires() -> None:
    found = explore(counters())
    assert sum(found.firings.values()) == found.transitions
    assert found.firings["never()"] == 0
    assert list(found.firings) == [rule.label for rule in counters().rules]


def test_deadlocks_are_counted_and_the_first_is_reached() -> None:
    machine = counters()
    found = explore(machine, want_edges=True)
    assert found.graph is not None
    assert found.deadlock is not None
    assert found.deadlocks == found.distinct - len(set(found.graph.sources))
    state = prepare(machine).layout.pack(after(machine, found.deadlock))
    assert load(prepare(machine)).successors(state) == []


def test_self_loops_are_transitions() -> None:
    still = Machine("still", (), (), {}, (RuleInstance("stay", (), TRUE, {}),), {}, {})
    for engine in ("c", "ints"):
        found = explore(still, engine, want_edges=True)
        assert (found.distinct, found.transitions, found.levels) == (1, 1, (1,))
        assert found.graph is not None
        assert list(found.graph.targets) == [0]


def test_a_machine_without_rules_is_one_deadlock() -> None:
    empty = Machine("empty", (), (), {}, (), {"no": FALSE}, {"yes": TRUE})
    for engine in ("c", "ints"):
        found = explore(empty, engine)
        assert (found.distinct, found.transitions, found.deadlocks) == (1, 0, 1)
        assert found.violations == {"no": ()}
        assert found.witnesses == {"yes": ()}
        assert found.deadlock == ()


def test_both_forms_give_the_same_successors() -> None:
    prepared = prepare(window())
    library = load(prepared)
    form = ints_form(prepared.machine, prepared.layout)
    graph = explore(window(), want_edges=True).graph
    assert graph is not None
    for index in range(0, graph.distinct, 97):
        packed = prepared.layout.pack(graph.state(index))
        assert library.successors(packed) == form.successors(packed)


def test_a_graph_names_states_by_their_order() -> None:
    machine = two_phase_commit(3)
    graph = explore(machine, want_edges=True).graph
    assert graph is not None
    assert graph.state(0) == machine.initial
    assert list(graph.sources) == sorted(graph.sources)
    assert len(set(map(graph.state, range(graph.distinct)))) == graph.distinct == 288


@pytest.mark.parametrize("engine", ["c", "ints"])
def test_progress_is_told_in_the_callers_thread(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)
    reports: list[SearchProgress] = []
    found = explore(window(), engine, progress=reports.append)
    assert reports
    assert all(0 <= report.done <= report.frontier for report in reports)
    assert reports[-1].distinct <= found.distinct


@pytest.mark.parametrize("engine", ["c", "ints"])
def test_ctrl_c_stops_a_search_and_keeps_what_was_found(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)

    def press(report: SearchProgress) -> None:
        if report.distinct > 1000:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        explore(two_phase_commit(9), engine, progress=press)
    so_far = caught.value.so_far
    assert so_far.ended is EndReason.INTERRUPTED
    assert 1000 < so_far.distinct == sum(so_far.levels) < 10_340_352


def test_unknown_engines_and_worker_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="choose one of"):
        explore(counters(), "fpga")
    with pytest.raises(ValueError, match="workers"):
        explore(counters(), workers=0)
