"""The registry of releases: what it says is spelled right, and can be looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.producer_config import Authorization, Era, authorization_of, era_of
from model.releases import CHANGES, RELEASES, RuleChange, rules_of
from model.variant_syntax import LEVELS
from proofs.lift.source import COMPOSITIONS, load_model

ROOT = Path(__file__).parents[2]
EVIDENCE = {
    path.stem
    for folder, pattern in (
        ("conformance/campaigns/stories/stories", "*.story"),
        ("tests/conformance", "**/fixtures/*.jsonl"),
        ("tests/conformance", "**/test_*.py"),
    )
    for path in (ROOT / folder).glob(pattern)
}
OTHERS = {"producer_config": {"era": Era, "authorization": Authorization}}


def rows() -> Iterator[tuple[str, RuleChange]]:
    for name, changes in CHANGES.items():
        for change in changes:
            yield name, change


@pytest.mark.parametrize(("name", "change"), list(rows()))
def test_each_change_is_of_a_rule_and_can_be_looked_up(name: str, change: RuleChange) -> None:
    rules = OTHERS.get(name) or load_model(name).variants.GRAMMAR.values
    values = LEVELS if change.rule == "level" else rules[change.rule]
    assert change.value in [str(getattr(v, "name", v)).lower() for v in values]
    assert re.fullmatch(r"(KIP|KAFKA)-\d+|[A-Z]\w+", change.reference)
    assert not change.observed or change.observed in EVIDENCE


def test_each_composition_has_its_releases() -> None:
    assert set(RELEASES) == set(COMPOSITIONS)
    for name, releases in RELEASES.items():
        assert tuple(load_model(name).variants.RELEASES) == releases


def test_a_release_takes_its_rules_from_the_table() -> None:
    """Of two rows that reach it, the one that ended first; modes apart."""
    assert rules_of("idempotent", "2.0.0")["recovery"] == "reset_2_0"
    assert rules_of("idempotent", "2.3.1")["recovery"] == "reset_2_3"
    assert "recovery" not in rules_of("idempotent", "2.5.0")
    assert rules_of("producer_ids", "3.9.2") == {}
    assert rules_of("producer_ids", "3.9.2-zookeeper") == {"form": "zookeeper"}
    assert rules_of("producer_ids", "2.8.2")["form"] == "zookeeper_checked"


def test_clients_and_brokers_of_old_have_the_rules_of_their_time() -> None:
    assert {era_of(release) for release in ("4.0.2", "4.3.1")} == {Era.V4_0}
    assert {era_of(release) for release in ("3.3.2", "3.9.2")} == {Era.V3_0_1}
    assert {era_of(release) for release in ("2.0.0", "2.8.2")} == {Era.V1_0}
    assert authorization_of("2.4.1") == Authorization.CLUSTER
    assert authorization_of("2.8.2") == Authorization.ANY_TOPIC
