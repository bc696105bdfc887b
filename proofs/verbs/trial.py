"""`try`: what a change of the protocol breaks first, in which scope, and what it leaves unchanged.

The change is a patch of the model, or a variant. Every scope of its composition is explored, the
smallest first; then the theorems that the change reaches are asked, one after the other. The
reference is what the base promises: the release in which the variant replaces rules, or the model
without the patch. The base's counts of scopes are known for the default variant, and explored for
others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proofs.explore.engines import engine_for
from proofs.explore.expected import BY_NAME_ONLY, EXPECTED
from proofs.explore.scope import (
    DEFAULT_VARIANT,
    Finding,
    ScopeReport,
    explore_scope,
    explore_unpatched,
)
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, composition_of, load_model, patches_by_composition
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.answer_cache import AnswerCache, answers_folder
from proofs.prove.run.answer_source import AnswerSource
from proofs.prove.run.target import ProofTarget
from proofs.prove.run.theorems_under_change import TheoremOutcome, TheoremTrial
from proofs.run import BadUse, worst
from proofs.run.progress import count_display
from proofs.say import say
from proofs.trace.breach import breach_of
from proofs.trace.replay import configuration_of
from proofs.verbs.options import (
    add_output,
    add_patch,
    add_workers,
    parse_positive,
    patches_of,
    rows_of,
)
from proofs.verbs.output import ExplorationDisplay, Output, finding_json

Size = tuple[int, int | None]
"""Distinct states and transitions; None if an engine does not count these."""

BUDGET_S = 300
STATES_A_SECOND = 40_000
"""A lower bound on the speed of exploring scopes, on a machine that also has other work."""
START_S = 3.0
"""The time for lifting and compiling a scope."""
OF_THEOREMS = 1 / 3
"""The part of the time that exploring leaves to the theorems."""
VERDICTS = {
    TheoremOutcome.LOST: "undecided",
    TheoremOutcome.VACUOUS: "vacuous",
    TheoremOutcome.WITHOUT_STEPS: "undecided",
    TheoremOutcome.NOT_DECIDED: "undecided",
}
"""The verdict of a trial for each outcome of its theorems, if everything else holds."""
HEADINGS = {
    TheoremOutcome.HOLDS: "theorems that hold as before",
    TheoremOutcome.NOT_REACHED: "theorems that the change does not reach",
    TheoremOutcome.LOST: "theorems that are not proved any more",
    TheoremOutcome.VACUOUS: "theorems that hold only since a rule is never taken",
    TheoremOutcome.WITHOUT_STEPS: "theorems that do not speak of all that happens now",
    TheoremOutcome.NEVER_HELD: "theorems that are not proved without the change either",
    TheoremOutcome.NOT_DECIDED: "theorems not decided in time (ask again: answers are kept)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    add_patch(parser)
    parser.add_argument(
        "--variant", metavar="V", help="RELEASE[/RULE=VALUE...]; with --patch: what is patched"
    )
    parser.add_argument(
        "--only", choices=COMPOSITIONS, help="what a patch changes, if it fits more"
    )
    parser.add_argument(
        "--budget-s",
        type=parse_positive,
        default=BUDGET_S,
        metavar="N",
        help="seconds for all of it (default: %(default)s); what is left out is named",
    )
    parser.add_argument("--stop", action="store_true", help="end at the first broken promise")
    parser.add_argument("--no-theorems", action="store_true", help="explore only")
    add_workers(parser)
    add_output(parser)


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A changed composition: its variant and patches, and the variant that it is compared with."""

    composition: str
    variant: str
    base: str
    patches: tuple[Patch, ...]

    @property
    def title(self) -> str:
        """The change in a line."""
        patched = " with the patch" if self.patches else ""
        return f"{self.composition}: {self.variant}{patched}, compared with {self.base}"

    def promised(self, scope: str) -> frozenset[str]:
        """Return what the base guarantees in a scope."""
        model = load_model(self.composition)
        k = configuration_of(model, scope, self.base)
        return frozenset(p.name for p in model.guarantees.GUARANTEES if p.guaranteed(k))

    @property
    def is_of_default(self) -> bool:
        """Whether the base has the rules of the default variant, whose counts are known."""
        parse = load_model(self.composition).variants.parse
        base, default = parse(self.base), parse(DEFAULT_VARIANT)
        return bool(replace(base, name=default.name) == default)

    @property
    def base_name(self) -> str:
        """The base as named in a sentence."""
        return DEFAULT_VARIANT if self.is_of_default else self.base


@dataclass(slots=True)
class Trial:
    """The effects of a change, as far as they were examined. `broken` are (scope, finding) in the
    order found; `lost` is what must happen in a scope and no longer does."""

    change: ModelChange
    explored: list[ScopeReport] = field(default_factory=list)
    as_before: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    broken: list[tuple[str, Finding]] = field(default_factory=list)
    lost: dict[str, list[str]] = field(default_factory=dict)
    theorems: dict[str, TheoremOutcome] = field(default_factory=dict)

    @property
    def kept(self) -> list[str]:
        """The guarantees that the base gives in some scope here, and the change broke in none."""
        broken = {found.property for _, found in self.broken}
        promised = {name for r in self.explored for name in self.change.promised(r.scope)}
        every = (p.name for p in load_model(self.change.composition).guarantees.GUARANTEES)
        return [name for name in every if name in promised - broken]

    @property
    def verdict(self) -> str:
        """The verdict: violated, vacuous, undecided if something was left out, or holds."""
        found = ["violated"] * bool(self.broken) + ["vacuous"] * bool(self.lost)
        found += ["undecided"] * bool(self.left_out)
        return worst((*found, *(VERDICTS.get(said, "holds") for said in self.theorems.values())))


def execute(arguments: argparse.Namespace) -> int:
    """Explore, ask theorems, and print. Raises BadUse, UnknownVariant, PatchError."""
    patches = patches_of(arguments)
    if not patches and not arguments.variant:
        raise BadUse("write what to try: --patch FILE, or --variant RELEASE/RULE=VALUE")
    end = time.monotonic() + arguments.budget_s
    with Output(
        arguments, "variant", "only", "budget_s", "stop", "no_theorems", patches=rows_of(patches)
    ) as output:
        trials = []
        changes = changes_of(arguments.variant, patches, arguments.only)
        for number, change in enumerate(changes):
            say(change.title)
            mine_s = (end - time.monotonic()) / (len(changes) - number)
            kept_s = 0 if arguments.no_theorems else mine_s * OF_THEOREMS
            until = time.monotonic() + mine_s
            trials.append(explore_change(change, arguments, until - kept_s, output))
            if not arguments.no_theorems:
                ask_theorems(trials[-1], arguments, until)
            for line in conclusion(trials[-1]):
                say(line)
        verdict = worst(trial.verdict for trial in trials)
        say(f"verdict: {verdict}")
        return output.finish({"trials": list(map(trial_json, trials)), "verdict": verdict})


def changes_of(
    variant: str | None, patches: Sequence[Patch], only: str | None = None
) -> list[ModelChange]:
    """Return the changes, by composition. Raises UnknownVariant, PatchError, BadUse."""
    homes = (only,) if only else COMPOSITIONS
    if patches:
        named = variant or DEFAULT_VARIANT
        changed = patches_by_composition(patches, homes)
        return [ModelChange(home, named, named, own) for home, own in changed.items()]
    assert variant is not None
    found = [c for home in homes if (c := variant_change(home, variant))]
    if not found:
        load_model("transactions").variants.parse(variant)
        raise BadUse(f"{variant!r} is {DEFAULT_VARIANT}: name a rule, as RELEASE/RULE=VALUE")
    return found


def variant_change(home: str, text: str) -> ModelChange | None:
    """Return the change of a variant in a composition; None if the composition does not know the
    variant, or nothing changes."""
    variants = load_model(home).variants
    try:
        parsed = variants.parse(text)
    except variants.UnknownVariant:
        return None
    base = variants.parse(parsed.release)
    if base.name == parsed.name:
        base = variants.parse(DEFAULT_VARIANT)
    return None if base.name == parsed.name else ModelChange(home, parsed.name, base.name, ())


# Scopes


def scopes_of(change: ModelChange) -> list[str]:
    """Return the scopes of a composition, the smallest first."""
    mine = (name for name in EXPECTED if composition_of(name) == change.composition)
    return sorted(set(mine) - BY_NAME_ONLY, key=lambda name: EXPECTED[name].distinct)


def explore_change(
    change: ModelChange, arguments: argparse.Namespace, until: float, output: Output
) -> Trial:
    """Explore all scopes for which there is time."""
    trial = Trial(change)
    searches = 1 if change.is_of_default else 2
    for scope in scopes_of(change):
        states = EXPECTED[scope].distinct
        needed_s = searches * (START_S + states / STATES_A_SECOND)
        is_late = time.monotonic() + needed_s > until
        if is_late or (arguments.stop and trial.broken):
            trial.left_out.append(scope)
            continue
        engine = engine_for(scope)
        with ExplorationDisplay(scope) as progress:
            report = explore_scope(
                scope,
                change.variant,
                patches=change.patches,
                engine=engine,
                workers=arguments.workers,
                is_checked=True,
                progress=progress,
            )
        before = size_of_base(change, scope, engine, arguments.workers)
        compare(trial, scope, report, before, output)
    return trial


def size_of_base(change: ModelChange, scope: str, engine: str, workers: int) -> Size:
    """Return the counts of a scope without the change."""
    if change.is_of_default:
        known = EXPECTED[scope]
        return known.distinct, known.transitions
    counts = explore_unpatched(scope, change.base, engine, workers).counts
    return counts.distinct, counts.transitions


def compare(trial: Trial, scope: str, report: ScopeReport, before: Size, output: Output) -> None:
    """Enter the results of a scope, and print what is new; `before` is its size without the
    change."""
    promised = trial.change.promised(scope)
    broken = [found for found in report.violations if found.property in promised]
    lost = [*report.sometimes.lost] if report.sometimes.is_enforced else []
    trial.explored.append(report)
    same_size = (report.counts.distinct, report.counts.transitions) == before
    if same_size and not broken and not lost:
        trial.as_before.append(scope)
        say(f"  {scope}: {report.counts.distinct:,} states, as before")
        return
    size = f"{report.counts.distinct:,} states ({before[0]:,} in {trial.change.base_name})"
    names = ", ".join(found.property for found in broken)
    effect = f"breaks {names}" if names else "no promise broken"
    say(f"  {scope}: {size}, {effect}")
    if broken and not trial.broken:
        for line in first_break(scope, min(broken, key=lambda found: found.events)):
            say(line)
    if lost:
        say(f"    no longer happens: {', '.join(lost)}")
        trial.lost[scope] = lost
    for found in sorted(broken, key=lambda found: found.events):
        trial.broken.append((scope, found))
        model = load_model(trial.change.composition, trial.change.patches)
        output.pictures(model, f"{scope}-{found.property}", found.trace)


def first_break(scope: str, found: Finding) -> Iterator[str]:
    """Yield the first promise that breaks: one sentence, and the steps."""
    yield f"    FIRST BROKEN, in {scope}: {breach_of(found.property, found.trace)}"
    for number, step in enumerate(found.trace.steps, start=1):
        yield f"    {number:4}.  {step.label}"


# Theorems


def ask_theorems(trial: Trial, arguments: argparse.Namespace, until: float) -> None:
    """Decide as many of the composition's theorems as there is time for."""
    if arguments.stop and trial.broken:
        say("  theorems: not asked (--stop)")
        return
    changed, base = targets_of(trial.change)
    theorems = [t for t in THEOREMS if t.home == trial.change.composition]
    asked = [t for t in changed.asks(theorems) if t in base.asks(theorems)] if theorems else []
    broken = {found.property for _, found in trial.broken}
    asked.sort(key=lambda theorem: not broken.isdisjoint(theorem.answered_by))  # failures take long
    with (
        AnswerSource(arguments.workers, cache=AnswerCache(answers_folder()), until=until) as source,
        count_display("theorems") as progress,
    ):
        trial.theorems.update(TheoremTrial(changed, base, source).decide(asked, progress))


def targets_of(change: ModelChange) -> tuple[ProofTarget, ProofTarget]:
    """Return the targets of the theorems with and without the change. A patch of the usual variant
    leaves each theorem the variant that it needs."""
    if not change.patches:
        changed, base = (ProofTarget(variants={"*": v}) for v in (change.variant, change.base))
        return changed, base
    variants = {} if change.variant == DEFAULT_VARIANT else {"*": change.variant}
    patches = {change.composition: change.patches}
    return ProofTarget(patches, variants), ProofTarget(variants=variants)


# The answer


def conclusion(trial: Trial) -> Iterator[str]:
    """Yield what is broken first, what else is broken, and what does not change."""
    base = trial.change.base
    if trial.broken:
        scope, first = trial.broken[0]
        yield f"breaks {first.property} of {base} first: {first.steps} steps in {scope}"
        others = dict.fromkeys(found.property for _, found in trial.broken[1:])
        others.pop(first.property, None)
        if others:
            yield f"  breaks also: {', '.join(others)}"
    else:
        yield f"breaks no promise of {base} in {len(trial.explored)} scopes"
    yield f"  still holds in all of them: {', '.join(trial.kept) or 'nothing'}"
    if trial.as_before:
        same = ", ".join(trial.as_before)
        yield f"  as many states and transitions as in {trial.change.base_name}: {same}"
    for outcome, heading in HEADINGS.items():
        if names := [name for name, said in trial.theorems.items() if said is outcome]:
            yield f"  {heading}: {', '.join(names)}"
    if trial.left_out:
        yield f"  left out (--budget-s, --stop): {', '.join(trial.left_out)}"


def trial_json(trial: Trial) -> dict[str, Any]:
    """Return one composition in the report."""
    change = trial.change
    return {
        "composition": change.composition,
        "variant": change.variant,
        "base": change.base,
        "explored": [r.scope for r in trial.explored],
        "as_before": trial.as_before,
        "left_out": trial.left_out,
        "broken": [{"scope": scope, **finding_json(found)} for scope, found in trial.broken],
        "lost": trial.lost,
        "kept": trial.kept,
        "theorems": trial.theorems,
        "verdict": trial.verdict,
    }
