"""The output of `prove`: theorems and their obligations, states and traces that break them, and why
something is not decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proofs.explore.scope import Finding
from proofs.prove.engine.solvers import TIMEOUT_S
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import part_of
from proofs.prove.run.assumptions import ASSUMPTIONS
from proofs.prove.run.broken_step import BrokenStep, broken_step, tell_step
from proofs.prove.run.counterexamples import Counterexample
from proofs.prove.run.plan import Duty
from proofs.prove.run.report import Proof
from proofs.prove.run.scope_jobs import Scoped
from proofs.prove.run.target import ProofTarget
from proofs.say import say
from proofs.trace.breach import breach_of
from proofs.trace.format import label

FEW = 12
"""The number of obligations of a theorem that are all named; of more, only those that failed."""
SHOWN = 3
"""The number of failed obligations of a theorem for which a breaking state is shown."""


def tell(
    theorems: Sequence[Theorem], done: Proof, of: ProofTarget, *, verbose: bool = False
) -> None:
    """Print each theorem with its regime and assumptions, and its obligations by name; if there are
    many, only those that failed."""
    for theorem in theorems:
        say(f"\n{theorem.name}  [{of.under(theorem)}; {theorem.regime.says}]")
        say(f"  {theorem.says}")
        if part := part_of(theorem):
            say(f"  part of {', '.join(part)}")
        for name in theorem.assumptions:
            say(f"  assuming {name}: {ASSUMPTIONS[name].says}")
        mine = [duty for duty in done.plan.duties if theorem.name in duty.needed_by]
        first = [duty for duty in mine if duty.needed_by[0] == theorem.name]
        if len(first) < len(mine):
            shared = len({d.obligation.name for d in mine if d not in first})
            say(f"    {shared} obligations shared with theorems above")
        tell_obligations(first, done, verbose=verbose)
        say(f"  {format_counts(done.counts(mine))}")


def tell_obligations(duties: Sequence[Duty], done: Proof, *, verbose: bool) -> None:
    """Print obligations by name; of more than FEW only those that failed, unless `verbose`."""
    in_full = verbose or len(duties) <= FEW
    named = [d for d in duties if in_full or done.kind_of(d) == "failed"]
    for duty in named:
        say(f"    {duty.obligation.name:<48} {format_answers(done, duty)}")
    if folded := len(duties) - len(named):
        say(f"    {folded} obligations that did not fail; --verbose names them")


def format_answers(done: Proof, duty: Duty) -> str:
    """Return each solver's answer to an obligation, and how long it took."""
    if duty.obligation.is_trivial:
        return "trivial"
    answers = (v.answer for v in done.verdicts_of(duty))
    said = ", ".join(f"{a.solver} {a.result} {a.seconds:.2f} s" for a in answers)
    by = done.vacuity.excluded_by(duty)
    return f"{said}; excluded by {' and '.join(by)}" if by else said


def format_counts(counts: Mapping[str, int]) -> str:
    """Return how many obligations there are of each kind."""
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)


def tell_dropped(name: str, found: Finding | None, *, in_full: bool) -> None:
    """Print what happens without an assumption."""
    if found is None:
        say(f"\nwithout {name}: not proved, and nothing is known to break")
        return
    say(
        f"\nwithout {name} {found.property} is broken after {found.steps} steps"
        f" ({found.events} events)"
    )
    for step in found.trace.steps if in_full else ():
        say(f"    {label(step.rule, step.choice)}")


def look_at_failures(theorems: Sequence[Theorem], done: Proof) -> list[BrokenStep]:
    """Return a state and a step that break the clause, for the first failures of each theorem."""
    found: dict[str, BrokenStep] = {}
    for theorem in theorems:
        mine = (d for d in done.plan.duties if theorem.name in d.needed_by)
        failures = [duty for duty in mine if done.is_refuted(duty)]
        for duty in failures[:SHOWN]:
            name = duty.obligation.name
            broken = None if name in found else broken_step(duty, theorem)
            if broken is not None:
                found[name] = broken
                say("")
                for line in tell_step(broken):
                    say(line)
        if len(failures) > SHOWN:
            say(f"\n{len(failures) - SHOWN} more steps break clauses of {theorem.name}")
    return list(found.values())


def tell_counterexample(found: Counterexample) -> None:
    """Print the steps that break the guarantee."""
    finding = found.finding
    say(
        f"\n{found.theorem} is not proved; {finding.property} is broken in {found.scope}"
        f" after {finding.steps} steps ({finding.events} events):"
    )
    for step in finding.trace.steps:
        say(f"    {label(step.rule, step.choice)}")
    say(breach_of(finding.property, finding.trace))


def tell_vacuity(done: Proof) -> None:
    """Print the excluded steps with what excludes them, and the hypotheses that no solver could
    decide."""
    for found in done.exclusions:
        where = "assumed" if found.labelled else "NOT ASSUMED: a rule that is never taken"
        say(
            f"\n{found.step} is excluded by {' and '.join(found.by)} in {found.obligations}"
            f" obligations of {len(found.theorems)} theorems: {where}"
        )
    if done.unsettled:
        first = ", ".join(done.unsettled[:SHOWN])
        say(
            f"\n{len(done.unsettled)} obligations have hypotheses of which z3 could not say whether"
            f" anything meets them, so nothing is decided: {first}"
        )


def tell_scoped(looked: Scoped) -> None:
    """Print the results in scopes: traces without assumptions, the clauses, the ranges."""
    for assumption, trace in looked.excluded.items():
        tell_dropped(assumption, trace, in_full=False)
    for rule in looked.vacuous:
        say(f"\n{rule} is never taken where the clauses are checked")
    for check in looked.clauses:
        state = f"fail: {', '.join(check.failed)}" if check.failed else "hold"
        say(f"\n{check.scope} [{check.variant}]: in {check.states} states the clauses {state}")
        if check.matched:
            say(f"  steps of the proofs match the {check.matched.total()} rules that actors take")
    for found in looked.ranges:
        state = f"fail: {', '.join(found.failed)}" if found.failed else "hold"
        ways = f"{found.by_interval} by intervals, {found.by_z3} by z3, {found.by_search} in scope"
        say(f"\n{found.scope} [{found.variant}]: {found.claims} claims of range {state}: {ways}")


def tell_undecided(
    theorems: Sequence[Theorem], done: Proof, answers: Sequence[Counterexample], *, explores: bool
) -> None:
    """Print why a failed theorem is not decided, and what to do."""
    answered = {found.theorem for found in answers}
    for theorem in theorems:
        mine = (d for d in done.plan.duties if theorem.name in d.needed_by)
        failures = [duty for duty in mine if done.kind_of(duty) == "failed"]
        if not failures or theorem.name in answered:
            continue
        names = [duty.obligation.name for duty in failures]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        say(f"\n{theorem.name} is undecided: {', '.join(names[:SHOWN])}{more} failed")
        say(f"  {why_undecided(done, failures)}")
        if not explores:
            say("  without --no-scopes a reachable trace is looked for")


def why_undecided(done: Proof, failures: Sequence[Duty]) -> str:
    """Return what solvers know of obligations that failed."""
    if any(map(done.is_refuted, failures)):
        return "a state breaks it, and nobody says whether any run comes to that state"
    return f"no solver could say in {TIMEOUT_S} seconds; nothing is known to break"


def tell_counts(counts: Mapping[str, int]) -> None:
    """Print how many obligations there are of each kind, and the meaning of unconfirmed."""
    say(f"\n{format_counts(counts)}")
    if counts["unconfirmed"]:
        say(
            "  unconfirmed: proved by one solver, and not asked of the other, as each theorem that"
            " needs it has failed"
        )
