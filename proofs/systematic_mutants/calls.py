"""Records the calls of the model's functions in a configuration.

A mutant changes one function. If the changed function answers every call of a configuration as
before, all transitions of the configuration are unchanged, and nothing needs to be lifted or
explored.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from model.language import Disabled
from proofs.cache import cache_folder, make_once
from proofs.explore.source import instances, source_search
from proofs.lift.patch import Patch, apply
from proofs.lift.source import Model, model_folder
from proofs.run.files import code_digest
from proofs.trace.replay import Stepper

ONLY_LOOK = (
    "assumed_properties",
    "broker_guarantees",
    "client_guarantees",
    "conditions",
    "fates",
    "guarantees",
    "liveness",
    "spec",
)
"""Modules that only look at worlds, and change none."""

Function = Callable[..., Any]
Arguments = tuple[Any, ...]


@dataclass
class Calls:
    """The arguments of calls in a configuration, by function of an actor."""

    k: Any
    arguments: dict[str, dict[Arguments, None]] = field(default_factory=dict)


def record_calls(model: Model, k: Any, functions: Iterable[str]) -> Calls:
    """Explore a configuration on its source, and record the calls. Raises as `explore_source`.

    Functions of the world are left out, because each of its states is an argument.
    """
    calls = Calls(k)
    with recorded(model, [f for f in functions if not is_of_world(model, f)], calls):
        search = source_search(Stepper(model, k), instances(model, k), [], edges=False)
        while search.counts().level_first != search.counts().level_end:
            search.expand_level(lambda: None)
    return calls


def is_of_world(model: Model, name: str) -> bool:
    """Whether a function takes the world as an argument."""
    return "w" in parameters(function_of(model, name))


def parameters(function: FunctionType) -> tuple[str, ...]:
    """Return the names of a function's parameters."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]


@contextmanager
def recorded(model: Model, functions: Iterable[str], calls: Calls) -> Iterator[None]:
    """Make the functions record their arguments while the context lasts."""
    wrapped = {
        id(f): recording(f, calls.k, calls.arguments.setdefault(name, {}))
        for name, f in ((name, function_of(model, name)) for name in functions)
    }
    places = [
        (module, name, value)
        for module in model.modules.values()
        for name, value in vars(module).items()
        if id(value) in wrapped
    ]
    for module, name, value in places:
        setattr(module, name, wrapped[id(value)])
    try:
        yield
    finally:
        for module, name, value in places:
            setattr(module, name, value)


def recording(function: Function, k: Any, seen: dict[Arguments, None]) -> Function:
    """Return the function, made to record its arguments except the configuration."""

    def called(*arguments: Any) -> Any:
        seen[arguments[arguments[:1] == (k,) :]] = None
        return function(*arguments)

    return called


def function_of(model: Model, name: str) -> FunctionType:
    """Return a function `module.name` of the model as it runs."""
    module, _, function = name.rpartition(".")
    return cast(FunctionType, vars(model.modules[module])[function])


def mutated(model: Model, patch: Patch) -> FunctionType:
    """Return one function of the model with a patch applied; all others are unchanged."""
    module, _, name = patch.function.rpartition(".")
    text = ast.unparse(model.functions[module, name])
    trees = {module: ast.parse(f"from __future__ import annotations\n{text}")}
    apply(patch, trees)
    names = dict(vars(model.modules[module]))
    exec(compile(ast.fix_missing_locations(trees[module]), module, "exec"), names)
    return cast(FunctionType, names[name])


# Comparing


def difference(model: Model, changed: FunctionType, name: str, calls: Calls) -> str | None:
    """Return how a changed function differs on the calls of a configuration: None if it does not,
    the name of its error if it fails, else ""."""
    function = function_of(model, name)
    differs = False
    for kept in calls.arguments.get(name, ()):
        arguments = (calls.k, *kept) if parameters(function)[:1] == ("k",) else kept
        before, after = outcome(function, arguments), outcome(changed, arguments)
        if isinstance(after, Failed):
            return after.error
        differs = differs or before != after
    return "" if differs else None


@dataclass(frozen=True, slots=True)
class Failed:
    """A function failed with a Python error."""

    error: str


def outcome(function: Function, arguments: Arguments) -> Any:
    """Return the outcome of a function: a value, that it is disabled and why, or its failure."""
    try:
        return function(*arguments)
    except Disabled as disabled:
        return Disabled, disabled.by_scope
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        return Failed(type(error).__name__)


# Calls kept between runs


def stored_calls(model: Model, k: Any, functions: Iterable[str], name: str) -> Calls:
    """Return the calls of a configuration, recorded once for a text of the model."""

    def fill(draft: Path) -> None:
        (draft / "calls").write_bytes(pickle.dumps(record_calls(model, k, functions)))

    key = hashlib.sha256(repr((name, k, text_digest())).encode()).hexdigest()[:32]
    found = make_once(cache_folder() / "calls" / key, fill) / "calls"
    calls: Calls = pickle.loads(found.read_bytes())
    return calls


@functools.cache
def text_digest() -> str:
    """Return a digest of the model's text and of the text that records calls. Modules that only
    look at worlds are left out, because they call nothing."""
    digest = hashlib.sha256(code_digest(["proofs"]).encode())
    for path in sorted(model_folder().rglob("*.py")):
        if path.stem not in ONLY_LOOK:
            digest.update(path.read_bytes())
    return digest.hexdigest()
