"""Which guarantees the judged traces put to the test, and which they broke.

Two rules:

1. As long as a system agrees with the model, its worlds are the model's. Where the scope was
   explored, each state was asked then, and transitions tell which were met; else a trace is walked
   on the model's functions, and each world is asked once. A diverging trace counts up to the step
   before.
2. The world of a system that diverged is made of what it shows of itself (`observed_world`). Nobody
   follows what it would do after its first difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.generate.models import model_of_configuration
from conformance.judging.compositions import JudgedComposition, judged_composition
from conformance.judging.findings import judge_of, plan_of, steps_of
from conformance.judging.judge import Judge, Steps
from conformance.judging.plan import PreparedPlan
from conformance.judging.signatures import Finding
from conformance.judging.system import View, WireNumbers
from model.idempotent.leader import StoredBatch
from model.idempotent.messages import Batch
from model.idempotent.network import SILENT_LINK
from model.idempotent.scopes import initial
from model.idempotent.world import World
from model.language import EMPTY_SET, Map, Set
from model.properties import Guarantee
from proofs.trace.format import Choice
from proofs.trace.replay import Stepper

HOLDS: Final = "holds"
VIOLATED: Final = "violated"
NOT_EXERCISED: Final = "not_exercised"

MAX_WORLDS: Final = 200_000
"""Worlds that a walker remembers; then it begins to learn again."""

NO_SEQUENCE: Final = -1


@dataclass(frozen=True, slots=True)
class ObservedProperties:
    """Names of guarantees that were broken somewhere, and of witnesses that were met."""

    broken: frozenset[str] = frozenset()
    met: frozenset[str] = frozenset()

    def merge(self, other: ObservedProperties) -> ObservedProperties:
        """Both together."""
        return ObservedProperties(self.broken | other.broken, self.met | other.met)


def observe_world(k: Any, world: Any) -> ObservedProperties:
    """What one world shows."""
    guarantees = model_of_configuration(k).guarantees
    return ObservedProperties(
        frozenset(p.name for p in guarantees.GUARANTEES if not p.check(k, world)),
        frozenset(w.name for w in guarantees.WITNESSES if w.check(k, world)),
    )


def statuses(seen: ObservedProperties, k: Any) -> dict[str, str]:
    """Each guarantee: violated, holds, or not exercised."""
    guarantees = model_of_configuration(k).guarantees
    return {p.name: status(p, seen, k) for p in guarantees.GUARANTEES}


def status(guarantee: Guarantee[Any, Any], seen: ObservedProperties, k: Any) -> str:
    """One guarantee. A broken one was exercised, whatever its witness says."""
    if guarantee.name in seen.broken:
        return VIOLATED
    witnesses = model_of_configuration(k).guarantees.WITNESSES
    was_met = any(w.check is guarantee.witness and w.name in seen.met for w in witnesses)
    return HOLDS if was_met and guarantee.needs(k) else NOT_EXERCISED


def not_guaranteed(k: Any) -> list[str]:
    """The guarantees that this variant does not give in this scope."""
    model = model_of_configuration(k)
    return [p.name for p in model.guarantees.GUARANTEES if not p.guaranteed(k)]


# States that were explored


def observe_transitions(prepared: PreparedPlan, transitions: bytes) -> ObservedProperties:
    """What a summary's transitions show, in a scope that was explored."""
    bits = prepared.shows(transitions)
    named = judged_composition(prepared.plan.scope).model.guarantees
    guarantees, witnesses = ([s.name for s in kind] for kind in (named.GUARANTEES, named.WITNESSES))
    found = frozenset(n for i, n in enumerate((*guarantees, *witnesses)) if bits >> i & 1)
    return ObservedProperties(found.intersection(guarantees), found.intersection(witnesses))


# Walking on the model


@dataclass(slots=True)
class ExploredWorld:
    """A world, what it shows, and where its rule instances lead as far as they are known."""

    world: Any
    seen: ObservedProperties
    next: dict[tuple[str, Choice], ExploredWorld] = field(default_factory=dict)


class GuaranteeWalker:
    """Walks traces on the model; what it learned in one serves the next."""

    def __init__(self, k: Any) -> None:
        self._stepper = Stepper(model_of_configuration(k), k)
        self._places: dict[Any, ExploredWorld] = {}

    def walk(self, steps: Steps) -> ObservedProperties:
        """All that the worlds of a trace show, the first included."""
        place = self._place(self._stepper.initial())
        broken, met = set(place.seen.broken), set(place.seen.met)
        for instance in steps:
            following = place.next.get(instance)
            if following is None:
                world = self._stepper.apply(*instance, place.world)
                following = place.next[instance] = self._place(world)
            place = following
            broken |= place.seen.broken
            met |= place.seen.met
        return ObservedProperties(frozenset(broken), frozenset(met))

    def _place(self, world: Any) -> ExploredWorld:
        place = self._places.get(world)
        if place is None:
            if len(self._places) >= MAX_WORLDS:
                self._forget()
            place = self._places[world] = ExploredWorld(
                world, observe_world(self._stepper.k, world)
            )
        return place

    def _forget(self) -> None:
        for place in self._places.values():
            place.next.clear()
        self._places.clear()


# What a system shows of itself


def observe_finding(prepared: PreparedPlan, finding: Finding) -> ObservedProperties:
    """What the system shows once it took the step that differs."""
    plan = plan_of(prepared, finding)
    judge = judge_of(plan)
    judge.judge(steps_of(finding))
    composition = judged_composition(plan.scope)
    world = composition.called(composition.observed_world)(judge)
    return without_unshown(observe_world(judge.tables.k, world), composition)


def without_unshown(seen: ObservedProperties, composition: JudgedComposition) -> ObservedProperties:
    """Without the guarantees about parts of a world that no system of the composition shows."""
    guarantees = composition.model.guarantees.GUARANTEES
    shown = {p.name for p in guarantees if composition.unshown.isdisjoint(p.about)}
    return replace(seen, broken=seen.broken & shown)


def observed_world(judge: Judge) -> World:
    """The system's logs and acknowledgements, as a world without anything on its way.

    Actors that the system does not have are the model's, as the judge left them.
    """
    k = judge.tables.k
    wire = WireNumbers(k)
    models = {wire[s]: s for s in range(k.bounds.max_sequence + 1)}
    clients = [node.view for node in judge.clients]
    for i, client in enumerate(judge.system.clients):
        clients[i] = client.view()
    leaders = [leader.view() for leader in judge.system.leaders]
    world = initial(k)
    return replace(
        world,
        clients=Map(tuple(map(observed_client, world.clients.values(), clients))),
        leaders=Map(
            tuple(
                replace(leader, log=tuple(stored(models, batch) for batch in view[0]))
                for leader, view in zip(world.leaders.values(), leaders, strict=True)
            )
        ),
        links=Map.filled(k.bounds.producers, Map.filled(k.bounds.partitions, SILENT_LINK)),
    )


def observed_client(client: Any, view: View) -> Any:
    """A client that has the acknowledgements and the wish to bump that a view (CLIENT) shows."""
    _, _, bump_is_due, partitions = view
    entries = tuple(
        replace(entry, acknowledged=Set(shown[-2]), failed=Set(shown[-1]))
        for entry, shown in zip(client.partitions.values(), partitions, strict=True)
    )
    bump_for = EMPTY_SET.plus(0) if bump_is_due else EMPTY_SET
    return replace(client, bump_for=bump_for, partitions=Map(entries))


def stored(models: Mapping[int, int], view: View) -> StoredBatch:
    """A batch of the log, from a view (STORED_BATCH); a sequence the model has not is -1."""
    producer_id, producer_epoch, base_sequence, record_count, first_record, base_offset = view
    sequence = models.get(base_sequence, NO_SEQUENCE)
    producer = max(producer_id, 0)  # A scope under judgement gives each producer an id of its own.
    batch = Batch(producer_id, producer_epoch, sequence, record_count, producer, first_record)
    return StoredBatch(batch, base_offset)
