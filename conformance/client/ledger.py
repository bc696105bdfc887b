"""What became of each run, as lines of a file: what is done is not done again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from conformance.client.guaranteed import seen_in
from conformance.client.judge import DIVERGES, EXPLAINED, ClientJudgement, judge_trace
from conformance.client.record_order import renumber_records
from conformance.client.trace import (
    UNFINISHED,
    ClientTrace,
    ProduceAnswered,
    ProducerIdAnswered,
    format_trace,
)
from conformance.files import write_whole
from conformance.guaranteed import ObservedProperties
from model.idempotent.configuration import Variant
from model.idempotent.messages import Error

FILE: Final = "runs.jsonl"


@dataclass(frozen=True, slots=True)
class ClientRunOutcome:
    """What became of one run. `finding` is as in `conformance.plan`, its `trace` a file's name."""

    run: int
    verdict: str
    requests: int
    rules: tuple[str, ...]
    error_codes: tuple[str, ...]
    broken: tuple[str, ...]
    met: tuple[str, ...]
    unfinished: bool
    why: str
    finding: dict[str, Any] | None


def outcome_of(variant: Variant, trace: ClientTrace) -> ClientRunOutcome:
    """Judge one run. One whose records were counted in another order shows nothing of
    guarantees."""
    judgement = judge_trace(variant, trace)
    seen = ObservedProperties()
    as_it_was = renumber_records(trace) is trace
    if judgement.client is not None and not trace.problem and as_it_was:
        seen = seen_in(variant, trace, judgement.client)
    return ClientRunOutcome(
        run=trace.plan.number,
        verdict=judgement.verdict,
        requests=judgement.requests,
        rules=tuple(sorted(judgement.rules)),
        error_codes=tuple(sorted(errors_in(trace))) if judgement.verdict == EXPLAINED else (),
        broken=tuple(sorted(seen.broken)),
        met=tuple(sorted(seen.met)),
        unfinished=trace.problem == UNFINISHED,
        why=judgement.why,
        finding=finding_of(trace, judgement) if judgement.verdict == DIVERGES else None,
    )


def errors_in(trace: ClientTrace) -> set[str]:
    """The names of the error codes that were answered, as far as the model has them."""
    codes = {e.value: e.name for e in Error}
    answered = [e.error for e in trace.events if isinstance(e, ProducerIdAnswered)] + [
        row.error for e in trace.events if isinstance(e, ProduceAnswered) for row in e.partitions
    ]
    return {codes[code] for code in answered if code in codes}


def finding_of(trace: ClientTrace, judgement: ClientJudgement) -> dict[str, Any]:
    """A divergence as data."""
    return {
        "id": trace.plan.number,
        "trace": trace_name(trace.plan.number),
        "steps": judgement.position + 1,
        "rule": judgement.rule,
        "expected": dict(judgement.expected),
        "observed": dict(judgement.observed),
        "allowed": list(judgement.allowed),
        "one_minimal": False,
    }


def trace_name(run: int) -> str:
    """The file of a run's trace."""
    return f"run-{run:05d}.jsonl"


class ClientJournal:
    """A folder with the outcomes of runs, and the traces of those that diverged or stayed open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outcomes: dict[int, ClientRunOutcome] = {}
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a run was being written when the process was killed
            write_whole(path, whole)
        for line in whole.splitlines():
            self._take(outcome_from(json.loads(line)))

    def add(self, trace: ClientTrace, outcome: ClientRunOutcome) -> None:
        """One more run; its trace is kept where it is not explained."""
        if outcome.verdict != EXPLAINED:
            write_whole(self.folder / trace_name(outcome.run), format_trace(trace))
        with (self.folder / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        self._take(outcome)

    def _take(self, outcome: ClientRunOutcome) -> None:
        self.outcomes[outcome.run] = outcome

    def missing(self, count: int) -> Iterable[int]:
        """The numbers of the runs that are left."""
        return (number for number in range(count) if number not in self.outcomes)


def outcome_from(value: dict[str, Any]) -> ClientRunOutcome:
    """The outcome of a line."""
    tuples = ("rules", "error_codes", "broken", "met")
    return ClientRunOutcome(**(value | {name: tuple(value[name]) for name in tuples}))
