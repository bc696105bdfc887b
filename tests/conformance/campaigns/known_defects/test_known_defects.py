"""Known defects: the table names what there is, and the verb says where each defect is."""

import json
import re
import shutil
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.clients.install import PRODUCTS, products_of, program_command
from conformance.campaigns.known_defects.defects import (
    JAVA,
    KAFKA,
    KnownDefect,
    known_defects,
    missing_defects,
)
from conformance.campaigns.known_defects.evidence import Observation, answer_in, right_answer
from conformance.campaigns.known_defects.report import kept_page, lines_of, row_of
from conformance.campaigns.stories.client import APPLICATIONS
from conformance.campaigns.stories.player import check, rehearse
from conformance.verbs import known_defects as verb
from model.releases import numbers
from proofs.run import BadUse
from proofs.run.files import SOURCES

KEPT = Path(__file__).parents[4] / "evidence" / "known_defects.json"
ISSUE = re.compile(r"KAFKA-\d+|[\w-]+ #\d+")
LATE = "late_produce_hangs"


@pytest.mark.parametrize("defect", known_defects(), ids=lambda defect: defect.name)
def test_a_row_names_an_issue_two_releases_and_a_fact_of_a_story(defect: KnownDefect) -> None:
    assert ISSUE.fullmatch(defect.issue)
    assert numbers(defect.has_it) < numbers(defect.fixed)
    assert defect.product in (KAFKA, JAVA, *PRODUCTS)
    assert right_answer(defect)
    for release in defect.releases:
        check(defect.experiment_at(release))


@pytest.mark.parametrize(
    "defect",
    [d for d in known_defects() if d.product == KAFKA],
    ids=lambda defect: defect.name,
)
def test_the_stories_expect_the_defect_of_a_broker_where_the_table_does(
    defect: KnownDefect,
) -> None:
    level = 2 if numbers(defect.has_it) >= (4,) else 0
    facts = rehearse(defect.experiment_at(defect.has_it), defect.has_it, level)
    assert answer_in(facts, defect.fact) not in ("", right_answer(defect))


def test_brokers_and_clients_of_several_languages_have_rows() -> None:
    products = [defect.product for defect in known_defects()]
    assert products.count(KAFKA) >= 8
    assert {KAFKA, JAVA, *products_of(APPLICATIONS)} == set(products)
    names = [defect.name for defect in known_defects()]
    assert len(set(names)) == len(names)
    assert all(row.issue and row.why for row in missing_defects())


def test_what_is_kept_shows_each_row_and_is_a_page() -> None:
    rows = json.loads(KEPT.read_text(encoding="utf-8"))["defects"]
    assert [row["name"] for row in rows] == [defect.name for defect in known_defects()]
    assert {row["verdict"] for row in rows} == {"holds"}
    page = kept_page(KEPT).markdown()
    assert all(defect.issue in page for defect in known_defects())


def plant(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> list[str]:
    """Releases that answer so; which ones were played."""
    played: list[str] = []

    def observe(defect: KnownDefect, release: str) -> Observation:
        played.append(release)
        answer = answers.get(release, "")
        return Observation(release, answer, "" if answer else "no such jar")

    monkeypatch.setattr(verb, "observe", observe)
    return played


WRONG, RIGHT = "P:1#0 P:1!ABORT P:1#1, open from 2", "P:1#0 P:1!ABORT, stable"


@pytest.mark.parametrize(
    ("answers", "code", "says"),
    [
        ({"3.5.2": WRONG, "3.6.0": RIGHT}, 0, "found in 3.5.2, absent from 3.6.0"),
        ({"3.5.2": RIGHT, "3.6.0": RIGHT}, 1, "absent from 3.5.2, absent from 3.6.0"),
        ({"3.5.2": WRONG, "3.6.0": WRONG}, 1, "found in 3.5.2, found in 3.6.0"),
        ({"3.5.2": WRONG}, 3, "undecided in 3.6.0 (no such jar)"),
    ],
)
def test_the_exit_code_says_whether_each_defect_is_where_it_is_expected(
    answers: dict[str, str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant(monkeypatch, answers)
    assert main(["known-defects", LATE, "--out", str(tmp_path)]) == code
    assert says in capsys.readouterr().out
    assert "KAFKA-14402" in (tmp_path / "known_defects.md").read_text(encoding="utf-8")


def test_swapped_releases_are_violated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, {"3.5.2": WRONG, "3.6.0": RIGHT})
    assert main(["known-defects", LATE, "--swap", "--out", str(tmp_path)]) == 1
    assert "absent from 3.6.0, found in 3.5.2" in capsys.readouterr().out


def test_the_same_command_plays_only_what_was_not_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["known-defects", LATE, "--out", str(tmp_path)]
    plant(monkeypatch, {"3.5.2": WRONG})
    assert main(given) == 3
    played = plant(monkeypatch, {"3.5.2": WRONG, "3.6.0": RIGHT})
    assert main(given) == 0
    assert played == ["3.6.0"]


def test_what_is_kept_gives_way_to_newer_results_of_the_same_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.json"
    other, late = {"name": "marker_at_equal_epoch"}, {"name": LATE, "verdict": "undecided"}
    file.write_text(json.dumps({"defects": [other, late, {"name": "no longer in the table"}]}))
    plant(monkeypatch, {"3.5.2": WRONG, "3.6.0": RIGHT})
    given = ["known-defects", LATE, "--out", str(tmp_path / "out"), "--keep", str(file)]
    assert main(given) == 0
    first, second = json.loads(file.read_text(encoding="utf-8"))["defects"]
    assert (first["name"], first["verdict"], second) == (LATE, "holds", other)


def test_a_row_that_is_violated_shows_all_three_answers() -> None:
    [defect] = [one for one in known_defects() if one.name == LATE]
    sides = [Observation(release, WRONG, "") for release in defect.releases]
    text = "\n".join(lines_of([row_of(defect, RIGHT, *sides, "2026-01-01")]))
    for line in (f"right: {RIGHT}", f"3.5.2: {WRONG}", f"3.6.0: {WRONG}", "0 of 1 defects"):
        assert line in text


def test_what_is_journaled_goes_by_the_source_of_each_application() -> None:
    assert {Path(product.source).suffix for product in PRODUCTS.values()} <= SOURCES


def test_a_client_that_is_none_is_bad_use() -> None:
    with pytest.raises(BadUse, match="kafkajs"):
        program_command("nosuch:1.0.0", APPLICATIONS)


@pytest.mark.kafka
@pytest.mark.full
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_a_defect_of_a_client_is_found_and_absent_and_swapped_says_so(tmp_path: Path) -> None:
    given = ["known-defects", "concurrent_sends_share_a_sequence", "--out"]
    assert main([*given, str(tmp_path / "out")]) == 0
    assert main([*given, str(tmp_path / "swapped"), "--swap"]) == 1
