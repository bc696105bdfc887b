"""impl with other text, in a process of its own: forked, so that only impl is imported again.

Everything else is loaded once, in the process that forks: the model, the plans, what libraries
there are. A child forgets impl and all that has imported it, and imports it through a finder that
changes the syntax trees of modules as they are loaded. No file is written, and no switch in impl
exists for it.
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
"""What stands in place of a module's tree, by the module's name."""

FORKS: Final = multiprocessing.get_context("fork")
AGAIN: Final = ("impl", "conformance")
"""Packages that a child imports again: impl, and what may have imported it."""
NO_ANSWER: Final = None
"""Of a child that was ended: it had used up its time, or its memory."""
BEGUN: Final = "begun"
"""What a child sends first: what ends it from there on is its work."""
MOST_MEMORY: Final = 4 << 30
"""What a child may take in bytes, beside what its parent had when it was forked."""
PR_SET_PDEATHSIG: Final = 1
"""Of prctl(2): the signal that a process gets when its parent ends."""


class PatchedLoader(SourceFileLoader):
    """Compiles a module's changed tree; nothing is taken from a cache, or kept there."""

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
        """The text of a module of impl, with another loader."""
        if not is_of("impl", fullname):
            return None
        text = PythonText().find_spec(fullname, path, target)
        spec = text or super().find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            loader: Loader = PatchedLoader(fullname, spec.origin, cls.change)
            spec.loader = loader
        return spec


def plant(change: Change) -> None:
    """From here on impl is imported as changed. For a process that ends with it."""
    for name in list(sys.modules):
        if any(is_of(package, name) for package in AGAIN) and name != __name__:
            del sys.modules[name]
    PatchedImpl.change = staticmethod(change)
    sys.meta_path.insert(0, PatchedImpl)


# A function alone


def replace_function(module: str, function: str, change: Change) -> bool:
    """Give one function of a loaded module the code that it has in the changed tree; all else stays
    as it is loaded. False, and nothing is changed, where that cannot be: what stands in no function
    is evaluated when a module is loaded. For a process that ends with it."""
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
    """The function of a module in which a name is, perhaps in another function, and its path."""
    part: Any = module
    for end, name in enumerate(path, start=1):
        part = function_of(vars(part).get(name))
        if isinstance(part, FunctionType):
            return part, list(path[:end])
        if not isinstance(part, type):
            return None
    return None


def code_at(code: CodeType, path: Sequence[str]) -> CodeType | None:
    """The code of a function of a module, or a class, by its path; None if it is not the only one
    of its name."""
    for name in path:
        inner = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name]
        if len(inner) != 1:
            return None
        [code] = inner
    return code


# Children


def limit_resources(seconds: int) -> None:
    """End this process where it uses more of a processor's time, or far more memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    most = inherited_memory() + MOST_MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:  # of a child's own child
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def inherited_memory() -> int:
    """The bytes of address space that this process has; 0 where only Linux would tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 0


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, also where that is killed: nobody else would. Linux
    alone can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def answer(to: Connection, seconds: int, work: Callable[[T], Any], given: T, parent: int) -> None:
    """What a child does."""
    end_with_parent(parent)
    limit_resources(seconds)
    to.send(BEGUN)
    to.send(work(given))
    to.close()


def in_children(
    work: Callable[[T], U], given: Iterable[tuple[T, int]], processes: int
) -> Iterator[tuple[T, U | None]]:
    """What `work` gives for each, in a forked child with so many seconds of a processor's time;
    None of one that did not answer. As they come. Raises RuntimeError where a child does not come
    to its work: that is no answer of the work."""
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
    """What a child has sent; NO_ANSWER if it ended without."""
    try:
        return ready.recv()
    except EOFError:
        return NO_ANSWER


def refuse_unless_begun(message: Any) -> None:
    """Raises RuntimeError."""
    if message != BEGUN:
        raise RuntimeError("a child process ended before its work began")


@contextmanager
def no_child_left(running: dict[Connection, tuple[T, ForkProcess]]) -> Iterator[None]:
    """End what is still at work when this is left."""
    try:
        yield
    finally:
        for _, child in running.values():
            child.kill()
            child.join()
