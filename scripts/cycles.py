"""The folders of each room that lean on one another: prints components of more than one folder.

    python scripts/cycles.py [ROOM ...]

A folder stands for the modules that are directly in it, and leans on each folder of its room whose
modules these import: also within functions, and for types. Exit code 1 if some folders of a room
lean on one another, 0 if none do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx

ROOT = Path(__file__).parents[1]
ROOMS = ("model", "proofs", "impl", "conformance")


def modules_of(room: str) -> dict[str, Path]:
    """The file of each module of a room; a package's own is its `__init__.py`."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / room).rglob("*.py"))
    }


def imported_by(path: Path) -> Iterator[tuple[str, str]]:
    """Each name that a module imports, as (module, name); the name is empty for `import MODULE`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def folder_graph(room: str) -> networkx.DiGraph:
    """The folders of a room, with an edge from each to those that it leans on; an edge has its
    `imports`, as (module, imported module)."""
    modules = modules_of(room)
    graph = networkx.DiGraph()
    for module, path in modules.items():
        own = path.parent.relative_to(ROOT).as_posix()
        graph.add_node(own)
        for package, name in imported_by(path):
            other = next((m for m in (f"{package}.{name}", package) if m in modules), None)
            if other is None:
                continue
            there = modules[other].parent.relative_to(ROOT).as_posix()
            if there != own:
                graph.add_edge(own, there)
                graph.edges[own, there].setdefault("imports", []).append((module, other))
    return graph


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    """The components of more than one folder."""
    components = map(sorted, networkx.strongly_connected_components(graph))
    return sorted(component for component in components if len(component) > 1)


def arrows(graph: networkx.DiGraph, circle: Sequence[str]) -> Iterator[str]:
    """A line for each folder of a circle that leans on another: how often, and one import."""
    for own, there, found in graph.subgraph(circle).edges(data="imports"):
        module, other = min(found)
        yield f"    {own} -> {there}: {len(found)} names, as {other} by {module}"


def main(rooms: Sequence[str]) -> int:
    """Print the circles of some rooms."""
    unknown = sorted(set(rooms) - set(ROOMS))
    if unknown:
        print(f"no room is called {', '.join(unknown)}: choose of {', '.join(ROOMS)}")
        return 2
    found = 0
    for room in rooms or ROOMS:
        graph = folder_graph(room)
        there = circles(graph)
        found += len(there)
        print(f"{room}: {len(graph)} folders, {len(there)} circles")
        for circle in there:
            print(f"  {len(circle)} folders: {', '.join(circle)}")
            print(*arrows(graph, circle), sep="\n")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
