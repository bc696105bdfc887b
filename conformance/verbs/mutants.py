"""`mutants`: each bug planted in impl is found by the judge alone, and shrunk.

Impl as it is goes through the same traces first: what they show without a bug shows no bug.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from conformance import pages
from conformance.backends.processes import usable_cores
from conformance.files import alone_in, pretty, write_whole
from conformance.guaranteed import HOLDS, VIOLATED
from conformance.homes import home_of_scope
from conformance.mutants import GROUPS, MUTANTS, HuntScope, Mutant
from conformance.mutants.plant import hunt, hunt_unpatched
from conformance.plan import Finding, Plan, PreparedPlan, prepare
from conformance.report import sentence
from conformance.verbs import EXIT_CODES, note, one_of, write_json
from conformance.verbs.folder import begin
from conformance.verbs.run import with_own_rules
from model.idempotent.variants import DEFAULT_VARIANT
from proofs.say import say

SCHEMA_VERSION: Final = 1
DEFAULT_OUT: Final = Path("out") / "mutants"


@dataclass(frozen=True, slots=True)
class HuntOutcome:
    """What became of a bug. `twin_clean`: impl as it is shows nothing in all that was hunted."""

    mutant: Mutant
    finding: Finding | None
    twin_clean: bool
    trace: str | None

    @property
    def found(self) -> bool:
        """The trace shows the bug, and only the bug."""
        return self.finding is not None and self.twin_clean

    def to_json(self) -> dict[str, Any]:
        """As in `report.json`."""
        finding = self.finding or {}
        return {
            "name": self.mutant.name,
            "what": self.mutant.what,
            "scope": self.mutant.ground.scope,
            "variant": self.mutant.ground.variant,
            "found": self.found,
            "steps": finding.get("steps"),
            "one_minimal": finding.get("one_minimal"),
            "rule": finding.get("rule"),
            "expected": finding.get("expected"),
            "observed": finding.get("observed"),
            "twin_clean": self.twin_clean,
            "trace": self.trace,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `mutants` takes."""
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        help=f"this bug, or all of {' or '.join(GROUPS)}, and those of further --only;"
        " conformance list names all",
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    """Hunt; 0 if all are found, 1 if one is not. Raises BadUse, PatchError, HuntFailed."""
    chosen = chosen_by(options.only or tuple(GROUPS))
    with alone_in(options.out):
        begin(options.out, {})
        outcomes = hunt_all(chosen, options.out)
        report = report_json(outcomes)
        write_whole(options.out / "report.json", pretty(report))
    write_json(options.json, report)
    steps = [outcome.finding["steps"] for outcome in outcomes if outcome.finding] or [0]
    found = f"{sum(outcome.found for outcome in outcomes)} of {len(outcomes)} found"
    say(f"{found}, median {median(steps):g} steps, mean {mean(steps):.1f}")
    say(f"verdict: {report['verdict']}; report: {options.out / 'report.json'}")
    return EXIT_CODES[report["verdict"]]


def chosen_by(names: Sequence[str]) -> list[Mutant]:
    """The bugs of these names, and of the groups among them, each once. Raises BadUse."""
    known = GROUPS | {name: (mutant,) for name, mutant in MUTANTS.items()}
    named = [known[one_of("--only", name, tuple(known))] for name in names]
    return list(dict.fromkeys(mutant for mutants in named for mutant in mutants))


def report_json(outcomes: Sequence[HuntOutcome]) -> dict[str, Any]:
    """The content of `report.json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "mutants": [outcome.to_json() for outcome in outcomes],
        "verdict": HOLDS if all(outcome.found for outcome in outcomes) else VIOLATED,
    }


def hunt_all(mutants: Sequence[Mutant], out: Path) -> list[HuntOutcome]:
    """Hunt all, as many at a time as there are cores; each is told when its turn comes."""
    prepared = {ground: prepared_of(ground, out) for ground in {m.ground: None for m in mutants}}
    outcomes = []
    with ThreadPoolExecutor(usable_cores()) as pool:
        twins = {ground: pool.submit(hunt_unpatched, p.directory) for ground, p in prepared.items()}
        hunts: list[tuple[Mutant, Future[Finding | None]]] = [
            (mutant, pool.submit(hunt, mutant, prepared[mutant.ground].directory))
            for mutant in mutants
        ]
        try:
            for mutant, running in hunts:
                finding, twin = running.result(), twins[mutant.ground].result()
                outcome = outcome_of(mutant, prepared[mutant.ground], finding, twin, out)
                say(told(outcome))
                outcomes.append(outcome)
        finally:
            pool.shutdown(cancel_futures=True)
    return outcomes


def prepared_of(ground: HuntScope, out: Path) -> PreparedPlan:
    """The scope's traces, cut once for all bugs that are hunted there."""
    note(f"preparing {ground}")
    home = home_of_scope(ground.scope)
    text = with_own_rules(ground.variant or DEFAULT_VARIANT, "impl", ground.scope)
    variant = home.model.variants.parse(text).name
    plan = Plan(scope=ground.scope, variant=variant, actors=home.actors[0])
    return prepare(plan, (out / "prepared" / str(ground).replace("/", "-")).resolve())


def outcome_of(
    mutant: Mutant, prepared: PreparedPlan, finding: Finding | None, twin: Finding | None, out: Path
) -> HuntOutcome:
    """The finding drawn. `twin` is what impl as it is shows in the same traces."""
    if finding is None:
        return HuntOutcome(mutant, None, twin is None, None)
    pages.write(prepared, finding, out / mutant.name)
    return HuntOutcome(mutant, finding, twin is None, f"{mutant.name}.jsonl")


def told(outcome: HuntOutcome) -> str:
    """One line for a bug."""
    name = f"{outcome.mutant.name:<37}"
    if outcome.finding is None:
        return f"{name} not found: {outcome.mutant.what}"
    if not outcome.twin_clean:
        return f"{name} {outcome.mutant.ground} shows a difference without the bug, too"
    return f"{name} {outcome.finding['steps']:>3} steps  {sentence(outcome.finding)}"
