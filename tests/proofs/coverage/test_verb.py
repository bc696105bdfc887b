"""The verb: one small composition looked at in full, and a scope that shows too little."""

import json

import pytest

from proofs.__main__ import main
from proofs.coverage.survey_cases import ERAS, LARGEST, small_scopes, survey_cases
from proofs.explore.expected import EXPECTED
from proofs.lift.patch import Patch, PatchError
from proofs.lift.source import composition_of, load_model
from proofs.trace.format import read
from proofs.trace.replay import configuration_of, replay
from proofs.verbs.coverage import default_scopes

COMPOSITION = ["producer-ids", "producer-ids-alone"]


@pytest.fixture(autouse=True)
def remembers_nothing_of_others(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path / "cache"))


def test_a_composition_in_full(tmp_path, capsys):
    out = tmp_path / "out"
    argv = ["coverage", *COMPOSITION, "--engine", "ints", "--out", str(out)]
    assert main(argv) == 0
    report = json.loads((out / "report.json").read_text())
    for kind in ("pairs", "rules", "branches", "conjuncts", "error_codes"):
        assert report[kind].keys() >= {"covered", "total", "missing"}
        assert report[kind]["missing"] == []
        assert report[kind]["covered"] + len(report[kind]["explained"]) == report[kind]["total"]
    assert report["verdict"] == "holds"
    assert all(row["reason"] and row["evidence"] for row in report["conjuncts"]["explained"])
    for kind in ("pairs", "branches"):
        for met in report[kind]["met"].values():
            assert len(replay(read(out / met["trace"]))) == met["steps"] + 1
    assert "lost_race" in capsys.readouterr().out


def test_the_second_time_is_remembered_and_tells_the_same(tmp_path, capsys, monkeypatch):
    argv = ["coverage", "producer-ids-alone", "--engine", "ints", "--json"]
    assert main([*argv, str(tmp_path / "1")]) == 1
    monkeypatch.setattr("proofs.coverage.survey.Space", None)
    assert main([*argv, str(tmp_path / "2")]) == 1
    first, second = (json.loads((tmp_path / name).read_text()) for name in "12")
    del first["run"], second["run"]
    assert first == second


def test_one_scope_shows_too_little(tmp_path, capsys):
    file = tmp_path / "report.json"
    argv = ["coverage", "idempotent-expiry", "--engine", "ints", "--json", str(file)]
    assert main(argv) == 1
    report = json.loads(file.read_text())
    assert report["verdict"] == "violated"
    assert {row["name"] for row in report["rules"]["missing"]} >= {"leader_fails_over"}
    assert {row["evidence"] for row in report["rules"]["missing"]} <= {
        "never evaluated",
        "excluded by ranges",
        "not met",
    }
    assert "missing: leader_fails_over" in capsys.readouterr().out


def test_scopes_of_what_a_patch_changes_are_looked_at():
    """None would be met by any patch."""
    ids = Patch("manager.allocate_block", "x", "y")
    leaders = Patch("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False")
    looked_at = {composition_of(scope) for scope in default_scopes([leaders])}
    assert looked_at == {"idempotent", "transactions"}, "both have this text"
    assert default_scopes([]) == list(small_scopes())
    with pytest.raises(PatchError):
        default_scopes([ids])


@pytest.mark.parametrize(
    ("scope", "why"), [("none", "no scope is called"), ("idempotent-medium", "name scopes of at")]
)
def test_bad_scopes(scope, why, capsys):
    assert main(["coverage", scope]) == 2
    assert why in capsys.readouterr().err


# Tables


def looked_at():
    return {part for _, variant in ERAS for part in variant.split("/")} | {"4.3.1"}


def values_of(variants):
    """What rules can say that the newest release does not."""
    newest = variants.parse("4.3.1")
    return {
        f"{rule}={value.name.lower()}"
        for rule, kinds in variants.RULES.items()
        for value in kinds
        if value != getattr(newest, rule)
    }


def test_every_rule_of_every_era_is_looked_at():
    assert values_of(load_model("idempotent").variants) <= looked_at()
    forms = {v.form for v in load_model("producer_ids").variants.RELEASES.values()}
    named = [load_model("producer_ids").variants.parse(v) for v in ("4.3.1", "3.9.2-zookeeper")]
    assert len(forms) > len({variant.form for variant in named}) == 2
    assert "2.8.2" in looked_at()


def test_every_rule_of_transactions_is_looked_at():
    variants = load_model("transactions").variants
    assert values_of(variants) <= looked_at()
    assert variants.RELEASES.keys() - {"4.2.1"} <= looked_at()


def test_events_of_transactions_meet_where_requests_of_both_conversations_are_late():
    looks = [look for look in survey_cases(["transactions-trouble"], "c") if "delays" in look.scope]
    assert {look.variant for look in looks} == {"v1", "v2"}
    assert all(look.engine == "c" for look in looks)


def test_small_scopes_are_those_that_fit():
    assert {s for s, counts in EXPECTED.items() if counts.distinct <= LARGEST} <= set(
        small_scopes()
    )
    assert "idempotent-medium" not in small_scopes()


@pytest.mark.full  # test_verbs.py has another witness
def test_a_witness_that_is_listed_has_a_shortest_trace(tmp_path):
    given = ["a_block_is_used_up", "--scope", "producer-ids-alone", "--out", str(tmp_path)]
    assert main(["witness", *given]) == 0
    trace = read(tmp_path / "traces" / "a_block_is_used_up.jsonl")
    model = load_model("producer_ids")
    *before, after = replay(trace)
    (witness,) = (w for w in model.guarantees.WITNESSES if w.name == "a_block_is_used_up")
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    assert witness.check(k, after)
    assert not any(witness.check(k, world) for world in before)
