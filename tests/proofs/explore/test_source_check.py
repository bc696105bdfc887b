"""Small scopes are explored by the model's own functions too, once for each text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proofs.explore import source_check
from proofs.explore.engines import EnginesDisagree, engine_for
from proofs.explore.expected import EXPECTED
from proofs.explore.scope import ScopeReport, explore_scope
from proofs.lift import dag
from proofs.lift.build import lift_rules
from proofs.lift.evaluate import Evaluator
from proofs.lift.patch import Patch

pytestmark = pytest.mark.fast

SCOPE = "idempotent-restart"
SAME = Patch("leader.log_end_offset", "len(log) > 0", "0 < len(log)")
FORGETS = Patch("leader.restart", "map_values(k, snapshot, leader.producers)", "nobody(k)")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path))


def explored(*patches: Patch, said: list[str] | None = None, **options: Any) -> ScopeReport:
    lines = [] if said is None else said
    return explore_scope(
        SCOPE, patches=patches, engine="ints", is_checked=True, say=lines.append, **options
    )


@pytest.fixture
def by_source(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes that are explored by the source."""
    names: list[str] = []
    run = source_check.by_source
    monkeypatch.setattr(source_check, "by_source", lambda job: names.append(job.name) or run(job))
    return names


def test_a_small_scope_is_explored_by_the_source_once_for_each_text(by_source: list[str]) -> None:
    said: list[str] = []
    first = explored(said=said)
    assert by_source == [SCOPE]
    assert "have the same 203 states and break the same" in said[0]
    assert explored(said=said).counts.distinct == first.counts.distinct
    assert by_source == [SCOPE]
    explored(SAME)
    assert by_source == [SCOPE, SCOPE]


def test_a_broken_text_breaks_the_same_by_the_source(by_source: list[str]) -> None:
    assert explored(FORGETS).verdict == "violated"
    assert by_source[0] == SCOPE


def test_a_search_that_stops_early_is_held_against_one_that_stops_there(
    by_source: list[str],
) -> None:
    assert explored(FORGETS, stop=True).counts.complete is False
    assert explored(max_depth=3).verdict == "undecided"
    assert len(by_source) >= 2


@pytest.mark.parametrize("patches", [(), (SAME,)])
def test_a_lifter_that_misreads_the_text_is_found(
    patches: tuple[Patch, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lifter that takes each fold for its start forgets what it replays."""
    lift_rules.cache_clear()
    monkeypatch.setattr(Evaluator, "_call_fold", lambda _self, _node, given, _named: given[3])
    with pytest.raises(EnginesDisagree, match=r"reads the model otherwise than Python does"):
        explore_scope("idempotent-loss", patches=patches, engine="ints", is_checked=True)
    monkeypatch.undo()
    lift_rules.cache_clear()


def test_a_source_with_more_states_is_not_explored_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lift_rules.cache_clear()
    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(Evaluator, "limit", lambda self, _node, _holds, **_by: never(self))
    with pytest.raises(EnginesDisagree, match="1, and more by the source"):
        explore_scope("idempotent-tiny", engine="ints", is_checked=True, patches=(SAME,))
    monkeypatch.undo()
    lift_rules.cache_clear()


def never(evaluator: Evaluator) -> None:
    """Every event is refused."""
    evaluator.path = dag.FALSE
    evaluator.limits.append(type("Never", (), {"condition": dag.FALSE})())


def test_large_scopes_are_compiled_and_small_ones_are_not() -> None:
    assert engine_for("idempotent-tiny") == "ints"
    assert engine_for("idempotent-tiny/restarts=3") == "c"
    assert engine_for("idempotent-medium") == "c"
    assert {engine_for(scope) for scope in EXPECTED} == {"ints", "c"}


def test_a_small_scope_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.explore.native.build", None)
    assert explore_scope(SCOPE).counts.engine == "ints"
