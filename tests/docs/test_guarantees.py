"""`docs/guarantees` is what `python -m proofs docs` writes, and what its evidence says is so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import composition_of
from proofs.pages import gather, subjects
from proofs.pages.evidence import BadEvidence, Evidence, ExploredScope, dumps, kept_in, loads
from proofs.pages.writing import pages
from proofs.prove.assumption_necessity import DROPPED
from proofs.trace.replay import configuration_of, model_of, replay
from tests.docs.pages import REPOSITORY, ROOMS, called, missing, page

FOLDER = REPOSITORY / "docs" / "guarantees"
EVIDENCE = kept_in(FOLDER)
WRITTEN = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.md")}
PAGES = {name: page(f"guarantees/{name}") for name in sorted(WRITTEN)}

AGAIN = "write them again: python -m proofs docs, with --fresh if the model is another"


def test_the_pages_are_what_the_evidence_and_the_text_say() -> None:
    made = pages(EVIDENCE)
    assert made.keys() == WRITTEN
    changed = [name for name, text in made.items() if (FOLDER / name).read_text("utf-8") != text]
    assert changed == [], AGAIN


def test_every_guarantee_and_every_assumption_of_a_theorem_has_a_page() -> None:
    for home in subjects.homes():
        guarantees = subjects.model_of_home(home).guarantees.GUARANTEES
        for guarantee in (*guarantees, *subjects.in_the_end(home)):
            assert f"{subjects.page_of(home, guarantee.name)}.md" in WRITTEN
    assert EVIDENCE.without.keys() == DROPPED.keys(), AGAIN
    assert EVIDENCE.defects.keys() == {mutant.name for mutant in subjects.known_defects()}, AGAIN
    not_guaranteed = {name for name, run in EVIDENCE.defects.items() if not run.guaranteed}
    assert {f"not_guaranteed/{name}.md" for name in not_guaranteed} < WRITTEN
    assert len(not_guaranteed) >= 10


ASSUMED_PROPERTIES = [
    (home, name) for home in subjects.homes() for name in subjects.assumed_properties_in(home)
]

NOWHERE = {
    "failure_ends_the_stream",
    "committed_is_visible",
    "aborted_is_gone",
    "offsets_count_records",
}
"""Assumed properties that nothing makes true: their pages say why."""


def test_every_assumed_property_is_shown_to_be_no_guarantee() -> None:
    assert len(ASSUMED_PROPERTIES) > 15
    for home, name in ASSUMED_PROPERTIES:
        path = subjects.page_of(home, name)
        assert f"{path}.md" in WRITTEN
        assert not EVIDENCE.shown[path].guaranteed, AGAIN


def test_every_assumed_property_is_true_where_its_condition_says_so() -> None:
    for home, name in ASSUMED_PROPERTIES:
        met = [s for s in EVIDENCE.seen if s.home == home and is_met(home, name, s)]
        assert bool(met) == (name not in NOWHERE), name
        assert all(s.found(name) is None for s in met), AGAIN


def is_met(home: str, name: str, row: ExploredScope) -> bool:
    """Whether a scope that was seen meets a assumed property's condition."""
    return subjects.is_guaranteed(home, name, row.scope, row.variant)


PLANTED = {
    "refused_is_not_stored": (
        "idempotent-timeout/breaks=0/timeouts=0",
        Patch(
            "leader.on_produce_without_replicas",
            "refusal(leader, request.batch, Error.NOT_ENOUGH_REPLICAS)",
            "refusal(append(k, leader, request.batch), request.batch, Error.NOT_ENOUGH_REPLICAS)",
        ),
    ),
    "unconfirmed_is_not_committed": (
        "transactions-tiny/unheard=0",
        Patch(
            "client.on_ended",
            "finished(k, with_next(k, with_outcome(client, done), answer))",
            "client",
        ),
    ),
}
"""Assumed properties with a scope in which they are true, and a bug of the model that makes them
wrong."""


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_true_of_a_assumed_property_can_be_wrong(name: str) -> None:
    scope, bug = PLANTED[name]
    clean = explore_scope(scope, assumed_properties=[name], engine="ints")
    wrong = explore_scope(scope, assumed_properties=[name], patches=(bug,), engine="ints")
    assert clean.counts.complete
    assert clean.found(name) is None
    found = wrong.found(name)
    assert found is not None
    assert found.guaranteed


def looked(*_: object, **__: object) -> None:
    raise AssertionError("what is kept is looked at again")


def test_the_command_writes_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for search in ("explore_scope", "explore_live", "trace_without"):
        monkeypatch.setattr(gather, search, looked)
    for path in FOLDER.rglob("*"):
        if path.suffix != ".md" and path.is_file():
            copy = tmp_path / path.relative_to(FOLDER)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    stale = tmp_path / "without" / "nothing_at_all.md"
    stale.parent.mkdir()
    stale.write_text((FOLDER / "README.md").read_text("utf-8"), "utf-8")
    mine = tmp_path / "notes.md"
    mine.write_text("by hand\n", "utf-8")
    assert main(["docs", "--out", str(tmp_path), "--evidence", str(tmp_path)]) == 0
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}
    assert made == {*WRITTEN, "notes.md"}
    for path in FOLDER.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(FOLDER)).read_bytes() == path.read_bytes()


# The evidence


def seen(evidence: Evidence) -> dict[tuple[str, str, str], ExploredScope]:
    return {(row.home, row.scope, row.variant): row for row in evidence.seen}


def test_every_small_scope_was_seen_under_every_release() -> None:
    wanted = {
        (home, scope, column.variant)
        for home in subjects.homes()
        for scope in gather.small_scopes(home)
        for column in subjects.columns(home)
    }
    assert seen(EVIDENCE).keys() == wanted, AGAIN
    assert all(map(gather.is_expected, EVIDENCE.seen)), AGAIN
    one = replace(EVIDENCE.seen[0], distinct=EVIDENCE.seen[0].distinct + 1)
    assert not gather.is_expected(one)


SAMPLE = [
    ("", "idempotent-restart", "4.3.1"),
    ("", "idempotent-restart", "2.0.0"),
    ("producer_ids", "producer-ids-alone", "2.8.2"),
    ("transactions", "transactions-trouble", "3.3.2"),
    ("transactions", "transactions-tiny", "4.3.1/level=2/requests=v1"),
]


@pytest.mark.parametrize(("home", "scope", "variant"), SAMPLE)
def test_what_was_seen_is_seen_again(home: str, scope: str, variant: str) -> None:
    assert gather.see(home, scope, variant)[0] == seen(EVIDENCE)[home, scope, variant], AGAIN


@pytest.mark.parametrize("name", ["requests_on_time", "no_more_in_flight_than_remembered"])
def test_what_an_assumption_excludes_is_found_again(name: str) -> None:
    assert gather.without(name) == EVIDENCE.without[name], AGAIN


def test_what_happens_in_the_end_is_found_again() -> None:
    row, found = gather.look_to_the_end("", gather.REDUCED["live-restarts"], "4.3.1")
    assert row in EVIDENCE.endless, AGAIN
    asked = {(r.home, r.scope, r.variant): r.asked for r in EVIDENCE.endless}
    assert asked == {place: gather.questions(*place) for place in gather.endless_places()}, AGAIN
    kept = {(x.property, x.without): x.stem + x.loop for x in EVIDENCE.lasting if x.home == ""}
    assert found
    assert all(kept[x.property, x.without] <= x.stem + x.loop for x in found), AGAIN


def runs() -> list[tuple[str, str]]:
    """Traces with the guarantee that each breaks."""
    shown = [(key.replace("/", "-"), run.property) for key, run in EVIDENCE.shown.items()]
    return shown + [(name, run.property) for name, run in EVIDENCE.defects.items()]


@pytest.mark.parametrize(("name", "broken"), runs())
def test_each_trace_breaks_its_guarantee_at_its_last_step(name: str, broken: str) -> None:
    trace = EVIDENCE.traces[name]
    model = model_of(trace.header)
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    guarantee = subjects.guarantee_of(composition_of(trace.header.scope), broken)
    kept = [guarantee.check(k, world) for world in replay(trace, model)]
    assert all(kept[:-1])
    assert not kept[-1]
    assert guarantee.guaranteed(k) == (
        name in EVIDENCE.defects and EVIDENCE.defects[name].guaranteed
    )


def test_there_is_a_trace_for_each_run_and_no_other() -> None:
    assert EVIDENCE.traces.keys() == {name for name, _ in runs()}


def test_a_changed_number_is_a_changed_page() -> None:
    first = EVIDENCE.seen[0]
    more = replace(EVIDENCE, seen=(replace(first, distinct=first.distinct + 1), *EVIDENCE.seen[1:]))
    before, after = pages(EVIDENCE), pages(more)
    changed = {name for name in before if before[name] != after[name]}
    folder = subjects.folder_of(first.home)
    assumed_properties = {
        f"{subjects.page_of(first.home, b)}.md" for b in subjects.assumed_properties_in(first.home)
    }
    assert {name for name in changed if not name.startswith(f"{folder}/")} <= assumed_properties
    assert changed & assumed_properties < changed
    assert loads(dumps(more), EVIDENCE.traces) == more != EVIDENCE


@pytest.mark.parametrize("text", ["", "{}", '{"seen": [{}]}', "[]"])
def test_what_is_no_evidence_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "evidence.json").write_text(text, "utf-8")
    with pytest.raises(BadEvidence, match="gather it again"):
        kept_in(tmp_path)
    assert main(["docs", "--out", str(tmp_path), "--evidence", str(tmp_path)]) == 2


# The commands

QUICK = {
    "idempotent/acked_once.md",
    "producer_ids/no_block_wasted.md",
    "transactions/no_false_fencing.md",
    "not_guaranteed/delayed_end_txn.md",
    "not_guaranteed/any_first_sequence.md",
    "not_guaranteed/seen_whole_in_its_partition.md",
    "without/no_more_in_flight_than_remembered.md",
}
"""A page of each kind: the traces of the others are replayed above."""


@pytest.mark.parametrize(
    "run", [run for name in sorted(QUICK) for run in PAGES[name].runs], ids=lambda run: run[0]
)
def test_each_command_prints_what_is_shown(
    run: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    called(run[0])
    assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


LONGER = sorted({command for page in PAGES.values() for command in page.parsed})


def test_each_longer_command_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(LONGER) > 50
    for room, *words in LONGER:
        assert ROOMS[room]([*words, "--help"]) == 0
        assert capsys.readouterr().out
