"""Lockstep of a processing group: `impl`'s nodes and members against the model's world.

After each step, each identity that the group has given is offered to it again: all but the last are
refused, each for its own reason (`membership`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from conformance.adapters.impl.processing.membership import Joins, expected_refusals
from conformance.adapters.impl.processing.shapes import WORLD
from conformance.adapters.impl.processing.system import ImplProcessing
from conformance.judging.system import NotApplicable, View
from conformance.judging.world_lockstep import WorldJudge, WorldTables

IDENTITIES: Final = 1
"""The place of the identities in a view."""


class ProcessingJudge(WorldJudge):
    """Judges traces of one configuration."""

    system: ImplProcessing

    def __init__(self, tables: WorldTables, system: ImplProcessing) -> None:
        super().__init__(tables, system, WORLD)
        self._processes: list[int] = []
        self._joins: Joins = ()

    def begin(self) -> None:
        """Model and system at the beginning of the scope. Raises Differs."""
        self._processes = [0] * self.tables.k.bounds.members
        self._joins = ()
        super().begin()

    def note(self, rule: str, choices: Sequence[int]) -> None:
        """Note which member joins, with which process: the model does not count processes."""
        if rule == "member_starts":
            self._processes[choices[0]] += 1
        if rule == "member_joins":
            [member] = choices
            self._joins += ((member, self._processes[member]),)

    def expected(self) -> View:
        """The view of the model's world, with the expected answer to each identity."""
        view = self.node.view
        return (*view[:IDENTITIES], expected_refusals(self._joins), *view[IDENTITIES + 1 :])

    def observed_world(self) -> Any:
        """The model's last world, with the system's output and group offset."""
        model, world, view = self.tables.model, self.node.world, self.system.view()
        fates = model.messages.Fate.__members__
        output = tuple(
            model.store.Slot(input_offset=offset, member=member, fate=fates[fate])
            for offset, member, fate in view[5]
            if fate in fates
        )
        committed = view[2][0] if isinstance(view[2][0], int) else world.group.committed
        return replace(
            world,
            store=replace(world.store, output=output),
            group=replace(world.group, committed=committed),
        )


def judge_of_impl(tables: WorldTables, actors: str, on: str) -> ProcessingJudge:
    """The judge of `impl`. Raises NotApplicable."""
    if on != "bytes":
        raise NotApplicable(f"nodes read bytes, and the codec is {on}; use --codec bytes")
    return ProcessingJudge(tables, ImplProcessing(tables.k))


def observed_world(judge: ProcessingJudge) -> Any:
    """The properties that the system shows of the guarantees."""
    return judge.observed_world()
