"""The evaluator for any number of partitions, where comprehensions run over maps of any size."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proofs.lift.containers import FunctionMap, FunctionSeq
from proofs.lift.dag import Node
from proofs.lift.evaluate import Frame
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.engine.step_evaluator import StepEvaluator, any_result
from proofs.prove.engine.unknowns import Unknowns


class UnboundedEvaluator(StepEvaluator):
    """Evaluates functions whose maps have any number of keys.

    `written` has (rule, path condition, image) for each call of the text's `logged`, in the order
    of the calls: the image is then in the transaction log, and known.
    """

    def __init__(
        self,
        model: Model,
        k: Any,
        overrides: Mapping[tuple[str, str], Node],
        contracts: Mapping[str, Callable[..., Any]],
        unknowns: Unknowns,
        is_known: Callable[[Rec], bool],
    ) -> None:
        super().__init__(model, k, overrides, contracts)
        self.written: list[tuple[str, Node, Rec]] = []
        self._rule = ""
        self.unknowns = unknowns
        self.is_known = is_known

    def take(self, rule: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return the result of a rule; any result, if the rule belongs to an actor that no theorem
        watches."""
        self._rule = rule.__name__
        if self.is_known(arguments[1]):
            return super().take(rule, arguments)
        name = f"{rule.__name__}() {len(self.taken)}"
        return any_result(self.unknowns, rule, name)

    def call(self, function: Callable[..., Any], arguments: Any) -> Any:
        """Return the value of function(*arguments)."""
        if function.__name__ == "logged":
            self.written.append((self._rule, self.path, arguments[2]))
        return super().call(function, arguments)

    def reduce(self, name: str, generator: ast.GeneratorExp, frame: Frame) -> Any:
        """Evaluate all, any, sum or tuple of a generator, also over the items of a map of any
        size."""
        clause = generator.generators[0]
        owner, with_keys = self.owner_of(clause.iter, frame)
        if owner is None or (not with_keys and (name != "tuple" or clause.ifs)):
            return super().reduce(name, generator, frame)
        items = FunctionSeq(owner.size, lambda i: (i, owner.at(i)) if with_keys else owner.at(i))
        if name != "tuple" or clause.ifs:
            return self.search(name, generator, items, frame)
        file, function = self._files[-1], self._names[-1]

        def element(key: Node) -> Any:
            self._files.append(file)
            self._names.append(function)
            try:
                inner = {**frame, **self.bound(clause.target, items.at(key))}
                return self.value(generator.elt, inner)
            finally:
                self._files.pop()
                self._names.pop()

        return FunctionSeq(owner.size, element)

    def owner_of(self, node: ast.expr, frame: Frame) -> tuple[FunctionMap | None, bool]:
        """Return the map of any size whose items or values a generator runs over, and whether it is
        items."""
        called = node.func if isinstance(node, ast.Call) else None
        if not (isinstance(called, ast.Attribute) and called.attr in ("items", "values")):
            return None, False
        owner = self.value(called.value, frame)
        return (owner if isinstance(owner, FunctionMap) else None), called.attr == "items"

    def _call_Map(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        if isinstance(arguments[0], FunctionSeq):
            return FunctionMap(arguments[0].length, arguments[0].at)
        return super()._call_Map(node, arguments, named)
