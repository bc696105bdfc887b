"""Runs impl with other text, in a forked process that imports only impl again.

The process that forks has loaded everything else once: the model, the plans, the libraries. A child
forgets impl and all modules that have imported it. It imports them through a finder that changes
the syntax trees of modules as they are loaded. No file is written, and impl has no switch for it.
"""

from __future__ import annotations

import ast
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeVar

from conformance.judging.coverage.function_code import forget_results, function_of, is_of
from conformance.judging.python_text import PythonText

T = TypeVar("T")
U = TypeVar("U")
Change = Callable[[str, ast.Module], ast.Module]
"""Returns the tree to use in place of a module's, by the module's name."""

FORKS: Final = multiprocessing.get_context("fork")
AGAIN: Final = ("impl", "conformance")
"""Packages that a child imports again: impl, and those that may have imported it."""
NO_ANSWER: Final = None
"""Stands for a child that was ended, because it had used up its time or its memory."""
BEGUN: Final = "begun"
"""The first message of a child: if the child ends after it, its work is the cause."""
MOST_MEMORY: Final = 4 << 30
"""The memory in bytes that a child may take beyond that of its parent at the fork."""
PR_SET_PDEATHSIG: Final = 1
"""An option of prctl(2): the signal that a process gets when its parent ends."""


class PatchedLoader(SourceFileLoader):
    """Compiles a module's changed tree; no cache is read or written."""

    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        """The code of the changed module."""
        tree = ast.parse(self.get_data(self.path), self.path)
        return compile(ast.fix_missing_locations(self._change(fullname, tree)), self.path, "exec")


class PatchedImpl(PathFinder):
    """Finds impl's modules, for a loader that changes them."""

    change: Change

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of impl, with the loader that changes its tree."""
        if not is_of("impl", fullname):
            return None
        text = PythonText().find_spec(fullname, path, target)
        spec = text or super().find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            loader: Loader = PatchedLoader(fullname, spec.origin, cls.change)
            spec.loader = loader
        return spec


def plant(change: Change) -> None:
    """From here on impl is imported with the change. For a process that ends after this."""
    for name in list(sys.modules):
        if any(is_of(package, name) for package in AGAIN) and name != __name__:
            del sys.modules[name]
    PatchedImpl.change = staticmethod(change)
    sys.meta_path.insert(0, PatchedImpl)


# A single function


def replace_function(module: str, function: str, change: Change) -> bool:
    """Give one function of a loaded module the code that it has in the changed tree; everything
    else stays as it is loaded. Returns False, and changes nothing, if that is impossible: code
    outside of functions runs when a module is loaded. For a process that ends after this."""
    loaded = sys.modules.get(module)
    found = loaded and outermost(loaded, function.split("."))
    if not loaded or not found or not loaded.__file__:
        return False
    target, path = found
    tree = change(module, ast.parse(Path(loaded.__file__).read_text("utf-8")))
    code = code_at(compile(ast.fix_missing_locations(tree), loaded.__file__, "exec"), path)
    if code is None or code.co_freevars != target.__code__.co_freevars:
        return False
    target.__code__ = code
    forget_results("impl")
    return True


def outermost(module: ModuleType, path: Sequence[str]) -> tuple[FunctionType, list[str]] | None:
    """The outermost function of a module that contains a name, and the path to the name in it."""
    part: Any = module
    for end, name in enumerate(path, start=1):
        part = function_of(vars(part).get(name))
        if isinstance(part, FunctionType):
            return part, list(path[:end])
        if not isinstance(part, type):
            return None
    return None


def code_at(code: CodeType, path: Sequence[str]) -> CodeType | None:
    """The code of a function of a module, or a class, by its path; None if its name is not
    unique."""
    for name in path:
        inner = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name]
        if len(inner) != 1:
            return None
        [code] = inner
    return code


# Children


def limit_resources(seconds: int) -> None:
    """End this process if it uses more processor time, or far more memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    most = inherited_memory() + MOST_MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:  # for a child of this child
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def inherited_memory() -> int:
    """The bytes of address space that this process has; 0 if the system is not Linux."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 0


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, even if the parent is killed; no other process would.
    Works only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def answer(to: Connection, seconds: int, work: Callable[[T], Any], given: T, parent: int) -> None:
    """The work of a child."""
    end_with_parent(parent)
    limit_resources(seconds)
    to.send(BEGUN)
    to.send(work(given))
    to.close()


def in_children(
    work: Callable[[T], U], given: Iterable[tuple[T, int]], processes: int
) -> Iterator[tuple[T, U | None]]:
    """The results of `work` for each, in forked children with this many seconds of processor time
    each; None for a child that did not answer. They come as they are ready. Raises RuntimeError if
    a child does not begin its work, since that says nothing about the work."""
    left = iter(given)
    running: dict[Connection, tuple[T, ForkProcess]] = {}
    begun: set[Connection] = set()
    with no_child_left(running):
        while True:
            while len(running) < processes and (one := next(left, None)) is not None:
                here, there = FORKS.Pipe(duplex=False)
                job = (there, one[1], work, one[0], os.getpid())
                child = FORKS.Process(target=answer, args=job)
                child.start()
                there.close()
                running[here] = one[0], child
            if not running:
                return
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                message = received(ready)
                if ready not in begun:
                    refuse_unless_begun(message)
                    begun.add(ready)
                    continue
                what, child = running.pop(ready)
                ready.close()
                yield what, message
                child.join()


def received(ready: Connection) -> Any:
    """The answer of a child; NO_ANSWER if it ended without one."""
    try:
        return ready.recv()
    except EOFError:
        return NO_ANSWER


def refuse_unless_begun(message: Any) -> None:
    """Raises RuntimeError unless the child had begun its work."""
    if message != BEGUN:
        raise RuntimeError("a child process ended before its work began")


@contextmanager
def no_child_left(running: dict[Connection, tuple[T, ForkProcess]]) -> Iterator[None]:
    """End the children that still work when this context is left."""
    try:
        yield
    finally:
        for _, child in running.values():
            child.kill()
            child.join()
