"""The verdict of conformance on a random mutant: the scope whose traces diverge first.

First, the statements of impl that each scope and each story executes are recorded once. Then the
mutants are judged scope by scope: each scope judges the mutants whose statement it executes and
that are not found yet, each up to its first divergence.

| fate      | what it means                                                                       |
|-----------|-------------------------------------------------------------------------------------|
| found     | a trace diverges, or impl cannot be imported, or judging fails, or it does not end  |
| alive     | the traces of all scopes that execute the statement agree                           |
| unreached | no scope executes the statement                                                     |
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.campaigns.mutants.drawing import RandomMutant, planted
from conformance.campaigns.mutants.planting import in_children, plant, replace_function
from conformance.judging.coverage.marks import numbers_in, statement_marks
from conformance.judging.coverage.statements import places

FATES: Final = ("found", "alive", "unreached")
LONGEST_S: Final = 900
"""The limit of processor time for a scope without a mutant."""
FEW: Final = 2
"""For at most this many mutants, nothing is cached beforehand."""
PATIENCE_S: Final = 20
"""The least limit of processor time for a mutant."""
STORY: Final = ".story"
"""The suffix of a story's file; other names are prepared scopes."""
SLOWER: Final = 5
"""A mutant that takes this many times as long as the unchanged scope counts as endless."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The places that the traces of a scope execute, and the time that they took."""

    places: frozenset[int]
    divergences: int
    seconds: float


# The unchanged impl


def record_reached(
    prepared: Mapping[str, Path], processes: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """By scope, in the form of the journal: the places that its traces execute."""
    statement_marks()  # so that no child makes them anew
    jobs = [((name, folder), LONGEST_S) for name, folder in prepared.items()]
    for (name, _), found in in_children(reached_in, jobs, processes):
        if found is None:
            raise RuntimeError(f"{name}: judging impl as it is does not end")
        yield name, found


def reached_in(job: tuple[str, Path]) -> dict[str, Any]:
    """The places that the traces of a scope execute; for a process that ends after this."""
    marks = statement_marks()
    marks.begin(job)
    began = time.process_time()
    divergences = divergences_in(job[1], to_the_first=False)
    seconds = round(time.process_time() - began, 2)
    executed = sorted(numbers_in(marks.reached()))
    return {"places": executed, "divergences": len(divergences), "seconds": seconds}


def divergences_in(where: Path, *, to_the_first: bool) -> Sequence[str]:
    """The divergences in a prepared scope, or in a story. Imports are local, because a child
    imports these modules again."""
    if where.suffix == STORY:
        from conformance.campaigns.mutants.by_stories import differences_in

        return differences_in(where, to_the_first=to_the_first)
    from conformance.campaigns.mutants.hunt import find_first, judge_for
    from conformance.judging.plan import PreparedPlan

    prepared = PreparedPlan.load(where)
    judge = judge_for(prepared)
    found = find_first(prepared, judge) if to_the_first else judge.findings(0, prepared.count)
    return [f"{one['rule']}, {one['steps']} steps" for one in sorted(found, key=steps_in)]


def steps_in(finding: Mapping[str, Any]) -> int:
    """The length of the trace that shows a finding."""
    return int(finding["steps"])


def read_reached(found: Mapping[str, Any]) -> Reached:
    """Parses the journal's entry for a scope."""
    return Reached(frozenset(found["places"]), found["divergences"], found["seconds"])


# With mutants


class Judgement(NamedTuple):
    """The verdict of a scope on the mutants that it judged: how each diverges, if it does."""

    scope: str
    judged: Sequence[str]
    found: Mapping[str, str]


def judge_mutants(
    mutants: Sequence[RandomMutant],
    reached: Mapping[str, Reached],
    prepared: Mapping[str, Path],
    known: Sequence[Judgement],
    processes: int,
) -> Iterator[Judgement]:
    """Judge the mutants scope by scope: those whose statement the scope executes and that are not
    found yet. Scopes that judge the most mutants in the least time come first. Stories come last,
    because a broker with a bug may keep its client waiting. Mutants that are `known` are not judged
    again."""
    from conformance.campaigns.mutants import hunt

    assert hunt.FIRST_TRACES, "it is loaded"
    executed_in = {mutant: scopes_of(mutant, reached) for mutant in mutants}
    found = {name for judgement in known for name in judgement.found}
    done = {(judgement.scope, name) for judgement in known for name in judgement.judged}

    def left_in(scope: str) -> list[RandomMutant]:
        judged = {name for one, name in done if one == scope} | found
        return [m for m, scopes in executed_in.items() if scope in scopes and m.name not in judged]

    def worth(scope: str) -> tuple[bool, float]:
        is_scope = prepared[scope].suffix != STORY
        return is_scope, len(left_in(scope)) / (1 + reached[scope].seconds)

    def jobs() -> Iterator[tuple[JudgingJob, int]]:
        waiting = sorted(prepared)
        while waiting:
            scope = max(waiting, key=worth)
            waiting.remove(scope)
            if left := left_in(scope):
                patience_s = int(PATIENCE_S + SLOWER * reached[scope].seconds)
                yield JudgingJob(scope, prepared[scope], left, patience_s), LONGEST_S

    for job, answers in in_children(judge_in_scope, jobs(), processes):
        if answers is None:
            raise RuntimeError(f"{job.scope}: judging impl as it is does not end")
        found |= answers.keys()
        yield Judgement(job.scope, [mutant.name for mutant in job.mutants], answers)


class JudgingJob(NamedTuple):
    """Mutants that a scope judges, with a time limit for each."""

    scope: str
    where: Path
    mutants: Sequence[RandomMutant]
    patience_s: int


def judge_in_scope(job: JudgingJob) -> dict[str, str]:
    """How the mutants diverge, for those that do. The scope is judged without a mutant first, which
    fills the caches of the model for all. Each mutant is planted in a child of this process."""
    if len(job.mutants) > FEW and job.where.suffix != STORY:
        divergences_in(job.where, to_the_first=False)
    jobs = [((mutant, job.where), job.patience_s) for mutant in job.mutants]
    answers = in_children(how_it_diverges, jobs, 1)
    hows = {mutant.name: "judging does not end" if a is None else a for (mutant, _), a in answers}
    return {name: how for name, how in hows.items() if how}


def how_it_diverges(job: tuple[RandomMutant, Path]) -> str:
    """The first difference that a mutant shows, empty if none; for a process that ends after
    this."""
    mutant, where = job
    try:
        change = partial(planted, mutant)
        if mutant.is_loaded or not replace_function(mutant.module, mutant.function, change):
            plant(change)
        forget_judges()
        return next(iter(divergences_in(where, to_the_first=True)), "")
    except Exception as error:
        return repr(error)


def forget_judges() -> None:
    """Forget everything that was cached of the unchanged impl."""
    from conformance.adapters.impl.judges import judge_of

    judge_of.cache_clear()


def verdicts(
    mutants: Iterable[RandomMutant],
    reached: Mapping[str, Reached],
    known: Iterable[Judgement],
) -> dict[str, dict[str, str]]:
    """By mutant its fate, the scope that decides, and the difference."""
    shown = {name: (j.scope, how) for j in known for name, how in j.found.items()}
    found: dict[str, dict[str, str]] = {}
    for mutant in mutants:
        scopes = scopes_of(mutant, reached)
        fate = "found" if mutant.name in shown else "alive" if scopes else "unreached"
        scope, how = shown.get(mutant.name, ("", f"{len(scopes)} scopes agree"))
        found[mutant.name] = {"fate": fate, "scope": scope, "how": how}
    return found


def scopes_of(mutant: RandomMutant, reached: Mapping[str, Reached]) -> list[str]:
    """The scopes that execute its statement. Code outside of functions (a constant, a member of an
    enum) is executed wherever the module is, and in any scope if the module only has tables. A
    scope that diverges without a mutant shows nothing."""
    module = mutant.place.module
    line = None if mutant.is_loaded else mutant.place.line
    numbers = numbers_at(module, line) or numbers_at(module, None)
    sound = {name: found for name, found in reached.items() if not found.divergences}
    return [name for name, found in sound.items() if not numbers or found.places & numbers]


@functools.cache
def numbers_at(module: str, line: int | None) -> frozenset[int]:
    """The numbers of the places in a module, or in one line of it."""
    named = enumerate(places())
    return frozenset(n for n, p in named if p.module == module and line in (None, p.line))
