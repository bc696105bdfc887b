"""From an edited rule to a verdict: what a designer waits for.

    python -m benchmarks.edit [SCOPE] [--edits 5] [--json FILE]

The scope is explored once as it stands, so that the cache has every rule compiled. Then each edit
is timed from the start of a new Python to its end with a verdict: `explore SCOPE --patch FILE`, a
patch that changes one rule. The edits are the first systematic mutants of the functions that rules
call, a function in turn. An edit that changes nothing there, or after which nothing can be said
(a rule may then write what its leaf cannot hold), is counted and the next one taken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.exploration import empty_cache
from proofs.cache import cache_folder
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for
from proofs.mutants.systematic import functions_that_act, mutants_of
from proofs.trace.replay import UnknownScope, configuration_of

REPOSITORY = Path(__file__).parents[1]
EDITS = 5
VERDICTS: Mapping[int, str] = {0: "holds", 1: "violated"}
"""By exit code."""
UNDECIDED = 3


class NoVerdict(RuntimeError):
    """There are too few edits that lead to a verdict."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit: how long until the verdict, and how many units were compiled for it."""

    function: str
    before: str
    after: str
    verdict: str
    seconds: float
    compiled: int


@dataclass(frozen=True, slots=True)
class Edits:
    """All of them; `unedited_seconds` is the same command without a patch, all in the cache."""

    scope: str
    edits: tuple[Edit, ...]
    passed_over: int
    unedited_seconds: float
    median_seconds: float
    slowest_seconds: float


def changes(model: Model) -> Iterator[Patch]:
    """Edits of the functions that act, a function in turn."""
    left = [mutants_of(model, name) for name in functions_that_act(model)]
    while left:
        for one in list(left):
            patch = next(one, None)
            if patch is None:
                left.remove(one)
            else:
                yield patch


def compiled() -> set[str]:
    """The units in the cache."""
    return {path.name for path in (cache_folder() / "compiled").glob("*.o")}


def explored(scope: str, *words: str) -> tuple[float, int]:
    """The command, from a new Python to its end: seconds and exit code."""
    command = [sys.executable, "-m", "proofs", "explore", scope, *words]
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    verdict = VERDICTS.get(done.returncode, "")
    if done.returncode != UNDECIDED and not (verdict and f": {verdict}" in done.stdout):
        raise NoVerdict(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return seconds, done.returncode


def edited(scope: str, patch: Patch, folder: Path) -> Edit | None:
    """One edit, timed; None if it leads to no verdict, or no rule is another one for it."""
    file = folder / "edit.py"
    file.write_text(repr([(patch.function, patch.before, patch.after)]), encoding="utf-8")
    before = compiled()
    seconds, code = explored(scope, "--patch", str(file))
    new = len(compiled() - before)
    if code not in VERDICTS or not new:
        return None
    return Edit(patch.function, patch.before, patch.after, VERDICTS[code], round(seconds, 3), new)


def measured(scope: str, count: int) -> Edits:
    """So many edits, with a cache of their own. Raises UnknownScope, NoVerdict."""
    done: list[Edit] = []
    passed_over = 0
    model = model_for(scope)
    configuration_of(model, scope, DEFAULT_VARIANT)
    with tempfile.TemporaryDirectory() as name, empty_cache():
        patches = changes(model)
        explored(scope)
        unedited, _ = explored(scope)
        while len(done) < count:
            patch = next(patches, None)
            if patch is None:
                raise NoVerdict(f"{scope}: {len(done)} edits lead to a verdict, not {count}")
            edit = edited(scope, patch, Path(name))
            passed_over += edit is None
            done += [] if edit is None else [edit]
    times = [edit.seconds for edit in done]
    return Edits(
        scope, tuple(done), passed_over, round(unedited, 3), statistics.median(times), max(times)
    )


def shown(found: Edits) -> Iterator[str]:
    """The lines of a report."""
    for edit in found.edits:
        yield (
            f"{edit.function}: {edit.before} -> {edit.after}: {edit.verdict} after"
            f" {edit.seconds:.2f} s, {edit.compiled} units compiled"
        )
    yield (
        f"{found.scope}: median {found.median_seconds:.2f} s of {len(found.edits)} edits, slowest"
        f" {found.slowest_seconds:.2f} s; unedited {found.unedited_seconds:.2f} s;"
        f" {found.passed_over} edits passed over"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scope", nargs="?", default="idempotent-tiny", metavar="SCOPE")
    parser.add_argument("--edits", type=int, default=EDITS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    try:
        found = measured(asked.scope, max(1, asked.edits))
    except UnknownScope as unknown:
        parser.exit(2, f"{unknown}\n")
    for line in shown(found):
        print(line)
    if asked.json is not None:
        content = {"benchmark": "edit", **asdict(found)}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
