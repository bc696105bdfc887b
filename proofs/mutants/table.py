"""The named mutants: defects that shipped, and decisions of the design that are reverted.

The tables are `idempotent.toml` and `transactions.toml`, which say what their rows mean.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.variant_syntax import with_release
from proofs.lift.patch import Patch

BASE = "level=2/requests=v2"
"""The variant of a row without one. A variant without a release belongs to the newest release."""


@dataclass(frozen=True, slots=True)
class ModelMutant:
    """A defect, the scope in which it shows, and the property that it breaks.

    `kind` is "mutant" (a patch of the model) or "variant" (the rules of some release, or what a
    scope of its own allows). The twin must be clean, in the same scope or in `twin_scope`: for a
    mutant it is the mutant's own variant without the patches, for a variant the one with the better
    rule. `theorem` is the theorem that `prove --mutant` breaks, with its first obligation that
    fails.
    """

    name: str
    group: str
    kind: str
    reference: str
    mechanism: str
    scope: str
    variant: str
    property: str
    twin: str
    patches: tuple[Patch, ...] = ()
    twin_scope: str = ""
    theorem: tuple[str, str] | None = None
    no_theorem: str = ""


def _read(name: str) -> dict[str, Any]:
    path = Path(__file__).with_name(f"{name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _mutant(group: str, name: str, row: Mapping[str, Any]) -> ModelMutant:
    variant = with_release(row.get("variant", BASE))
    return ModelMutant(
        name=name,
        group=group,
        kind="mutant" if "patches" in row else "variant",
        reference=row["reference"],
        mechanism=row["mechanism"],
        scope=row["scope"],
        variant=variant,
        property=row["breaks"],
        twin=with_release(row.get("twin", variant)),
        patches=tuple(Patch(*patch) for patch in row.get("patches", ())),
        twin_scope=row.get("twin_scope", ""),
        theorem=tuple(row["theorem"]) if "theorem" in row else None,
        no_theorem=row.get("no_theorem", ""),
    )


def _mutants(table: Mapping[str, Any]) -> Iterator[ModelMutant]:
    for group, rows in table.items():
        yield from (_mutant(group, name, row) for name, row in rows.items())


_TRANSACTIONS = _read("transactions")

NOT_EXPRESSIBLE: Mapping[str, str] = _TRANSACTIONS.pop("not_expressible")
"""Defects that shipped, with what the model would need to show them."""

TRANSACTIONAL: tuple[ModelMutant, ...] = tuple(_mutants(_TRANSACTIONS))

MUTANTS: tuple[ModelMutant, ...] = (*_mutants(_read("idempotent")), *TRANSACTIONAL)
