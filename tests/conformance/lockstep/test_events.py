"""Events as code: made of the model's text, whatever events there are."""

from __future__ import annotations

import ast
from functools import cache
from types import ModuleType, SimpleNamespace

import pytest

from conformance.lockstep.events import Events
from conformance.lockstep.text import CannotSpecialize
from conformance.plan import configuration_of
from model.idempotent import world
from proofs.lift.source import Model, composition

BOTH_RESTART = """
def both_restart(k, w, partition):
    \"\"\"Two leaders restart, the second if the first has a log.\"\"\"
    restarted = leader_rules.restart(k, w.leaders[partition])
    lost = leader_rules.fail_over(k, w.leaders[partition], 0)
    leader = restarted if len(restarted.log) > 0 else w.leaders[partition]
    return replace(w, leaders=w.leaders.put(partition, leader))
"""

EACH_RESTARTS = """
def each_restarts(k, w):
    \"\"\"As many leaders move as there are answers: no code can be made of that.\"\"\"
    moved = tuple(leader_rules.restart(k, w.leaders[0]) for _ in w.links[0][0].answers)
    return replace(w, leaders=w.leaders.put(0, moved[0]))
"""


@cache
def idempotent() -> Events:
    model = composition("idempotent")
    k = configuration_of(model, "idempotent-tiny", "4.3.1")
    return Events(model, k, model.scopes.initial(k))


def test_cells_that_guards_alone_read_are_left_out() -> None:
    code = idempotent().code("connection_breaks", (0, 0, 0))
    paths = [cell.path for cell in idempotent().cells]
    assert f"s[{paths.index('links[0][0].answers')}]" in code
    assert f"s[{paths.index('spent.breaks')}]" not in code


def test_an_actor_takes_a_message_as_the_model_has_it_and_as_the_system_made_it() -> None:
    assert idempotent().code("request_arrives", (0, 0)).splitlines() == [
        "def event(s=s):",
        "    v0, m0 = s[2][0], None",
        "    v1, m1 = a1(s[1], ('on_produce', v0[0], ), (v0[1], ))",
        "    s[1], s[2], s[3] = v1, s[2][1:], (s[3] + m1)",
    ]
