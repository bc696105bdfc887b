"""Traces that were recorded with their answers: their steps, and answers with another field."""

from collections.abc import Sequence
from typing import Any

from proofs.trace.format import Instance


def steps_of(trace: dict[str, Any]) -> Sequence[Instance]:
    """Its steps, as JSON has kept them."""
    return [(rule, tuple((n, v) for n, v in choice)) for rule, choice in trace["steps"]]


def with_field(body: Any, field: str, value: Any) -> Any:
    """An answer with a field replaced wherever it is."""
    if isinstance(body, list):
        return [with_field(one, field, value) for one in body]
    if isinstance(body, dict):
        return {k: value if k == field else with_field(v, field, value) for k, v in body.items()}
    return body
