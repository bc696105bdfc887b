"""Errors that end at the call which caused them: no frame of ours stands below it.

Most calls of a `Broker` are done on another thread, through an event loop and a function or two:
that is of no use to whoever mistyped a topic. What is not the application's doing keeps its frames.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import FunctionType
from typing import Any, Final, TypeVar, cast

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])

_PROTOCOLS: Final = ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__")


def refuses_plainly(*names: str) -> Callable[[Class], Class]:
    """Have these methods of a class refuse so, all that are public if none are named."""

    def change(of_class: Class) -> Class:
        public = [name for name in vars(of_class) if name[0] != "_" or name in _PROTOCOLS]
        for name in names or public:
            value = vars(of_class)[name]
            if isinstance(value, FunctionType):
                setattr(of_class, name, ends_at_the_call(value))
            elif isinstance(value, property) and value.fget is not None:
                setattr(of_class, name, value.getter(ends_at_the_call(value.fget)))
        return of_class

    return change


def ends_at_the_call(function: Function) -> Function:
    """The function, whose refusals have no frames of its own; and those of what it has awaited."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest's name for it
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            if not _is_refusal(error):
                raise
            raise error.with_traceback(None) from error.__cause__
        return _await(result) if isinstance(result, Coroutine) else result

    return cast(Function, call)


async def _await(work: Coroutine[Any, Any, Any]) -> Any:
    __tracebackhide__ = True
    try:
        return await work
    except Exception as error:
        if not _is_refusal(error):
            raise
        raise error.with_traceback(None) from error.__cause__


def _is_refusal(error: Exception) -> bool:
    """Whether it tells the application something: Python's own errors are defects of ours."""
    return isinstance(error, OSError) or type(error).__module__.startswith("impl.")
