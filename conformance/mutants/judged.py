"""The verdict of conformance on a random mutant: which scope's traces diverge first.

Which statements of impl each scope executes is recorded once. A mutant is judged in the scopes
that execute its statement, the quickest first, to the first divergence.

| fate      | what it means                                                              |
|-----------|----------------------------------------------------------------------------|
| found     | a trace diverges, or judging fails with an error, or does not end          |
| alive     | the traces of all scopes that execute the statement agree                  |
| unreached | no scope executes the statement                                            |
| invalid   | impl cannot be imported with it                                            |
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.mutants.drawing import RandomMutant, planted
from conformance.mutants.planting import in_children, plant
from conformance.mutants.statements import keep_marks, marked, places

FATES: Final = ("found", "alive", "unreached", "invalid")
LONGEST_S: Final = 900
"""Of a processor's time, for a scope as it is."""
PATIENCE_S: Final = 20
"""The least that a mutant has, of a processor's time."""
SLOWER: Final = 5
"""So many times what the scopes take as they are: then a mutant does not end."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What the traces of a scope execute: the numbers of places; and what they took."""

    places: frozenset[int]
    divergences: int
    seconds: float


# As impl is


def record_reached(
    prepared: Mapping[str, Path], processes: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """By scope, as the journal has it: what its traces execute."""
    places()
    jobs = [((name, folder), LONGEST_S) for name, folder in prepared.items()]
    for (name, _), found in in_children(reached_in, jobs, processes):
        if found is None:
            raise RuntimeError(f"{name}: judging impl as it is does not end")
        yield name, found


def reached_in(job: tuple[str, Path]) -> dict[str, Any]:
    """What the traces of a scope execute; for a process that ends with it."""
    reached = keep_marks()
    plant(marked)
    began = time.process_time()
    divergences = divergences_in(job[1], to_the_first=False)
    seconds = round(time.process_time() - began, 2)
    return {"places": sorted(reached), "divergences": len(divergences), "seconds": seconds}


def divergences_in(folder: Path, *, to_the_first: bool) -> Sequence[Any]:
    """What diverges; imported here, as this is what a child imports again."""
    from conformance.mutants.hunt import find_first, judge_for
    from conformance.plan import PreparedPlan

    prepared = PreparedPlan.load(folder)
    judge = judge_for(prepared)
    return find_first(prepared, judge) if to_the_first else judge.findings(0, prepared.count)


def read_reached(found: Mapping[str, Any]) -> Reached:
    """What the journal has of a scope."""
    return Reached(frozenset(found["places"]), found["divergences"], found["seconds"])


# With a mutant


def judge_mutants(
    mutants: Iterable[RandomMutant],
    reached: Mapping[str, Reached],
    prepared: Mapping[str, Path],
    processes: int,
) -> Iterator[tuple[RandomMutant, dict[str, Any]]]:
    """The verdict on each, as they come."""
    jobs = []
    for mutant in mutants:
        names = scopes_of(mutant, reached)
        if names:
            patience = PATIENCE_S + SLOWER * sum(reached[name].seconds for name in names)
            jobs.append(((mutant, [(name, prepared[name]) for name in names]), int(patience)))
        else:
            yield mutant, {"fate": "unreached", "scope": "", "how": ""}
    for (mutant, _), verdict in in_children(verdict_on, jobs, processes):
        yield mutant, verdict or {"fate": "found", "scope": "", "how": "judging does not end"}


def scopes_of(mutant: RandomMutant, reached: Mapping[str, Reached]) -> list[str]:
    """The scopes that execute its statement, the quickest first. What stands in no function (a
    constant, a member of an enum) is executed wherever the module is. A scope that diverges without
    a mutant shows nothing."""
    module = mutant.place.module
    numbers = numbers_at(module, mutant.place.line) or numbers_at(module, None)
    sound = {name: found for name, found in reached.items() if not found.divergences}
    executing = [name for name, found in sound.items() if found.places & numbers]
    return sorted(executing, key=lambda name: (reached[name].seconds, name))


@functools.cache
def numbers_at(module: str, line: int | None) -> frozenset[int]:
    """The numbers of the places of a module, or of one line of it."""
    named = enumerate(places())
    return frozenset(n for n, p in named if p.module == module and line in (None, p.line))


def verdict_on(job: tuple[RandomMutant, Sequence[tuple[str, Path]]]) -> dict[str, Any]:
    """The verdict on a mutant; for a process that ends with it."""
    mutant, scopes = job
    plant(functools.partial(planted, mutant))
    try:
        pass
    except Exception as error:
        return {"fate": "invalid", "scope": "", "how": repr(error)}
    for name, folder in scopes:
        try:
            found = divergences_in(folder, to_the_first=True)
        except Exception as error:
            return {"fate": "found", "scope": name, "how": repr(error)}
        if found:
            first = min(found, key=lambda finding: finding["steps"])
            how = f"{first['rule']}, {first['steps']} steps"
            return {"fate": "found", "scope": name, "how": how}
    return {"fate": "alive", "scope": "", "how": f"{len(scopes)} scopes agree"}
