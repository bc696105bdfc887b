"""A finished proof, with the verdict on each obligation, and its report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from proofs.explore.scope import Finding
from proofs.prove.engine.scope_check import ScopeCheck
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import THEOREMS, part_of
from proofs.prove.run.assumptions import ASSUMPTIONS
from proofs.prove.run.counterexamples import Counterexample
from proofs.prove.run.plan import Duty, ProofPlan
from proofs.prove.run.target import ProofTarget
from proofs.prove.run.vacuity import Vacuity, is_labelled, step_of
from proofs.prove.run.verdicts import ObligationVerdict
from proofs.trace.format import dumps

KINDS = ("proved", "excluded", "trivial", "unconfirmed", "failed")
"""The kinds of obligations: proved; excluded, because nothing meets the hypotheses; trivial,
because the goal is the constant true; unconfirmed, because one solver proved it and the second was
not asked, since the theorems that need it have failed; failed."""

BY_NAME = {theorem.name: theorem for theorem in THEOREMS}


@dataclass(frozen=True, slots=True)
class ExcludedStep:
    """A step that something excludes, with the theorems whose obligations it affects. `labelled`
    says that all these theorems assume the exclusion."""

    step: str
    by: tuple[str, ...]
    obligations: int
    theorems: tuple[str, ...]
    labelled: bool


@dataclass(frozen=True)
class Proof:
    """All obligations, the solvers' answers, and what excludes their hypotheses. `solvers` is the
    number of solvers to be asked."""

    plan: ProofPlan
    verdicts: tuple[ObligationVerdict, ...]
    vacuity: Vacuity
    solvers: int = 0

    @cached_property
    def _by_duty(self) -> dict[int, list[ObligationVerdict]]:
        found: dict[int, list[ObligationVerdict]] = {}
        for verdict in self.verdicts:
            found.setdefault(id(verdict.duty), []).append(verdict)
        return found

    def verdicts_of(self, duty: Duty) -> Sequence[ObligationVerdict]:
        """Return each solver's answer to an obligation."""
        return self._by_duty.get(id(duty), ())

    def kind_of(self, duty: Duty) -> str:
        """Return the kind of an obligation: one of KINDS."""
        if duty.obligation.is_trivial:
            return "trivial"
        if any(v.answer.result != "proved" for v in self.verdicts_of(duty)):
            return "failed"
        if len(self.verdicts_of(duty)) < self.solvers:
            return "unconfirmed"
        return "excluded" if self.vacuity.excluded_by(duty) else "proved"

    def is_refuted(self, duty: Duty) -> bool:
        """Whether a solver has found a state in which an obligation fails."""
        return any(v.answer.result == "failed" for v in self.verdicts_of(duty))

    def counts(self, duties: Sequence[Duty]) -> dict[str, int]:
        """Count some obligations by kind."""
        found = Counter(map(self.kind_of, duties))
        return {kind: found[kind] for kind in KINDS}

    @property
    def is_labelled(self) -> bool:
        """Whether the theorems assume every exclusion."""
        return all(exclusion.labelled for exclusion in self.exclusions)

    @cached_property
    def unsettled(self) -> tuple[str, ...]:
        """The obligations for which no solver knows whether anything meets their hypotheses."""
        unknown = filter(self.vacuity.is_undecided, self.plan.duties)
        return tuple(duty.obligation.name for duty in unknown)

    @cached_property
    def exclusions(self) -> tuple[ExcludedStep, ...]:
        """The excluded steps, grouped by step and by what excludes them."""
        groups: dict[tuple[str, tuple[str, ...], bool], list[Duty]] = {}
        for duty in self.plan.duties:
            by = self.vacuity.excluded_by(duty)
            if by and self.kind_of(duty) == "excluded":
                key = (step_of(duty), by, is_labelled(duty, by, BY_NAME))
                groups.setdefault(key, []).append(duty)
        return tuple(
            ExcludedStep(step, by, len(duties), theorems_of(duties), labelled)
            for (step, by, labelled), duties in groups.items()
        )


def theorems_of(duties: Sequence[Duty]) -> tuple[str, ...]:
    """Return the theorems that need one of some obligations."""
    return tuple(dict.fromkeys(name for duty in duties for name in duty.needed_by))


def theorem_json(theorem: Theorem, of: ProofTarget) -> dict[str, Any]:
    """Return a theorem as part of the report."""
    return {
        "name": theorem.name,
        "statement": theorem.says,
        "variant": of.under(theorem),
        "regime": theorem.regime.says,
        "part_of": list(part_of(theorem)),
        "assumptions": [{"name": a, "says": ASSUMPTIONS[a].says} for a in theorem.assumptions],
        "uses": list(theorem.uses),
    }


def obligation_json(done: Proof, verdict: ObligationVerdict) -> dict[str, Any]:
    """Return one solver's answer as part of the report."""
    return {
        "name": verdict.duty.obligation.name,
        "theorem": verdict.duty.needed_by[0],
        "needed_by": list(verdict.duty.needed_by),
        "solver": verdict.answer.solver,
        "result": verdict.answer.result,
        "kind": done.kind_of(verdict.duty),
        "excluded_by": list(done.vacuity.excluded_by(verdict.duty)),
    }


def check_json(check: ScopeCheck) -> dict[str, Any]:
    """Return the check of one scope as part of the report."""
    return {
        "scope": check.scope,
        "variant": check.variant,
        "states": check.states,
        "firings": dict(sorted(check.firings.items())),
        "matched": dict(sorted(check.matched.items())),
        "failed": list(check.failed),
    }


def counterexample_json(found: Counterexample) -> dict[str, Any]:
    """Return a trace that explains a failure as part of the report."""
    return {
        "theorem": found.theorem,
        "scope": found.scope,
        "property": found.finding.property,
        "steps": found.finding.steps,
        "events": found.finding.events,
        "trace": [json.loads(line) for line in dumps(found.finding.trace).splitlines()],
    }


def dropped_json(name: str, found: Finding | None) -> dict[str, Any]:
    """Return the trace without an assumption as part of the report; `steps` is null if no trace is
    known."""
    if found is None:
        return {"assumption": name, "property": None, "steps": None, "trace": []}
    trace = [json.loads(line) for line in dumps(found.trace).splitlines()]
    return {"assumption": name, "property": found.property, "steps": found.steps, "trace": trace}


def full_name(verdict: ObligationVerdict) -> str:
    """Return the names of the theorem, the obligation and the solver as one text."""
    duty, answer = verdict.duty, verdict.answer
    return f"{duty.needed_by[0]}: {duty.obligation.name} ({answer.solver})"
