"""The registry of risks names what there is, and each risk breaks what it says where it says."""

from __future__ import annotations

import pytest

from conformance.campaigns.stories.story import stories
from model.releases import RELEASES, numbers
from proofs.explore.scope import explore_scope
from proofs.lift.source import load_model
from proofs.mutants.table import MUTANTS
from proofs.pages.risk_page import SECTIONS, cell, risk_page
from proofs.risks import Risk, risks
from proofs.verbs.decision import GuaranteeAnswer, promised, summary
from tests.sizes import sized

SINCE_4_3 = tuple(r for r in RELEASES["transactions"] if numbers(r) >= (4, 3))
RISKS = risks()
DEFECTS = {m.name: m for m in MUTANTS if m.kind == "variant" and m.group == "released"}

IN_NO_RELEASE = {"marker_strictly_greater", "produce_during_completion", "timeout_without_bump"}
"""Defects of releases that are older than those of the model, or of none that was released."""


@pytest.mark.fast
@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_a_risk_names_what_there_is(risk: Risk) -> None:
    model = load_model(risk.composition)
    assert risk.rules.keys() <= {*model.variants.RULES, "requests"}
    for rule, values in risk.rules.items():
        assert rule == "requests" or values <= {v.name.lower() for v in model.variants.RULES[rule]}
    assert set(risk.events) <= model.rules.keys()
    assert set(risk.breaks) <= {g.name for g in model.guarantees.GUARANTEES}
    assert not risk.scope or risk.scope.partition("/")[0] in model.scopes.SCOPES
    assert not risk.experiment or risk.experiment in stories()
    assert risk.scope or risk.experiment
    assert risk.is_of(risk.variant)
    assert set(risk.releases()).isdisjoint(risk.releases_without())
    assert all((risk.happens, risk.how, risk.likely, list(risk.remedies())))


@pytest.mark.fast
def test_each_defect_of_a_release_is_a_risk_that_breaks_the_same() -> None:
    assert DEFECTS.keys() - RISKS.keys() == IN_NO_RELEASE
    for name in DEFECTS.keys() & RISKS.keys():
        assert DEFECTS[name].property in RISKS[name].breaks
        assert not RISKS[name].is_of(DEFECTS[name].twin) or DEFECTS[name].twin_scope


OF_THEIR_OWN = [risk.name for risk in RISKS.values() if risk.scope and risk.name not in DEFECTS]
SMALL = {"gives_up_the_forgotten"}


@pytest.mark.parametrize("name", sized(OF_THEIR_OWN, set(OF_THEIR_OWN) - SMALL))
def test_a_risk_that_is_no_mutant_breaks_something_in_its_scope(name: str) -> None:
    risk = RISKS[name]
    report = explore_scope(risk.scope, risk.variant, engine="ints" if name in SMALL else "c")
    shown = {
        found.property
        for found in report.violations
        if risk.explains(found.property, {step.rule for step in found.trace.steps})
    }
    assert shown


@pytest.mark.fast
def test_the_page_says_of_each_release_what_the_registry_of_releases_says() -> None:
    text = risk_page()
    skipped = RISKS["marker_without_leader"]
    assert {r for r in RELEASES["transactions"] if cell(skipped, r) == "**yes**"} == set(SINCE_4_3)
    assert {cell(RISKS["delayed_end_txn"], r) for r in (*SINCE_4_3, "4.0.2")} == {"V1"}
    assert cell(RISKS["delayed_end_txn"], "3.9.2") == "**yes**"
    assert cell(skipped, "2.0.0") == ""
    assert {risk.composition for risk in RISKS.values()} == set(SECTIONS)
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert len(rows) == len(RISKS)
    assert len({line.count("|") for line in rows}) == 1
    for risk in RISKS.values():
        assert f"](#{risk.name})" in text
        assert f"### {risk.name}\n" in text


@pytest.mark.fast
def test_a_promise_that_a_risk_breaks_names_it() -> None:
    """In the scopes that were asked about nothing breaks it."""
    names = ("no_lost_write", "order_kept")
    answers = [
        GuaranteeAnswer(name, "it holds.", True, True, "", ("its_theorem",), (), None, ())
        for name in names
    ]
    risk = RISKS["marker_at_equal_epoch"]
    [_, excepted, kept] = promised(answers, [risk])
    assert excepted.endswith(" EXCEPT in the trouble marker_at_equal_epoch, told below.")
    assert "EXCEPT" not in kept
    told = summary(answers, [risk])
    assert told == "1 with exceptions among 2 promised, 0 not promised and broken"
    assert summary(answers, []) == "2 promised, 0 not promised and broken"


@pytest.mark.fast
def test_a_cure_says_what_that_release_has_instead() -> None:
    [first, *others] = RISKS["marker_at_equal_epoch"].remedies()
    assert first == "4.2.1 with its defaults"
    assert (
        others[0]
        == f"{' or '.join(SINCE_4_3)} with its defaults, though with marker_without_leader"
    )
