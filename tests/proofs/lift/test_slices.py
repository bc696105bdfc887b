"""What a slice of a tuple is, of any length that the tuple may have, is what it is in Python."""

from __future__ import annotations

import ast

import pytest

from proofs.lift.containers import FunctionSeq
from proofs.lift.dag import leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import load_model
from proofs.lift.step import evaluate
from proofs.lift.values import Seq

SIZE = 4
LENGTH = leaf("length", 0, SIZE)
ITEMS = tuple(leaf(f"x[{i}]", 0, 9) for i in range(SIZE))


def sliced(text: str, owner: Seq | FunctionSeq) -> Seq | FunctionSeq:
    """A slice of `xs`, lifted."""
    model = load_model("idempotent")
    k = model.scopes.SCOPES["idempotent-tiny"].configuration(model.variants.parse("4.3.1"))
    found = Evaluator(model, k).value(ast.parse(text, mode="eval").body, {"xs": owner, "": {}})
    assert isinstance(found, (Seq, FunctionSeq))
    return found


@pytest.mark.parametrize("ends", [":2", "2:", "-3:", ":-1", ":-2", ":-4", ":-6"])
def test_a_slice_is_what_python_makes_of_it(ends: str) -> None:
    found = sliced(f"xs[{ends}]", Seq(LENGTH, ITEMS))
    assert isinstance(found, Seq)
    for length in range(SIZE + 1):
        values = {"length": length, **{f"x[{i}]": i + 1 for i in range(SIZE)}}
        xs = tuple(range(1, length + 1))
        count, *slots = evaluate([found.length, *found.slots], values, {})
        assert tuple(slots[:count]) == eval(f"xs[{ends}]", {"xs": xs})


@pytest.mark.parametrize("ends", [":-1", ":-6"])
def test_no_tuple_of_any_size_has_a_negative_length(ends: str) -> None:
    found = sliced(f"xs[{ends}]", FunctionSeq(LENGTH, lambda i: i))
    for length in range(SIZE + 1):
        (count,) = evaluate([found.length], {"length": length}, {})
        assert count == len(eval(f"xs[{ends}]", {"xs": tuple(range(length))}))
