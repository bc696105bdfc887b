"""A system under test as the rule-based machines of `proofs.machines` want it.

Each step is judged as in a trace, and the model's side of the judge is held against the world that
the machine has from the source: so the judge's tables and network are checked on the way.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.judge import Judge
from model.idempotent.world import World


class JudgedMachine:
    """Wraps a judge. `step` raises `Differs` where system and model differ, or judge and world."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def reset(self) -> None:
        """Back to the beginning of the scope."""
        self._judge.begin()

    def step(self, rule: str, choice: Mapping[str, int], before: World, after: World) -> None:
        """One event; `choice` is in the order of the rule's parameters."""
        self._judge.step((rule, tuple(choice.items())))
        self._judge.check_all()
        clients = tuple(node.state for node in self._judge.clients)
        leaders = tuple(node.state for node in self._judge.leaders)
        assert clients == after.clients.values(), f"{rule}: the judge's clients are not the world's"
        assert leaders == after.leaders.values(), f"{rule}: the judge's leaders are not the world's"
