"""Makes the judge import the Python text of `impl`, even if a compiled form lies beside it.

The judge stores actors as bytes and notes which statements run; a compiled class supports neither.
The tests of `impl` run on both forms and hold them to each other, and the compiled form is judged
at `wire://`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import ModuleType
from typing import Final

PACKAGE: Final = "impl"


class PythonText(MetaPathFinder):
    """Finds the Python text of a module of `impl`, even if an extension module lies beside it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module below the package; None for all others."""
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        finders = [FileFinder(p, (SourceFileLoader, SOURCE_SUFFIXES)) for p in path or ()]
        found = (finder.find_spec(fullname) for finder in finders)
        return next((spec for spec in found if spec is not None), None)


def prefer_python_text() -> None:
    """Prefer the Python text from now on. If the process has imported `impl` already, the form
    stays. Finders that were put before the path's own still come first: they change the text."""
    known = (f"{type(finder).__module__}.{type(finder).__name__}" for finder in sys.meta_path)
    if PACKAGE not in sys.modules and f"{__name__}.{PythonText.__name__}" not in known:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), PythonText())
