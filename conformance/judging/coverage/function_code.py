"""The functions of loaded modules, whose code can be replaced in place."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any


def is_of(package: str, name: str) -> bool:
    """Whether a module is the package, or in it."""
    return name == package or name.startswith(f"{package}.")


def function_of(part: Any) -> Any:
    """The function that a decorator wraps; any other object unchanged."""
    for attribute in ("fget", "func", "__func__"):
        part = (
            getattr(part, attribute, part) if not isinstance(part, (type, FunctionType)) else part
        )
    return part if isinstance(part, type) else inspect.unwrap(part) if callable(part) else part


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module and of its classes, without nested functions."""
    yield from _functions_in(vars(module), module.__name__)


def _functions_in(parts: Any, module: str) -> Iterator[FunctionType]:
    for part in list(parts.values()):
        setter = part.fset if isinstance(part, property) else None
        for found in (function_of(part), setter):
            if getattr(found, "__module__", None) != module:
                continue
            if isinstance(found, FunctionType):
                yield found
            elif isinstance(found, type):
                yield from _functions_in(vars(found), module)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code objects of all functions and classes nested in some code."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from codes_in(inner)


def forget_results(package: str) -> None:
    """Clear what the functions of a package have cached."""
    modules = [module for name, module in sys.modules.items() if is_of(package, name)]
    for value in [value for module in modules for value in vars(module).values()]:
        if clear := getattr(value, "cache_clear", None):
            clear()
