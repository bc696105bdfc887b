"""Masks that a run adds by itself, so that a frequent difference hides as little as possible.

Theory of operation. Before a run over a wire, SAMPLE of its traces, spread evenly, are judged. A
difference that at least OFTEN of them end in is masked, and the same traces are judged again, until
no new mask is found. So a cause that stays unmasked can hide little, because it is rare. Each
masked cause remains a finding: the shortest trace of the sample, with the number of traces of the
run that continue behind the mask.

Differences that a broker merely shows are masked first (`is_merely_shown`): the mask names a field,
in whatever step. A difference in behaviour gets a mask of the rule and its fields that ends in
three dots: if a trace differs again behind such a mask, that is no finding.

The sample depends on the number of traces alone, so the same run has the same masks on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from conformance.judging.backend import ResultRow, TraceRange
from conformance.judging.causes import api_of
from conformance.judging.masks import FOLLOWS, MaskedWork, mask_text
from conformance.judging.rows import unpack
from conformance.judging.signatures import (
    Findings,
    Signature,
    findings_from,
    findings_json,
    merge_findings,
)
from proofs.run.files import pretty, write_whole

SAMPLE: Final = 256
OFTEN: Final = 0.02
MOST_ROUNDS: Final = 8

SHOWN: Final = ("sends.log_start_offset", "log.producer_epoch")
"""Fields of an answer beside error and offset, and fields of a batch that readers ignore."""

Judge = Callable[[Sequence[TraceRange], Sequence[str]], Iterator[ResultRow | None]]
"""Judges ranges behind masks."""


@dataclass(frozen=True, slots=True)
class AutomaticMasks:
    """The masks of a run, and the findings of the sample that they hide. Each finding has in
    `behind` the masks that were in force when it was found; `broken` are the guarantees that the
    sample saw broken."""

    masks: tuple[str, ...] = ()
    findings: tuple[tuple[str, Findings], ...] = ()
    broken: frozenset[str] = frozenset()

    def hidden(self, masked: MaskedWork) -> Findings:
        """The findings that the masks hide; the findings of a mask together count as often as the
        run met it."""
        left = {mask: traces for mask, (traces, _) in masked.items()}
        parts = []
        for mask, findings in self.findings:
            met = left.pop(mask, 0)
            parts.append(counted_as(findings, met))
        return merge_findings(*parts)

    def to_json(self) -> dict[str, Any]:
        """The masks and findings as plain data."""
        rows = [[mask, findings_json(findings)] for mask, findings in self.findings]
        return {"masks": list(self.masks), "findings": rows, "broken": sorted(self.broken)}


NONE: Final = AutomaticMasks()


def counted_as(findings: Findings, met: int) -> Findings:
    """Findings of a sample with the counts of the run: the first finding gets all that exceed the
    sample."""
    more = max(met - sum(found.count for found in findings.values()), 0)
    counted = {}
    for signature, found in findings.items():
        counted[signature] = replace(found, count=found.count + more)
        more = 0
    return counted


def masks_from(value: Any) -> AutomaticMasks:
    """The masks that `to_json` wrote."""
    rows = tuple((mask, findings_from(findings)) for mask, findings in value["findings"])
    return AutomaticMasks(tuple(value["masks"]), rows, frozenset(value["broken"]))


def kept_masks(file: Path, find: Callable[[], AutomaticMasks]) -> AutomaticMasks:
    """The masks kept by an interrupted run; else masks that are found now, and kept."""
    if file.exists():
        return masks_from(json.loads(file.read_text(encoding="utf-8")))
    found = find()
    write_whole(file, pretty(found.to_json()))
    return found


def find_masks(
    count: int, system: str, ignored: Sequence[str], judge: Judge, progress: Callable[[], None]
) -> AutomaticMasks:
    """The masks of a run of `count` traces that ignores the masks in `ignored` already."""
    sample = [TraceRange(n, n + 1) for n in sampled(count)]
    masks: list[str] = []
    shown: list[tuple[str, Findings]] = []
    broken: set[str] = set()
    for _ in range(MOST_ROUNDS):
        behind = [*ignored, *masks]
        found: Findings = {}
        for row in judge(sample, behind):
            progress()
            if row is not None:
                part = unpack(row.body)
                found = merge_findings(found, part.summary.findings)
                broken |= part.seen.broken
        new = often_found(found, system, sample)
        if not new:
            break
        for texts, some in new:
            masks += [text for text in texts if text not in masks]
            shown.append((texts[0], with_masks(some, behind)))
    return AutomaticMasks(tuple(masks), tuple(shown), frozenset(broken))


def often_found(
    findings: Findings, system: str, sample: Sequence[TraceRange]
) -> Sequence[tuple[tuple[str, ...], Findings]]:
    """The frequent findings, with masks that hide them. Differences in a broker's behaviour are
    returned only if no difference is merely shown."""
    groups: dict[tuple[str, ...], dict[Any, Any]] = {}
    for signature, found in findings.items():
        groups.setdefault(texts_for(signature, system), {})[signature] = found
    frequent = [(texts, some) for texts, some in groups.items() if often(some, sample)]
    shown = [row for row in frequent if not row[0][0].endswith(FOLLOWS)]
    return shown or frequent


def texts_for(signature: Signature, system: str) -> tuple[str, ...]:
    """The masks that hide findings of a signature."""
    if is_merely_shown(signature.fields, system):
        return signature.fields
    return (mask_text(signature.rule, signature.fields) + FOLLOWS,)


def sampled(count: int) -> list[int]:
    """The traces of the sample, spread evenly over all."""
    size = min(SAMPLE, count)
    return [number * count // size for number in range(size)]


def often(findings: Findings, sample: Sequence[TraceRange]) -> bool:
    """Whether enough traces of the sample end in these findings to be called frequent."""
    return sum(found.count for found in findings.values()) >= max(2, OFTEN * len(sample))


def is_merely_shown(fields: Iterable[str], system: str) -> bool:
    """Whether a broker behaves as the model does, and merely shows it differently."""
    return all(api_of(name, system) is not None or name.endswith(SHOWN) for name in fields)


def with_masks(findings: Findings, behind: Sequence[str]) -> Findings:
    """The findings, each with the masks behind which it was found."""
    return {
        signature: replace(
            found, shortest=tuple({**one, "behind": list(behind)} for one in found.shortest)
        )
        for signature, found in findings.items()
    }
