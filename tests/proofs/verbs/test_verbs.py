"""The command line: exit codes, reports with the keys that are guaranteed, folders that resume."""

import json
import re
import subprocess
import sys
import time

import networkx
import pytest

from proofs.__main__ import main
from proofs.explore.expected import BY_NAME_ONLY, EXPECTED
from proofs.explore.explorer import explore as explore_machine
from proofs.explore.result import LimitReached, RangeBroken, SearchProgress
from proofs.lift.build import lift
from proofs.lift.source import load_model
from proofs.mutants.table import MUTANTS
from proofs.trace.format import read
from proofs.trace.replay import configuration_of, replay
from proofs.verbs import explore
from proofs.verbs.output import ExplorationDisplay, progress_text

BREAKING = '[("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False")]'
BEST = "first_sequence=strict/restart_window=full"


@pytest.fixture
def report(tmp_path):
    """Runs a verb; its exit code and its --json."""

    def run(*argv):
        file = tmp_path / "report.json"
        file.unlink(missing_ok=True)
        code = main([*argv, "--json", str(file)])
        return code, json.loads(file.read_text()) if file.exists() else None

    return run


EXPLORE_KEYS = {
    "scope",
    "variant",
    "engine",
    "distinct",
    "transitions",
    "depth",
    "levels",
    "violations",
    "witnesses",
    "collision_bound",
    "verdict",
    "run",
    "schema_version",
}


def test_explore_holds(report, capsys):
    code, written = report("explore", "idempotent-tiny", "--engine", "ints")
    assert code == 0
    assert written.keys() >= EXPLORE_KEYS
    assert written["run"].keys() >= {"workers", "seconds", "peak_bytes"}
    assert (written["distinct"], written["transitions"], written["depth"]) == (1352, 3331, 21)
    assert written["verdict"] == "holds"
    assert {v["property"] for v in written["violations"] if not v["guaranteed"]} == {
        "no_gap",
        "order_kept",
        "acked_once",
        "no_false_error",
    }
    told = capsys.readouterr().out
    assert re.search(r"1,352 states, .* s, peak [\d,]+ MiB: holds", told)
    broken = "no_gap, order_kept, acked_once, no_false_error"
    last = f"what is promised here holds; not promised here, and broken: {broken}"
    assert told.splitlines()[-1] == last


def test_a_scope_that_holds_names_those_that_a_changed_rule_breaks(report, capsys):
    variant = "4.3.1/marker_epoch=not_older"
    code, _ = report("explore", "transactions-tiny", "--variant", variant, "--engine", "ints")
    assert code == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("known to break no_lost_write, ")
    assert " in transactions-markers: kafka-eos try --variant 4.3.1/" in last
    assert last.endswith("/marker_epoch=not_older")


def test_explore_without_a_scope_asks_for_one(capsys):
    assert main(["explore"]) == 2
    assert "kafka-eos explore idempotent-tiny" in (said := capsys.readouterr().err)
    assert "--all" in said


ADDED = """
--- a/model/{home}/scopes.py
+++ b/model/{home}/scopes.py
@@ -1 +1,2 @@
+{home}-quiet: nothing breaks | from={home}-tiny breaks=0
 {home}-default:
"""


@pytest.mark.parametrize("home", ["idempotent", "transactions"])
def test_a_scope_that_a_patch_adds_is_refused_with_what_to_do(home, tmp_path, capsys):
    patch = tmp_path / "scope.diff"
    patch.write_text(ADDED.format(home=home))
    argv = ["--patch", str(patch), "--engine", "ints"]
    assert main(["explore", f"{home}-quiet", *argv]) == 2
    assert "a scope that the patch adds" in (said := capsys.readouterr().err)
    assert "write the entry into its file" in said
    assert main(["explore", f"{home}-quit", *argv]) == 2
    assert f"no scope is called '{home}-quit'" in capsys.readouterr().err


def test_explore_finds_what_a_patch_breaks(report, tmp_path):
    patch = tmp_path / "idea.py"
    patch.write_text(BREAKING)
    out = tmp_path / "out"
    argv = ["idempotent-tiny", "--patch", str(patch), "--variant", BEST, "--engine", "ints"]
    code, written = report("explore", *argv, "--stop", "--out", str(out))
    assert code == 1
    assert written["violations"][0].keys() >= {"property", "trace", "steps", "events"}
    traces = sorted(path.name for path in (out / "traces").iterdir())
    assert traces == [f"idempotent-tiny-acked_once{s}" for s in (".html", ".jsonl", ".mmd", ".txt")]
    replay(read(out / "traces" / "idempotent-tiny-acked_once.jsonl"))


def test_a_folder_resumes_and_its_report_is_the_same_bytes(tmp_path, capsys):
    argv = ["explore", "idempotent-tiny", "idempotent-restart", "--engine", "ints", "--out"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert main([*argv, str(first)]) == 0
    assert main([*argv, str(second)]) == 0
    written = (first / "report.json").read_bytes()
    assert written == (second / "report.json").read_bytes()
    assert (first / "run.json").exists()
    capsys.readouterr()
    assert main([*argv, str(first)]) == 0
    assert capsys.readouterr().out.count("done before") == 2
    assert written == (first / "report.json").read_bytes()


def killed(out):
    """A search of idempotent-timeout, ended by SIGKILL once some of it is kept."""
    head = out / "checkpoints" / "idempotent-timeout-ints" / "checkpoint.json"
    process = subprocess.Popen([sys.executable, "-c", KEPT_EVERY_LEVEL, str(out)])
    try:
        while not head.exists() or json.loads(head.read_text())["counts"]["distinct"] < 2_000:
            assert process.poll() is None
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    return head


KEPT_EVERY_LEVEL = """
import sys
from proofs.__main__ import main
from proofs.explore import checkpoint
checkpoint.INTERVAL_SECONDS = 0.0
main(["explore", "idempotent-timeout", "--engine", "ints", "--out", sys.argv[1]])
"""


def test_a_killed_exploration_goes_on_where_it_was(tmp_path, capsys):
    argv = ["explore", "idempotent-timeout", "--engine", "ints", "--out"]
    out, whole = tmp_path / "out", tmp_path / "whole"
    head = killed(out)
    kept = json.loads(head.read_text())["counts"]["distinct"]
    assert kept < EXPECTED["idempotent-timeout"].distinct
    assert main([*argv, str(out), "--variant", "v1"]) == 2
    assert 'variant "4.3.1", this one has "v1"; use another' in capsys.readouterr().err
    assert json.loads(head.read_text())["counts"]["distinct"] == kept
    assert main([*argv, str(out)]) == 0
    assert main([*argv, str(whole)]) == 0
    assert (out / "report.json").read_bytes() == (whole / "report.json").read_bytes()
    assert not (out / "checkpoints").exists()
    assert not (whole / "checkpoints").exists()


def test_a_checkpoint_of_other_work_or_damaged_is_bad_input(tmp_path, capsys):
    folder = tmp_path / "checkpoints" / "idempotent-tiny-ints"
    k = configuration_of(load_model("idempotent"), "idempotent-restart", "4.3.1")
    explore_machine(lift(load_model("idempotent"), k, "other").machine, "ints", checkpoint=folder)
    argv = ["explore", "idempotent-tiny", "--engine", "ints", "--out", str(tmp_path)]
    assert main(argv) == 2
    assert "holds a search with other arguments or of another model" in capsys.readouterr().err
    (folder / "checkpoint.json").write_text("{")
    assert main(argv) == 2
    assert "is damaged" in capsys.readouterr().err


def test_a_folder_of_other_work_is_refused(tmp_path, capsys):
    out = ["--engine", "ints", "--out", str(tmp_path)]
    assert main(["explore", "idempotent-tiny", *out]) == 0
    assert main(["explore", "idempotent-restart", *out]) == 2
    assert "use another --out" in capsys.readouterr().err
    (tmp_path / "arguments.json").write_text("{}")
    assert main(["explore", "idempotent-tiny", *out]) == 2
    assert "arguments.json is not what was written" in capsys.readouterr().err


def test_changed_patch_is_other_work(tmp_path):
    patch = tmp_path / "idea.py"
    patch.write_text(BREAKING)
    argv = ["explore", "idempotent-tiny", "--engine", "source", "--patch", str(patch), "--out"]
    assert main([*argv, str(tmp_path / "out")]) in (0, 1)
    patch.write_text("[]")
    assert main([*argv, str(tmp_path / "out")]) == 2


def test_several_engines_are_compared(report, monkeypatch):
    monkeypatch.setattr(explore, "COMPARED", dict.fromkeys(EXPECTED, ()))
    small = {"idempotent-tiny": ("source", "c", "ints"), "idempotent-medium": ()}
    monkeypatch.setattr(explore, "COMPARED", {**dict.fromkeys(EXPECTED, ()), **small})
    code, written = report("explore", "--all")
    assert code == 0
    assert [entry["asked"] for entry in written["explorations"]] == ["source", "c", "ints"]
    assert written["disagreements"] == []


def test_engines_by_name_stand_side_by_side(report, capsys):
    code, written = report("explore", "producer-ids-alone", "--engine", "ints,source")
    assert code == 0
    assert [entry["asked"] for entry in written["explorations"]] == ["ints", "source"]
    head, row = capsys.readouterr().out.splitlines()[-2:]
    assert head.split()[-2:] == ["ints", "source"]
    assert row.split() == ["producer-ids-alone", "472,", "20", "472,", "20"]


def entry(engine, **counts):
    same = {"distinct": 5, "transitions": 7, "depth": 2, "levels": [1, 2, 2]}
    return {"scope": "s", "asked": engine, "verdict": "holds", **same, **counts}


def test_a_disagreement_is_a_violation():
    assert explore.compare([entry("c"), entry("tlc", transitions=None, levels=None)]) == []
    done = [entry("source"), entry("c", levels=[1, 3, 1])]
    assert explore.compare(done) == ["s, levels: source [1, 2, 2], c [1, 3, 1]"]
    assert explore.report_of(done, [], explore.compare(done))["verdict"] == "violated"


def test_the_plan_of_all():
    everything = {scope for scope, _ in explore.plan_of(parsed("explore", "--all"))}
    assert everything == set(EXPECTED) - BY_NAME_ONLY
    assert explore.plan_of(parsed("explore", "idempotent-large")) == [("idempotent-large", "c")]
    every = explore.plan_of(parsed("explore", "--all"))
    assert ("idempotent-tiny", "tlc") in every
    assert [engine for scope, engine in every if scope == "idempotent-medium"] == ["c"]


def parsed(verb, *argv):
    import argparse

    parser = argparse.ArgumentParser()
    explore.add_arguments(parser)
    return parser.parse_args(argv)


FEW = ("any_first_sequence", "reassign_in_heap_order", "lso_inclusive")
"""A variant, a mutant, and one of another composition: all of them are `test_mutants`'s work."""


def test_mutants(report, tmp_path, monkeypatch):
    monkeypatch.setattr("proofs.verbs.mutants.MUTANTS", tuple(m for m in MUTANTS if m.name in FEW))
    code, written = report("mutants", "--out", str(tmp_path / "out"))
    assert code == 0
    assert written["verdict"] == "holds"
    keys = {"name", "kind", "reference", "property", "found", "steps", "events", "trace"}
    assert all(row.keys() >= {*keys, "twin", "twin_clean"} for row in written["mutants"])
    assert [row["name"] for row in written["mutants"]] == list(FEW)
    assert written["unexpressed"]
    assert (tmp_path / "out" / "traces" / "reassign_in_heap_order.html").exists()


def test_one_mutant(report):
    code, written = report("mutants", "--only", "any_first_sequence", "--engine", "source")
    assert code == 0
    assert len(written["mutants"]) == 1


def test_a_mutant_that_is_not_found_is_a_violation(report, monkeypatch):
    from proofs.mutants.check import Checked

    monkeypatch.setattr(
        "proofs.verbs.mutants.check", lambda mutant, **how: Checked(mutant, None, True)
    )
    code, written = report("mutants", "--only", "any_first_sequence")
    assert code == 1
    assert written["mutants"][0]["found"] is False


def test_witness(report, capsys, monkeypatch):
    """The smaller scopes come first, and the first that has a way is the last that is searched."""
    scopes = ["delivery-one-in-flight", "idempotent-tiny", "idempotent-default", "producer-ids"]
    monkeypatch.setattr("proofs.verbs.witness.small_scopes", lambda: scopes)
    code, written = report("witness", "OUT_OF_ORDER_SEQUENCE_NUMBER", "--engine", "ints")
    assert code == 0
    assert written["searched"] == scopes[:2]
    assert (written["steps"], written["found_in"]) == (7, "idempotent-tiny")
    assert "error=OUT_OF_ORDER_SEQUENCE_NUMBER" in capsys.readouterr().out


def test_a_witness_that_only_another_variant_has(report, monkeypatch):
    """Only V1 adds partitions by a request of its own: variants come behind the scopes."""
    monkeypatch.setattr("proofs.verbs.witness.small_scopes", lambda: ["transactions-tiny"])
    code, written = report("witness", "partitions_are_added", "--engine", "ints")
    assert (code, written["searched"]) == (0, ["transactions-tiny"] * 2)
    assert written["found_with"] == "4.3.1/level=2/requests=v1"


def test_a_state_and_nothing_to_witness(report, capsys):
    argv = ["UNINITIALIZED", "--scope", "transactions-tiny", "--engine", "ints"]
    code, written = report("witness", *argv)
    assert (code, written["steps"]) == (0, 0)
    assert main(["witness"]) == 2
    assert "name what to reach" in capsys.readouterr().err


def test_an_edge_between_states(report):
    argv = ["ONGOING->PREPARE_COMMIT", "--scope", "transactions-tiny", "--engine", "ints"]
    code, written = report("witness", *argv)
    assert (code, written["steps"]) == (0, 7)


def test_a_witness_that_no_scope_has(report, capsys):
    argv = ["leader.snapshot#1:then", "--scope", "idempotent-tiny", "--engine", "ints"]
    code, written = report("witness", *argv)
    assert code == 1
    assert written["trace"] is None
    assert main(["witness", "leader_fails_over", "--scope", "idempotent-tiny"]) == 1
    assert "not reached in idempotent-tiny" in capsys.readouterr().out
    assert main(["witness", "leader_flies", "--scope", "idempotent-tiny"]) == 2
    assert "did you mean leader_" in capsys.readouterr().err
    assert main(["witness", "something_commited"]) == 2, "of any composition"
    assert "did you mean something_committed" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["graphml", "json"])
def test_export_a_graph(tmp_path, report, ending):
    path = tmp_path / f"graph.{ending}"
    code, written = report("export", "idempotent-tiny", "--graph", str(path), "--engine", "ints")
    assert code == 0
    graph = (
        networkx.read_graphml(path)
        if ending == "graphml"
        else networkx.node_link_graph(json.loads(path.read_text()), edges="edges")
    )
    expected = EXPECTED["idempotent-tiny"]
    assert graph.number_of_nodes() == written["expected"]["distinct"] == expected.distinct
    assert graph.number_of_edges() == written["expected"]["transitions"] == expected.transitions
    assert networkx.is_weakly_connected(graph)


@pytest.mark.full  # TLC reads what is exported of a composition in test_tlc_transactions.py
def test_export_tla_of_a_composition(tmp_path, report):
    argv = ["--tla", str(tmp_path / "tla"), "--engine", "ints"]
    code, written = report("export", "transactions-trouble", *argv)
    assert code == 0
    assert written["expected"]["distinct"] == EXPECTED["transactions-trouble"].distinct
    assert "coordinator_moves" in (tmp_path / "tla" / "transactions_trouble.tla").read_text()


def test_export_tla(tmp_path, report):
    code, written = report("export", "idempotent-tiny", "--tla", str(tmp_path / "tla"))
    assert code == 0
    assert [path.rpartition("/")[2] for path in written["files"]] == [
        "idempotent_tiny.tla",
        "idempotent_tiny.cfg",
    ]


def test_explore_asks_of_a_assumed_property_by_its_name(report, capsys):
    words = ("explore", "idempotent-late-error", "--engine", "ints")
    code, written = report(*words, "--property", "refused_is_not_stored")
    assert (code, written["verdict"]) == (0, "holds")
    broken = {row["property"]: row for row in written["violations"]}
    assert broken["refused_is_not_stored"]["steps"] == 2
    assert not broken["refused_is_not_stored"]["guaranteed"]
    _, unasked = report(*words)
    known = {guarantee.name for guarantee in load_model("idempotent").guarantees.GUARANTEES}
    assert {row["property"] for row in unasked["violations"]} == broken.keys() & known
    assert main([*words, "--property", "all_is_well"]) == 2
    assert "there are failed_is_not_stored" in capsys.readouterr().err


def test_list(report, capsys):
    code, written = report("list")
    assert code == 0
    assert {row["name"] for row in written["scopes"]} == EXPECTED.keys()
    assert written["theorems"]
    kinds = {"variants", "engines", "guarantees", "mutants", "rules", "error_codes", "branches"}
    assert written.keys() > kinds
    guarantees = {row["name"] for row in written["guarantees"]}
    assert guarantees >= {
        "acked_is_stored",
        "producer_ids_unique",
        "all_or_none",
        "nothing_is_skipped",
    }
    assert "seen_whole" in {row["name"] for row in written["assumed_properties"]}
    assert "INVALID_TXN_STATE" in {row["name"] for row in written["error_codes"]}
    compositions = {row["of"] for row in written["variants"]}
    assert compositions == {
        "model/idempotent",
        "model/producer_ids",
        "model/transactions",
        "model/processing",
    }
    assert "mutants  " in capsys.readouterr().out


BAD = {
    "no verb": [],
    "unknown verb": ["fly"],
    "unknown scope": ["explore", "none"],
    "unknown variant": ["explore", "idempotent-tiny", "--variant", "0.1"],
    "unknown engine": ["explore", "idempotent-tiny", "--engine", "steam"],
    "no workers": ["explore", "idempotent-tiny", "--workers", "0"],
    "no patch file": ["explore", "idempotent-tiny", "--patch", "/nowhere/x"],
    "unknown mutant": ["mutants", "--only", "none"],
    "unknown goal": ["witness", "NIX", "--scope", "idempotent-tiny"],
    "nothing to export": ["export", "idempotent-tiny"],
    "unknown form": ["export", "idempotent-tiny", "--graph", "x.png"],
}


@pytest.mark.parametrize("argv", BAD.values(), ids=BAD)
def test_bad_use_exits_2_and_says_what_to_do(argv, capsys):
    assert main(argv) == 2
    assert capsys.readouterr().err


def raising(error):
    def explore_scope(*_arguments, **_how):
        raise error

    return explore_scope


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 3), (LimitReached("too many"), 3), (ZeroDivisionError(), 3)],
)
def test_what_ends_without_an_answer_exits_3(error, code, monkeypatch):
    monkeypatch.setattr(explore, "explore_scope", raising(error))
    assert main(["explore", "idempotent-tiny"]) == code


def test_a_range_that_breaks_decides_nothing(monkeypatch, capsys):
    broken = RangeBroken("step 1, sink, writes down = 5 (of 0 .. 4)", (0,))
    monkeypatch.setattr(explore, "explore_scope", raising(broken))
    assert main(["explore", "idempotent-tiny"]) == 3
    assert "range that is too narrow: step 1, sink" in capsys.readouterr().err


class Stream:
    def __init__(self, terminal=False):
        self.text = ""
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass


def test_progress_without_a_terminal_is_a_line_every_ten_seconds():
    stream, times = Stream(), iter([0.0, 4.0, 11.0, 11.0, 15.0])
    with ExplorationDisplay("tiny", stream, lambda: next(times)) as told:
        for done in (1, 2, 3):
            told(SearchProgress(2, done, 9, 100, 300, 10.0))
    assert stream.text == "tiny: level 2, 2 of 9 expanded; 100 states, 10/s, 10 s\n"


def test_progress_of_a_search_that_goes_on_counts_what_is_there_again():
    text = progress_text("tiny", SearchProgress(0, 50, 200, 50, 0, 2.0, is_restoring=True))
    assert text == "tiny: goes on; 50 of 200 states of the earlier run are stepped again, 25/s, 2 s"


def test_progress_on_a_terminal_is_shown_in_place():
    stream = Stream(terminal=True)
    with ExplorationDisplay("tiny", stream) as told:
        told(SearchProgress(2, 1, 9, 100, 300, 10.0))
    assert stream.text
