"""The one guarantee, and what shows that it is not empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.two_phase_commit.configuration import Configuration
from benchmarks.two_phase_commit.world import Status, World


def consistent(k: Configuration, w: World) -> bool:
    """No resource manager has committed while another has aborted."""
    return not (
        any(status == Status.COMMITTED for status in w.status.values())
        and any(status == Status.ABORTED for status in w.status.values())
    )


def all_committed(k: Configuration, w: World) -> bool:
    """Sometimes: every resource manager has committed."""
    return all(status == Status.COMMITTED for status in w.status.values())


def always(k: Configuration) -> bool:
    """In every configuration."""
    return True


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A sentence that is true in each world."""

    name: str
    check: Callable[[Configuration, World], bool]
    guaranteed: Callable[[Configuration], bool]


@dataclass(frozen=True, slots=True)
class Witness:
    """A sentence that is true in some world."""

    name: str
    check: Callable[[Configuration, World], bool]


GUARANTEES = (Guarantee("consistent", consistent, always),)
WITNESSES = (Witness("all_committed", all_committed),)
