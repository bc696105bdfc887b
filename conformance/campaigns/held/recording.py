"""Recorded answers of a real broker, in one file for each API.

A file names the release, identifies by a digest the requests that it answers, and has for each case
the answers of all versions. Successive versions with the same answer share it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from conformance.campaigns.held.cases import Case, cases_of
from conformance.campaigns.held.normalized import Json
from conformance.campaigns.held.preparation import STEPS
from impl.protocol.schemas import ApiKey

Answers = dict[tuple[str, int], Json]
"""The answers, by case and version."""
COMMAND: Final = "python -m conformance.campaigns.held --record"


class OutdatedRecording(ValueError):
    """The recording lacks answers to the present requests."""


def digest_of(cases: Iterable[Case]) -> str:
    """A digest of the requests, and of their steps."""
    rows = [
        (
            (*case[:5], case.kind.value),
            [(*step[:3], dict(step.brings)) for name in case.steps for step in STEPS[name]],
        )
        for case in cases
    ]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def write_recording(folder: Path, release: str, api_key: ApiKey, answers: Answers) -> None:
    """Write the file of an API. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"release": release, "requests": digest_of(cases_of(api_key))})
    rows = [f"  {json.dumps(name)}: {_versions_text(found)}" for name, found in _by_name(answers)]
    text = ",\n".join(rows)
    file = folder / f"{api_key.name}.json"
    file.write_text(f'{{"of": {head},\n "answers": {{\n{text}\n}}}}\n', encoding="utf-8")


def _by_name(answers: Answers) -> Iterator[tuple[str, dict[int, Json]]]:
    found: dict[str, dict[int, Json]] = {}
    for (name, version), answer in answers.items():
        found.setdefault(name, {})[version] = answer
    yield from found.items()


def _versions_text(answers: dict[int, Json]) -> str:
    """A row for each answer: the first and the last version that has it, and the answer."""
    rows = []
    for answer, versions in groupby(sorted(answers), key=lambda v: json.dumps(answers[v])):
        numbers = [*versions]
        rows.append(f"    [{numbers[0]}, {numbers[-1]}, {answer}]")
    text = ",\n".join(rows)
    return f"[\n{text}]"


def read_recording(folder: Path, api_key: ApiKey) -> Answers:
    """The answers of an API. Raises OutdatedRecording, OSError."""
    file = folder / f"{api_key.name}.json"
    if not file.exists():
        raise OutdatedRecording(f"{file} is missing: {COMMAND} writes it")
    read = json.loads(file.read_text(encoding="utf-8"))
    cases = cases_of(api_key)
    if read["of"]["requests"] != digest_of(cases):
        raise OutdatedRecording(f"{file} is of other requests: {COMMAND} writes it anew")
    found = {
        (name, version): answer
        for name, rows in read["answers"].items()
        for first, last, answer in rows
        for version in range(first, last + 1)
    }
    return {(case.name, case.version): found[case.name, case.version] for case in cases}
