"""Explores small scopes by the model's own functions as well.

An engine that explores a lifted machine is only as good as the lifter. A small scope is therefore
also explored by the source, once for each text, and both must find the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from proofs.cache import cache_folder
from proofs.explore.engines import EngineCounts, EngineJob, EnginesDisagree, by_source
from proofs.explore.result import SearchProgress
from proofs.lift.text_key import key_of, text_key

MOST_STATES = 2_000
"""The source explores a scope with fewer states than this in about two seconds."""
LIFTED = ("c", "ints")
"""The engines that explore a lifted machine."""
COUNTED = ("distinct", "transitions", "depth", "levels", "firings", "deadlocks")


class _MoreStates(Exception):
    """The source has more states than the lifted machine."""


def is_small(job: EngineJob, counts: EngineCounts) -> bool:
    """Whether the source can explore in seconds what a lifted machine explored."""
    of_machine = counts.engine in LIFTED and job.symmetry is None and not counts.interrupted
    return of_machine and counts.distinct < MOST_STATES


def check_by_source(job: EngineJob, counts: EngineCounts) -> None:
    """Explore a small scope by the source, unless this text is already known to agree, and print
    that both find the same. Raises EnginesDisagree, NotTotal."""
    if not is_small(job, counts):
        return
    agreed = place_of(job)
    if not agreed.exists():
        hold_against(job, counts)
        agreed.parent.mkdir(parents=True, exist_ok=True)
        agreed.touch()
    job.say(
        f"{job.name}: the model's own functions, run without lifting, have the same"
        f" {counts.distinct:,} states and break the same"
    )


def place_of(job: EngineJob) -> Path:
    """Return the path of the empty file that records agreement for this exploration of this
    text."""
    asked = (repr(job.k), repr(sorted(job.guarantees)), repr((job.stop, job.max_depth)))
    return cache_folder() / "agreed" / key_of(text_key(job.model), job.name, *asked)


def hold_against(job: EngineJob, counts: EngineCounts) -> None:
    """Raise EnginesDisagree unless the source finds the same as an engine. Raises NotTotal."""
    try:
        of_source = by_source(replace(job, checkpoint=None, progress=until(counts.distinct)))
        differences = list(compared(counts, of_source))
    except _MoreStates:
        differences = [f"states: {counts.distinct:,}, and more by the source"]
    if differences:
        raise EnginesDisagree(
            f"{job.name}: engine {counts.engine} reads the model otherwise than Python does:"
            f" {'; '.join(differences)}. What holds says `--engine source`; the lifter misreads a"
            " piece of the text, which is a defect of proofs/lift"
        )


def until(most: int) -> Callable[[SearchProgress], None]:
    """Return a report that ends a search with more than `most` states by raising _MoreStates."""

    def report(now: SearchProgress) -> None:
        if now.distinct > most:
            raise _MoreStates

    return report


def compared(lifted: EngineCounts, source: EngineCounts) -> Iterator[str]:
    """Yield the differences between two explorations."""
    for name in COUNTED:
        ours, theirs = getattr(lifted, name), getattr(source, name)
        if ours != theirs:
            yield f"{name}: {ours}, {theirs} by the source"
    for name in ("violations", "witnesses"):
        yield from compared_paths(getattr(lifted, name), getattr(source, name), name)


def compared_paths(lifted: Any, source: Any, what: str) -> Iterator[str]:
    """Yield the names for which only one exploration has a path, or a shorter one."""
    for name in sorted({*lifted, *source}):
        ours, theirs = (len(found[name]) if name in found else None for found in (lifted, source))
        if ours != theirs:
            yield f"{what}, {name}: steps {ours}, {theirs} by the source"
