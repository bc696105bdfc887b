"""`guarantees`: for configurations, what holds by which evidence, and what does not by which
trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_eos.command_line import parser_of
from kafka_eos.verbs import find_verb
from model.idempotent.variants import RELEASES
from proofs.__main__ import main
from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import assumed_properties_of, load_model
from proofs.mutants.table import MUTANTS
from proofs.trace.format import read
from proofs.trace.replay import configuration_of, model_of, replay
from proofs.verbs import guarantees
from proofs.verbs.deployment import IdempotentDeployment, deployment_of
from tests.sizes import sized

Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Runs the verb; its exit code, and the report with its guarantees by name."""

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "report.json"
        code = main(["guarantees", *words, "--json", str(file)])
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return code, {**report, "by_name": {row["name"]: row for row in report["guarantees"]}}

    return run


def test_one_in_flight_keeps_all_where_no_leader_fails(ask: Ask) -> None:
    code, report = ask("--in-flight", "1", "--failover", "none")
    assert (code, report["verdict"]) == (0, "holds")
    rows = report["by_name"]
    assert set(rows) == {p.name for p in load_model("idempotent").guarantees.GUARANTEES}
    assert rows["at_most_once"]["proof"] == {"kind": "theorem", "theorems": ["at_most_once"]}
    assert any("nothing_forgotten" in said for said in rows["at_most_once"]["conditions"])
    scope = "idempotent-tiny/in_flight=1"
    by_source = explore_scope(scope, engine="source").counts
    assert by_source.complete
    seen = {"distinct": by_source.distinct, "transitions": by_source.transitions}
    assert rows["order_kept"]["proof"] == {"kind": "scope", "scopes": [{"scope": scope, **seen}]}
    assert not rows["order_kept"]["guaranteed"]


def test_a_model_that_knows_no_duplicates_keeps_less(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    knows_none = Patch(
        "leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False"
    )
    monkeypatch.setattr(guarantees, "explore_scope", partial(explore_scope, patches=(knows_none,)))
    code, report = ask("--in-flight", "1", "--failover", "none")
    assert code == 0, "neither is promised: a restart of the leader is possible"
    broken = {row["name"]: row["risk"] for row in report["guarantees"] if not row["holds"]}
    assert broken == {"acked_once": None, "no_false_error": None}


def test_what_is_promised_and_broken_is_said_aloud(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutant = next(m for m in MUTANTS if m.name == "gap_dropped_silently")
    patched = partial(explore_scope, patches=mutant.patches)
    monkeypatch.setattr(guarantees, "explore_scope", patched)
    code, report = ask("--failover", "none")
    assert (code, report["verdict"]) == (1, "violated")
    said = capsys.readouterr().out
    assert "PROMISED AND BROKEN: acked_is_stored: An acknowledged record is in the log" in said


def test_what_is_broken_has_a_trace_that_breaks_it(ask: Ask, tmp_path: Path) -> None:
    code, report = ask("--release", "3.9", "--failover", "none", "--out", str(tmp_path / "out"))
    assert (code, report["verdict"]) == (0, "holds"), "none of these is promised"
    broken = {row["name"] for row in report["guarantees"] if not row["holds"]}
    assert broken == {"no_gap", "order_kept", "acked_once", "no_false_error"}
    assert {name: report["by_name"][name]["risk"] for name in broken} == {
        "no_gap": "any_first_sequence",
        "order_kept": "any_first_sequence",
        "acked_once": "window_of_one_after_restart",
        "no_false_error": "window_of_one_after_restart",
    }
    for name in broken:
        assert "proof" not in report["by_name"][name]
        trace = read(tmp_path / "out" / "traces" / f"{name}.jsonl")
        k = configuration_of(load_model("idempotent"), trace.header.scope, trace.header.variant)
        guarantee = next(
            p for p in load_model("idempotent").guarantees.GUARANTEES if p.name == name
        )
        worlds = replay(trace)
        assert not guarantee.check(k, worlds[-1])
        assert all(guarantee.check(k, world) for world in worlds[:-1])


def test_less_than_all_acks_is_about_a_producer_without_idempotence(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code, report = ask("--acks", "0", "--in-flight", "1", "--failover", "none", "--out", str(out))
    assert code == 0
    rows = report["by_name"]
    assert {name: row["holds"] for name, row in rows.items()} == {
        "at_most_once": True,
        "acked_is_stored": False,
        "order_kept": False,
        "acked_once": False,
        "acked_is_replicated": False,
        "nothing_fails": True,
        "high_watermark_sound": True,
        "requests_are_awaited": False,
        "errors_wait_for_nothing": True,
        "late_errors_are_stored": True,
        "sequences_have_ids": True,
    }
    assert rows["at_most_once"]["proof"]["kind"] == "scope"
    assert "idempotence is refused" in capsys.readouterr().out
    trace = read(out / "traces" / "acked_is_stored.jsonl")
    assert trace.header.scope == "idempotent-tiny/in_flight=1"
    replay(trace)


def test_six_in_flight_are_refused_and_answered_for_all_that(ask: Ask) -> None:
    code, report = ask("--in-flight", "6", "--failover", "none")
    assert code == 0
    assert "every client refuses this" in report["notes"][0]
    proof = report["by_name"]["at_most_once"]["proof"]
    assert [row["scope"] for row in proof["scopes"]] == [
        "idempotent-tiny",
        "idempotent-six-in-flight",
    ]


def test_the_answer_is_in_sentences_and_traces_are_for_those_who_ask(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--release", "2.4.1", "--failover", "none")
    code, _ = ask(*words)
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert "Not promised:" in lines
    assert any(line.startswith("    likely    Needs a restart of the leader") for line in lines)
    assert "    cure      max.in.flight.requests.per.connection=1." in lines
    assert any(line.startswith("  unclean_election: Acknowledged records") for line in lines)
    assert lines[-1].endswith(" promised, 2 not promised and broken")
    assert max(map(len, lines[lines.index("Not promised:") :])) <= 130
    ask(*words, "--verbose")
    steps = capsys.readouterr().out.splitlines()
    assert any(line.strip() == "leader_restarts(partition=0)" for line in steps)
    assert not any("leader_restarts" in line for line in lines)


def test_an_unclean_failover_loses_what_was_acknowledged(ask: Ask) -> None:
    _, report = ask("--failover", "unclean")
    row = report["by_name"]["acked_is_stored"]
    assert (row["holds"], row["guaranteed"]) == (False, False)
    assert row["trace"]["steps"] == 5
    assert "theorem" not in json.dumps(report["guarantees"])


def test_a_leader_that_forgets_takes_a_record_twice(ask: Ask) -> None:
    _, report = ask("--failover", "none", "--expiry", "yes")
    row = report["by_name"]["at_most_once"]
    assert (row["holds"], row["guaranteed"]) == (False, False)
    assert row["trace"]["trace"][0]["scope"] == "idempotent-expiry/refusals=1/restarts=1"


def test_theorems_are_named_only_where_the_rules_are_theirs() -> None:
    asked = partial(IdempotentDeployment, level=0, acks="all", in_flight=5, expiry=False)
    named = {
        release: set(guarantees.theorems_for("at_most_once", asked(release, failover="clean")))
        for release in RELEASES
    }
    assert {release for release, found in named.items() if found == {"at_most_once"}} == {
        "4.3.1",
        "4.2.1",
        "4.1.2",
        "4.0.2",
        "3.9.2",
        "3.3.2",
        "2.8.2",
    }
    assert named["2.0.0"] == {"at_most_once_in_2_0"}
    assert not named["2.4.1"], "it is guaranteed beyond what its theorem assumes"
    assert not guarantees.theorems_for("acked_is_stored", asked("4.3.1", failover="unclean"))


# Transactions

BY_A_LATE_END = {"no_aborted_read": 16, "no_lost_write": 20, "all_or_none": 21}
BY_A_SKIPPED_MARKER = {
    "no_aborted_read": 16,
    "no_lost_write": 16,
    "all_or_none": 19,
    "no_write_outside": 9,
}
OF_THE_UNTROUBLED = ("no_false_fencing", "one_outcome", "untroubled_commits")
TOLD = {
    "V1, and what is late": (
        ("--release", "4.1", "--level", "1", "--failover", "none"),
        BY_A_LATE_END,
    ),
    "V1, and nothing is late": (
        ("--release", "4.1", "--level", "1", "--failover", "none", "--late", "no"),
        {},
    ),
    "V2 without trouble": (("--failover", "none"), {}),
    "a partition without a leader": ((), BY_A_SKIPPED_MARKER),
    "the same, where markers wait": (("--release", "4.2"), {}),
    "ids that expire": (("--release", "4.2", "--failover", "none", "--expiry", "yes"), {}),
}


FULL = TOLD.keys() - {"V1, and what is late"}
"""In the suite the release that breaks most is asked about; all scopes together take minutes."""


@pytest.mark.parametrize("case", sized(TOLD, FULL))
def test_transactions_are_asked_about_too(ask: Ask, case: str) -> None:
    words, broken = TOLD[case]
    _, report = ask("--transactions", "--engine", "c", *words)
    rows = report["by_name"]
    assert set(rows) == {p.name for p in load_model("transactions").guarantees.GUARANTEES}
    steps = {
        name: row["trace"]["steps"]
        for name, row in rows.items()
        if not row["holds"] and name not in OF_THE_UNTROUBLED
    }
    assert steps == broken
    risk = "delayed_end_txn" if broken == BY_A_LATE_END else "marker_without_leader"
    assert {rows[name]["risk"] for name in broken} <= {risk}


def test_theorems_count_where_a_release_has_their_rules_and_assumed_properties_are_no_fault(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ("--release", "4.2", "--failover", "none", "--engine", "c", "--out", str(out))
    _, report = ask("--transactions", *words)
    row = report["by_name"]["all_or_none"]
    assert row["proof"] == {"kind": "theorem", "theorems": ["all_or_none"]}
    assert any("leaders_are_there" in said for said in row["conditions"])
    believed = {row["name"]: row for row in report["not_guaranteed"]}
    assert believed["committed_is_visible"]["true_if"].startswith(
        "In no configuration: the answer is sent once"
    )
    assert "marked_is_visible" not in believed, "nobody else writes there"
    assert "No Kafka promises, whatever one believes:" in capsys.readouterr().out
    known = {
        assumed_property.name: assumed_property
        for assumed_property in assumed_properties_of(load_model("transactions"))
    }
    assert believed.keys() < known.keys()
    for name in believed:
        trace = read(out / "traces" / f"{name}.jsonl")
        model = model_of(trace.header)
        k = configuration_of(model, trace.header.scope, trace.header.variant)
        worlds = replay(trace, model)
        assert [known[name].check(k, world) for world in worlds].index(False) == len(worlds) - 1


def test_what_was_not_seen_to_its_end_is_not_decided(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarantees, "explore_scope", partial(explore_scope, max_depth=1))
    code, report = ask("--failover", "none")
    assert (code, report["verdict"]) == (3, "undecided")
    rows = report["by_name"]
    assert rows["at_most_once"]["holds"] is True, "a theorem needs no scope"
    assert rows["no_false_error"]["holds"] is None


BAD = {
    "a level too high": (["--release", "3.9", "--level", "2"], "is not to be had with 3.9.2"),
    "no such release": (["--release", "3.7"], "valid: 4.3.1"),
    "many releases": (["--release", "2"], "valid: 4.3.1"),
    "none in flight": (["--in-flight", "0"], "is not a number from 1"),
    "no such acks": (["--acks", "2"], "invalid choice"),
    "no such failover": (["--failover", "some"], "invalid choice"),
    "no idempotence": (["--transactions", "--acks", "1"], "without acks=all"),
    "too many in flight": (["--transactions", "--in-flight", "6"], "more than 5 requests"),
    "no such logs": (["--transactions", "--failover", "unclean"], "write --failover clean"),
    "no transactions": (["--requests", "v1"], "write --transactions too"),
    "no V2 at level 0": (["--transactions", "--level", "0", "--requests", "v2"], "at level 0"),
}


@pytest.mark.parametrize(("words", "said"), BAD.values(), ids=BAD)
def test_bad_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guarantees", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("part", ["in_flight=3", "in_flight=0", "in_flight=x"])
def test_a_scope_is_made_narrower_and_not_wider(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", f"idempotent-tiny/{part}", "--engine", "ints"]) == 2
    assert "write a number from 1 to 2" in capsys.readouterr().err


def test_notes_point_to_what_the_wheel_has():
    """Only packages are shipped: a page of docs/ is not there."""
    options = parser_of(find_verb("guarantees")).parse_args(["--transactions"])
    notes = list(deployment_of(options).notes())
    assert not any("docs/" in note for note in notes)
    for name in ("list changes", "experiments --guarantees"):
        assert any(f"kafka-eos {name}" in note for note in notes)
