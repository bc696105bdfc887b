"""What a run looks past, and what it judges behind that."""

import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.judging.masks import BadMask, MaskedTrace, Masks, add_masked, parse_mask
from conformance.verbs.run import plan_of
from kafka_eos.command_line import parser_of
from kafka_eos.verbs import find_verb

EPOCH = ("leader[0].producers[0].coordinator_epoch", -1, 0)
SEQUENCE = ("leader[0].producers[0].last_sequence", 3, 2)
LOG = ("leader[0].log[1].producer_epoch", 1, 0)


@pytest.mark.parametrize(
    ("mask", "rule", "left"),
    [
        ("producers.coordinator_epoch", "settle", [SEQUENCE, LOG]),
        ("leader.producers.coordinator_epoch", "settle", [SEQUENCE, LOG]),
        ("coordinator_epoch", "settle", [SEQUENCE, LOG]),
        ("epoch", "settle", [EPOCH, SEQUENCE, LOG]),
        ("client.producers.coordinator_epoch", "settle", [EPOCH, SEQUENCE, LOG]),
        ("settle:coordinator_epoch", "settle", [SEQUENCE, LOG]),
        ("settle:coordinator_epoch", "client_sends", [EPOCH, SEQUENCE, LOG]),
        ("coordinator_epoch=0", "settle", [SEQUENCE, LOG]),
        ("coordinator_epoch=7", "settle", [EPOCH, SEQUENCE, LOG]),
        ("coordinator_epoch+last_sequence", "settle", [EPOCH, SEQUENCE, LOG]),
        ("coordinator_epoch+last_sequence+log.producer_epoch", "settle", []),
    ],
)
def test_a_mask_hides_the_fields_that_it_names(mask: str, rule: str, left: list):
    trace = MaskedTrace(Masks([mask]))
    assert trace.visible(rule, 4, [EPOCH, SEQUENCE, LOG]) == left
    hides = len(left) < 3
    assert trace.behind(10) == ({mask: (1, 6)} if hides else {})


def test_what_a_mask_hid_once_stays_hidden_in_its_trace():
    """A state that differs does so until it changes, whatever the rule of a step."""
    trace = MaskedTrace(Masks(["settle:coordinator_epoch"]))
    assert trace.visible("client_sends", 1, [EPOCH]) == [EPOCH]
    assert trace.visible("settle", 2, [EPOCH]) == []
    assert trace.visible("client_sends", 3, [EPOCH, LOG]) == [LOG]


@pytest.mark.parametrize("text", ["", "a b", "rule:", "=3"])
def test_a_text_that_is_no_mask_is_refused(text: str):
    with pytest.raises(BadMask, match="write"):
        parse_mask(text)


def test_work_behind_masks_adds_up():
    one, other = {"a": (1, 2)}, {"a": (3, 4), "b": (5, 6)}
    assert add_masked(one, other) == {"a": (4, 6), "b": (5, 6)} == add_masked(other, one)


SHORT = ("--traces", "40", "--traces-from", "pct", "--backend", "processes", "--partitions", "1")
AS_KAFKA = ("--scope", "idempotent-wrap", "--variant", "sequence_order=raw")
"""`impl` compares acknowledged sequences around the wrap: a difference that is known."""


def report_of(out: Path, *more: str) -> dict:
    main(["run", *AS_KAFKA, *SHORT, *more, "--out", str(out)])
    return json.loads((out / "report.json").read_text())


def test_a_run_goes_on_behind_a_known_difference(tmp_path: Path, capsys):
    file = tmp_path / "known.json"
    stopped = report_of(tmp_path / "stopped", "--write-baseline", str(file))
    rows = json.loads(file.read_text())
    assert stopped["verdict"] == "violated"
    assert {row["look_past"] for row in rows} == {False}
    mask = "+".join(dict.fromkeys(name for row in rows for name in row["fields"]))
    masked = report_of(tmp_path / "masked", "--ignore", mask, "--ignore", "no.such_field")
    assert masked["ignored"] == [mask, "no.such_field"]
    [used] = masked["masked"]
    assert used["mask"] == mask
    assert used["traces"] > 0 < used["steps"]
    assert masked["steps"] > stopped["steps"]
    told = capsys.readouterr().out
    assert f"{mask}: {used['traces']:,} traces go on behind it, {used['steps']:,} steps" in told
    assert "the mask no.such_field hides nothing" in told
    file.write_text(json.dumps([row | {"look_past": True} for row in rows]))
    options = parser_of(find_verb("run")).parse_args([*AS_KAFKA, "--baseline", str(file)])
    assert plan_of(options).ignored == tuple(
        f"{row['rule']}:{'+'.join(row['fields'])}" for row in rows
    )


def test_a_bad_mask_is_bad_use(tmp_path: Path, capsys):
    assert main(["run", "--ignore", "a b", "--out", str(tmp_path / "out")]) == 2
    assert "'a b' is no mask; write [RULE:]FIELD" in capsys.readouterr().err
