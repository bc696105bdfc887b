"""The known distinguishing traces, in `traces.json`, which `distinguish --search --keep` writes.

A row is about one variant, one other value of one rule, and one way to observe a system. Every
later search finds the row again, so a change of the model that makes a row wrong fails a test.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.judging.distinguish.alternatives import Alternative
from conformance.judging.distinguish.product import Visibility
from proofs.run.files import pretty, write_whole
from proofs.trace.format import Instance, label
from proofs.trace.shrink import Steps

ONE_BROKER: Final = "one broker"
THREE_BROKERS: Final = "three brokers"
ACTORS: Final = "actors in process"
WAYS: Final = (ONE_BROKER, THREE_BROKERS, ACTORS)
"""The ways in which a system is observed."""

FILE: Final = Path(__file__).with_name("traces.json")

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class RuleVisibility:
    """The result of a search. `searched` has the number of state pairs that were met in each scope;
    in every scope but the last no difference was found. `steps` are a trace of `variant` in
    `scope`, if one was found."""

    composition: str
    variant: str
    rule: str
    own: str
    value: str
    observer: str
    answer: Visibility
    scope: str = ""
    steps: Steps = ()
    searched: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`RULE=VALUE`."""
        return f"{self.rule}={self.value}"

    @property
    def key(self) -> Key:
        """Identifies the question that this row answers."""
        return (self.composition, self.variant, self.name, self.observer)

    @property
    def is_found(self) -> bool:
        """Whether the search found a trace."""
        return self.answer is Visibility.FOUND

    def answers(self, alternative: Alternative) -> bool:
        """Whether the row is about this rule and this other value."""
        return (self.own, self.name) == (alternative.own, alternative.name)

    def to_json(self) -> dict[str, Any]:
        """The row of the file."""
        steps = [label(*step) for step in self.steps]
        return asdict(self) | {"answer": self.answer.value, "steps": steps}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RuleVisibility:
        """The row that `to_json` wrote."""
        steps = tuple(map(read_step, value["steps"]))
        return cls(**{**value, "answer": Visibility(value["answer"]), "steps": steps})


def read_step(text: str) -> Instance:
    """The step of a label: `batch_is_produced(instance=0, partition=0, heard=1)`."""
    rule, _, choices = text.removesuffix(")").partition("(")
    pairs = (choice.partition("=") for choice in choices.split(", ") if choice)
    return rule, tuple((name, int(value)) for name, _, value in pairs)


def in_words(row: RuleVisibility) -> str:
    """The row as a sentence."""
    if row.is_found:
        return f"{len(row.steps)} steps in {row.scope}, to {label(*row.steps[-1])}"
    scopes = ", ".join(row.searched)
    complete = "all of" if row.answer is Visibility.NOT_VISIBLE else "not all of"
    return f"{row.answer}: searched {complete} {scopes}"


@functools.cache
def rows() -> tuple[RuleVisibility, ...]:
    """All known rows."""
    return tuple(map(RuleVisibility.from_json, json.loads(FILE.read_text(encoding="utf-8"))))


def rows_about(composition: str, variant: str, observer: str) -> list[RuleVisibility]:
    """The rows of one variant that is observed in one way."""
    about = (composition, variant, observer)
    return [row for row in rows() if (row.composition, row.variant, row.observer) == about]


def keep(found: Iterable[RuleVisibility], path: Path = FILE) -> None:
    """Write the rows into the file, each in place of an older row with the same key."""
    rows.cache_clear()  # another process may have written rows
    by_key = {row.key: row for row in (*rows(), *found)}
    kept = [by_key[key].to_json() for key in sorted(by_key)]
    write_whole(path, pretty(kept))
    rows.cache_clear()
