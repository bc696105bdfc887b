"""Known differences, each with its public reference; they do not count against a system.

Three rules:

1. A row stands for something that the model leaves out on purpose, or for a pending fix of the
   model. Everything else becomes a variant of the model, or is fixed in the model.
2. A row names one release, one rule, and the fields that differ. It explains nothing else.
3. A row that a run no longer reproduces is stale: `stale` names it, and the tests fail on it.

`KNOWN_DIFFERENCES` is this project's table. `--baseline FILE` is a vendor's own: a JSON list of
objects with the keys of `KnownDifference`. `--write-baseline FILE` writes one from a run's
findings.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.judging.masks import mask_text
from conformance.judging.signatures import Signature

KEYS: Final = ("release", "rule", "fields", "reference", "trace")


class BadBaseline(ValueError):
    """A baseline that cannot be read; the message says where, what is wrong and how to fix it."""


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """One known difference: in `release`, `rule` shows it in exactly these `fields`.

    Fields are paths without indices, as in `leader.log.base_offset`, sorted. `reference` is public
    (an issue, a KIP, a page). `trace` is the file, beside the table, of a trace that shows the
    difference. If `look_past`, a run masks the difference (`mask`) and judges the rest of the
    trace; else the trace ends there. Use it for differences that a system merely shows: if the
    behaviour differs, everything that follows differs too.
    """

    release: str
    rule: str
    fields: tuple[str, ...]
    reference: str
    trace: str
    look_past: bool = False

    @property
    def mask(self) -> str:
        """The mask that hides this difference."""
        return mask_text(self.rule, self.fields)

    def explains(self, release: str, signature: Signature) -> bool:
        """Whether this difference explains the findings of that signature."""
        here = (release, signature.rule, signature.fields)
        return here == (self.release, self.rule, self.fields)


KNOWN_DIFFERENCES: tuple[KnownDifference, ...] = ()
"""Empty: `impl` and the releases that the model knows agree with it."""


def explanation(
    rows: Iterable[KnownDifference], release: str, signature: Signature
) -> KnownDifference | None:
    """The first row that explains the findings of that signature, if any."""
    return next((row for row in rows if row.explains(release, signature)), None)


def stale(
    rows: Iterable[KnownDifference], release: str, signatures: Collection[Signature]
) -> list[KnownDifference]:
    """The rows of this release that no finding shows."""
    return [
        row
        for row in rows
        if row.release == release and not any(row.explains(release, s) for s in signatures)
    ]


# A vendor's own


UNKNOWN: Final = "unknown: name an issue, or say why this is right"


def known_from(
    release: str, signature: Signature, trace: str, *, look_past: bool
) -> KnownDifference:
    """The row for findings; the vendor fills in the reference."""
    return KnownDifference(release, signature.rule, signature.fields, UNKNOWN, trace, look_past)


def read_baseline(path: Path) -> tuple[KnownDifference, ...]:
    """The rows of a baseline file. Raises BadBaseline."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadBaseline(f"{path}: {error}; name a readable JSON file") from error
    if not isinstance(rows, list):
        raise BadBaseline(f"{path}: not a list; write [{{{', '.join(KEYS)}}}, ...]")
    return tuple(row_of(path, number, row) for number, row in enumerate(rows, start=1))


def row_of(path: Path, number: int, row: Any) -> KnownDifference:
    """One row, checked. Raises BadBaseline."""
    where = f"{path}: row {number}"
    if not isinstance(row, dict) or set(row) - {"look_past"} != set(KEYS):
        named = f"{', '.join(KEYS)}, and look_past or not"
        raise BadBaseline(f"{where} is not an object with just the keys {named}")
    if not isinstance(row.get("look_past", False), bool):
        raise BadBaseline(f"{where}: look_past is true or false")
    texts = [row[key] for key in KEYS if key != "fields"]
    if not all(isinstance(text, str) and text for text in texts):
        raise BadBaseline(f"{where}: {', '.join(KEYS)} are texts, only fields is a list of texts")
    fields = row["fields"]
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise BadBaseline(f'{where}: fields is not a list of texts, as in ["leader.log"]')
    return KnownDifference(**(row | {"fields": tuple(sorted(fields))}))
