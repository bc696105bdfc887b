"""What the subset refuses, and how it says so."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from proofs.lift import subset
from proofs.lift.annotations import LiftError
from proofs.lift.build import lift
from proofs.lift.patch import Patch, PatchError
from proofs.lift.source import COMPOSITIONS, NOT_LIFTED, Model, load_model
from proofs.trace.replay import configuration_of

pytestmark = pytest.mark.fast


def with_function(text: str) -> Model:
    """The model with one more function in leader.py."""
    model = load_model("idempotent")
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    functions = {**model.functions, ("leader", tree.name): tree}
    return replace(model, functions=functions)


def refused(body: str) -> str:
    """The message for a function with this body."""
    text = f"def added(k: Configuration, leader: Leader) -> int:\n    {body}\n"
    with pytest.raises(subset.SubsetError) as caught:
        subset.check(with_function(text))
    return str(caught.value)


def test_the_model_is_within_the_subset() -> None:
    assert subset.refusals(load_model("idempotent")) == ()


@pytest.mark.parametrize(
    ("body", "problem", "cure"),
    [
        ("for x in (1, 2): pass", "a For statement", "fold(k, step, items, start)"),
        ("x = 1\n    x = 2\n    return x", "x has a value already", "take a fresh name"),
        ("return 2 ** 3", "operator not in the subset: 2 ** 3", "there are + - * %"),
        ("return None", "None is no value of the model", "sentinel (-1)"),
        ("return len([1])", "List is not in the subset", "write a tuple"),
        ("return added(k, leader)", "the function calls itself", "fold"),
        ("return unheard_of", "unheard_of is not known", "import or define it"),
        ("return (lambda: 1)()", "a call of an expression", "call a function by its name"),
        ("x = 1", "a path ends without a result", "return on every path"),
        ("if leader is k:\n        return 1\n    return 2", "`is` compares", "write == or !="),
        ("return tuple(a for a in (1, 2) for b in (1, 2))", "more than one generator", "inner one"),
        ("1 + 1\n    return 2", "`1 + 1` has no effect", "delete it"),
    ],
)
def test_a_refusal_names_the_place_and_the_cure(body: str, problem: str, cure: str) -> None:
    message = refused(body)
    assert problem in message
    assert cure in message
    assert message.startswith("model/idempotent/leader.py:")
    assert ": in added: " in message


def test_an_unknown_field_is_refused_by_the_evaluator() -> None:
    model = load_model(
        "idempotent", [Patch("leader.check_producer_epoch", "batch.producer_epoch", "batch.epoch")]
    )
    k = model.scopes.SCOPES["idempotent-tiny"].configuration(model.variants.parse("4.3.1"))
    with pytest.raises(
        LiftError, match=r"model/idempotent/leader.py:\d+:\d+: .*Batch has no field 'epoch'"
    ):
        lift(model, k, "tiny")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (Patch("leader.nothing", "1", "2"), "no function 'leader.nothing'"),
        (Patch("leader.log_end_offset", "0 + 0", "1"), "found 0 times"),
        (Patch("leader.in_sequence", "following", "last"), "found 2 times"),
    ],
)
def test_a_patch_must_fit_exactly_once(patch: Patch, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        load_model("idempotent", [patch])


def test_a_patched_model_leaves_the_plain_one_alone() -> None:
    changed = load_model("idempotent", [Patch("leader.in_sequence", "last + 1", "last + 2")])
    k = configuration_of(load_model("idempotent"), "idempotent-tiny", "4.3.1")
    assert not changed.leader.in_sequence(k, 3, 4)
    assert load_model("idempotent").leader.in_sequence(k, 3, 4)
    assert changed.world is not load_model("idempotent").world


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_each_module_of_a_composition_is_checked_or_has_no_rules(name: str) -> None:
    model = load_model(name)
    ruled = (*model.rules.values(), *model.actor_rules.values())
    assert not NOT_LIFTED & {rule.__module__.rpartition(".")[2] for rule in ruled}
