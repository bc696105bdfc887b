"""`experiments` on `impl`'s broker: all is as expected of the newest release; and bad use."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.campaigns.stories.remote import implementation
from conformance.campaigns.stories.story import Brokers, stories

FACTS_KEYS = {
    "schema_version",
    "release",
    "level",
    "facts",
    "failed",
    "not_applicable",
    "broken",
    "verdict",
    "run",
}
FACT_KEYS = {"experiment", "name", "expected", "observed", "agrees"}
GUARANTEE_KEYS = FACT_KEYS | {"guarantee", "is_broken"}


def played(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    file = tmp_path / "report.json"
    code = main(["experiments", *arguments, "--json", str(file)])
    return code, json.loads(file.read_text())


QUICK = sorted(
    name
    for name, experiment in stories().items()
    # The others ask each of their ids for 32766 epochs, or want Java.
    if not (name.startswith("exhaustion_") or experiment.has_client)
)


def test_impl_answers_as_the_newest_release(tmp_path: Path) -> None:
    code, report = played(tmp_path, *QUICK, "--system", "impl")
    differing = [fact for fact in report["facts"] if not fact["agrees"]]
    assert (code, differing, report["failed"], report["verdict"]) == (0, [], {}, "holds")
    assert (report["release"], report["level"]) == ("impl", 2)
    assert report.keys() == FACTS_KEYS
    assert {frozenset(fact) for fact in report["facts"]} == {
        frozenset(FACT_KEYS),
        frozenset(GUARANTEE_KEYS),
    }
    done = {fact["experiment"] for fact in report["facts"]} | report["not_applicable"].keys()
    assert done == set(QUICK)


def test_impl_answers_by_its_level(tmp_path: Path) -> None:
    """At level 0 the coordinator's own abort does not remember the last epoch."""
    names = ["init_producer_id_v1_in_a_transaction", "time_out_v1"]
    code, report = played(tmp_path, *names, "--system", "impl", "--level", "0")
    assert (code, report["level"], report["verdict"]) == (0, 0, "holds")
    answers = {fact["name"]: fact["observed"] for fact in report["facts"]}
    assert answers["then InitProducerId, its epoch"] == "PRODUCER_FENCED"


def test_impl_takes_the_next_producer_id_behind_the_last_epoch(tmp_path: Path) -> None:
    code, report = played(tmp_path, "exhaustion_returns_v1", "--system", "impl")
    assert (code, report["verdict"], len(report["facts"])) == (0, "holds", 5)


def test_a_broker_at_an_address_is_held_to_the_newest_release_that_it_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with implementation(2, Brokers()) as remote:
        names = ["describing", "delayed_end_txn_lost_write_v1", "exhaustion_goes_on_v2"]
        code, report = played(tmp_path, *names, "--system", f"wire://{remote}")
    assert (code, report["verdict"], report["release"]) == (0, "holds", "4.3.1")
    assert report["not_applicable"] == {"exhaustion_goes_on_v2": "they leave the broker broken"}
    assert report["broken"] == {"delayed_end_txn_lost_write_v1": ["no_lost_write", "all_or_none"]}
    assert "an id that nobody knows" in capsys.readouterr().out


WRONG = """\
requests: v1
p = in_state Empty
"EndTxn in Empty": EndTxn p commit -> NONE
"""
REFUSED = """\
requests: v1
p = in_state Empty
"a fact before": state p -> Empty P:1
EndTxn p commit
"never asked": state p -> Empty P:1
"""
REPEATED = """\
requests: v1
times: 2
p = in_state Empty
"epochs": InitProducerId p -> NONE P:2
"epochs": InitProducerId p -> NONE P:2
"""


def test_what_is_not_as_expected_is_shown_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.story").write_text(WRONG)
    code, report = played(tmp_path, "--system", "impl", "--stories", str(tmp_path))
    assert (code, report["verdict"]) == (1, "violated")
    assert report["facts"][0]["observed"] == "INVALID_TXN_STATE"
    assert "expected there: NONE" in capsys.readouterr().out


def test_a_refused_step_ends_its_experiment_alone(tmp_path: Path) -> None:
    (tmp_path / "refused.story").write_text(REFUSED)
    (tmp_path / "repeated.story").write_text(REPEATED)
    code, report = played(tmp_path, "--system", "impl", "--stories", str(tmp_path))
    assert report["failed"] == {"refused": "RequestRefused: EndTxn p commit: INVALID_TXN_STATE"}
    assert [fact["name"] for fact in report["facts"]] == ["a fact before", "epochs"]
    assert report["facts"][1]["observed"] == "NONE P:2 | NONE P:3"
    assert (code, report["verdict"]) == (1, "violated")
    code, report = played(tmp_path, "refused", "--system", "impl", "--stories", str(tmp_path))
    assert (code, report["verdict"]) == (3, "undecided")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state p", "no producer here"),
        ("p = begin\nEndTxn p maybe", "neither commit nor abort"),
        ("p = begin\nreceive p", "no wire here"),
    ],
)
def test_a_word_that_stands_for_nothing_is_bad_input(
    tmp_path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "told.story").write_text(f"requests: v1\n{text}\n")
    assert main(["experiments", "--system", "impl", "--stories", str(tmp_path)]) == 2
    complaint = capsys.readouterr().err
    assert problem in complaint
    assert "told.story:" in complaint


def test_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiments", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(stories())
    assert any(line.startswith("describing") and "DescribeTransactions" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["delayed-end-txn", "--kafka", "1.2.3"], "4.3.1, 4.2.1"),
        (["delayed-end-txn", "--kafka", "2.8.2"], "valid: 4.3.1"),
        (["delayed-end-txn", "--kafka", "3.9.2", "--level", "2"], "it has [0]"),
        (["delayed-end-txn", "--requests", "v3"], "v1, v2"),
        (["delayed-end-txn", "--only", "nothing"], "lost_write"),
        (["stale-coordinator", "--only", "nothing"], "both_deaf"),
        (["stale-coordinator", "--times", "0"], "at least 1"),
        (["stale-coordinator", "--watch-s", "-1"], "not negative"),
        (["experiments", "--only", "nothing"], "end_txn_v1_by_state"),
        (["experiments", "nothing"], "end_txn_v1_by_state"),
        (["experiments", "--system", "moon"], "kafka, impl, wire://HOST:PORT"),
        (["experiments", "--system", "wire://127.0.0.1:1"], "nothing listens"),
    ],
)
def test_what_there_is_not_is_refused(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert named in capsys.readouterr().err
