"""The verb `prove`: patches, the cache of answers, vacuous proofs, steps that fail."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.mutants import find
from proofs.prove.engine.solvers import SolverAnswer, ask
from proofs.prove.run import answer_source
from proofs.prove.run.all_theorems import THEOREMS, part_of
from proofs.prove.run.answer_cache import AnswerCache
from proofs.prove.run.broken_step import BrokenStep, broken_step, enums_of, format_value, tell_step
from proofs.prove.run.first_trace import changed_rules, first_scopes
from proofs.prove.run.plan import plan
from proofs.prove.run.target import chosen, subject
from proofs.prove.run.vacuity import OWN_GUARDS
from proofs.verbs import prove as verb

BY_NAME = {t.name: t for t in THEOREMS}


def test_the_verb_answers_a_failure_with_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    mutant = ["--mutant", "sequence_wraps_negative"]
    code = main(["prove", "--only", "sequences_wrap", *mutant, "--json", str(file)])
    report = json.loads(file.read_text(encoding="utf-8"))
    assert code == 1
    assert report["verdict"] == "violated"
    (found,) = report["counterexamples"]
    assert found["property"] == "no_false_error"
    assert 0 < found["events"] <= 25
    failed = {o["name"] for o in report["obligations"] if o["result"] != "proved"}
    assert failed == {"in_sequence/accepts_the_successor"}
    assert [step["obligation"] for step in report["broken_steps"]] == list(failed)
    assert {o["solver"] for o in report["obligations"]} == {"z3"}
    assert report["counts"] == {
        "proved": 0,
        "excluded": 0,
        "trivial": 0,
        "unconfirmed": 2,
        "failed": 1,
        "unchanged": 0,
    }


def test_an_unknown_theorem_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--only", "no_gaap"]) == 2
    said = capsys.readouterr().err
    assert "no theorem is called 'no_gaap'; did you mean no_gap" in said
    assert "`kafka-eos list theorems` shows all" in said
    assert len(said) < 200, "there are eighty"


WIDER = """
--- a/model/idempotent/leader.py
+++ b/model/idempotent/leader.py
@@ -1,1 +1,1 @@
-    return following == last + 1 or (following == 0 and last == k.bounds.max_sequence)
+    return following > last + 1 or (following == 0 and last == k.bounds.max_sequence)
"""


def test_a_patch_is_proved_and_only_what_it_changes_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The theorem fails with it, and is answered by a trace; the rest comes from the cache."""
    asked: list[str] = []

    def counted(solver: str, text: str, *more: int) -> SolverAnswer:
        asked.append(text)
        return ask(solver, text, *more)

    monkeypatch.setattr(answer_source, "ask", counted)
    file, report = tmp_path / "idea.diff", tmp_path / "report.json"
    file.write_text(WIDER, encoding="utf-8")
    words = ["prove", "--only", "sequences_wrap", "--processes", "1", "--cache", str(tmp_path)]
    assert main(words) == 0
    assert len(asked) == 7  # three obligations, two solvers; one set of hypotheses
    assert main(words) == 0
    assert len(asked) == 7
    assert main([*words, "--patch", str(file), "--json", str(report)]) == 1
    assert len(asked) == 8  # what z3 refutes, cvc5 need not confirm
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["patches"][0][0] == "model/idempotent/leader.py"
    assert {o["name"] for o in found["obligations"] if o["result"] != "proved"} == {
        "in_sequence/accepts_the_successor"
    }
    assert found["counterexamples"][0]["property"] == "no_false_error"
    assert main([*words[:-2], "--no-cache"]) == 0
    assert len(asked) == 15
    assert main(["prove", "--only", "fenced", "--patch", str(file)]) == 2


def test_the_cache_keeps_what_is_definite_and_trusts_no_row_that_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = AnswerCache(tmp_path)
    proved, unknown = (SolverAnswer("z3", result, 0.5) for result in ("proved", "unknown"))
    cache.add("a", proved)
    cache.add("b", unknown)
    assert (cache.get("z3", "a"), cache.get("z3", "b")) == (proved, None)
    assert cache.get("cvc5", "a") is None
    cache.add("b", unknown, 0.3)  # what a report says, and no verdict
    assert (cache.get("z3", "b", 0.3), cache.get("z3", "b", 0.4)) == (unknown, None)
    assert cache.get("z3", "b") is None
    (file,) = tmp_path.glob("*.sqlite")
    with sqlite3.connect(file) as database:
        database.execute("""UPDATE answers SET answer = '["z3", "failed", 0.5, []]'""")
    assert AnswerCache(tmp_path).get("z3", "a") is None
    del cache
    for path in tmp_path.iterdir():
        path.write_bytes(b"no database" * 1000 if path == file else b"")
    again = AnswerCache(tmp_path)
    assert again.get("z3", "a") is None
    assert "damaged" in capsys.readouterr().err
    again.add("a", proved)
    assert AnswerCache(tmp_path).get("z3", "a") == proved


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").mkdir()
    cache = AnswerCache(tmp_path)
    cache.add("a", SolverAnswer("z3", "proved", 0.5))
    assert cache.get("z3", "a") is None


NEVER = """
--- a/model/producer_ids/world.py
+++ b/model/producer_ids/world.py
@@ -120,1 +120,1 @@
-    \"\"\"A broker begins to use its next block.\"\"\"
+    \"\"\"A broker never begins to use its next block.\"\"\"
+    require(w.asked < w.asked)
"""


def test_a_rule_that_can_no_longer_be_taken_makes_a_proof_vacuous(tmp_path: Path) -> None:
    """Nothing fails, and nothing is proved of the rule: nobody assumes what excludes it."""
    file, report = tmp_path / "never.diff", tmp_path / "report.json"
    file.write_text(NEVER, encoding="utf-8")
    words = ["--only", "producer_ids_unique", "--solver", "z3", "--patch", str(file)]
    assert main(["prove", *words, "--json", str(report)]) == 1
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["verdict"] == "vacuous"
    (excluded,) = found["exclusions"]
    assert (excluded["step"], excluded["by"]) == ("block_turns_over", [OWN_GUARDS])
    assert not excluded["labelled"]
    rows = [o for o in found["obligations"] if o["kind"] == "excluded"]
    assert len(rows) == excluded["obligations"] == found["counts"]["excluded"]
    assert all(o["excluded_by"] == [OWN_GUARDS] for o in rows)


@pytest.mark.parametrize(
    ("home", "theorem", "patch", "obligation", "state", "choices"),
    [
        (
            "idempotent",
            "at_most_once",
            Patch("leader.check_producer_epoch", "Error.INVALID_PRODUCER_EPOCH", "Error.NONE"),
            "on_produce/accepted_follows/3",
            {"known.producer_epoch", "known.batches.length"},
            {"batch.producer_epoch", "batch.record_count"},
        ),
        (
            "producer_ids",
            "producer_ids_unique",
            find("same_producer_id_twice").patches[0],
            "producer_ids/block_is_written/blocks_were_taken",
            {"store.block", "managers.block"},
            {"broker"},
        ),
    ],
)
def test_a_failed_step_is_shown_in_the_words_of_the_model(
    home: str, theorem: str, patch: Patch, obligation: str, state: set[str], choices: set[str]
) -> None:
    """State, step and clause; the same step has no such state without the bug."""
    of = BY_NAME[theorem]

    def shown(*patches: Patch) -> BrokenStep | None:
        duties = plan((of,), lambda t: t.variant, [load_model(home, patches)]).duties
        (duty,) = (d for d in duties if d.obligation.name == obligation)
        return broken_step(duty, of)

    found = shown(patch)
    assert found is not None
    assert shown() is None
    assert state <= {name.partition("(")[0] for name in found.state}
    assert choices <= set(found.choices)
    numbers = [int(v) for v in found.state.values() if v.lstrip("-").isdecimal()]
    assert max(numbers) <= 20
    assert next(tell_step(found)).startswith(f"{found.step} breaks {found.clause}")


def test_fields_of_a_failed_step_have_the_names_of_their_enumerations() -> None:
    enums = enums_of("transactions")
    values = {"w.coordinator.known.metadata.state": 1, "w.clients.begun(0)": 1, "answer.error": 16}
    named = {name: format_value(name, value, False, enums) for name, value in values.items()}
    assert named == {
        "w.coordinator.known.metadata.state": "ONGOING",
        "w.clients.begun(0)": "1",
        "answer.error": "NOT_COORDINATOR",
    }


def test_a_theorem_says_which_guarantees_it_is_only_a_part_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert part_of(BY_NAME["coordinator_fences"]) == ("fenced", "no_aborted_read", "no_lost_write")
    assert part_of(BY_NAME["at_most_once_in_2_4"]) == ("at_most_once",)
    assert not part_of(BY_NAME["at_most_once"])
    assert not part_of(BY_NAME["fenced"])
    assert main(["prove", "--only", "sequences_wrap", "--processes", "1"]) == 0
    assert "part of no_false_error, no_gap" in capsys.readouterr().out
    assert main(["list", "theorems"]) == 0
    assert "(Part of fenced, no_aborted_read, no_lost_write.)" in capsys.readouterr().out


def test_solvers_alone_look_for_no_trace(tmp_path: Path) -> None:
    """What fails is undecided then: its state is shown, and no run."""
    report = tmp_path / "report.json"
    words = ["prove", "--only", "sequences_wrap", "--mutant", "sequence_wraps_negative"]
    assert main([*words, "--no-scopes", "--json", str(report)]) == 3
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["counterexamples"] == []
    assert found["broken_steps"] != []


FOLDED = "obligations that did not fail; --verbose names them"


def test_of_many_obligations_those_that_failed_are_named_and_why_nothing_is_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two lines of 550 mattered."""
    file = tmp_path / "idea.diff"
    file.write_text(WIDER.replace("> last + 1", "> last"), encoding="utf-8")
    words = ["prove", "--only", "no_gap", "--no-scopes", "--patch", str(file), "--processes", "1"]
    assert main(words) == 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 60
    assert sum(" failed " in line for line in lines if line.startswith("    ")) == 2
    assert any(FOLDED in line for line in lines)
    assert any(line.startswith("no_gap is undecided: on_produce/accepted") for line in lines)
    assert "  without --no-scopes a reachable trace is looked for" in lines
    assert lines[-2].startswith("  unconfirmed: proved by one solver, and not asked of the other")
    assert lines[-1].startswith("undecided: ")
    assert main([*words, "--verbose"]) == 3
    everything = capsys.readouterr().out
    assert FOLDED not in everything
    assert everything.count("z3 proved") > 400


def test_a_variant_is_answered_by_a_trace_before_any_solver_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It took minutes, for four steps."""
    monkeypatch.setattr(verb, "seeds_run", None)
    file = tmp_path / "report.json"
    assert main(["prove", "--only", "no_gap", "--variant", "4.3.1", "--json", str(file)]) == 1
    report = json.loads(file.read_text(encoding="utf-8"))
    (found,) = report["counterexamples"]
    assert (found["scope"], found["steps"]) == ("idempotent-tiny/restarts=0", 4)
    assert report["verdict"] == "violated"
    assert "Where: records 1 to 2 of producer 0" in capsys.readouterr().out


def test_a_trace_is_looked_for_where_the_changed_rule_shows() -> None:
    of = subject(None, "4.3.1/marker_epoch=not_older", (), "all_or_none")
    (theorem,) = of.asks(chosen("all_or_none"))
    first, *_ = first_scopes(theorem, of)
    assert first == "transactions-markers"
    assert changed_rules(theorem, of.under(theorem)) == {"marker_epoch"}
    plain = subject(None, "4.3.1", (), "all_or_none")
    assert "transactions-leaderless" not in first_scopes(theorem, plain), "it assumes leaders"
