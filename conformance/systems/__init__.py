"""Systems under test, each behind the interface of `base`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.systems.base import System
from conformance.systems.impl import ImplSystem
from model.setting import Setting

SYSTEMS: Mapping[str, Callable[[Setting, frozenset[str], str], System]] = {"impl": ImplSystem}
"""By name: from a setting, the actors under test, and "bytes" or "values"."""
