"""The form in which this runs: Python, or compiled from the same text (`setup.py`)."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

IS_COMPILED: Final[bool] = __file__.endswith(tuple(EXTENSION_SUFFIXES))
"""Whether the hot modules are extension modules: all of them, this one included, or none."""

FORM: Final[str] = "compiled" if IS_COMPILED else "python"
