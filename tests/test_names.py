"""One concept, one name; one name, one concept; and no files that import each other in a circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parent.parent
PACKAGES = ("kafka_eos", "model", "proofs", "impl", "conformance")

SHARED_CLASSES = {
    "each composition of the model has its own": (
        "Batch Bounds Budgets Client Error Fate Faults FirstSequence Leader ProducerStateEntry Slot"
        " Store Variant World"
    ),
    "Kafka's class, in the model and in impl, which know nothing of each other": (
        "BatchMetadata InFlightBatch PartitionEntry ProducerStateEntry StoredBatch"
        " TransactionState VerificationEntry"
    ),
    "an actor of the model, and the one of the system that stands for it": (
        "Client Coordinator Leader"
    ),
    "a node's world in virtual time is a world too": "Faults World",
    "a broker of a cluster, and an operation of a graph": "Node",
    "what a trace breaks: a guarantee of the model, or a rule for clients": "Breach",
}
"""Names of classes that are shared on purpose, by the reason."""

SHARED_MODULES = {
    "each composition of the model has its own": (
        "client configuration coordinator faults group guarantees leader liveness messages network"
        " scopes variants world"
    ),
    "each composition of the proofs has its own": "assumptions composition theorems",
    "a composition's part of judging, and of the adapter of impl": "adapter judge system tables",
    "what each package calls its errors, settings, messages and reports": (
        "config errors events messages network report"
    ),
    "a verb has the name of what it reports": "guarantees liveness",
    "about the same thing as the model's module, in another room": "producer_ids releases",
    "what drives the client library of this name": "confluent",
}
"""Names of modules that three or more share on purpose, by the reason."""

CIRCLES_TO_CUT: set[frozenset[str]] = set()
"""Files that import each other today. The list only shrinks."""


@cache
def modules() -> dict[str, ast.Module]:
    """The text of each shipped module, by name."""
    return {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts): ast.parse(path.read_bytes())
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
    }


def words(table: dict[str, str]) -> set[str]:
    return {name for names in table.values() for name in names.split()}


def test_no_two_public_classes_share_a_name_by_accident() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    allowed = words(SHARED_CLASSES)
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in shared.items() if name not in allowed} == {}


def test_no_three_modules_share_a_name_by_accident() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        places[module.rpartition(".")[2]].append(module)
    allowed = words(SHARED_MODULES) | {"__init__", "__main__"}
    shared = {name: where for name, where in places.items() if len(where) > 2}
    assert {name: where for name, where in shared.items() if name not in allowed} == {}


def imported_at_once(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports as it is imported: not in functions, not for types."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = networkx.DiGraph(
        (module, other)
        for module, tree in modules().items()
        for other in imported_at_once(tree)
        if other in modules() and other != module
    )
    components = map(frozenset, networkx.strongly_connected_components(graph))
    circles = {component for component in components if len(component) > 1}
    assert circles <= CIRCLES_TO_CUT
