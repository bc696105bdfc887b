"""What a survey has shown, kind by kind: met, explained, missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofs.coverage.points import Point, points
from proofs.coverage.states import state_points
from proofs.coverage.survey import FirstWitness, Survey, every_pair

KINDS = ("pairs", "rules", "branches", "conjuncts", "error_codes", "states", "edges")


@dataclass(frozen=True, slots=True)
class Covered:
    """One kind. `explained` and `missing` are what no configuration meets, with and without a
    reason."""

    kind: str
    met: Mapping[str, FirstWitness]
    missing: Sequence[Point]
    explained: Mapping[str, str]
    total: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """All kinds; `wrong_rows` are reasons for what is met, or for what does not exist;
    `wrong_edges` are taken where Kafka has none."""

    kinds: Sequence[Covered]
    wrong_rows: Mapping[str, str]
    wrong_edges: Mapping[str, FirstWitness]

    @property
    def unmet(self) -> list[str]:
        """What no configuration meets, explained or missing."""
        missing = [point.name for kind in self.kinds for point in kind.missing]
        return [*missing, *(name for kind in self.kinds for name in kind.explained)]

    @property
    def verdict(self) -> str:
        """All is met or explained, nothing is explained that is met, and no edge is wrong."""
        missing = any(kind.missing for kind in self.kinds)
        return "violated" if missing or self.wrong_rows or self.wrong_edges else "holds"


def every_point(survey: Survey) -> list[Point]:
    """All that a survey is asked for."""
    pairs = [Point(pair, "pairs", pair) for pair in every_pair(survey.events)]
    return [*pairs, *points(survey.model).values(), *state_points(survey.model)]


def covered(kind: str, surveys: Sequence[Survey], reasons: Mapping[str, str]) -> Covered:
    """One kind of points, of all surveys."""
    met: dict[str, FirstWitness] = {}
    unmet: list[Point] = []
    for survey in surveys:
        asked = [point for point in every_point(survey) if point.kind == kind]
        seen = {**survey.points, **survey.pairs}
        met |= {point.name: seen[point.name] for point in asked if point.name in seen}
        unmet += [point for point in asked if point.name not in seen]
    return Covered(
        kind,
        met,
        [point for point in unmet if point.says not in reasons],
        {point.name: reasons[point.says] for point in unmet if point.says in reasons},
        len(met) + len(unmet),
    )


def coverage(surveys: Sequence[Survey], reasons: Mapping[str, str]) -> Coverage:
    """What the surveys have shown, with the reasons for what they have not."""
    says = {point.says: point.name for survey in surveys for point in every_point(survey)}
    met = {name for survey in surveys for name in (*survey.points, *survey.pairs)}
    wrong = {row: "there is no such point" for row in reasons if row not in says}
    wrong |= {row: "it is met" for row in reasons if row in says and says[row] in met}
    edges = {
        name: seen
        for survey in surveys
        for name, seen in survey.points.items()
        if "->" in name and name not in says
    }
    return Coverage([covered(kind, surveys, reasons) for kind in KINDS], wrong, edges)
