"""What the subset refuses, and how it says so."""

from __future__ import annotations

import ast

import pytest

from proofs.lift import subset
from proofs.lift.build import lift
from proofs.lift.noted import LiftError
from proofs.lift.subset import LIFTED_MODULES
from proofs.lift.text import COMPOSITIONS, Model, Patch, PatchError, composition, patched, plain


def with_function(text: str) -> Model:
    """The model with one more function in leader.py."""
    model = plain()
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    functions = {**model.functions, ("leader", tree.name): tree}
    return Model(model.modules, functions, model.files, ())


def refused(body: str) -> str:
    """The message for a function with this body."""
    text = f"def added(k: Setting, leader: Leader) -> int:\n    {body}\n"
    with pytest.raises(subset.SubsetError) as caught:
        subset.check(with_function(text))
    return str(caught.value)


def test_the_model_is_within_the_subset() -> None:
    assert subset.refusals(plain()) == ()


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
    assert message.startswith("model/leader.py:")
    assert ": in added: " in message


def test_an_unknown_field_is_refused_by_the_evaluator() -> None:
    model = patched([Patch("leader.check_producer_epoch", "batch.producer_epoch", "batch.epoch")])
    k = model.scopes.SCOPES["idempotent-tiny"].setting(model.variants.parse("4.3.1"))
    with pytest.raises(LiftError, match=r"model/leader.py:\d+:\d+: .*Batch has no field 'epoch'"):
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
        patched([patch])


def test_a_patched_model_leaves_the_plain_one_alone() -> None:
    changed = patched([Patch("leader.in_sequence", "last + 1", "last + 2")])
    k = plain().scopes.SCOPES["idempotent-tiny"].setting(plain().variants.parse("4.3.1"))
    assert not changed.leader.in_sequence(k, 3, 4)
    assert plain().leader.in_sequence(k, 3, 4)
    assert changed.world is not plain().world


NOT_LIFTED = {"language", "naming", "scopes", "sentences", "setting", "spec", "variants"}
"""Modules without a rule, and the page, which is asked of traces as it stands."""


@pytest.mark.parametrize("home", ["", *COMPOSITIONS])
def test_each_module_of_a_model_is_checked_or_has_no_rules(home: str) -> None:
    model = composition(home) if home else plain()
    assert set(model.modules) - set(LIFTED_MODULES) <= NOT_LIFTED
