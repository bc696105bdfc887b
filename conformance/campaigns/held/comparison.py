"""Compares our answers with a recording, and finds the names of differences.

Four rules:

1. Two answers differ field by field; rows of an array correspond if they have the same subject.
2. `differences.toml` names differences: the APIs, the cases, the fields, and the reason.
3. A difference without a name is a defect, of the broker or of the table.
4. A name without a difference in an API is a defect of the table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.campaigns.held.normalized import Json
from conformance.campaigns.held.recording import Answers
from impl.protocol.schemas import ApiKey

TABLE: Final = Path(__file__).with_name("differences.toml")
ABSENT: Final = "(absent)"
_INDEX: Final = re.compile(r"\[[^\]]*\]")
_ABOUT: Final = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "index",
    "partition",
    "partition_index",
    "partition_id",
    "api_key",
    "group_id",
    "key",
    "user",
    "member_id",
    "node_id",
    "broker_id",
    "resource_type",
    "resource_name",
    "transactional_id",
    "producer_id",
    "feature",
)
"""Fields that identify the subject of a row."""
_SAYS_NOTHING: Final = ("", "0x" + "0" * 32)


class FieldDifference(NamedTuple):
    """A field whose value differs from Kafka's. `path` has the rows in brackets."""

    case: str
    version: int
    path: str
    ours: Json
    theirs: Json

    @property
    def field(self) -> str:
        """The path without rows."""
        return _INDEX.sub("", self.path)

    def __str__(self) -> str:
        where = f"{self.case}, version {self.version}: {self.path or 'answer'}"
        return f"{where}: {_short(self.ours)}, not {_short(self.theirs)}"


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


class Name(NamedTuple):
    """A row of the table: the differences that it names, and their reason. `*` stands for any text.

    `ours` and `theirs` are values, if the row applies to these alone.
    """

    apis: Sequence[str]
    cases: Sequence[str]
    fields: Sequence[str]
    reason: str
    versions: Sequence[int] = ()
    ours: Json = ABSENT
    theirs: Json = ABSENT

    def is_of(self, api_key: ApiKey) -> bool:
        """Whether the row applies to an API."""
        return _is_like(self.apis, api_key.name)

    def has(self, difference: FieldDifference) -> bool:
        """Whether the row names a difference of an API to which it applies."""
        return (
            _is_like(self.cases, difference.case)
            and _is_like(self.fields, difference.field)
            and (not self.versions or difference.version in self.versions)
            and self.ours in (ABSENT, difference.ours)
            and self.theirs in (ABSENT, difference.theirs)
        )


def _is_like(patterns: Sequence[str], text: str) -> bool:
    return any(_compiled(pattern).fullmatch(text) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))


class ApiComparison(NamedTuple):
    """The result for an API: its cases, and the differences with their names, or None."""

    api_key: ApiKey
    cases: int
    named: list[tuple[FieldDifference, Name]]
    unnamed: list[FieldDifference]
    unused: list[Name]

    @property
    def equal(self) -> int:
        """The number of cases without a difference."""
        found = (*(difference for difference, _ in self.named), *self.unnamed)
        return self.cases - _cases_of(found)

    @property
    def without_name(self) -> int:
        """The number of cases with a difference that has no name."""
        return _cases_of(self.unnamed)

    @property
    def holds(self) -> bool:
        """Whether each difference has a name, and each name a difference."""
        return not self.unnamed and not self.unused


def _cases_of(differences: Iterable[FieldDifference]) -> int:
    return len({(each.case, each.version) for each in differences})


def read_names(file: Path = TABLE) -> tuple[Name, ...]:
    """The table. Raises ValueError for a row without a reason."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["difference"]
    names = tuple(Name(**{"cases": ["*"], **row}) for row in rows)
    for name in names:
        if not name.reason.strip():
            raise ValueError(f"{file}: a difference of {', '.join(name.apis)} has no reason")
    return names


def compare(
    api_key: ApiKey, ours: Answers, theirs: Answers, names: Iterable[Name]
) -> ApiComparison:
    """Compare all answers of an API, those of a recording with ours."""
    about = [name for name in names if name.is_of(api_key)]
    comparison = ApiComparison(api_key, len(theirs), [], [], [])
    for (case, version), wanted in theirs.items():
        found = ours.get((case, version), ABSENT)
        for path, mine, other in differences_of(found, wanted):
            difference = FieldDifference(case, version, path, mine, other)
            name = next((each for each in about if each.has(difference)), None)
            if name is None:
                comparison.unnamed.append(difference)
            else:
                comparison.named.append((difference, name))
    used = {id(name) for _, name in comparison.named}
    comparison.unused.extend(name for name in about if id(name) not in used)
    return comparison


def differences_of(ours: Json, theirs: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Each field that differs: its path, our value and Kafka's."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**theirs, **ours}:
            inner = f"{path}.{key}" if path else key
            yield from differences_of(ours.get(key, ABSENT), theirs.get(key, ABSENT), inner)
    elif _has_rows(ours) and _has_rows(theirs):
        mine, others = _by_subject(ours), _by_subject(theirs)
        for key in {**others, **mine}:
            inner = f"{path}[{key}]"
            yield from differences_of(mine.get(key, ABSENT), others.get(key, ABSENT), inner)
    elif ours != theirs:
        yield path, ours, theirs


def _has_rows(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _by_subject(rows: list[Any]) -> dict[str, Any]:
    """Rows by their subject, with a number if several have the same subject."""
    found: dict[str, Any] = {}
    for row in rows:
        said = (str(row[field]) for field in _ABOUT if field in row)
        subject = " ".join(word for word in said if word not in _SAYS_NOTHING)
        number = sum(key.partition("#")[0] == subject for key in found)
        found[f"{subject}#{number}" if number else subject] = row
    return found
