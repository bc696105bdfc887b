"""Events as code: made of the model's text, whatever events there are."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from types import ModuleType

import pytest

from conformance.judging.lockstep.events import Events
from conformance.judging.lockstep.text import CannotSpecialize
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of

RESTARTS_TWICE = """
@event(CLIENT)
def leader_restarts_twice(k: Configuration, w: World, partition: Partition) -> World:
    restarted = leader_rules.restart(k, w.leaders[partition])
    kept = restarted if len(restarted.log) > 0 else w.leaders[partition]
    heard = leader_rules.fail_over(k, kept, 0)
    again = leader_rules.restart(k, kept)
    return replace(w, leaders=w.leaders.put(partition, again))
"""

EACH_RESTARTS = """
@event(CLIENT)
def leader_restarts_by_answer(k: Configuration, w: World) -> World:
    moved = tuple(leader_rules.restart(k, w.leaders[0]) for _ in w.links[0][0].answers)
    return replace(w, leaders=w.leaders.put(0, moved[0]))
"""


def with_event(text: str) -> Events:
    """The events of a small scope, and one more."""
    model = load_model("idempotent")
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    world = ModuleType("model.idempotent.world")
    vars(world).update(vars(model.world))
    exec("from __future__ import annotations\n" + text, vars(world))
    longer = replace(
        model,
        modules={**model.modules, "world": world},
        functions={**model.functions, ("world", tree.name): tree},
    )
    k = configuration_of(model, "idempotent-tiny", "4.3.1")
    return Events(longer, k, model.scopes.initial(k))


@cache
def idempotent() -> Events:
    model = load_model("idempotent")
    k = configuration_of(model, "idempotent-tiny", "4.3.1")
    return Events(model, k, model.scopes.initial(k))


def test_cells_that_guards_alone_read_are_left_out() -> None:
    code = idempotent().code("connection_breaks", (0, 0, 0))
    paths = [cell.path for cell in idempotent().cells]
    assert f"s[{paths.index('links[0][0].answers')}]" in code
    assert f"s[{paths.index('faults.breaks')}]" not in code


def test_an_actor_takes_a_message_as_the_model_has_it_and_as_the_system_made_it() -> None:
    assert idempotent().code("request_arrives", (0, 0)).splitlines() == [
        "def event(s=s):",
        "    v0, m0 = s[2][0], None",
        "    v1, m1 = a1(s[1], ('on_produce', v0[0], ), (v0[1], ))",
        "    s[1], s[2], s[3] = v1, s[2][1:], (s[3] + m1)",
    ]


def test_an_event_that_the_world_has_more_needs_nothing_here() -> None:
    """Its condition is met when it runs, and a call whose result goes nowhere is not made."""
    assert with_event(RESTARTS_TWICE).code("leader_restarts_twice", (0,)).splitlines() == [
        "def event(s=s):",
        "    v0, m0 = a1(s[1], ('restart', ), ())",
        "    if (len(v0.state.log) > 0):",
        "        v2, m2 = a1(v0, ('restart', ), ())",
        "        s[1] = v2",
        "        pass",
        "    else:",
        "        v2, m2 = a1(s[1], ('restart', ), ())",
        "        s[1] = v2",
        "        pass",
    ]


def test_an_event_in_which_an_unknown_number_of_actors_moves_is_refused() -> None:
    with pytest.raises(CannotSpecialize, match="leader_restarts_by_answer"):
        with_event(EACH_RESTARTS)
