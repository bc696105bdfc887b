"""Coverage once more, by other means: the source itself notes what it decides.

The text is written out with a call around each condition, loaded as a model of its own, and every
rule instance is tried in every world. Nothing is lifted.
"""

import ast
import builtins
import inspect
from collections import deque
from dataclasses import replace

from proofs.coverage.events import events_of
from proofs.coverage.points import sites
from proofs.coverage.survey import every_pair
from proofs.explore.source import instances, source_graph
from proofs.lift.source import execute, functions_of, load_model, read_source
from proofs.trace.replay import Stepper, configuration_of

EVENTS = events_of(load_model("idempotent"))


class Noter(ast.NodeTransformer):
    """Puts the calls in."""

    def __init__(self, named):
        self.named = named

    def visit(self, node):
        site = self.named.get(id(node))
        made = self.generic_visit(node)
        if site is not None:
            return called("_note", ast.Constant(site.name), made)
        return made


def called(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def noting_model():
    """The model, each of its conditions telling what it decides."""
    source = read_source("model.idempotent")
    unnoted = load_model("idempotent")
    named = sites(replace(unnoted, functions=functions_of(source.trees)))
    for tree in source.trees.values():
        ast.fix_missing_locations(Noter(named).visit(tree))
    noted = replace(unnoted, modules=execute(source), functions=functions_of(source.trees))
    return noted, {site.name: site for site in named.values()}


def met_by_source(scope, variant):
    """The names of all points of the text that the scope meets, and of its rules."""
    model, named = noting_model()
    met = set()

    def note(name, condition):
        met.add(named[name].point(holds=condition).name)
        return condition

    builtins._note = note
    stepper = Stepper(model, configuration_of(model, scope, variant))
    graph = source_graph(model, stepper.k, scope)
    met.clear()
    for world in graph.worlds:
        for rule, choice in instances(model, stepper.k):
            if stepper.after(rule, choice, world) is not None:
                met.add(rule)
    return met


def is_met(event, k, world, choice):
    """Whether the event's condition holds before it."""
    if event.condition is None:
        return True
    known = {"k": k, "w": world, **dict(choice)}
    return event.condition(*(known[name] for name in inspect.signature(event.condition).parameters))


def shortest_pairs(scope, variant):
    """By pair: how many steps the shortest run with both events has, found in the product."""
    model = load_model("idempotent")
    k = configuration_of(model, scope, variant)
    graph = source_graph(model, k, scope)
    leaving = {}
    for source, number, target in graph.edges:
        rule, choice = graph.instances[number]
        happens = frozenset(
            event.name
            for event in events_of(model)
            if event.rule == rule and is_met(event, k, graph.worlds[source], choice)
        )
        leaving.setdefault(source, []).append((happens, target))
    steps = {(0, frozenset()): 0}
    queue = deque(steps)
    found = {}
    while queue:
        state, happened = here = queue.popleft()
        for pair in every_pair(EVENTS):
            if set(pair.split("+")) <= happened:
                found.setdefault(pair, steps[here])
        for happens, target in leaving.get(state, ()):
            ahead = target, happened | happens
            if ahead not in steps:
                steps[ahead] = steps[here] + 1
                queue.append(ahead)
    return found
