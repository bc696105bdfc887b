"""Masks that a run puts on by itself: what differs often hides no more than it has to.

Theory of operation. Before a run over a wire, SAMPLE of its traces are judged, spread evenly. A
difference that at least OFTEN of them end in is masked, and the same traces are judged again, until
no new mask comes up. So what a cause that is not masked can hide is bounded by how rare it is. Each
masked cause stays a finding: the sample's shortest trace, with the number of traces of the run that
go on behind it.

What a broker merely shows otherwise is masked first (`is_merely_shown`): a field, wherever it is.
Where it does something else the mask is of the rule and its fields, and ends in three dots: a trace
that differs again behind it is no finding.

The sample depends on the number of traces alone: the same run has the same masks on any machine.
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
"""What an answer says beside error and offset; what a batch says of itself, and readers ignore."""

Judge = Callable[[Sequence[TraceRange], Sequence[str]], Iterator[ResultRow | None]]
"""Judges ranges behind masks."""


@dataclass(frozen=True, slots=True)
class AutomaticMasks:
    """The masks of a run, and what the sample showed of what they hide. Each finding has `behind`,
    the masks that were there when it was found; `broken` are the guarantees that the sample saw
    broken."""

    masks: tuple[str, ...] = ()
    findings: tuple[tuple[str, Findings], ...] = ()
    broken: frozenset[str] = frozenset()

    def hidden(self, masked: MaskedWork) -> Findings:
        """The findings behind the masks: those of a mask together as often as the run met it."""
        left = {mask: traces for mask, (traces, _) in masked.items()}
        parts = []
        for mask, findings in self.findings:
            met = left.pop(mask, 0)
            parts.append(counted_as(findings, met))
        return merge_findings(*parts)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        rows = [[mask, findings_json(findings)] for mask, findings in self.findings]
        return {"masks": list(self.masks), "findings": rows, "broken": sorted(self.broken)}


NONE: Final = AutomaticMasks()


def counted_as(findings: Findings, met: int) -> Findings:
    """Findings of a sample, of which a run met so many: the first stands for all that are more."""
    more = max(met - sum(found.count for found in findings.values()), 0)
    counted = {}
    for signature, found in findings.items():
        counted[signature] = replace(found, count=found.count + more)
        more = 0
    return counted


def masks_from(value: Any) -> AutomaticMasks:
    """What `to_json` wrote."""
    rows = tuple((mask, findings_from(findings)) for mask, findings in value["findings"])
    return AutomaticMasks(tuple(value["masks"]), rows, frozenset(value["broken"]))


def kept_masks(file: Path, find: Callable[[], AutomaticMasks]) -> AutomaticMasks:
    """Those of a run that was interrupted, else found now and kept."""
    if file.exists():
        return masks_from(json.loads(file.read_text(encoding="utf-8")))
    found = find()
    write_whole(file, pretty(found.to_json()))
    return found


def find_masks(
    count: int, system: str, ignored: Sequence[str], judge: Judge, progress: Callable[[], None]
) -> AutomaticMasks:
    """The masks of a run of `count` traces that looks past `ignored` already."""
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
    """What is found often, with masks that hide it; of what brokers do only where they show
    nothing otherwise."""
    groups: dict[tuple[str, ...], dict[Any, Any]] = {}
    for signature, found in findings.items():
        groups.setdefault(texts_for(signature, system), {})[signature] = found
    frequent = [(texts, some) for texts, some in groups.items() if often(some, sample)]
    shown = [row for row in frequent if not row[0][0].endswith(FOLLOWS)]
    return shown or frequent


def texts_for(signature: Signature, system: str) -> tuple[str, ...]:
    """The masks of findings of a signature."""
    if is_merely_shown(signature.fields, system):
        return signature.fields
    return (mask_text(signature.rule, signature.fields) + FOLLOWS,)


def sampled(count: int) -> list[int]:
    """The traces of the sample, spread evenly over all."""
    size = min(SAMPLE, count)
    return [number * count // size for number in range(size)]


def often(findings: Findings, sample: Sequence[TraceRange]) -> bool:
    """Whether so many traces end in these."""
    return sum(found.count for found in findings.values()) >= max(2, OFTEN * len(sample))


def is_merely_shown(fields: Iterable[str], system: str) -> bool:
    """Whether a broker does as the model, and shows it otherwise."""
    return all(api_of(name, system) is not None or name.endswith(SHOWN) for name in fields)


def with_masks(findings: Findings, behind: Sequence[str]) -> Findings:
    """The findings, each of which knows the masks that it was found behind."""
    return {
        signature: replace(
            found, shortest=tuple({**one, "behind": list(behind)} for one in found.shortest)
        )
        for signature, found in findings.items()
    }
