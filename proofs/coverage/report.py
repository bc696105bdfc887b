"""The result of a survey, by kind of point: met, explained, missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofs.coverage.points import Point, points
from proofs.coverage.states import state_points
from proofs.coverage.survey import FirstWitness, Survey, every_pair

KINDS = ("pairs", "rules", "branches", "conjuncts", "error_codes", "states", "edges")


@dataclass(frozen=True, slots=True)
class Covered:
    """The result for one kind. `explained` and `missing` are points that no configuration meets,
    with and without a reason."""

    kind: str
    met: Mapping[str, FirstWitness]
    missing: Sequence[Point]
    explained: Mapping[str, str]
    total: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The results for all kinds. `wrong_rows` are reasons for points that are met or do not exist;
    `wrong_edges` are edges that the model takes although Kafka has none."""

    kinds: Sequence[Covered]
    wrong_rows: Mapping[str, str]
    wrong_edges: Mapping[str, FirstWitness]

    @property
    def unmet(self) -> list[str]:
        """The points that no configuration meets, explained or missing."""
        missing = [point.name for kind in self.kinds for point in kind.missing]
        return [*missing, *(name for kind in self.kinds for name in kind.explained)]

    @property
    def verdict(self) -> str:
        """The verdict: holds if every point is met or explained, no reason is for a point that is
        met, and no edge is wrong."""
        missing = any(kind.missing for kind in self.kinds)
        return "violated" if missing or self.wrong_rows or self.wrong_edges else "holds"


def every_point(survey: Survey) -> list[Point]:
    """Return all points that a survey should meet."""
    pairs = [Point(pair, "pairs", pair) for pair in every_pair(survey.events)]
    return [*pairs, *points(survey.model).values(), *state_points(survey.model)]


def covered(kind: str, surveys: Sequence[Survey], reasons: Mapping[str, str]) -> Covered:
    """Return the result for one kind of points, over all surveys."""
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
    """Return the results of the surveys, with the reasons for what they have not met."""
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
