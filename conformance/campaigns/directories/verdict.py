"""The verdict on one directory: our broker's answers, compared with the real broker's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.campaigns.directories.comparison import (
    AnswerDifference,
    compare,
    lost_files,
    read_known,
)
from conformance.campaigns.directories.questions import Answers
from conformance.campaigns.directories.served_directory import Served, serve


@dataclass(frozen=True, slots=True)
class DirectoryVerdict:
    """The result for one log directory.

    `refusal` is our broker's sentence, "" if it serves the directory; `expected` is its beginning
    according to the scenario.
    """

    scenario: str
    release: str
    folder: str
    refusal: str
    expected: str
    differences: Sequence[AnswerDifference]
    lost: Sequence[str]

    @property
    def is_right(self) -> bool:
        """Whether our broker serves it as the real broker does, except for known differences, or
        rightly refuses it."""
        unknown = [each for each in self.differences if not each.reason]
        is_as_expected = (
            self.refusal.startswith(self.expected) if self.expected else not self.refusal
        )
        return is_as_expected and not unknown and not self.lost

    def lines(self) -> list[str]:
        """The verdict for people."""
        what = f"{self.scenario} {self.release} {self.folder}"
        outcome = f"refused: {self.refusal}" if self.refusal else "served"
        rows = [f"{what}: {'right' if self.is_right else 'WRONG'}, {outcome}"]
        rows += [
            f"  {each.path}: Kafka {each.kafka!r}, ours {each.ours!r}"
            for each in self.differences
            if not each.reason
        ]
        return rows + [f"  {each}" for each in self.lost]


def judge(
    scenario: str,
    release: str,
    kafka: Answers,
    folder: Path,
    copy: Path,
    *,
    expected: str = "",
    since_ms: int | None = None,
) -> DirectoryVerdict:
    """Serve a copy of a folder, and compare. Raises as `serve`."""
    served = serve(folder, copy, since_ms)
    ours = json.loads(json.dumps(served.answers))
    differences = [] if served.refusal else compare(scenario, release, kafka, ours, read_known())
    starts = {name: row["log_start_offset"] for name, row in ours.get("partitions", {}).items()}
    return DirectoryVerdict(
        scenario,
        release,
        folder.name,
        served.refusal,
        expected,
        differences,
        lost_files(served.before, served.after, starts) if not served.refusal else kept(served),
    )


def kept(served: Served) -> list[str]:
    """The changes of a directory that is refused: none is allowed, except to what a crash has
    left."""
    return lost_files(served.before, served.after, {})
