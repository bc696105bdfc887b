"""Points are read from the text: each decision is one, whoever calls it."""

import ast
from dataclasses import replace

import pytest

from proofs.coverage.points import acting, conditions, incident_conditions, points, sites
from proofs.lift.source import load_model

pytestmark = pytest.mark.fast

MODEL = load_model("idempotent")


def with_functions(**texts):
    """The model with more functions, named `module__function`."""
    added = {tuple(name.split("__")): ast.parse(text).body[0] for name, text in texts.items()}
    return replace(MODEL, functions={**MODEL.functions, **added})


def test_every_decision_of_the_acting_functions_is_a_site():
    trees = [tree for _, tree in acting(MODEL)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    branches = [n for n in nodes if isinstance(n, (ast.If, ast.IfExp))]
    branches += [test for n in nodes if isinstance(n, ast.comprehension) for test in n.ifs]
    found = sites(MODEL).values()
    assert sum(site.kind == "branches" for site in found) == len(branches) > 50


def test_a_limit_is_as_many_conjuncts_as_it_has_operands():
    tree = ast.parse("require(a)\nwithin_scope(b and (c or not d))\nassume(e)")
    assert [(ast.unparse(c), kind) for c, kind in conditions(tree)] == [
        ("a", "conjuncts"),
        ("b", "conjuncts"),
        ("c", "conjuncts"),
        ("not d", "conjuncts"),
    ]


def test_names_are_unique_and_outlive_edits_elsewhere():
    found = points(MODEL).values()
    assert len({point.says for point in found}) == len(found)
    assert {point.kind for point in found} == {"rules", "branches", "conjuncts", "error_codes"}
    assert {p.name for p in found if p.kind == "rules"} == set(MODEL.rules)
    assert {p.name for p in found if p.kind == "error_codes"} == set(
        MODEL.messages.Error.__members__
    )


def test_the_same_text_twice_in_a_function_is_two_sites():
    text = "def f(a: bool) -> int:\n  return (1 if a else 2) + (3 if a else 4)"
    says = [p.says for p in points(with_functions(leader__f=text)).values() if ".f#" in p.name]
    assert says == [
        "leader.f: a: then",
        "leader.f: a: else",
        "leader.f: a (2): then",
        "leader.f: a (2): else",
    ]


@pytest.mark.parametrize(
    ("asking", "is_there"), [("", True), ("def g(a: bool) -> int:\n  return f(a)", False)]
)
def test_what_only_guarantees_call_is_no_point_and_what_nobody_calls_is_one(asking, is_there):
    text = "def f(a: bool) -> int:\n  return 1 if a else 2"
    functions = {"leader__f": text} | ({"guarantees__g": asking} if asking else {})
    assert any(".f#" in name for name in points(with_functions(**functions))) == is_there


@pytest.mark.parametrize("name", ["idempotent", "transactions"])
def test_when_an_event_is_an_incident_is_no_point(name):
    """Coverage asks these conditions itself: no event evaluates them."""
    model = load_model(name)
    asked = incident_conditions(model)
    assert "is_at_last_epoch" in asked
    functions = {function.rpartition(".")[2] for function, _ in acting(model)}
    assert not functions & asked
