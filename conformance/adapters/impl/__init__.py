"""Systems under test, each behind the interface of `base`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.adapters.impl.idempotent.system import ImplSystem
from conformance.judging.system import SystemUnderTest
from model.idempotent.configuration import Configuration

SYSTEMS: Mapping[str, Callable[[Configuration, frozenset[str], str], SystemUnderTest]] = {
    "impl": ImplSystem
}
"""By name: from a configuration, the actors under test, and "bytes" or "values"."""
