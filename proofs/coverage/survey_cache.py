"""Caches the result of a survey under the hash of everything that it depends on.

A survey takes a minute, and is mostly repeated when neither the model nor the surveying code has
changed. Reasons (`unreachable.py`) are not cached: they are compared anew each time.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from proofs.cache import cache_folder, make_once
from proofs.coverage import unreachable
from proofs.coverage.report import coverage
from proofs.coverage.survey import Survey, SurveyCase, evidence
from proofs.coverage.survey_cases import surveys
from proofs.explore.explorer import Report
from proofs.lift.patch import Patch
from proofs.lift.source import composition_of, model_folder

KEPT = 20
"""The number of surveys that are cached: the latest ones."""

ROOMS = ("lift", "explore", "coverage")
"""The folders of `proofs` whose code makes a survey."""

Told = Callable[[str], AbstractContextManager[Report]]


def texts() -> Iterator[Path]:
    """Yield all files that a survey depends on."""
    here = Path(__file__).parent.parent
    for room in (model_folder(), *(here / room for room in ROOMS)):
        for path in sorted(room.rglob("*")):
            if path.suffix in (".py", ".c", ".h") and path != Path(unreachable.__file__):
                yield path


def key(looks: Sequence[SurveyCase], patches: Sequence[Patch]) -> str:
    """Return a name for the result of these cases on the model as it is now."""
    digest = hashlib.sha256(repr((looks, patches)).encode())
    for path in texts():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def look_at_all(
    looks: Sequence[SurveyCase], patches: Sequence[Patch], told: Told
) -> tuple[Survey, dict[str, str]]:
    """Return one composition's survey, and the evidence for what it does not meet. Raises as
    `Survey.look`."""
    (survey,) = surveys(looks, patches).values()
    for look in looks:
        with told(f"{look.scope}, {look.variant}") as progress:
            survey.look(look, progress=progress)
    return survey, evidence([survey], coverage([survey], {}).unmet)


def surveyed_one(
    looks: Sequence[SurveyCase], patches: Sequence[Patch], told: Told
) -> tuple[Survey, dict[str, str]]:
    """Return the same from the cache, if nothing has changed since."""

    def fill(draft: Path) -> None:
        survey, sure = look_at_all(looks, patches, told)
        shown = (survey.states, survey.points, survey.pairs, sure)
        (draft / "shown").write_bytes(pickle.dumps(shown))

    kept = cache_folder() / "coverage"
    shown = make_once(kept / key(looks, patches), fill) / "shown"
    (survey,) = surveys(looks, patches).values()
    survey.states, survey.points, survey.pairs, sure = pickle.loads(shown.read_bytes())
    forget(kept)
    return survey, sure


def surveyed(
    looks: Sequence[SurveyCase], patches: Sequence[Patch], told: Told
) -> tuple[list[Survey], dict[str, str]]:
    """Return the surveys of all compositions that have cases, each cached separately, and the
    evidence for what they do not meet."""
    compositions = dict.fromkeys(composition_of(look.scope) for look in looks)
    found = [
        surveyed_one([look for look in looks if composition_of(look.scope) == c], patches, told)
        for c in compositions
    ]
    sure = {name: why for _, evident in found for name, why in evident.items()}
    return [survey for survey, _ in found], sure


def forget(kept: Path) -> None:
    """Remove all but the latest surveys."""
    latest = sorted((p for p in kept.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    for old in latest[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
        old.with_name(f"{old.name}.lock").unlink(missing_ok=True)
