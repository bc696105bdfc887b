"""`export SCOPE`: writes the scope in other languages, with its expected counts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from proofs.explore.explorer import explore
from proofs.explore.result import StateGraph
from proofs.explore.scope import explore_scope
from proofs.lift import subset
from proofs.lift.build import lift
from proofs.lift.machine import Machine
from proofs.lift.source import model_for
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.plan import plan, write_texts
from proofs.say import say
from proofs.trace.replay import configuration_of
from proofs.verbs.options import add_engine, add_output, add_variant
from proofs.verbs.output import ExplorationDisplay, Output

MAX_GRAPH_STATES = 200_000
"""The largest number of states in a graph's file: a larger file would take gigabytes, and help no
reader."""


class NothingToExport(ValueError):
    """No form is named."""


class ScopeTooLargeForGraph(ValueError):
    """The scope has more states than a graph's file may have."""


class UnknownForm(ValueError):
    """A graph's file has an ending that names no form."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("scope", metavar="SCOPE")
    add_variant(parser)
    add_engine(parser)
    parser.add_argument("--tla", type=Path, metavar="DIR", help="write a module and its .cfg")
    parser.add_argument(
        "--smtlib", type=Path, metavar="DIR", help="write the obligations of the theorems"
    )
    parser.add_argument("--graph", type=Path, metavar="FILE", help="write FILE.graphml or .json")
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Write the requested forms. Raises ValueError for a form that cannot be written."""
    if not (arguments.tla or arguments.smtlib or arguments.graph):
        raise NothingToExport("name what to write: --tla DIR, --smtlib DIR, --graph FILE")
    if arguments.graph and arguments.graph.suffix not in WRITERS:
        forms = ", ".join(WRITERS)
        raise UnknownForm(f"{arguments.graph}: the file's ending says its form, one of {forms}")
    k = configuration_of(model_for(arguments.scope), arguments.scope, arguments.variant)
    with ExplorationDisplay(arguments.scope) as progress:
        report = explore_scope(
            arguments.scope,
            arguments.variant,
            engine=arguments.engine,
            workers=arguments.workers,
            progress=progress,
        )
    expected = {
        "distinct": report.counts.distinct,
        "transitions": report.counts.transitions,
        "depth": report.counts.depth,
    }
    files = [str(path) for path in write_forms(arguments, k, report.counts.distinct)]
    content = {
        "scope": report.scope,
        "variant": report.variant,
        "expected": expected,
        "files": files,
        "verdict": "holds",
    }
    for file in files:
        say(file)
    say(f"expected: {', '.join(f'{name} {count}' for name, count in expected.items())}")
    with Output(arguments, "scope", "variant", files=files) as output:
        return output.finish(content)


def write_forms(arguments: argparse.Namespace, k: Any, distinct: int) -> list[Path]:
    """Write the files. Raises ScopeTooLargeForGraph."""
    files = []
    if arguments.tla:
        from proofs.export.tla import export_tla

        model = model_for(arguments.scope)
        subset.check(model)
        module = export_tla(model, k, arguments.scope, levels=True).write(arguments.tla)
        files += [module, module.with_suffix(".cfg")]
    if arguments.smtlib:
        asked = plan(THEOREMS, lambda theorem: theorem.variant)
        files += write_texts(asked, arguments.smtlib)
    if arguments.graph:
        if distinct > MAX_GRAPH_STATES:
            raise ScopeTooLargeForGraph(
                f"{arguments.scope} has {distinct:,} states; a graph's file has at most"
                f" {MAX_GRAPH_STATES:,}: choose a smaller scope"
            )
        model = model_for(arguments.scope)
        machine = lift(model, k, arguments.scope, guarantees=False).machine
        graph = explore(machine, "ints", want_edges=True).graph
        assert graph is not None
        arguments.graph.parent.mkdir(parents=True, exist_ok=True)
        WRITERS[arguments.graph.suffix](machine, graph, arguments.graph)
        files.append(arguments.graph)
    return files


def networkx_graph(machine: Machine, graph: StateGraph) -> Any:
    """Return a MultiDiGraph with a node for each state, numbered from the initial one, and an edge
    with a label for each transition."""
    import networkx

    made = networkx.MultiDiGraph(scope=machine.name, initial=0)
    made.add_nodes_from(range(graph.distinct))
    for before, rule, after in zip(graph.sources, graph.rules, graph.targets, strict=True):
        instance = machine.rules[rule]
        made.add_edge(before, after, rule=instance.rule, label=instance.label)
    return made


def write_graphml(machine: Machine, graph: StateGraph, path: Path) -> None:
    """Write GraphML, as `networkx.read_graphml` reads it."""
    import networkx

    networkx.write_graphml(networkx_graph(machine, graph), path)


def write_json(machine: Machine, graph: StateGraph, path: Path) -> None:
    """Write node-link data, as `networkx.node_link_graph(data, edges="edges")` reads it."""
    import networkx

    data = networkx.node_link_data(networkx_graph(machine, graph), edges="edges")
    path.write_text(json.dumps(data) + "\n", encoding="utf-8")


WRITERS = {".graphml": write_graphml, ".json": write_json}
"""The writers of graphs, by the ending of the file's name."""
