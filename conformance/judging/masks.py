"""Masks: known or harmless differences that a run ignores, so that it judges the rest of a trace.

    [RULE:]FIELD[+FIELD...][=OBSERVED][...]

A FIELD is the end of a path without indices: `producers.coordinator_epoch` matches that of any
leader. With RULE, the mask applies only in steps of this rule or probe. With OBSERVED, it applies
only where the system shows this value, written as in JSON. A mask with several fields hides
differences that are in exactly these fields. After a masked difference, the model judges the rest
as if system and model had agreed. Three dots at the end mark a difference in behaviour: a trace
that differs again behind such a mask ends there, without a finding, because the second difference
may follow from the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from conformance.judging.signatures import INDEX
from proofs.run.files import line

Row = tuple[str, Any, Any]
"""A path, with the expected and the observed value."""

FOLLOWS: Final = "..."
"""The end of a mask of a difference that has consequences."""

FORM: Final = re.compile(
    r"(?:(?P<rule>\w+):)?(?P<fields>[\w.+]*\w)(?:=(?P<observed>.+?))?(?P<follows>\.\.\.)?"
)


class BadMask(ValueError):
    """A text that is not a mask."""


class Mask(NamedTuple):
    """One mask; `rule` and `observed` are None if the mask does not restrict them."""

    text: str
    fields: tuple[str, ...]
    rule: str | None
    observed: str | None
    has_consequences: bool = False

    def fits(self, rule: str, rows: Sequence[Row], *, has_begun: bool) -> list[Row]:
        """The differences of a step that this mask hides. Once it `has_begun` in a trace, its
        fields stay hidden there: a state that differs does so until it changes."""
        found = [row for row in rows if self.has(row)]
        is_whole = len(self.fields) == 1 or len(found) == len(rows)
        return found if has_begun or (is_whole and self.rule in (None, rule)) else []

    def has(self, row: Row) -> bool:
        """Whether the mask matches this place."""
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
    """The mask for a difference in these fields of a rule."""
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
        """The texts from which the masks were parsed."""
        return tuple(mask.text for mask in self.masks)

    def __bool__(self) -> bool:
        return bool(self.masks)


NO_MASKS: Final = Masks()


@dataclass(slots=True)
class MaskedTrace:
    """The masks used in one trace: the step at which each was first used."""

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
        """Whether the system behaved differently earlier in the trace: a new difference may follow
        from that."""
        return any(m.has_consequences and m.text in self.first_use for m in self.masks.masks)

    def behind(self, steps: int) -> MaskedWork:
        """The numbers of steps judged behind each mask, in a trace of this many steps."""
        return {text: (1, max(steps - first, 0)) for text, first in self.first_use.items()}


MaskedWork = Mapping[str, tuple[int, int]]
"""The number of traces that continue behind each mask, and the number of steps there."""


def add_masked(*parts: MaskedWork) -> MaskedWork:
    """Add all parts."""
    total: dict[str, tuple[int, int]] = {}
    for text, (traces, steps) in (row for part in parts for row in part.items()):
        known = total.get(text, (0, 0))
        total[text] = known[0] + traces, known[1] + steps
    return total
