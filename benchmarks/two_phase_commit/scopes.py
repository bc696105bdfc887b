"""Where it begins."""

from __future__ import annotations

from benchmarks.two_phase_commit.setting import Setting
from benchmarks.two_phase_commit.world import Decision, Status, World
from model.language import EMPTY_SET, Map


def initial(k: Setting) -> World:
    """All are working, and nothing was said."""
    status = Map.filled(k.layout.managers, Status.WORKING)
    return World(status, Decision.NONE, EMPTY_SET, EMPTY_SET)
