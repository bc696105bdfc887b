"""Footprints: what happens in a configuration, and each kind of change that is told by name."""

import json
from dataclasses import replace

import pytest

from proofs.__main__ import main
from proofs.coverage.footprint import difference, footprint_of, stray
from proofs.explore.source import instances
from proofs.lift.patch import Patch
from proofs.lift.source import model_for
from proofs.trace.format import label
from proofs.trace.replay import Stepper, configuration_of

SCOPE, VARIANT = "idempotent-restart", "first_sequence=strict/restart_window=full"


@pytest.fixture(scope="module")
def plain():
    return footprint_of(SCOPE, VARIANT, "ints", ())


def graph_on_source():
    """Every state of the scope with what leaves it, by the model's own text."""
    stepper = Stepper(model_for(SCOPE), configuration_of(model_for(SCOPE), SCOPE, VARIANT))
    every = instances(stepper.model, stepper.k)
    found, frontier = {}, [stepper.initial()]
    while frontier:
        world = frontier.pop()
        if world not in found:
            steps = ((label(*event), stepper.after(*event, world)) for event in every)
            found[world] = [(event, after) for event, after in steps if after is not None]
            frontier += [after for _, after in found[world]]
    return found


def test_a_footprint_is_what_the_source_does(plain):
    graph = graph_on_source()
    enabled = {world: {rule for rule, _ in leaving} for world, leaving in graph.items()}
    orders = {
        f"{rule} then {other}"
        for leaving in graph.values()
        for rule, after in leaving
        for other in enabled[after]
    }
    assert plain.orders == orders
    conflicts = {frozenset(pair.split(" beside ")) for pair in plain.conflicts}
    both = {frozenset((a, b)) for rules in enabled.values() for a in rules for b in rules if a != b}
    assert conflicts == both
    assert plain.events == set().union(*enabled.values())


def test_effects_are_those_of_the_source(plain):
    """Of one field that every event of a leader writes."""
    ends = {
        f"{rule}: len(leaders[0].log): {len(before.leaders[0].log)} -> {len(after.leaders[0].log)}"
        for before, leaving in graph_on_source().items()
        for rule, after in leaving
        if len(before.leaders[0].log) != len(after.leaders[0].log)
    }
    assert ends
    assert {effect for effect in plain.effects if "len(leaders[0].log)" in effect} == ends


PLANTED = {
    "lost of events: late_request_arrives(producer=0, partition=0, connection=0)": Patch(
        "network.broken", "(*link.broken, left)", "(*link.broken,)"
    ),
    "new in orders: connection_breaks(producer=0, partition=0, survivors=0) then"
    " client_sends(producer=0, partition=0)": Patch(
        "world.connection_breaks", "require(not network.is_idle(link))", "require(True)"
    ),
    "lost of effects: late_request_arrives(producer=0, partition=0, connection=0):"
    " leaders[0].high_watermark: 0 -> 1": Patch(
        "world.late_request_arrives", "w.leaders.put(partition, step.actor)", "w.leaders"
    ),
}


@pytest.mark.parametrize(("told", "patch"), PLANTED.items(), ids=PLANTED)
def test_what_is_lost_or_new_is_named(told, patch):
    assert stray(SCOPE, VARIANT, "ints", (patch,)) == told


@pytest.mark.parametrize("kind", ["events", "decisions", "effects", "orders", "conflicts"])
def test_each_kind_is_compared_both_ways(plain, kind):
    *_, gone = sorted(getattr(plain, kind))
    fewer = replace(plain, **{kind: getattr(plain, kind) - {gone}})
    assert difference(plain, fewer) == f"lost of {kind}: {gone}"
    assert difference(fewer, plain) == f"new in {kind}: {gone}"
    assert difference(plain, plain) is None


def test_the_verb_compares(tmp_path, capsys):
    told, patch = next(iter(PLANTED.items()))
    file = tmp_path / "patch.json"
    file.write_text(json.dumps([[patch.function, patch.before, patch.after]]))
    argv = ["coverage", SCOPE, "--compare", VARIANT]
    assert main([*argv, "--patch", str(file)]) == 1
    assert f"{SCOPE}: {told}" in capsys.readouterr().out
    assert main(argv) == 0
    assert f"{SCOPE}: the same things happen" in capsys.readouterr().out
