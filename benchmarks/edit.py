"""How long a designer waits, from an edited rule to a verdict.

    python -m benchmarks.edit [SCOPE] [--edits 5] [--prove NAME] [--json FILE]

The scope is explored once as it stands, so that the cache has every rule compiled. Then each edit
is timed from the start of a new Python process to its verdict: `explore SCOPE --patch FILE`, with a
patch that changes one rule. With `--prove NAME` the theorem, or all of the composition, is proved
once as it stands, and again with each edit: what the edit does not reach comes from the cache, and
its seconds are those of both commands. The edits are the first systematic mutants of each function
that rules call. An edit without an effect in this scope, or without a verdict (a rule may write a
value out of its range), is counted and skipped.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.exploration import empty_cache
from benchmarks.measuring import count_option, measure_time, run_benchmark, scope_argument
from proofs.cache import cache_folder
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for
from proofs.systematic_mutants.changes import changes_of, functions_that_act
from proofs.trace.replay import UnknownScope, configuration_of

REPOSITORY = Path(__file__).parents[1]
VERDICTS: Mapping[int, tuple[str, ...]] = {
    0: ("holds",),
    1: ("violated", "vacuous"),
    3: ("undecided",),
}
"""What `explore` may say, by exit code."""
PROOFS: Mapping[int, str] = {0: "proved", 1: "vacuous", 3: "not proved"}
"""What became of the theorems, by exit code."""


class NoVerdict(RuntimeError):
    """There are too few edits that lead to a verdict."""


def changes(model: Model) -> Iterator[Patch]:
    """Edits of the functions that act, a function in turn."""
    left = [iter(changes_of(model, name)) for name in functions_that_act(model)]
    while left:
        for one in list(left):
            _, patch = next(one, ("", None))
            if patch is None:
                left.remove(one)
            else:
                yield patch


def compiled() -> set[str]:
    """The units in the cache."""
    return {path.name for path in (cache_folder() / "compiled").glob("*.o")}


def run_explore(scope: str, *words: str) -> tuple[float, str]:
    """The command, from a new Python to its end: seconds and verdict."""
    command = [sys.executable, "-m", "proofs", "explore", scope, *words]
    time, done = measure_time(
        lambda: subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    )
    for verdict in VERDICTS.get(done.returncode, ()):
        if verdict == "undecided" or f": {verdict}" in done.stdout:
            return time.seconds, verdict
    raise NoVerdict(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def run_prove(name: str, *words: str) -> tuple[float, int]:
    """The proof, without a look at scopes: seconds and exit code."""
    command = [sys.executable, "-m", "proofs", "prove", "--only", name, "--no-scopes", *words]
    time, done = measure_time(
        lambda: subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    )
    if done.returncode not in PROOFS:
        raise NoVerdict(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return time.seconds, done.returncode


def measure_edit(
    scope: str, patch: Patch, folder: Path, theorem: str | None = None
) -> dict[str, Any] | None:
    """One edit, timed; None if it leads to no verdict, or no rule is another one for it."""
    file = folder / "edit.py"
    file.write_text(repr([(patch.function, patch.before, patch.after)]), encoding="utf-8")
    before = compiled()
    seconds, said = run_explore(scope, "--patch", str(file))
    new = len(compiled() - before)
    if said == "undecided" or not new:
        return None
    verdict = {"verdict": said, "seconds": round(seconds, 3), "compiled": new}
    if theorem is not None:
        proving, code = run_prove(theorem, "--patch", str(file))
        verdict |= {"proof": PROOFS[code], "seconds": round(seconds + proving, 3)}
    return asdict(patch) | verdict


def measure_edits(scope: str, count: int, theorem: str | None = None) -> dict[str, Any]:
    """So many edits, with a cache of their own. Raises UnknownScope, NoVerdict."""
    done: list[dict[str, Any]] = []
    passed_over = 0
    model = model_for(scope)
    configuration_of(model, scope, DEFAULT_VARIANT)
    with tempfile.TemporaryDirectory() as name, empty_cache():
        patches = changes(model)
        run_explore(scope)
        unedited, _ = run_explore(scope)
        if theorem is not None:
            run_prove(theorem)
        while len(done) < count:
            patch = next(patches, None)
            if patch is None:
                raise NoVerdict(f"{scope}: {len(done)} edits lead to a verdict, not {count}")
            edit = measure_edit(scope, patch, Path(name), theorem)
            passed_over += edit is None
            done += [] if edit is None else [edit]
    return {
        "scope": scope,
        "proved": theorem,
        "edits": done,
        "passed_over": passed_over,
        "unedited_seconds": round(unedited, 3),
        "median_seconds": median(edit["seconds"] for edit in done),
        "slowest_seconds": max(edit["seconds"] for edit in done),
    }


def measure(asked: Namespace) -> Mapping[str, Any]:
    """All edits of a scope. Raises UnknownScope, NoVerdict."""
    found = measure_edits(asked.scope, asked.edits, asked.prove)
    for edit in found["edits"]:
        print(
            "{function}: {before} -> {after}: {verdict}{proof} after {seconds:.2f} s,"
            " {compiled} units compiled".format(
                **{**edit, "proof": f", {edit['proof']}" if "proof" in edit else ""}
            )
        )
    print(
        "{scope}: median {median_seconds:.2f} s of {count} edits, slowest {slowest_seconds:.2f} s;"
        " unedited {unedited_seconds:.2f} s; {passed_over} edits passed over".format(
            count=len(found["edits"]), **found
        )
    )
    return found


OPTIONS = {
    "scope": scope_argument("idempotent-tiny"),
    "--edits": count_option(5, "edits with a verdict"),
    "--prove": {"metavar": "NAME", "help": "prove this theorem or composition again, too"},
}

main = partial(run_benchmark, "edit", __doc__, OPTIONS, measure, (UnknownScope,))

if __name__ == "__main__":
    sys.exit(main())
