"""Plans the obligations that prove theorems; each question occurs once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from proofs.lift.source import Model, load_model
from proofs.lift.values import Rec
from proofs.prove.engine.assumptions import events_left_out
from proofs.prove.engine.composition import Kept, Obligations
from proofs.prove.engine.formulas import Lifter
from proofs.prove.engine.induction import Clause, Induction
from proofs.prove.engine.missing_steps import actors_read, demand_all_steps, missing_steps
from proofs.prove.engine.possible_events import demand_possible_events
from proofs.prove.engine.sizes import names_of
from proofs.prove.engine.smt import ProofObligation
from proofs.prove.engine.step_evaluator import exchanged
from proofs.prove.engine.theorem import Theorem
from proofs.prove.engine.world_events import WorldEvents
from proofs.prove.run.assumptions import parts_that_stay


@dataclass(frozen=True, slots=True)
class Duty:
    """An obligation, and the names of the theorems that need it."""

    obligation: ProofObligation
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """All obligations of some theorems, each question once; the `unchanged` ones need no solver."""

    duties: tuple[Duty, ...]
    unchanged: tuple[str, ...]


class Planner:
    """Makes the obligations of theorems; theorems share what they have in common.

    A theorem about a composition that is not among `models` is proved for the source without
    patches.
    """

    def __init__(self, *models: Model) -> None:
        self.composed = {model.name: model for model in models}
        self.kept: Kept = {}

    def obligations(self, theorem: Theorem, variant: str) -> Obligations:
        """Return the obligations of a theorem under a variant, without checking its steps."""
        model = self.composed.get(theorem.home) or load_model(theorem.home)
        return theorem.composition.obligations(model, variant, theorem.variant, self.kept)

    def needs(self, theorem: Theorem, variant: str) -> Iterator[tuple[str, ProofObligation | None]]:
        """Yield (name, obligation) for a theorem; the obligation is None if the step changes
        nothing. Raises MissingSteps."""
        asked = self.obligations(theorem, variant)
        if asked.induction is not None:
            demand_steps(theorem, variant, asked.induction, asked.clauses)
        yield from asked.named


def demand_steps(
    theorem: Theorem, variant: str, induction: Induction, clauses: Iterable[Clause]
) -> None:
    """Raise MissingSteps if an event can do something that no step of the theorem covers."""
    if not isinstance(getattr(induction.state, "leader", None), Rec):
        return  # its steps are the rules of the world as written
    model = induction.lifter.model
    events = WorldEvents(
        model,
        variant,
        frozenset(induction.lifter.overrides),
        events_left_out(model, theorem.assumptions),
        parts_that_stay(theorem.assumptions),
        frozenset(claims_of(induction.lifter)),
    )
    speak = [induction.before[c.name] for c in clauses]
    actors = actors_read(induction.state, speak, exchanged(model))
    demand_all_steps(theorem.name, missing_steps(events, induction.steps, actors))


def claims_of(lifter: Lifter) -> Iterator[tuple[str, int]]:
    """Yield the sizes that a proof fixes, with their values."""
    bounds = lifter.k.bounds
    for name in names_of(type(bounds)):
        if (type(bounds).__name__, name) not in lifter.overrides:
            yield name, getattr(bounds, name)


def plan(
    theorems: Iterable[Theorem], under: Callable[[Theorem], str], models: Iterable[Model] = ()
) -> ProofPlan:
    """Return the obligations of the theorems, each under the variant that `under` gives; see
    Planner. Raises MissingSteps, and ImpossibleEvent for an event that patches have made
    impossible."""
    planner = Planner(*models)
    for model in planner.composed.values():
        demand_possible_events(model)
    duties: dict[tuple[str, str], Duty] = {}
    unchanged: dict[str, None] = {}
    for theorem in theorems:
        for name, found in planner.needs(theorem, under(theorem)):
            if found is None:
                unchanged[f"{under(theorem)}: {name}"] = None
            else:
                key = (found.name, found.question)
                before = duties[key].needed_by if key in duties else ()
                duties[key] = Duty(found, (*before, theorem.name))
    return ProofPlan(tuple(duties.values()), tuple(unchanged))


def write_texts(asked: ProofPlan, folder: Path) -> list[Path]:
    """Write each obligation to a file of SMT-LIB 2, which a solver proves by `unsat`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, duty in enumerate(asked.duties):
        name = duty.obligation.name.replace("/", ".")
        files.append(folder / f"{number:03d}.{name}.smt2")
        files[-1].write_text(duty.obligation.text, encoding="utf-8")
    return files
