"""`kafka-eos prove`: every theorem, every obligation by name, both solvers.

Exit code 0 means that all is proved. 1 means that something failed (as it should with --mutant), or
holds only because a rule can no longer be applied. 3 means that a solver could not decide an
obligation and no trace was found, or could not say whether anything meets an obligation's
hypotheses.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proofs.lift.source import composition_of
from proofs.prove.engine.scope_check import ScopeCheck
from proofs.prove.engine.solvers import SOLVERS
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.answer_cache import AnswerCache, answers_folder
from proofs.prove.run.answer_source import AnswerSource
from proofs.prove.run.assumption_necessity import trace_without
from proofs.prove.run.assumptions import ASSUMPTIONS
from proofs.prove.run.counterexamples import Counterexample, counterexample, places
from proofs.prove.run.first_trace import first_traces
from proofs.prove.run.other_programs import (
    PROGRAMS,
    ProgramAnswer,
    ask_sample,
    draw,
    missing_among,
)
from proofs.prove.run.plan import ProofPlan, plan, write_texts
from proofs.prove.run.report import (
    Proof,
    check_json,
    counterexample_json,
    dropped_json,
    full_name,
    obligation_json,
    theorem_json,
)
from proofs.prove.run.scope_jobs import Scoped, look_at, scoped, simulation_jobs
from proofs.prove.run.seeds import ratio, unstable
from proofs.prove.run.target import ProofTarget, UnknownName, chosen, subject
from proofs.prove.run.vacuity import look_for_vacuity
from proofs.prove.run.verdicts import ObligationVerdict, failed, needed, solve
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.journal import Journal
from proofs.run.progress import count_display
from proofs.say import say
from proofs.verbs.options import add_patch, parse_positive, patches_of, rows_of
from proofs.verbs.prove_output import (
    look_at_failures,
    tell,
    tell_counterexample,
    tell_counts,
    tell_dropped,
    tell_scoped,
    tell_undecided,
    tell_vacuity,
)

SCHEMA_VERSION = 2
ASKED = (
    *("verb", "only", "variant", "mutant", "seeds", "solver"),
    *("sample", "sample_seed", "no_scopes", "simulate"),
)
"""The options that identify a run's directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
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
    parser.add_argument(
        "--no-scopes",
        action="store_true",
        help="ask solvers only: explore nothing, neither for traces nor what proofs stand on",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="ask no solver: compare transitions of at least ten scopes with the steps of proofs",
    )
    parser.add_argument(
        "--sample", type=parse_positive, metavar="N", help="ask programs about N obligations, drawn"
    )
    parser.add_argument("--sample-seed", type=int, default=0, metavar="N", help="what N are drawn")
    parser.add_argument(
        "--programs",
        type=parse_programs,
        default=PROGRAMS,
        metavar="P[,P...]",
        help=f"which programs --sample asks: {','.join(PROGRAMS)}",
    )
    parser.add_argument("--verbose", action="store_true", help="name each obligation")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", type=Path, metavar="FILE", help="report and times, merged")
    parser.add_argument("--out", type=Path, metavar="DIR", help="report.json, run.json, texts")


def parse_programs(text: str) -> tuple[str, ...]:
    """Parse names of programs, with commas between them."""
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in PROGRAMS]:
        valid = ", ".join(PROGRAMS)
        raise argparse.ArgumentTypeError(f"invalid program {unknown[0]!r}; valid: {valid}")
    return names


def drop(name: str) -> int:
    """Show what happens without an assumption. Raises UnknownName."""
    if name not in ASSUMPTIONS:
        known = ", ".join(ASSUMPTIONS)
        raise UnknownName(f"no assumption is called {name!r}; choose one of {known}")
    found = trace_without(name)
    tell_dropped(name, found, in_full=True)
    return EXIT_CODES["violated" if found else "undecided"]


def answer_failures(
    names: Sequence[str], theorems: Sequence[Theorem], of: ProofTarget
) -> list[Counterexample]:
    """Return a trace for each failed theorem that has one."""
    found = []
    for theorem in theorems:
        if theorem.name in names:
            answer = counterexample(theorem, of)
            if answer is None:
                scopes = ", ".join(dict.fromkeys(scope for scope, _ in places(theorem, of)))
                say(f"\n{theorem.name} is not proved; no run breaks it in {scopes}")
            else:
                found.append(answer)
                tell_counterexample(answer)
    return found


def verdict_of(done: Proof, answers: Sequence[Counterexample]) -> str:
    """Return the verdict: holds, violated (a trace shows it), vacuous (a rule can no longer be
    applied) or undecided, which includes proofs that may be vacuous."""
    if failed(done.verdicts):
        return "violated" if answers else "undecided"
    if not done.is_labelled:
        return "vacuous"
    return "undecided" if done.unsettled else "holds"


@dataclass(frozen=True, slots=True)
class Seeds:
    """The results of all seeds: the first seed's verdicts, or the first that failed; the solvers'
    seconds of each seed; and the queries whose time depends on the seed."""

    verdicts: tuple[ObligationVerdict, ...]
    totals: tuple[float, ...]
    unstable: Mapping[str, tuple[float, float]]


def source_of(arguments: argparse.Namespace, journal: Journal) -> AnswerSource:
    """Return the source of answers. Runs with several seeds measure solvers, and take nothing from
    the cache."""
    folder = arguments.cache or answers_folder()
    is_cold = arguments.no_cache or arguments.seeds > 1
    return AnswerSource(arguments.processes, journal, AnswerCache(None if is_cold else folder))


def seeds_run(asked: ProofPlan, arguments: argparse.Namespace, source: AnswerSource) -> Seeds:
    """Ask all obligations once for each seed, unless their answers are known."""
    solvers = solvers_of(arguments)
    kept: tuple[ObligationVerdict, ...] = ()
    totals: list[float] = []
    times: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        with count_display("answers") as progress:
            verdicts = solve(asked, source, seed=seed, seen=progress, solvers=solvers)
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


def solvers_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the solvers to ask, in this order."""
    return (arguments.solver,) if arguments.solver else tuple(SOLVERS)


def ask_solvers(
    asked: ProofPlan, arguments: argparse.Namespace, source: AnswerSource
) -> tuple[Seeds, Proof]:
    """Ask solvers about the obligations, and whether anything meets the hypotheses of theorems that
    have not failed."""
    seeds = seeds_run(asked, arguments, source)
    lost = failed(seeds.verdicts)
    duties = [duty for duty in asked.duties if needed(duty, lost)]
    with count_display("sets of hypotheses") as progress:
        vacuity = look_for_vacuity(duties, source, progress)
    return seeds, Proof(asked, seeds.verdicts, vacuity, len(solvers_of(arguments)))


def tell_seeds(seeds: Seeds) -> None:
    """Print how much the times depend on the seed."""
    median = statistics.median(seeds.totals)
    worst = max(seeds.totals)
    say(f"  worst {worst:.1f} s, median {median:.1f} s: {ratio(seeds.totals):.2f}")
    for name, (usual, longest) in seeds.unstable.items():
        say(f"  unstable: {name}: median {usual:.2f} s, worst {longest:.2f} s")


def execute(arguments: argparse.Namespace) -> int:
    """Prove, print and write. Raises UnknownName, UnknownMutant and UnknownVariant."""
    if arguments.drop:
        return drop(arguments.drop)
    question = {name: getattr(arguments, name) for name in ASKED}
    question["programs"] = list(arguments.programs) if arguments.sample else None
    question["patches"] = rows_of(patches_of(arguments))
    # The journal names answers by the text of their obligations, so changed code asks new ones.
    with RunDirectory(arguments.out, question) as directory:
        if arguments.simulate:
            return simulate(arguments, directory)
        return (ask_programs if arguments.sample else prove)(arguments, directory)


def simulate(arguments: argparse.Namespace, directory: RunDirectory) -> int:
    """Compare transitions with steps, print how many rules of actors they apply and how many are
    matched, and return the exit code."""
    began = time.perf_counter()
    of, theorems = target_of(arguments)
    plain = sorted({of.under(t) for t in theorems if t.clause})
    jobs = tuple(simulation_jobs(theorems, plain, of.patches))
    with count_display("scopes") as progress:
        found = look_at(jobs, arguments.processes, progress)
    for job, check in found:
        whose = job.theorem or "one producer"
        say(
            f"{check.scope} [{check.variant}], steps of {whose}: {check.transitions}"
            f" transitions, {check.matched.total()} rules matched"
        )
        for name in check.failed:
            say(f"  NOT MATCHED: {name}")
    totals = simulation_totals([check for _, check in found])
    verdict = "undecided" if any(check.failed for _, check in found) else "holds"
    report = {
        "schema_version": SCHEMA_VERSION,
        "simulated": [{"theorem": job.theorem, **check_json(check)} for job, check in found],
        "matched": {home: total["matched"] for home, total in totals.items()},
        "totals": totals,
        "verdict": verdict,
    }
    directory.write(report, {"seconds": elapsed(began)}, arguments.json)
    for home, total in totals.items():
        say(
            f"{home}: {total['scopes']} scopes, {total['transitions']:,} transitions,"
            f" {total['matched']:,} rules matched"
        )
    say(f"{verdict}: {len(found)} looks at scopes")
    return EXIT_CODES[verdict]


def simulation_totals(checks: Sequence[ScopeCheck]) -> dict[str, dict[str, int]]:
    """Count by composition what was compared: scopes under a variant, their transitions, and the
    rules that steps match. A scope that is compared with several theorems counts once."""
    totals: dict[str, dict[str, int]] = {}
    for home in dict.fromkeys(composition_of(check.scope) for check in checks):
        mine = [check for check in checks if composition_of(check.scope) == home]
        scopes = {(check.scope, check.variant): check.transitions for check in mine}
        totals[home] = {
            "scopes": len(scopes),
            "transitions": sum(scopes.values()),
            "matched": sum(check.matched.total() for check in mine),
        }
    return totals


def target_of(arguments: argparse.Namespace) -> tuple[ProofTarget, tuple[Theorem, ...]]:
    """Return the target of the proof, and the theorems."""
    of = subject(arguments.mutant, arguments.variant, patches_of(arguments), arguments.only)
    return of, of.asks(chosen(arguments.only))


def planned(arguments: argparse.Namespace) -> tuple[ProofTarget, tuple[Theorem, ...], ProofPlan]:
    """Return the target of the proof, the theorems, and all obligations."""
    of, theorems = target_of(arguments)
    return of, theorems, plan(theorems, of.under, of.models.values())


def ask_programs(arguments: argparse.Namespace, directory: RunDirectory) -> int:
    """Draw obligations, ask programs about them, and return the exit code."""
    began = time.perf_counter()
    _, _, asked = planned(arguments)
    drawn = draw(asked.duties, arguments.sample, arguments.sample_seed)
    skipped = missing_among(arguments.programs)
    for program, why in skipped.items():
        say(f"{program}: left out, {why}")
    programs = [name for name in arguments.programs if name not in skipped]
    found: list[ProgramAnswer] = []
    with TemporaryDirectory() as folder, count_display("answers") as progress:
        for answer in ask_sample(drawn, programs, Path(folder)):
            found.append(answer)
            progress(len(found), len(drawn) * len(programs))
    for program in programs:
        say(format_program(program, found))
    verdict = verdict_of_sample(found)
    report = {
        "schema_version": SCHEMA_VERSION,
        "sample": {"seed": arguments.sample_seed, "obligations": len(drawn)},
        "programs": {name: dict(results_of(name, found)) for name in programs},
        "skipped": skipped,
        "answers": [asdict(answer) for answer in found],
        "verdict": verdict,
    }
    directory.write(report, {"seconds": elapsed(began)}, arguments.json)
    say(f"{verdict}: {len(drawn)} obligations drawn with seed {arguments.sample_seed}")
    return EXIT_CODES[verdict]


def results_of(program: str, found: Sequence[ProgramAnswer]) -> Counter[str]:
    """Count each result of a program."""
    return Counter(answer.result for answer in found if answer.program == program)


def format_program(program: str, found: Sequence[ProgramAnswer]) -> str:
    """Return a program's results on the sample; for proofs, also how many steps were checked."""
    mine = [answer for answer in found if answer.program == program]
    said = ", ".join(f"{count} {result}" for result, count in results_of(program, found).items())
    slowest = max((answer.seconds for answer in mine), default=0.0)
    steps, trusted = (sum(getattr(a, name) for a in mine) for name in ("steps", "trusted"))
    checked = f"; {steps - trusted:,} of {steps:,} steps checked by rule" if steps else ""
    return f"{program}: {said}, slowest {slowest:.2f} s{checked}"


def verdict_of_sample(found: Sequence[ProgramAnswer]) -> str:
    """Return violated if a program finds that an obligation fails, holds if some program proves
    each."""
    if any(answer.result == "failed" for answer in found):
        return "violated"
    asked = {answer.obligation for answer in found}
    proved = {answer.obligation for answer in found if answer.result == "proved"}
    return "holds" if asked and asked == proved else "undecided"


def prove(arguments: argparse.Namespace, directory: RunDirectory) -> int:
    """Prove what is requested, and return the exit code."""
    began = time.perf_counter()
    of, theorems = target_of(arguments)
    looks_first = arguments.variant and not (arguments.no_scopes or arguments.mutant)
    if looks_first and (traces := first_traces(theorems, of)):
        return answer_by_traces(arguments, directory, began, theorems, of, traces)
    asked = plan(theorems, of.under, of.models.values())
    say(
        f"{len(asked.duties)} obligations, {len(asked.unchanged)} more leave their clause unchanged"
    )
    with source_of(arguments, directory.journal) as source:
        seeds, done = ask_solvers(asked, arguments, source)
    verdicts = seeds.verdicts
    tell(theorems, done, of, verbose=arguments.verbose)
    tell_vacuity(done)
    names = failed(verdicts)
    broken = look_at_failures(theorems, done)
    is_sound = not names and done.is_labelled
    explores = not arguments.no_scopes
    answers = answer_failures(names, theorems, of) if explores else []
    looks = is_sound and explores
    looked = look_in_scopes(theorems, of, arguments.processes) if looks else Scoped()
    tell_scoped(looked)
    survives = bool(of.home) and is_sound
    if survives:
        say(f"\nno theorem fails with {arguments.mutant}: {of.shown_as} is explored only")
    verdict = "undecided" if survives or looked.broken else verdict_of(done, answers)
    report = {
        "schema_version": SCHEMA_VERSION,
        "mutant": arguments.mutant,
        "patches": rows_of(patches_of(arguments)),
        "theorems": [theorem_json(t, of) for t in theorems],
        "obligations": [obligation_json(done, v) for v in verdicts],
        "trivial": [d.obligation.name for d in asked.duties if d.obligation.is_trivial],
        "unchanged": list(asked.unchanged),
        "counts": {**done.counts(asked.duties), "unchanged": len(asked.unchanged)},
        "exclusions": [asdict(exclusion) for exclusion in done.exclusions],
        "hypotheses_undecided": list(done.unsettled),
        "vacuity": [check_json(c) for c in looked.clauses],
        "ranges": [asdict(c) for c in looked.ranges],
        "dropped": [dropped_json(name, found) for name, found in looked.excluded.items()],
        "broken_steps": [asdict(step) for step in broken],
        "counterexamples": [counterexample_json(a) for a in answers],
        "verdict": verdict,
    }
    times = times_of(seeds, began) | {"asked": source.asked}
    if directory.path is not None:
        write_texts(asked, directory.path / "smtlib")
    directory.write(report, times, arguments.json)
    slowest = max((v.answer.seconds for v in verdicts), default=0.0)
    tell_undecided(theorems, done, answers, explores=explores)
    tell_counts(report["counts"])
    say(
        f"{verdict}: {len(verdicts)} answers in {times['seconds']} s, slowest {slowest:.2f} s;"
        f" {source.asked} questions asked now"
    )
    return EXIT_CODES[verdict]


def answer_by_traces(
    arguments: argparse.Namespace,
    directory: RunDirectory,
    began: float,
    theorems: Sequence[Theorem],
    of: ProofTarget,
    traces: Sequence[Counterexample],
) -> int:
    """Report that each theorem has a trace that breaks it, so no solver is asked. Return the exit
    code."""
    for found in traces:
        tell_counterexample(found)
    report = {
        "schema_version": SCHEMA_VERSION,
        "mutant": arguments.mutant,
        "patches": [],
        "theorems": [theorem_json(t, of) for t in theorems],
        "obligations": [],
        "trivial": [],
        "unchanged": [],
        "counts": {},
        "counterexamples": [counterexample_json(found) for found in traces],
        "verdict": "violated",
    }
    seconds = elapsed(began)
    directory.write(report, {"seconds": seconds}, arguments.json)
    say(f"violated: a trace for each theorem in {seconds} s; no solver was asked")
    return EXIT_CODES["violated"]


def look_in_scopes(theorems: Sequence[Theorem], of: ProofTarget, processes: int) -> Scoped:
    """Check in scopes what the theorems rest on, under the variants under which they are proved."""
    plain = sorted({of.under(t) for t in theorems if t.clause})
    with count_display("looks at scopes") as progress:
        return scoped(theorems, plain, of.patches, processes=processes, seen=progress)


def times_of(seeds: Seeds, began: float) -> dict[str, Any]:
    """Return the figures that differ from run to run."""
    return {
        "seconds": elapsed(began),
        "totals": list(seeds.totals),
        "unstable": {name: list(seconds) for name, seconds in seeds.unstable.items()},
        "obligations": {full_name(v): round(v.answer.seconds, 3) for v in seeds.verdicts},
    }


def elapsed(since: float) -> float:
    """Return the seconds since `since`, a reading of the monotonic clock."""
    return round(time.perf_counter() - since, 3)
