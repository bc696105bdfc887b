"""Lockstep of a group that processes: `impl`'s nodes and members against the model's world.

1. A step is an event of the model as a whole: the application's call, all requests that it takes,
   and their answers.
2. After each step all that can be seen is compared; see `shapes`.
3. Each identity that the group has given is offered to it again after each step: all but the last
   are refused, each for its own reason (`membership`).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from conformance.judge import Instance, JudgeStep, Lockstep
from conformance.systems.base import NotApplicable, View, differences
from conformance.systems.processing.membership import Joins, expected_refusals
from conformance.systems.processing.shapes import WORLD
from conformance.systems.processing.system import ImplProcessing
from conformance.systems.processing.worlds import ProcessingTables
from proofs.run import BadUse

if TYPE_CHECKING:
    from conformance.plan import Plan
    from conformance.verbs.pipeline import Target

IDENTITIES: Final = 1
"""Where they are in a view."""


class ProcessingJudge(Lockstep):
    """Judges traces of one configuration."""

    def __init__(self, tables: ProcessingTables, system: ImplProcessing) -> None:
        super().__init__(tables)
        self._system = system
        self._node = tables.first
        self._processes: list[int] = []
        self._joins: Joins = ()

    def move(self, instance: Instance) -> JudgeStep:
        """What `follow` needs to know of a step."""
        rule, choice = instance
        return JudgeStep(instance, partial(self._take, rule, *(value for _, value in choice)))

    def begin(self) -> None:
        """Model and system at the beginning of the scope. Raises Differs."""
        self._node = self.tables.first
        self._processes = [0] * self.tables.k.bounds.members
        self._joins = ()
        self._seen = 0
        self._system.reset()
        self.check_all()

    def _take(self, rule: str, *choices: int) -> None:
        """One event on both sides. Raises Differs, the model's Disabled."""
        self._node, seen = self.tables.after(self._node, rule, *choices)
        self._seen |= seen
        self._react(getattr(self._system, rule), choices)
        if rule == "member_starts":
            self._processes[choices[0]] += 1
        if rule == "member_joins":
            [member] = choices
            self._joins += ((member, self._processes[member]),)
        self.check_all()

    def check_all(self) -> None:
        """Compare all that there is. Raises Differs."""
        observed = self._react(self._system.view, ())
        expected = self._expected()
        if expected != observed:
            self.differ(differences("world", WORLD, expected, observed))

    def _expected(self) -> View:
        view = self._node.view
        return (*view[:IDENTITIES], expected_refusals(self._joins), *view[IDENTITIES + 1 :])

    def check_restraint(self) -> None:
        """Nobody may send anything between two events: all that is sent is in one."""

    def observed_world(self) -> Any:
        """The model's last world, with the output and the group's offset that the system has."""
        model, world, view = self.tables.model, self._node.world, self._system.view()
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


def refuse_wire(plan: Plan, options: argparse.Namespace) -> Target:
    """Raises BadUse: brokers are judged by real applications instead."""
    raise BadUse(
        f"{plan.scope} is judged in process alone; at brokers: conformance"
        " consume-transform-produce"
    )


def judge_of_system(tables: ProcessingTables, system: str, actors: str, on: str) -> ProcessingJudge:
    """The judge of `impl`, the only system in process. Raises NotApplicable."""
    assert system == "impl", "other systems are not in process"
    if on != "bytes":
        raise NotApplicable(f"nodes read bytes, and the codec is {on}; use --codec bytes")
    return ProcessingJudge(tables, ImplProcessing(tables.k))


def observed_world(judge: ProcessingJudge) -> Any:
    """What the system shows of the guarantees."""
    return judge.observed_world()
