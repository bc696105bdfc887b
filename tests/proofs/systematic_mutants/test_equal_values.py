"""What solvers say of changed functions: that their values are what they were, or proofs lost."""

import pytest

from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, load_model
from proofs.systematic_mutants import equal_values
from proofs.systematic_mutants.changes import functions_that_act, selected
from proofs.systematic_mutants.equal_values import (
    UnknownArguments,
    container_sizes,
    has_equal_values,
)
from proofs.systematic_mutants.lost_proofs import first_lost

pytest.importorskip("z3")
pytest.importorskip("cvc5")

CHANGES = [
    # The same, whatever the arguments: no epoch is below the one that stands for none.
    ("transactions", "leader.earlier", "begins == NO_OFFSET", "begins <= NO_OFFSET", True),
    ("transactions", "leader.earlier", "begins == NO_OFFSET", "begins <= NO_OFFSET + 1", False),
    ("idempotent", "client.is_of", "batch.producer_id", "batch.producer_epoch", False),
]


@pytest.mark.parametrize(("group", "function", "before", "after", "is_equal"), CHANGES)
def test_a_planted_difference_is_no_equal_value(group, function, before, after, is_equal):
    assert has_equal_values(group, Patch(function, before, after)) == is_equal


@pytest.mark.parametrize("group", COMPOSITIONS)
def test_every_container_has_several_elements(group):
    """Of a container of one element, every index would be the same."""
    model = load_model(group)
    size = UnknownArguments(model).size
    assert all(size(name) >= 2 for name in container_sizes(model.world.World))


@pytest.mark.parametrize("group", ["producer_ids", "processing"])
def test_every_function_can_be_asked_about(group):
    model = load_model(group)
    unlifted = {"world.producer_id_is_given"}  # a set over unknown ids
    for name in {*functions_that_act(model)} - unlifted:
        found = UnknownArguments(model).evaluate(model, name)
        assert not found.defined.is_const or found.defined.value, name


def test_what_solvers_do_not_agree_on_is_not_known(monkeypatch):
    group, function, before, after, _ = CHANGES[0]
    assert has_equal_values(group, Patch(function, before, after))
    answers = {"z3": "proved", "cvc5": "unknown"}

    class Answer:
        def __init__(self, result):
            self.result = result

    monkeypatch.setattr(equal_values, "ask", lambda name, *_, **__: Answer(answers[name]))
    assert not has_equal_values(group, Patch(function, before, after))


def test_a_theorem_is_lost_where_the_change_reaches_it():
    """A write that is taken whatever block it is for; and one whose text alone is another one."""
    (check,) = selected("producer_ids.store:on_write:check:1")
    assert first_lost("producer_ids", check.patch).startswith("producer_ids_unique, ")
    (silent,) = selected("producer_ids.store:on_write:table:1")
    assert first_lost("producer_ids", silent.patch) is None
