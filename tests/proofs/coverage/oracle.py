"""Coverage once more, by other means: the source itself notes what it decides.

The text is written out with a call around each condition, loaded as a model of its own, and every
rule instance is tried in every world. Nothing is lifted.
"""

import ast
import builtins
from collections import deque
from dataclasses import replace

from proofs.coverage.events import TABLES, as_function
from proofs.coverage.points import sites
from proofs.coverage.survey import every_pair
from proofs.explore.source import instances, source_graph
from proofs.lift import text
from proofs.trace.replay import Stepper, setting_of

EVENTS = TABLES[""].events


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


def noting_model(folder):
    """The model, each of its conditions telling what it decides."""
    trees = text.trees()
    named = sites(replace(text.plain(), functions=text.functions_of(trees)))
    for name, tree in trees.items():
        if name == "language":
            continue
        noted = ast.fix_missing_locations(Noter(named).visit(tree))
        (folder / f"{name}.py").write_text(ast.unparse(noted), encoding="utf-8")
    return text.loaded(folder, "model"), {site.name: site for site in named.values()}


def met_by_source(folder, scope, variant):
    """The names of all points of the text that the scope meets, and of its rules."""
    model, named = noting_model(folder)
    met = set()

    def note(name, condition):
        met.add(named[name].point(holds=condition).name)
        return condition

    builtins._note = note
    stepper = Stepper(model, setting_of(model, scope, variant))
    graph = source_graph(model, stepper.k, scope)
    met.clear()
    for world in graph.worlds:
        for rule, choice in instances(model, stepper.k):
            if stepper.after(rule, choice, world) is not None:
                met.add(rule)
    return met


def shortest_pairs(scope, variant):
    """By pair: how many steps the shortest run with both events has, found in the product."""
    model = text.plain()
    k = setting_of(model, scope, variant)
    graph = source_graph(model, k, scope)
    tests = [(e, as_function(model, e)[1]) for e in EVENTS]
    leaving = {}
    for source, number, target in graph.edges:
        rule, choice = graph.instances[number]
        values = [value for _, value in choice]
        happens = frozenset(
            event.name
            for event, test in tests
            if event.rule == rule and test(k, graph.worlds[source], *values)
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
