"""Proofs of compositions: worlds of any size, and that a planted bug fails its own obligation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.mutants import find
from proofs.prove.engine.composition import (
    Composition,
    CompositionInduction,
    Worlds,
    check_world_scope,
)
from proofs.prove.engine.scope_check import ScopeOfProof
from proofs.prove.engine.solvers import SOLVERS, ask
from proofs.prove.producer_ids.composition import PRODUCER_IDS, blocks_have_one_owner
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.counterexamples import counterexample
from proofs.prove.run.scope_jobs import ScopeJob, composed_of, scoped
from proofs.prove.run.target import subject
from proofs.trace.replay import configuration_of
from tests.sizes import sized

THEOREM = next(t for t in THEOREMS if t.name == "producer_ids_unique")


@cache
def as_it_stands() -> CompositionInduction:
    return CompositionInduction(PRODUCER_IDS, load_model("producer_ids"), "4.3.1")


def proved(name: str, *patches: Patch, of: Composition = PRODUCER_IDS) -> bool:
    """Whether Z3 proves an obligation of the composition with patches."""
    changed = patches or of is not PRODUCER_IDS
    model = load_model(of.home, patches)
    induction = CompositionInduction(of, model, "4.3.1") if changed else as_it_stands()
    found = dict(induction.obligations())[f"{of.home}/{name}"]
    assert found is not None
    return ask("z3", found.text, timeout_s=0.5).result == "proved"


@pytest.mark.parametrize("solver", SOLVERS)
def test_producer_ids_are_unique_with_any_number_of_brokers_and_blocks(solver: str) -> None:
    asked = CompositionInduction(PRODUCER_IDS, load_model("producer_ids"), "4.3.1").obligations()
    said = {name: ask(solver, o.text).result for name, o in asked if o is not None}
    assert len(said) == 79
    assert set(said.values()) == {"proved"}


def test_every_rule_of_the_composition_is_a_step() -> None:
    model = load_model("producer_ids")
    steps = list(Worlds(PRODUCER_IDS, model, "4.3.1").steps())
    assert [step.rule for step in steps] == list(model.rules)
    assert all(step.assumed for step in steps if step.rule != "broker_restarts")


@pytest.mark.parametrize(
    ("patch", "obligation"),
    [
        (
            Patch("store.on_write", "store.version != expected_version", "False"),
            "block_is_written/blocks_have_one_owner",
        ),
        (
            Patch("store.on_allocate", "store.block + 1", "store.block"),
            "block_is_allocated/blocks_have_one_owner",
        ),
        (
            Patch("manager.read_latest", "store.broker == broker", "True"),
            "block_is_read/blocks_have_one_owner",
        ),
        (
            Patch("manager.next_id", "manager.block * k.bounds.block_size", "manager.block"),
            "next_id/tells_block",
        ),
        (
            Patch("manager.give_id", "manager.used + 1", "manager.used"),
            "producer_id_is_given/used_beyond_given",
        ),
    ],
)
def test_a_planted_bug_fails_its_own_obligation(patch: Patch, obligation: str) -> None:
    assert proved(obligation)
    assert not proved(obligation, patch)


def test_a_clause_that_is_needed_is_missed() -> None:
    """Without what a broker may find, no two brokers can be shown to have different blocks."""
    kept = tuple(c for c in PRODUCER_IDS.clauses if c.name != "what_it_finds_is_free")
    obligation = "block_is_read/blocks_have_one_owner"
    assert proved(obligation)
    assert not proved(obligation, of=replace(PRODUCER_IDS, clauses=kept))


SCOPES = list(product(PRODUCER_IDS.scopes, PRODUCER_IDS.variants))
LARGER = {("producer-ids", variant) for variant in PRODUCER_IDS.variants}


@pytest.mark.parametrize(("scope", "variant"), sized(SCOPES, full=LARGER))
def test_the_clauses_hold_in_every_world_of_a_scope(scope: str, variant: str) -> None:
    assert not composed_of(ScopeJob("composed", THEOREM.name, scope, variant)).failed


@pytest.mark.full  # `make prove` does the same: 20 s of transitions held to the steps
def test_the_clauses_hold_in_every_world_of_their_scopes_and_each_rule_is_taken() -> None:
    checks = scoped([THEOREM], ()).clauses
    assert [check.failed for check in checks] == [()] * 6
    assert {check.variant for check in checks} == {"4.3.1", "3.9.2-zookeeper", "2.8.2"}


@pytest.mark.full  # the larger scope; in the suite the same defect fails its obligation
def test_a_wrong_clause_fails_in_scope() -> None:
    model = load_model("producer_ids", find("same_producer_id_twice").patches)
    k = configuration_of(model, "producer-ids", "3.9.2-zookeeper")
    assert (
        blocks_have_one_owner.__name__
        in check_world_scope(PRODUCER_IDS, ScopeOfProof(model, k, "producer-ids")).failed
    )


def test_a_shipped_defect_is_answered_by_its_trace() -> None:
    of = subject("same_producer_id_twice", None)
    assert of.home == "producer_ids"
    found = counterexample(THEOREM, of)
    assert found is not None
    assert found.finding.property in THEOREM.answered_by
    assert 0 < found.finding.events <= 25
