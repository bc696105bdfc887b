"""The interface of a composition's adapter: its folder has one in `adapter.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from conformance.judging.judge import Lockstep


class CompositionAdapter(NamedTuple):
    """The functions that judge `impl` by a composition.

    `tables` makes the tables of a configuration. `judge` takes them, the actors under test and the
    form of messages; it raises NotApplicable. `observed_world` makes a world of what a judged
    system shows.
    """

    tables: Callable[[Any], Any]
    judge: Callable[[Any, str, str], Lockstep]
    observed_world: Callable[[Any], Any]
