"""Bugs planted in impl, as named replacements: the judge must find each of them by itself.

Two rules:

1. A bug is a row of a table: the mistake, and the replacement for impl's own text, under the scope
   in which the bug shows. The unchanged impl shows no difference in that scope.
2. The bug is planted in a copy, which a fresh process finds first on its path. The working tree is
   never touched, and `impl` has no switch for the bug.

Each composition has a file. Each table in it is a scope; a row is

    name = ["what is wrong", ["Class.method", "text before", "text after"], ...]

with one or more replacements (`proofs.lift.patch`). `write_patched` copies and patches. The fresh
process runs `hunt`: it judges the scope's traces until some diverge, shrinks these, and keeps the
shortest.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from model.variant_syntax import with_release
from proofs.lift.patch import Patch

FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class HuntScope:
    """The scope in which bugs are hunted. `scope` may name budgets: `SCOPE/BUDGET=N`. Without a
    `variant` it is impl's own; without `actors` all are under test. `nodes` is the number of nodes
    that play the traces; with 0, actors play them without nodes."""

    scope: str
    variant: str | None = None
    actors: str | None = None
    nodes: int = 0

    @classmethod
    def parse(cls, text: str) -> HuntScope:
        """The scope of `SCOPE [of VARIANT] [by ACTORS | at N nodes]`."""
        where, _, nodes = text.partition(" at ")
        where, _, actors = where.partition(" by ")
        scope, _, variant = where.partition(" of ")
        return cls(
            scope,
            with_release(variant) if variant else None,
            actors or None,
            int(nodes.split()[0]) if nodes else 0,
        )

    def __str__(self) -> str:
        variant = f" of {self.variant}" if self.variant else ""
        actors = f" by {self.actors}" if self.actors else ""
        return f"{self.scope}{variant}{actors}" + (f" at {self.nodes} nodes" if self.nodes else "")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug, and the scope in which it shows."""

    name: str
    what: str
    hunted_in: HuntScope
    patches: tuple[Patch, ...]


def _read(group: str) -> Iterator[Mutant]:
    table = tomllib.loads((FOLDER / f"{group}.toml").read_text(encoding="utf-8"))
    for scope, rows in table.items():
        for name, (what, *patches) in rows.items():
            yield Mutant(name, what, HuntScope.parse(scope), tuple(Patch(*p) for p in patches))


KINDS: Final = ("idempotent", "transactions", "processing", "producer_ids")

GROUPS: Final[dict[str, tuple[Mutant, ...]]] = {group: tuple(_read(group)) for group in KINDS}
"""All bugs, by the part of impl that they are in."""

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant for mutants in GROUPS.values() for mutant in mutants
}
