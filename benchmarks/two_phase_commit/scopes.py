"""Where it begins."""

from __future__ import annotations

from benchmarks.two_phase_commit.configuration import Configuration
from benchmarks.two_phase_commit.world import Decision, Status, World
from model.language import EMPTY_SET, Map


def initial(k: Configuration) -> World:
    """All are working, and nothing was said."""
    status = Map.filled(k.bounds.managers, Status.WORKING)
    return World(status, Decision.NONE, EMPTY_SET, EMPTY_SET)
