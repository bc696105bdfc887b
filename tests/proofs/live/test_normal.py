"""A world and its normal form: the same events, and again worlds of one normal form."""

import functools
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from proofs.explore.source import instances
from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model, model_for
from proofs.live.check import fair_rules, sentences
from proofs.live.graph import GraphQuestion, explored, places
from proofs.live.lasso import RunStepper, with_room
from proofs.trace.replay import Stepper, configuration_of
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("live normal forms")  # what is explored is cached

WRAPS = "sequence_order=wraps"
SCOPES = (
    ("live-retries/records=3", "4.3.1"),
    ("live-restarts/records=3", "4.3.1"),
    ("live-failover/records=3", "4.3.1"),
    ("live-partitions/records=1", "4.3.1"),
    ("live-timeouts/records=3/breaks=0", "4.3.1"),
    ("live-stream/records=3/breaks=0", WRAPS),
    ("live-transaction/marker_losses=0", "4.3.1"),
    ("live-two-instances/marker_losses=0", "4.3.1"),
    ("live-two-instances/marker_losses=0", "v1"),
    ("live-log/marker_losses=0", "4.3.1"),
    ("live-log/marker_losses=0", "v1"),
)
LARGER = {
    ("live-transaction/marker_losses=0", "4.3.1"),
    ("live-two-instances/marker_losses=0", "4.3.1"),
    ("live-two-instances/marker_losses=0", "v1"),
    ("live-log/marker_losses=0", "v1"),
}
"""In the suite one scope of transactions stands for these."""
COPIES = 2
ROOM = 15


def stepper_of(scope: str, variant: str, model: Model | None = None) -> Stepper:
    chosen = model or model_for(scope)
    return Stepper(chosen, configuration_of(chosen, scope, variant))


class Grown:
    """A scope in which numbers grow, up to ROOM, with the normal forms of its worlds."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = RunStepper(stepper.model, with_room(stepper.k, ROOM))
        self.instances = instances(self.stepper.model, self.stepper.k)
        self.normal = functools.cache(
            lambda world: self.stepper.model.canonical_form.normal(self.stepper.k, world)
        )
        self.seen = functools.cache(self._seen)
        self.nexts = functools.cache(self._nexts)

    def _nexts(self, world) -> list:
        """(rule, world as it comes) for each enabled instance."""
        found = ((i[0], self.stepper.after(*i, world)) for i in self.instances)
        return [(rule, after) for rule, after in found if after is not None]

    def _seen(self, world) -> tuple:
        """What can happen: each rule with the normal form of what it leads to; and what the
        properties and assumptions ask of a world."""
        happens = frozenset((rule, self.normal(after)) for rule, after in self.nexts(world))
        says = tuple(
            bool(sentence(self.stepper.k, world, *place))
            for sentence in sentences(self.stepper.model)
            for place in places(self.stepper.k)
        )
        return happens, says

    def worlds(self) -> Iterator:
        """For each normal form of the scope the first COPIES worlds that a breadth-first search
        meets."""
        copies = Counter()
        queue, known = deque([self.stepper.initial()]), set()
        while queue:
            world = queue.popleft()
            if world in known or copies[self.normal(world)] == COPIES or self.is_full(world):
                continue
            known.add(world)
            copies[self.normal(world)] += 1
            yield world
            queue.extend(after for _, after in self.nexts(world))

    def is_full(self, world) -> bool:
        """Whether a stream has no room for a batch more."""
        streams = getattr(self.stepper.k.bounds, "streams", False)
        return streams and world.clients[0].partitions[0].records_sent > ROOM - 2

    def difference(self) -> Any:
        """A world that its normal form does not stand for; None if there is none."""
        for world in self.worlds():
            short = self.normal(world)
            if self.normal(short) != short or self.seen(short) != self.seen(world):
                return world
        return None


@functools.cache
def grown_of(scope: str, variant: str) -> Grown:
    return Grown(stepper_of(scope, variant))


@pytest.mark.parametrize(("scope", "variant"), sized(SCOPES, full=LARGER))
def test_a_world_and_its_normal_form_can_do_the_same(scope, variant):
    assert grown_of(scope, variant).difference() is None


@pytest.mark.parametrize(("scope", "variant"), SCOPES)
def test_the_first_world_is_normal(scope, variant):
    stepper = stepper_of(scope, variant)
    assert stepper.model.canonical_form.normal(stepper.k, stepper.initial()) == stepper.initial()


@pytest.mark.parametrize(
    ("scope", "patch"),
    [
        ("live-restarts/records=3", Patch("canonical_form.rank", "ranks[producer_id][epoch]", "0")),
        (
            "live-failover/records=3",
            Patch("canonical_form.is_kept", "k.bounds.replicas > 1", "False"),
        ),
        (
            "live-failover/records=3",
            Patch("canonical_form.moved", "offset - forgotten(k, leader)", "0"),
        ),
        (
            "live-stream/records=3/breaks=0",
            Patch("canonical_form.finished", "unnamed - unnamed % SIZES", "unnamed"),
        ),
        (
            "live-transaction/marker_losses=0",
            Patch("canonical_form.down", "max(epoch - by, 0)", "0"),
        ),
    ],
)
def test_a_normal_form_that_forgets_too_much_is_found(scope, patch):
    assert Grown(stepper_of(scope, "4.3.1", model_for(scope, (patch,)))).difference() is not None


def test_the_worlds_are_not_their_own_normal_forms():
    """Else the tests above would compare worlds with themselves."""
    grown = grown_of("live-stream/records=3/breaks=0", WRAPS)
    worlds = list(grown.worlds())
    assert len({grown.normal(world) for world in worlds}) > 500
    assert sum(world != grown.normal(world) for world in worlds) > len(worlds) // 2
    assert max(w.clients[0].producer_epoch for w in worlds) > 1
    assert max(len(w.leaders[0].log) for w in worlds) > 7
    assert max(w.clients[0].partitions[0].records_sent for w in worlds) > 9


def test_unbounded_graphs_are_the_same_from_the_source_and_from_integers():
    """The lifter brings worlds to their normal form as the source does."""
    k = configuration_of(load_model("idempotent"), "live-restarts/records=3", "4.3.1")
    small = replace(k.bounds, records=3, log=3, max_epoch=2, max_sequence=7)
    stepper = Stepper(load_model("idempotent"), replace(k, bounds=small))
    asked = GraphQuestion(stepper, "small", sentences(stepper.model), fair_rules(stepper.model))
    source, ints = explored(asked, "source"), explored(asked, "ints")
    assert source.edges.states == 111
    assert (source.depth == ints.depth).all()
    assert edges(source) == edges(ints)
    assert all((source.values[name] == ints.values[name]).all() for name in source.values)
    assert all((source.forbidden[n] == ints.forbidden[n]).all() for n in ints.forbidden)


def edges(graph) -> list:
    """All transitions, their rule instances by name."""
    pairs = zip(graph.edges.sources.tolist(), graph.edges.targets.tolist(), strict=True)
    return [(*pair, graph.instance(edge)) for edge, pair in enumerate(pairs)]
