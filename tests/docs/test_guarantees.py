"""`kafka-eos docs` writes pages that say what their evidence shows, here from reduced evidence."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, composition_of, load_model
from proofs.pages import gather, subjects
from proofs.pages.evidence import BadEvidence, Evidence, dumps, loads, read_evidence
from proofs.pages.writing import pages
from proofs.trace.replay import configuration_of, model_of, replay
from tests.docs import reduced
from tests.docs.pages import REPOSITORY, Page, called, is_understood, missing, page
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("pages")  # gather once, not once a worker


@pytest.fixture(scope="session")
def evidence() -> Evidence:
    return reduced.gathered()


@pytest.fixture(scope="session")
def made(evidence: Evidence) -> dict[str, str]:
    return pages(evidence)


@pytest.fixture(scope="session")
def folder(evidence: Evidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the kept evidence, and `build/guarantees` that the command wrote from it."""
    folder = tmp_path_factory.mktemp("site")
    kept, out = folder / "evidence", folder / "build" / "guarantees"
    with pytest.MonkeyPatch.context() as patch:
        reduced.reduce(patch)
        patch.chdir(folder)
        assert main(["docs", "--evidence", str(kept), "--out", str(out)]) == 0
    return folder


def pages_in(folder: Path) -> dict[str, Page]:
    root = folder / "build" / "guarantees"
    return {str(path.relative_to(root)): page(path) for path in sorted(root.rglob("*.md"))}


def test_every_guarantee_and_assumed_property_that_was_asked_has_a_page(
    evidence: Evidence, made: dict[str, str]
) -> None:
    for composition in COMPOSITIONS:
        guarantees = load_model(composition).guarantees.GUARANTEES
        for guarantee in (*guarantees, *subjects.in_the_end(composition)):
            assert f"{subjects.page_of(composition, guarantee.name)}.md" in made
    assert {f"without/{name}.md" for name in reduced.WITHOUT} <= made.keys()
    assert evidence.defects.keys() == set(reduced.DEFECTS)


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


@pytest.mark.parametrize("name", sized(PLANTED, ["unconfirmed_is_not_committed"]))
def test_what_is_true_of_a_assumed_property_can_be_wrong(name: str) -> None:
    scope, bug = PLANTED[name]
    clean = explore_scope(scope, assumed_properties=[name], engine="ints")
    wrong = explore_scope(scope, assumed_properties=[name], patches=(bug,), engine="ints")
    assert clean.counts.complete
    assert clean.found(name) is None
    found = wrong.found(name)
    assert found is not None
    assert found.guaranteed


# All evidence: minutes


NOWHERE = {
    "failure_ends_the_stream",
    "committed_is_visible",
    "aborted_is_gone",
    "offsets_count_records",
}
"""Assumed properties that nothing makes true: their pages say why."""


@pytest.mark.full
def test_every_assumed_property_breaks_but_where_its_condition_holds() -> None:
    whole = gather.gather_evidence(Evidence(), lambda *told: None)
    for composition in COMPOSITIONS:
        for name in subjects.assumed_properties_in(composition):
            assert not whole.shown[subjects.page_of(composition, name)].guaranteed
            met = [
                seen
                for seen in whole.seen
                if seen.composition == composition
                and subjects.is_guaranteed(composition, name, seen.scope, seen.variant)
            ]
            assert bool(met) == (name not in NOWHERE), name
            assert all(seen.found(name) is None for seen in met), name


# The evidence


def runs(evidence: Evidence) -> list[tuple[str, str]]:
    """Traces with the guarantee that each breaks."""
    shown = [(key.replace("/", "-"), run.property) for key, run in evidence.shown.items()]
    return shown + [(name, run.property) for name, run in evidence.defects.items()]


def test_each_trace_breaks_its_guarantee_at_its_last_step(evidence: Evidence) -> None:
    assert evidence.traces.keys() == {name for name, _ in runs(evidence)}
    assert len(evidence.traces) > 5
    for name, broken in runs(evidence):
        trace = evidence.traces[name]
        model = model_of(trace.header)
        k = configuration_of(model, trace.header.scope, trace.header.variant)
        guarantee = subjects.guarantee_of(composition_of(trace.header.scope), broken)
        kept = [guarantee.check(k, world) for world in replay(trace, model)]
        assert all(kept[:-1]), name
        assert not kept[-1], name
        assert guarantee.guaranteed(k) == (
            name in evidence.defects and evidence.defects[name].guaranteed
        ), name


def test_a_changed_number_is_a_changed_page(evidence: Evidence, made: dict[str, str]) -> None:
    first = evidence.seen[0]
    more = replace(evidence, seen=(replace(first, distinct=first.distinct + 1), *evidence.seen[1:]))
    after = pages(more)
    changed = {name for name in made if made[name] != after[name]}
    assert changed
    assert loads(dumps(more), evidence.traces) == more != evidence


def test_a_scope_that_counts_something_else_is_explored_again(evidence: Evidence) -> None:
    assert all(map(gather.is_expected, evidence.seen))
    assert not gather.is_expected(replace(evidence.seen[0], distinct=0))


@pytest.mark.parametrize("text", ["", "{}", '{"seen": [{}]}', "[]"])
def test_what_is_no_evidence_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "evidence.json").write_text(text, "utf-8")
    with pytest.raises(BadEvidence, match="gather it again"):
        read_evidence(tmp_path)
    assert main(["docs", "--evidence", str(tmp_path), "--out", str(tmp_path / "out")]) == 2


# The command


def explored_again(*_: object, **__: object) -> None:
    raise AssertionError("what is kept is gathered again")


def test_the_command_writes_the_same_again_and_removes_what_is_stale(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced.reduce(monkeypatch)
    for search in ("explore_scope", "explore_live", "trace_without"):
        monkeypatch.setattr(gather, search, explored_again)
    first, again = folder / "build" / "guarantees", tmp_path / "again"
    stale, mine = again / "without" / "nothing_at_all.md", again / "notes.md"
    stale.parent.mkdir(parents=True)
    shutil.copy(first / "README.md", stale)
    mine.write_text("by hand\n", "utf-8")
    assert main(["docs", "--evidence", str(folder / "evidence"), "--out", str(again)]) == 0
    made = {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    expected = {path.relative_to(first) for path in first.rglob("*") if path.is_file()}
    assert made == expected | {Path("notes.md")}
    assert all((again / name).read_bytes() == (first / name).read_bytes() for name in expected)


def test_pages_are_written_from_what_is_kept_and_nothing_is_gathered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced.reduce(monkeypatch)
    monkeypatch.setattr(gather, "see", explored_again)
    kept, out = folder / "evidence", tmp_path / "out"
    assert main(["docs", "--kept", "--evidence", str(kept), "--out", str(out)]) == 0
    assert (out / "README.md").read_bytes() == (
        folder / "build" / "guarantees" / "README.md"
    ).read_bytes()


def test_evidence_that_is_missing_is_one_sentence_that_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["docs", "--kept", "--evidence", str(tmp_path / "none"), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(r"\d+ pieces of evidence are not in .*: type `make evidence-docs`", said)
    assert not out.exists()


def test_a_gathering_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    reduced.reduce(monkeypatch)
    told: list[tuple[int, int]] = []
    evidence = gather.gather_evidence(Evidence(), lambda done, total, _: told.append((done, total)))
    total = gather.count_missing(Evidence())
    assert {of for _, of in told} == {total}
    assert sorted({done for done, _ in told})[:total] == list(range(total))
    assert gather.count_missing(evidence) == 0


def test_a_site_without_pages_of_guarantees_says_what_to_type(tmp_path: Path) -> None:
    command = [sys.executable, REPOSITORY / "docs" / "build.py", "--guarantees", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "type `make docs`" in done.stderr


def test_a_commands_output_is_what_a_page_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found: list[Sequence[str]] = [run for one in pages_in(folder).values() for run in one.runs]
    assert len(found) > 5
    for run in found[:5]:
        called(run[0])
        assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


def test_each_longer_command_is_understood(folder: Path) -> None:
    longer = sorted({words for one in pages_in(folder).values() for words in one.parsed})
    assert len(longer) > 20
    verbs = {words[:2]: words for words in longer}
    assert all(map(is_understood, verbs.values()))


# The site


def test_every_link_between_pages_leads_to_a_page(folder: Path, tmp_path: Path) -> None:
    from tests.docs import site

    source = tmp_path / "source"
    site.assemble(folder / "build" / "guarantees", source)
    assert site.broken_page_links(source) == []
    (source / "planted.md").write_text("[no page](docs/none.md#here)\n", "utf-8")
    assert site.broken_page_links(source) == ["planted.md: docs/none.md"]


@pytest.mark.full  # Sphinx takes most of a minute
def test_the_site_is_built_and_every_link_leads_somewhere(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "docs"
    from tests.docs import site

    site.build(folder / "build" / "guarantees", out)
    assert site.broken_links(out) == []
    for name in ("docs/glossary", "docs/guides/tutorial", "docs/reference/verbs", "docs/breaches"):
        assert (out / f"{name}.html").exists()
    verbs = (out / "docs" / "reference" / "verbs.html").read_text("utf-8")
    assert "usage: kafka-eos explore" in verbs
    searched = (out / "searchindex.js").read_text("utf-8")
    assert "at_most_once" in searched
    traces = {path.stem for path in (out / "traces").glob("*.html")}
    assert {"answer_lost", *reduced.DEFECTS} <= traces
    assert (REPOSITORY / "docs" / "guarantees").exists() is False
