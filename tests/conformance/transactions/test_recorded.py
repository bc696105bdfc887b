"""What real brokers answered, as it was recorded: whole, of known experiments, and telling."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.transactions import facts_verb
from conformance.transactions.facts.lab import EXPERIMENTS

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*-level-*.json"))
KINDS = {"end_txn_v1_by_state": {"3.3.2", "3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1"}}


def load(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(file.read_text())
    return value


def of(release: str, level: int) -> dict[str, dict[str, str]]:
    [found] = [
        row["facts"]
        for row in map(load, RECORDED)
        if (row["release"], row["level"]) == (release, level)
    ]
    return found


def test_each_named_release_is_recorded():
    assert facts_verb.MODULES  # they enter the experiments
    assert {load(file)["release"] for file in RECORDED} == KINDS["end_txn_v1_by_state"]


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_record_is_of_experiments_that_there_are(file):
    recorded = load(file)
    assert f"{recorded['release']}-level-{recorded['level']}" == file.stem
    assert recorded["facts"].keys() <= EXPERIMENTS.keys()
    assert all(rows and all(rows.values()) for rows in recorded["facts"].values())


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_v1_requests_end_transactions_alike_in_all_releases(file):
    """EndTxn by state and by identity is the same table from 3.3 to 4.3, at every level."""
    newest, here = of("4.3.1", 2), load(file)["facts"]
    for name in ("end_txn_v1_by_state", "end_txn_v1_by_identity"):
        assert here[name] == newest[name]


def test_what_later_releases_repaired_is_told_apart():
    """A twin for each: where the defect is, and where it is not."""
    late = "late_produce_v1"
    assert "open from" in of("3.3.2", 0)[late]["the partition then"]
    assert "stable" in of("3.9.2", 0)[late]["the partition then"]
    marker = "marker_at_equal_epoch_v2"
    assert of("4.1.2", 2)[marker]["commit again, the next one open"] == "NONE"
    assert of("4.2.1", 2)[marker]["commit again, the next one open"] == "INVALID_PRODUCER_EPOCH"
    stuck, others = (
        "exhaustion_goes_on_v2",
        "the transactions of 64 others, long after their time-outs",
    )
    for release in ("4.0.2", "4.1.2", "4.2.1"):
        assert of(release, 2)[stuck][others] == "Ongoing, CompleteAbort"
    assert of("4.3.1", 2)[stuck][others] == "CompleteAbort"
    lost = "loading_exhausted_v2"
    assert of("4.2.1", 2)[lost]["held, then"] == "CompleteCommit P:32767"
    assert of("4.3.1", 2)[lost]["held, then"] == "CompleteCommit Q:0"


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_offsets_of_one_transaction_count_as_they_come(file):
    """5, sent before 9 and late, is what the group goes on from: `offsets_come_in_order`."""
    row = load(file)
    kinds = ("v1", "v2") if row["level"] else ("v1",)
    for kind in kinds:
        assert row["facts"][f"offsets_come_in_order_{kind}"]["committed: in the end"] == (
            "5, stable 5"
        )


def test_an_open_transaction_vouches_for_any_epoch_before_4_0() -> None:
    """Nobody has registered the epoch above; its batch is stored unasked."""
    for release, told in (
        ("3.3.2", "NONE"),
        ("3.9.2", "NONE"),
        ("4.0.2", "INVALID_PRODUCER_EPOCH"),
    ):
        rows = of(release, 2 if release >= "4" else 0)["other_epochs_while_open_v1"]
        assert rows["epoch above"] == told
        assert ("P:2#0" in rows["the partition then"]) == (told == "NONE")


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_a_late_batch_of_an_older_epoch_stops_the_open_transaction_in_4_0_alone(kind: str) -> None:
    goes_on = "epoch below, then its own goes on"
    told = {
        release: of(release, 2 if release >= "4" else 0)[f"other_epochs_while_open_{kind}"][goes_on]
        for release in (("3.9.2",) if kind == "v1" else ()) + ("4.0.2", "4.1.2", "4.2.1", "4.3.1")
    }
    assert told.pop("4.0.2") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert set(told.values()) == {"NONE"}


def test_who_slept_since_the_last_epoch_fences_its_successor_up_to_4_0() -> None:
    for file in RECORDED:
        row = load(file)
        facts = row["facts"]["exhaustion_returns_v1"]
        fences = row["release"] < "4.1"
        assert (facts["it returns, Ongoing, the state"] == "CompleteAbort Q:1") == fences
        assert (facts["its successor commits"] == "NONE") != fences


def test_a_fence_that_the_log_refused_at_the_last_epoch_is_for_ever_before_4_3() -> None:
    """Below level 2; ids behind the one that is stuck do not time out any more."""
    name = "refused-fence-at-the-last-epoch.json"
    rows = load(Path(__file__).parent / "recorded" / name)
    others = "the transactions of 64 others, long after their time-outs"
    for ground, facts in rows.items():
        is_stuck = ground < "4.3"
        assert facts["fence, the state"] == "Ongoing P:32767"
        assert (facts["thawed, fence"] == "UNKNOWN_SERVER_ERROR") == is_stuck
        assert facts["long after its time-out"].startswith("Ongoing") == is_stuck
        assert ("Ongoing" in facts[others]) == is_stuck
    assert {ground.split()[0] for ground in rows} == {"3.9.2", "4.2.1", "4.3.1"}
