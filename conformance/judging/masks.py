"""Masks: known or harmless differences that a run looks past, so that it judges the rest.

    [RULE:]FIELD[+FIELD...][=OBSERVED][...]

A FIELD is the end of a path without indices: `producers.coordinator_epoch` is that of any leader.
With RULE the mask counts in steps of this rule or probe alone, with OBSERVED where the system
shows this value, as in JSON. A mask with several fields hides differences that are in these fields,
all of them. What is behind a masked difference is judged by the model as if it had agreed. Three
dots at the end are for what a system does, not merely shows: a trace that differs again behind such
a mask ends there, and that is no finding, for it may follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from conformance.judging.signatures import INDEX
from proofs.run.files import line

Row = tuple[str, Any, Any]
"""A path, with what is expected and what is observed there."""

FOLLOWS: Final = "..."
"""The end of a mask whose differences have consequences."""

FORM: Final = re.compile(
    r"(?:(?P<rule>\w+):)?(?P<fields>[\w.+]*\w)(?:=(?P<observed>.+?))?(?P<follows>\.\.\.)?"
)


class BadMask(ValueError):
    """A text that is no mask."""


class Mask(NamedTuple):
    """One mask; `rule` and `observed` are None where they do not matter."""

    text: str
    fields: tuple[str, ...]
    rule: str | None
    observed: str | None
    has_consequences: bool = False

    def fits(self, rule: str, rows: Sequence[Row], *, has_begun: bool) -> list[Row]:
        """The differences of a step that it hides. Once it `has_begun` in a trace, its fields stay
        hidden there: a state that differs does so until it changes."""
        found = [row for row in rows if self.has(row)]
        is_whole = len(self.fields) == 1 or len(found) == len(rows)
        return found if has_begun or (is_whole and self.rule in (None, rule)) else []

    def has(self, row: Row) -> bool:
        """Whether it is about this place."""
        place = f".{INDEX.sub('', row[0])}"
        is_there = any(place.endswith(f".{name}") for name in self.fields)
        return is_there and self.observed in (None, line(row[2]))


def parse_mask(text: str) -> Mask:
    """The mask that a text names. Raises BadMask."""
    found = FORM.fullmatch(text)
    if found is None:
        raise BadMask(f"{text!r} is no mask; write [RULE:]FIELD[+FIELD...][=OBSERVED]")
    fields = tuple(found["fields"].split("+"))
    return Mask(text, fields, found["rule"], found["observed"], found["follows"] is not None)


def mask_text(rule: str, fields: Iterable[str]) -> str:
    """The mask of what differs in these fields of a rule."""
    return f"{rule}:{'+'.join(fields)}"


class Masks:
    """The masks of a plan. `tell` is called with all differences of a step, hidden or not."""

    def __init__(
        self,
        texts: Iterable[str] = (),
        tell: Callable[[Sequence[Row]], None] = lambda _: None,
    ) -> None:
        self.masks = tuple(map(parse_mask, texts))
        self.tell = tell

    @property
    def texts(self) -> tuple[str, ...]:
        """What was parsed."""
        return tuple(mask.text for mask in self.masks)

    def __bool__(self) -> bool:
        return bool(self.masks)


NO_MASKS: Final = Masks()


@dataclass(slots=True)
class MaskedTrace:
    """What was hidden in one trace: the step of each mask's first use."""

    masks: Masks
    first_use: dict[str, int] = field(default_factory=dict)

    def visible(self, rule: str, step: int, rows: Sequence[Row]) -> list[Row]:
        """The differences of a step that no mask hides."""
        left = list(rows)
        self.masks.tell(left)
        for mask in self.masks.masks:
            if hidden := mask.fits(rule, left, has_begun=mask.text in self.first_use):
                self.first_use.setdefault(mask.text, step)
                left = [row for row in left if row not in hidden]
        return left

    @property
    def has_consequences(self) -> bool:
        """Whether the system did something else on the way: what differs now may follow."""
        return any(m.has_consequences and m.text in self.first_use for m in self.masks.masks)

    def behind(self, steps: int) -> MaskedWork:
        """What was judged behind each mask in a trace of so many steps."""
        return {text: (1, max(steps - first, 0)) for text, first in self.first_use.items()}


MaskedWork = Mapping[str, tuple[int, int]]
"""By mask: the traces that go on behind it, and the steps there."""


def add_masked(*parts: MaskedWork) -> MaskedWork:
    """All parts together."""
    total: dict[str, tuple[int, int]] = {}
    for text, (traces, steps) in (row for part in parts for row in part.items()):
        known = total.get(text, (0, 0))
        total[text] = known[0] + traces, known[1] + steps
    return total
