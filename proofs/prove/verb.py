"""`python -m proofs prove`: every theorem, every obligation by name, both solvers.

Exit code 0 if all is proved, 1 if something failed (as it should with --mutant), 3 if a solver
could not decide and no trace was found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proofs.explore.scope import Finding
from proofs.prove.answers import AnswerCache, answers_folder
from proofs.prove.assumption_necessity import trace_without
from proofs.prove.assumptions import ASSUMPTIONS
from proofs.prove.in_scope import ScopeCheck
from proofs.prove.plan import ProofPlan, plan
from proofs.prove.run import (
    Counterexample,
    ObligationVerdict,
    ProofTarget,
    UnknownName,
    chosen,
    counterexample,
    elapsed,
    failed,
    solve,
    subject,
    write_texts,
)
from proofs.prove.scoped import Scoped, scoped
from proofs.prove.seeds import ratio, unstable
from proofs.prove.solvers import SOLVERS
from proofs.prove.theorem import Theorem
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.journal import Journal
from proofs.run.progress import count_display
from proofs.say import say
from proofs.trace.format import dumps, label
from proofs.verbs.options import add_patch, patches_of, rows_of

SCHEMA_VERSION = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--only", metavar="NAME", help="this theorem, or composition, only")
    parser.add_argument("--variant", help="prove under this variant, not under each theorem's own")
    changed = parser.add_mutually_exclusive_group()
    changed.add_argument("--mutant", metavar="NAME", help="prove the model with this mutant in it")
    add_patch(changed)
    parser.add_argument("--drop", metavar="ASSUMPTION", help="show what happens without it")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds to prove with")
    parser.add_argument("--solver", choices=tuple(SOLVERS), help="ask this one only, not both")
    cached = parser.add_mutually_exclusive_group()
    cached.add_argument(
        "--cache", type=Path, metavar="DIR", help="keep answers there (default: the cache folder)"
    )
    cached.add_argument("--no-cache", action="store_true", help="ask everything anew")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", type=Path, metavar="FILE", help="report and times, merged")
    parser.add_argument("--out", type=Path, metavar="DIR", help="report.json, run.json, texts")


def theorem_json(theorem: Theorem, of: ProofTarget) -> dict[str, Any]:
    """A theorem in the report."""
    return {
        "name": theorem.name,
        "statement": theorem.says,
        "variant": of.under(theorem),
        "regime": theorem.regime.says,
        "assumptions": [{"name": a, "says": ASSUMPTIONS[a]} for a in theorem.assumptions],
        "uses": list(theorem.uses),
    }


def obligation_json(verdict: ObligationVerdict) -> dict[str, Any]:
    """One solver's answer in the report."""
    return {
        "name": verdict.duty.obligation.name,
        "theorem": verdict.duty.needed_by[0],
        "needed_by": list(verdict.duty.needed_by),
        "solver": verdict.answer.solver,
        "result": verdict.answer.result,
    }


def check_json(check: ScopeCheck) -> dict[str, Any]:
    """One scope in which the clauses were checked."""
    return {
        "scope": check.scope,
        "variant": check.variant,
        "states": check.states,
        "firings": dict(sorted(check.firings.items())),
        "failed": list(check.failed),
    }


def counterexample_json(found: Counterexample) -> dict[str, Any]:
    """A trace that answers a failure."""
    return {
        "theorem": found.theorem,
        "scope": found.scope,
        "property": found.finding.property,
        "steps": found.finding.steps,
        "events": found.finding.events,
        "trace": [json.loads(line) for line in dumps(found.finding.trace).splitlines()],
    }


def tell(
    theorems: Sequence[Theorem], verdicts: Sequence[ObligationVerdict], of: ProofTarget
) -> None:
    """Each theorem with its regime and assumptions, each obligation by name."""
    for theorem in theorems:
        say(f"\n{theorem.name}  [{of.under(theorem)}; {theorem.regime.says}]")
        say(f"  {theorem.says}")
        for name in theorem.assumptions:
            say(f"  assuming {name}: {ASSUMPTIONS[name]}")
        mine = [v for v in verdicts if theorem.name in v.duty.needed_by]
        first = [v for v in mine if v.duty.needed_by[0] == theorem.name]
        if len(first) < len(mine):
            shared = len({v.duty.obligation.name for v in mine if v not in first})
            say(f"    {shared} obligations shared with theorems above")
        tell_obligations(first)


def dropped_json(name: str, found: Finding | None) -> dict[str, Any]:
    """What happens without an assumption; `steps` is null where nothing is known to."""
    if found is None:
        return {"assumption": name, "property": None, "steps": None, "trace": []}
    trace = [json.loads(line) for line in dumps(found.trace).splitlines()]
    return {"assumption": name, "property": found.property, "steps": found.steps, "trace": trace}


def tell_dropped(name: str, found: Finding | None, *, in_full: bool) -> None:
    """What an assumption is for."""
    if found is None:
        say(f"\nwithout {name}: not proved, and nothing is known to break")
        return
    say(
        f"\nwithout {name} {found.property} is broken after {found.steps} steps"
        f" ({found.events} events)"
    )
    for step in found.trace.steps if in_full else ():
        say(f"    {label(step.rule, step.choice)}")


def drop(name: str) -> int:
    """Show what happens without an assumption. Raises UnknownName."""
    if name not in ASSUMPTIONS:
        known = ", ".join(ASSUMPTIONS)
        raise UnknownName(f"no assumption is called {name!r}; choose one of {known}")
    found = trace_without(name)
    tell_dropped(name, found, in_full=True)
    return EXIT_CODES["violated" if found else "undecided"]


def tell_obligations(verdicts: Sequence[ObligationVerdict]) -> None:
    """A line an obligation, with what each solver said and how long it took."""
    rows: dict[str, list[str]] = {}
    for verdict in verdicts:
        answer = verdict.answer
        said = f"{answer.solver} {answer.result} {answer.seconds:.2f} s"
        rows.setdefault(verdict.duty.obligation.name, []).append(said)
    for name, answers in rows.items():
        say(f"    {name:<48} {', '.join(answers)}")


def answer_failures(
    names: Sequence[str], theorems: Sequence[Theorem], of: ProofTarget
) -> list[Counterexample]:
    """A trace for each failed theorem that has one."""
    found = []
    for theorem in theorems:
        if theorem.name in names:
            answer = counterexample(theorem, of)
            if answer is None:
                say(f"\n{theorem.name} is not proved; no trace was found in {', '.join(of.scopes)}")
            else:
                found.append(answer)
                tell_counterexample(answer)
    return found


def tell_counterexample(found: Counterexample) -> None:
    """The steps that break the guarantee."""
    finding = found.finding
    say(
        f"\n{found.theorem} is not proved; {finding.property} is broken in {found.scope}"
        f" after {finding.steps} steps ({finding.events} events):"
    )
    for step in finding.trace.steps:
        say(f"    {label(step.rule, step.choice)}")


def tell_scoped(looked: Scoped) -> None:
    """What was seen in scopes: traces without assumptions, the clauses, the ranges."""
    for assumption, trace in looked.excluded.items():
        tell_dropped(assumption, trace, in_full=False)
    for rule in looked.vacuous:
        say(f"\n{rule} is never taken where the clauses are checked")
    for check in looked.clauses:
        state = f"fail: {', '.join(check.failed)}" if check.failed else "hold"
        say(f"\n{check.scope} [{check.variant}]: in {check.states} states the clauses {state}")
    for found in looked.ranges:
        state = f"fail: {', '.join(found.failed)}" if found.failed else "hold"
        ways = f"{found.by_interval} by intervals, {found.by_z3} by z3, {found.by_search} in scope"
        say(f"\n{found.scope} [{found.variant}]: {found.claims} claims of range {state}: {ways}")


def verdict_of(names: Sequence[str], answers: Sequence[Counterexample]) -> str:
    """holds, violated (a trace shows it) or undecided."""
    if not names:
        return "holds"
    return "violated" if answers else "undecided"


@dataclass(frozen=True, slots=True)
class Seeds:
    """All seeds: the first one's verdicts, or the first that failed; the solvers' seconds of each
    seed; and the queries whose time depends on it."""

    verdicts: tuple[ObligationVerdict, ...]
    totals: tuple[float, ...]
    unstable: Mapping[str, tuple[float, float]]


def cache_of(arguments: argparse.Namespace) -> AnswerCache:
    """Where answers are kept. Runs with several seeds measure solvers, and ask everything."""
    if arguments.no_cache or arguments.seeds > 1:
        return AnswerCache(None)
    return AnswerCache(arguments.cache or answers_folder())


def seeds_run(asked: ProofPlan, arguments: argparse.Namespace, journal: Journal) -> Seeds:
    """All obligations once for each seed, as far as the journal does not have their answers."""
    solvers = (arguments.solver,) if arguments.solver else tuple(SOLVERS)
    cache = cache_of(arguments)
    kept: tuple[ObligationVerdict, ...] = ()
    totals: list[float] = []
    times: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        with count_display("answers") as progress:
            verdicts = solve(
                asked,
                seed=seed,
                processes=arguments.processes,
                seen=progress,
                journal=journal,
                cache=cache,
                solvers=solvers,
            )
        totals.append(round(sum(v.answer.seconds for v in verdicts), 3))
        for verdict in verdicts:
            times.setdefault(full_name(verdict), []).append(verdict.answer.seconds)
        if not kept or (failed(verdicts) and not failed(kept)):
            kept = verdicts
        if arguments.seeds > 1:
            slowest = max(v.answer.seconds for v in verdicts)
            said = f"{totals[-1]:.1f} s of {' and '.join(solvers)}, slowest {slowest:.2f} s"
            say(f"  seed {seed}: {said}")
    seeds = Seeds(kept, tuple(totals), unstable(times))
    if arguments.seeds > 1:
        tell_seeds(seeds)
    return seeds


def tell_seeds(seeds: Seeds) -> None:
    """How much depends on the seed."""
    median = statistics.median(seeds.totals)
    worst = max(seeds.totals)
    say(f"  worst {worst:.1f} s, median {median:.1f} s: {ratio(seeds.totals):.2f}")
    for name, (usual, longest) in seeds.unstable.items():
        say(f"  unstable: {name}: median {usual:.2f} s, worst {longest:.2f} s")


def full_name(verdict: ObligationVerdict) -> str:
    """The theorem, the obligation, and the solver."""
    duty, answer = verdict.duty, verdict.answer
    return f"{duty.needed_by[0]}: {duty.obligation.name} ({answer.solver})"


def execute(arguments: argparse.Namespace) -> int:
    """Prove, say, write. Raises UnknownName, UnknownMutant and UnknownVariant."""
    if arguments.drop:
        return drop(arguments.drop)
    names = ("verb", "only", "variant", "mutant", "seeds", "solver")
    question = {name: getattr(arguments, name) for name in names}
    question["patches"] = rows_of(patches_of(arguments))
    # The journal names answers by the text of their obligations: other code asks others.
    with RunDirectory(arguments.out, question) as directory:
        return prove(arguments, directory)


def prove(arguments: argparse.Namespace, directory: RunDirectory) -> int:
    """Prove what is asked; the exit code."""
    began = time.perf_counter()
    patches = patches_of(arguments)
    of = subject(arguments.mutant, arguments.variant, patches, arguments.only)
    theorems = of.asks(chosen(arguments.only))
    asked = plan(theorems, of.under, of.models.values())
    say(
        f"{len(asked.duties)} obligations, {len(asked.unchanged)} more leave their clause unchanged"
    )
    seeds = seeds_run(asked, arguments, directory.journal)
    verdicts = seeds.verdicts
    tell(theorems, verdicts, of)
    names = failed(verdicts)
    answers = answer_failures(names, theorems, of)
    looked = Scoped() if names else look_in_scopes(theorems, of, arguments.processes)
    tell_scoped(looked)
    survives = bool(of.home) and not names
    if survives:
        say(f"\nno theorem fails with {arguments.mutant}: {of.shown_as} is explored only")
    verdict = "undecided" if survives or looked.broken else verdict_of(names, answers)
    report = {
        "schema_version": SCHEMA_VERSION,
        "mutant": arguments.mutant,
        "patches": rows_of(patches),
        "theorems": [theorem_json(t, of) for t in theorems],
        "obligations": [obligation_json(v) for v in verdicts],
        "unchanged": list(asked.unchanged),
        "vacuity": [check_json(c) for c in looked.clauses],
        "ranges": [asdict(c) for c in looked.ranges],
        "dropped": [dropped_json(name, found) for name, found in looked.excluded.items()],
        "counterexamples": [counterexample_json(a) for a in answers],
        "verdict": verdict,
    }
    times = times_of(seeds, began)
    if directory.path is not None:
        write_texts(asked, directory.path / "smtlib")
    directory.write(report, times, arguments.json)
    slowest = max((v.answer.seconds for v in verdicts), default=0.0)
    say(f"\n{verdict}: {len(verdicts)} answers in {times['seconds']} s, slowest {slowest:.2f} s")
    return EXIT_CODES[verdict]


def look_in_scopes(theorems: Sequence[Theorem], of: ProofTarget, processes: int) -> Scoped:
    """What the theorems stand on, under the variants that they are proved under."""
    plain = sorted({of.under(t) for t in theorems if t.clause})
    with count_display("looks at scopes") as progress:
        return scoped(theorems, plain, of.patches, processes=processes, seen=progress)


def times_of(seeds: Seeds, began: float) -> dict[str, Any]:
    """What differs from run to run."""
    return {
        "seconds": elapsed(began),
        "totals": list(seeds.totals),
        "unstable": {name: list(seconds) for name, seconds in seeds.unstable.items()},
        "obligations": {full_name(v): round(v.answer.seconds, 3) for v in seeds.verdicts},
    }
