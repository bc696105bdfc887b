"""Random mutants of impl: which there are, how they are planted, and the verdicts on them."""

import ast
import functools
import importlib
import itertools
import json
import mmap
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.impl.transactions import judge as transactions_judge
from conformance.campaigns.mutants import by_stories, drawing, judged, planting
from conformance.campaigns.mutants.by_stories import differences_in, story_files
from conformance.campaigns.mutants.drawing import drawn, every_mutant, planted
from conformance.campaigns.mutants.judged import (
    Judgement,
    Reached,
    judge_mutants,
    scopes_of,
    verdicts,
)
from conformance.campaigns.mutants.patched_impl import trees_of
from conformance.campaigns.mutants.planting import (
    FORKS,
    MOST_MEMORY,
    in_children,
    outermost,
    replace_function,
)
from conformance.campaigns.mutants.survivors import (
    LIMIT,
    NO_CHANGE,
    REASONS,
    by_module,
    kept_page,
    page_lines,
    share_found,
)
from conformance.judging.coverage import functions as coverage
from conformance.judging.coverage.functions import UNREACHED, unreached_functions
from conformance.judging.coverage.statements import (
    IMPL,
    MARK,
    OUTSIDE,
    core,
    is_outside,
    marked,
    places,
    protocol_places,
    qualified,
)
from conformance.verbs import impl_coverage
from conformance.verbs import random_mutants as verb
from proofs.run.files import REPOSITORY

pytestmark = pytest.mark.xdist_group("random mutants")  # to list them takes seconds

SCOPE = "idempotent-restart"
CEILINGS = [
    Path(__file__).with_name("coverage_of_impl.json"),
    REPOSITORY / "evidence" / "impl_coverage.json",
]
"""14 scopes; all of them."""


def named(name):
    return next(mutant for mutant in every_mutant() if mutant.name == name)


# Which there are


def test_each_has_its_name_and_the_draw_of_fewer_begins_that_of_more():
    mutants = every_mutant()
    assert len(mutants) > 5_000
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert drawn(5, 1) == drawn(9, 1)[:5] != drawn(5, 2)
    assert {mutant.module for mutant in mutants} <= set(core())


def test_a_module_that_is_new_draws_no_other_mutants(monkeypatch):
    without = [m for m in every_mutant() if m.module != "impl.partition.leader"]
    expected = [m for m in drawn(50, 1) if m in without]
    monkeypatch.setattr(drawing, "every_mutant", lambda: without)
    assert drawn(len(expected), 1) == expected


@pytest.mark.parametrize("number", range(12))
def test_a_mutant_changes_its_module_and_no_other(number):
    mutant = drawn(12, 1)[number]
    text = ast.unparse(trees_of(IMPL)[mutant.module])
    changed = ast.unparse(
        ast.fix_missing_locations(planted(mutant, mutant.module, ast.parse(text)))
    )
    assert changed != text
    compile(changed, mutant.module, "exec")
    assert ast.unparse(planted(mutant, "impl.other", ast.parse(text))) == text


def functions_of_impl():
    """All modules, classes and functions, by dotted name."""
    trees = trees_of(IMPL)
    parts = {f"{name}.{part}" for name in trees for part in parts_of(trees[name], "")}
    return parts | set(trees)


def parts_of(node, outer):
    for child in ast.iter_child_nodes(node):
        name = qualified(outer, child)
        if name != outer:
            yield name
        yield from parts_of(child, name)


def test_what_is_outside_the_protocol_is_there():
    assert set(OUTSIDE) <= functions_of_impl()
    assert not set(OUTSIDE) & set(core())
    assert is_outside("impl.partition.reading", "find_offset.within")
    assert not is_outside("impl.partition.reading", "read")


def test_what_is_outside_the_protocol_is_never_drawn():
    outside = [mutant for mutant in every_mutant() if not mutant.is_protocol]
    assert outside
    assert not {m.name for m in outside} & {m.name for m in drawn(len(every_mutant()), 1)}


def test_what_no_scope_executes_is_protocol_and_says_why():
    assert set(UNREACHED) <= functions_of_impl()
    assert not set(UNREACHED) & set(OUTSIDE)
    assert all(UNREACHED.values())
    assert {row.name for row in unreached_functions(set())} >= set(UNREACHED)
    assert unreached_functions(set(protocol_places())) == []


def test_a_reason_is_of_a_mutant():
    """A mutant of this text, or of the text of the kept run, whose page tells its reason."""
    kept = json.loads((REPOSITORY / "evidence" / "random_mutants.json").read_text())
    alive = {row["name"] for row in kept["mutants"]}
    assert set(REASONS) <= {mutant.name for mutant in every_mutant()} | alive
    assert all(reason.startswith((*NO_CHANGE, LIMIT)) for reason in REASONS.values())


def test_each_statement_is_marked_once():
    module = "impl.partition.producer_state"
    text = (IMPL / "partition" / "producer_state.py").read_text()
    tree = marked(module, ast.parse(text))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    marks = [c.args[0].value for c in calls if getattr(c.func, "id", "") == MARK]
    assert sorted(places()[number].line for number in set(marks)) == [
        place.line for place in places() if place.module == module
    ]


def test_a_scope_that_diverges_without_a_mutant_judges_nobody():
    mutant = named("partition.producer_state:find_duplicate:comparison:3")
    numbers = frozenset(range(len(places())))
    reached = {"sound": Reached(numbers, 0, 2.0), "broken": Reached(numbers, 3, 1.0)}
    assert scopes_of(mutant, reached) == ["sound"]


def test_what_stands_in_no_function_is_judged_wherever_its_module_is():
    member = next(
        m for m in every_mutant() if m.name == "coordinator.states:TransactionState:constant:9"
    )
    numbers = frozenset(n for n, p in enumerate(places()) if p.module == member.module)
    assert scopes_of(member, {"sound": Reached(numbers, 0, 1.0)}) == ["sound"]
    row = next(m for m in every_mutant() if m.module == "impl.partition.rules")
    assert scopes_of(row, {"sound": Reached(frozenset(), 0, 1.0)}) == ["sound"]


def test_a_swap_of_equal_arguments_is_no_change():
    swaps = [m for m in every_mutant() if m.before == m.after]
    assert swaps
    assert not any(mutant.is_protocol for mutant in swaps)


# Children


def test_a_child_that_does_not_end_gives_no_answer():
    def work(number):
        while number == 1:
            pass
        return -number

    assert dict(in_children(work, [(0, 1), (1, 1), (2, 1)], 2)) == {0: 0, 1: None, 2: -2}


def test_a_child_has_children_of_its_own():
    def double(number):
        return 2 * number

    def ask(numbers):
        return sorted(in_children(double, [(number, 1) for number in numbers], 2))

    assert list(in_children(ask, [((1, 2, 3), 5)], 1)) == [((1, 2, 3), [(1, 2), (2, 4), (3, 6)])]


def test_a_child_that_does_not_come_to_its_work_has_not_answered(monkeypatch):
    def fail(seconds):
        raise ValueError("no limit can be set")

    monkeypatch.setattr(planting, "limit_resources", fail)
    with pytest.raises(RuntimeError, match="before its work began"):
        list(in_children(len, [("a", 1)], 1))


def test_a_child_may_take_what_it_needs_beside_what_its_parent_has():
    def takes(size):
        return len(mmap.mmap(-1, size))

    with mmap.mmap(-1, MOST_MEMORY + 1):
        answers = dict(in_children(takes, [(1 << 20, 1), (MOST_MEMORY + 1, 1)], 1))
    assert answers == {1 << 20: 1 << 20, MOST_MEMORY + 1: None}


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
def test_children_and_theirs_end_with_a_parent_that_is_terminated(tmp_path):
    file = tmp_path / "ids"

    def sleep(number):
        file.open("a").write(f"{os.getpid()}\n")
        signal.pause()

    def fork(number):
        sys.exit(list(in_children(sleep, [(0, 1)], 1)))

    parent = FORKS.Process(target=lambda: list(in_children(fork, [(0, 1), (1, 1)], 2)))
    parent.start()
    try:
        wait_until(lambda: file.exists() and len(file.read_text().split()) == 2)
    finally:
        parent.terminate()
        parent.join()
    sleeping = [int(number) for number in file.read_text().split()]
    try:
        wait_until(lambda: not any(is_at_work(number) for number in sleeping))
    finally:
        for number in filter(is_at_work, sleeping):
            os.kill(number, signal.SIGKILL)


def is_at_work(number):
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_function_gets_other_code_and_what_stands_in_none_does_not():
    def work(mutant):
        function = sys.modules["impl.partition.producer_state"].find_duplicate
        before = function.__code__
        change = functools.partial(planted, mutant)
        return replace_function(mutant.module, mutant.function, change), function.__code__ == before

    inside = named("partition.producer_state:find_duplicate:comparison:3")
    outside = named("partition.rules:constants:constant:3")
    answers = dict(in_children(work, [(inside, 30), (outside, 30)], 2))
    assert answers == {inside: (True, False), outside: (False, True)}


def test_functions_are_found_below_their_decorators():
    module = sys.modules["impl.partition.leader"]
    for name in ("PartitionLeader.log_end_offset", "PartitionLeader.elect", "DeleteOutcome"):
        found = outermost(module, name.split("."))
        assert (found is None) == (name == "DeleteOutcome"), name


# Judging


def test_what_a_scope_has_said_is_not_asked_again(monkeypatch):
    first, second = drawn(2, 1)
    everywhere = frozenset(range(len(places())))
    reached = {"quick": Reached(everywhere, 0, 1.0), "slow": Reached(everywhere, 0, 9.0)}
    asked = []

    def in_one_process(work, jobs, processes):
        for job, _ in jobs:
            asked.append((job.scope, [mutant.name for mutant in job.mutants]))
            yield job, {}

    monkeypatch.setattr(judged, "in_children", in_one_process)
    known = [Judgement("quick", [first.name], {first.name: "it differs"})]
    where = dict.fromkeys(reached, Path())
    said = list(judge_mutants([first, second], reached, where, known, 1))
    assert asked == [("quick", [second.name]), ("slow", [second.name])]
    fates = verdicts([first, second], reached, [*known, *said])
    assert [(row["fate"], row["scope"]) for row in fates.values()] == [
        ("found", "quick"),
        ("alive", ""),
    ]


def test_stories_judge_that_one_broker_can_play_soon():
    names = story_files()
    assert "story end_txn_v2_by_state" in names
    assert not {"story failover", "story exhaustion_v2", "story late_abort"} & set(names)
    assert differences_in(names["story end_txn_v2_by_state"], to_the_first=True) == []


def test_a_broker_that_never_answers_differs(monkeypatch):
    ports = itertools.count(1)
    failures = (f"AnswerTimeout: 127.0.0.1:{port}: no answer" for port in ports)
    monkeypatch.setattr(by_stories, "play", lambda *given: ([], next(failures)))
    file = story_files()["story end_txn_v2_by_state"]
    assert differences_in(file, to_the_first=True) == ["end_txn_v2_by_state: AnswerTimeout"]


def test_what_changes_nothing_of_the_protocol_does_not_count():
    rows = [
        {"name": f"partition.leader:f:constant:{n}", "fate": fate, "reason": reason}
        for n, (fate, reason) in enumerate(
            [
                ("found", ""),
                ("found", ""),
                ("alive", "a limit: more ids than a scope has"),
                ("alive", "equivalent: the same sum"),
                ("found", "equivalent: so a reader thought"),
            ]
        )
    ]
    figures = by_module(rows)
    assert figures == {
        "impl.partition.leader": {"found": 3, "no_change": 1, "alive": 1, "unreached": 0}
    }
    assert share_found(figures.values()).endswith(": 75.0 %")
    shown = page_lines([{**row, "before": "a", "after": "b", "how": ""} for row in rows], "")
    assert [line.split("|")[-2].strip() for line in shown if line.startswith("| `partition")] == [
        "a limit: more ids than a scope has",
        "equivalent: the same sum",
    ]


def test_the_page_of_the_kept_run():
    shown = kept_page(REPOSITORY / "evidence" / "random_mutants.json")
    assert "judged at commit" in shown
    assert "no reason is known" not in shown


# The verb


@pytest.mark.xdist_group("mutants")
def test_a_mutant_is_found_and_what_no_trace_executes_is_said(tmp_path, monkeypatch, capsys):
    found = named("partition.producer_state:find_duplicate:comparison:3")
    unreached = next(m for m in every_mutant() if m.module == "impl.coordinator.end_txn")
    monkeypatch.setattr(verb, "drawn", lambda count, seed: [found, unreached])
    out = tmp_path / "out"
    given = ["mutants", "--random", "2", "--scope", SCOPE, "--out", str(out), "--processes", "1"]
    given += ["--keep", str(tmp_path / "kept.json")]
    assert main(given) == 1
    assert f"| `{unreached.name}` |" in kept_page(tmp_path / "kept.json")
    report = json.loads((out / "random.json").read_text())
    assert [row["fate"] for row in report["mutants"]] == ["found", "unreached"]
    assert report["mutants"][0]["scope"] == SCOPE
    assert any(place.startswith("impl/coordinator/end_txn.py:") for place in report["unreached"])
    assert str(found.place) not in report["unreached"]
    assert f"unreached: {unreached.name} " in capsys.readouterr().out
    # The same command judges nothing again, and a reason settles what is open.
    monkeypatch.setattr(verb, "judge_mutants", lambda *given: iter(()))
    monkeypatch.setattr(verb, "REASONS", {unreached.name: "transactions are judged elsewhere"})
    assert main(given) == 0


@pytest.mark.xdist_group("mutants")
def test_what_a_scope_does_not_execute_is_said(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    given = ["coverage", "--scope", SCOPE, "--out", str(out), "--processes", "1"]
    assert main(given) == 1
    report = json.loads((out / "report.json").read_text())
    assert 0 < report["executed"] < report["statements"]
    rows = {row["function"]: row for row in report["unreached"]}
    assert "impl.coordinator.end_txn.decide_v2" in rows
    assert "impl.partition.producer_state.find_duplicate" not in rows
    assert "impl.coordinator.end_txn.decide_v2: " in capsys.readouterr().out
    monkeypatch.setattr(coverage, "UNREACHED", dict.fromkeys(rows, "transactions are elsewhere"))
    assert main(given) == 0


@pytest.mark.xdist_group("mutants")
def test_what_a_question_executed_is_missed_without_it(tmp_path, monkeypatch, capsys):
    ceiling = tmp_path / "ceiling.json"
    scope = ["--scope", "transactions-tiny", "--traces", "20", "--keep", str(ceiling)]
    given = ["coverage", "--processes", "1", "--out"]
    assert main([*given, str(tmp_path / "whole"), *scope]) == 1
    limit = ["--ceiling", str(ceiling)]
    assert main([*given, str(tmp_path / "whole"), *limit]) == 0
    monkeypatch.setitem(transactions_judge.CHECKS, "coordinator", lambda *given: None)
    capsys.readouterr()
    assert main([*given, str(tmp_path / "without"), *limit]) == 1
    report = json.loads((tmp_path / "without" / "report.json").read_text())
    assert report["lost"]
    assert all(row["function"].startswith("impl.coordinator.") for row in report["lost"])
    assert report["lost"][0]["function"] in capsys.readouterr().out
    assert main([*given, str(tmp_path / "bad"), *limit, *scope[:2]]) == 2


@pytest.mark.full  # forty seconds and more; the suite has one scope of it in the test before
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_what_the_scopes_executed_they_execute(ceiling, tmp_path):
    given = ["coverage", "--ceiling", str(ceiling), "--processes", "1"]
    code = main([*given, "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["function"] for row in report["lost"]] == []
    assert code == 0


def test_a_function_that_is_executed_whole_needs_no_reason():
    everywhere = Reached(frozenset(range(len(places()))), 0, 1.0)
    report = impl_coverage.report_of({"all": everywhere})
    assert report["stale"] == sorted(UNREACHED)
    assert report["verdict"] == "violated"


def test_the_draw_can_be_listed(capsys):
    assert main(["mutants", "--random", "3", "--seed", "1", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        mutant.name for mutant in drawn(3, 1)
    ]


def modules_with_a_mark(_: int) -> tuple[int, int]:
    """How many modules of impl the judge imports in a child, and how many of them as changed."""

    def marked(name: str, tree: ast.Module) -> ast.Module:
        tree.body.extend(ast.parse(f"PLANTED_MARK = {name!r}").body)
        return tree

    planting.plant(marked)
    importlib.import_module("conformance.campaigns.mutants.hunt")
    loaded = [vars(m) for name, m in sys.modules.items() if name.partition(".")[0] == "impl"]
    return len(loaded), sum("PLANTED_MARK" in names for names in loaded)


def test_what_stands_in_no_function_is_changed_in_each_module_that_is_judged() -> None:
    [(_, answer)] = in_children(modules_with_a_mark, [(0, 60)], 1)
    assert answer is not None
    loaded, changed = answer
    assert loaded > 20
    assert changed == loaded
