"""Compares the answers of two brokers about one directory, field by field, and the files
afterwards.

Three rules:

1. A field for which a release has no API is not compared.
2. A difference is known if a row of `differences.toml` names it, with its reason.
3. Serving may remove files that Kafka removes as well: files that a crash or a deletion has left,
   indexes and snapshots of producers without their segment, segments before the start of the log.
   All other files stay, and keep their beginning.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.directories.questions import Answers

FILE: Final = Path(__file__).with_name("differences.toml")
_ABSENT: Final = "-"
_REMOVED: Final = (".deleted", ".cleaned", ".swap", ".tmp")
_OF_SEGMENT: Final = re.compile(r"(.+)/([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)")


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """A field in which both differ; `reason` is empty unless the difference is known."""

    path: str
    kafka: Any
    ours: Any
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ExpectedDifference:
    """`path` is a pattern; `releases` and `scenarios` are patterns, too."""

    path: str
    reason: str
    releases: str = "*"
    scenarios: str = "*"


def read_known(path: Path = FILE) -> list[ExpectedDifference]:
    """The rows of `differences.toml`."""
    return [ExpectedDifference(**row) for row in tomllib.loads(path.read_text())["difference"]]


def compare(
    scenario: str, release: str, kafka: Answers, ours: Answers, known: list[ExpectedDifference]
) -> list[AnswerDifference]:
    """All differences, known or not."""
    rows = [
        row
        for row in known
        if fnmatchcase(release, row.releases) and fnmatchcase(scenario, row.scenarios)
    ]
    return [
        AnswerDifference(path, left, right, _reason(path, rows))
        for path, left, right in _differing("", kafka, ours)
    ]


def _reason(path: str, rows: list[ExpectedDifference]) -> str:
    return next((row.reason for row in rows if fnmatchcase(path, row.path)), "")


def _differing(path: str, kafka: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if kafka is None or kafka == ours:
        return
    if isinstance(kafka, Mapping) and isinstance(ours, Mapping):
        for name in sorted({*kafka, *ours}):
            pair = kafka.get(name, _ABSENT), ours.get(name, _ABSENT)
            yield from _differing(f"{path}/{name}", *pair)
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for number, (left, right) in enumerate(zip(kafka, ours, strict=True)):
            yield from _differing(f"{path}/{number}", left, right)
    else:
        yield path, kafka, ours


def lost_files(
    before: Mapping[str, bytes], after: Mapping[str, bytes], starts: Mapping[str, int]
) -> list[str]:
    """The effects of serving on a directory's files that Kafka would not have.

    `starts` has the log start offset of each partition.
    """
    segments: dict[str, list[int]] = {}
    for name in before:
        if (match := _OF_SEGMENT.fullmatch(name)) and match[3] == "log":
            segments.setdefault(match[1], []).append(int(match[2]))
    problems = [
        f"{name} is gone"
        for name in sorted(before.keys() - after.keys())
        if not _may_go(name, segments, starts)
    ]
    for name in sorted(before.keys() & after.keys()):
        size = min(len(before[name]), len(after[name]))
        if name.endswith((".log", ".checkpoint")) and before[name][:size] != after[name][:size]:
            problems.append(f"{name} has other bytes")
    folders = {name.partition("/")[0] for name in before if "/" in name}
    made = {name.partition("/")[0] for name in after if "/" in name} - folders
    return problems + [f"{name} is new" for name in sorted(made - {"__cluster_metadata-0"})]


def _may_go(name: str, segments: Mapping[str, list[int]], starts: Mapping[str, int]) -> bool:
    if name.endswith(_REMOVED):
        return True
    match = _OF_SEGMENT.fullmatch(name)
    if match is None:
        return name == ".kafka_cleanshutdown"
    folder, base, kind = match[1], int(match[2]), match[3]
    bases = sorted(segments.get(folder, ()))
    if kind == "snapshot" or (kind != "log" and base not in bases):
        return True
    following = next((each for each in bases if each > base), None)
    return following is not None and following <= starts.get(folder, 0)
