"""`impl` as a system with transactions: its actors, kept as snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from conformance.adapters.impl.shared.last_epoch import last_epoch_of
from conformance.adapters.impl.shared.snapshots import ActorSnapshot, SnapshotStore
from conformance.adapters.impl.transactions.client import Client
from conformance.adapters.impl.transactions.coordinator import Coordinator
from conformance.adapters.impl.transactions.group import GroupLeader
from conformance.adapters.impl.transactions.leader import Leader
from conformance.adapters.impl.transactions.messages import CODECS, group_partition, places_of
from conformance.generate.models import model_of_configuration
from conformance.judging.system import NotApplicable
from impl.coordinator.config import CONFIGS
from impl.partition.rules import RULES

T = TypeVar("T")


class ActorUnderTest(NamedTuple):
    """An actor of the system: the kind of its view, and its initial state."""

    kind: str
    store: SnapshotStore
    first: ActorSnapshot


class ImplTransactions:
    """Instances, coordinators and leaders of `impl` in one configuration. `on` is "bytes" or
    "values". Raises NotApplicable.

    `actors` has them by their places in the model's world. The former coordinator is the same
    broker as the coordinator, at another time.
    """

    def __init__(self, k: Any, *, is_v2: bool, on: str) -> None:
        refuse(k)
        codec, bounds = CODECS[on], k.bounds
        places = places_of(bounds.partitions, has_group=bounds.offsets)
        release = k.variant.release
        remembers = k.variant.group_memory.name == "REMEMBERS"
        rules = of_release(RULES, release)
        config = replace(of_release(CONFIGS, release), transaction_version=k.variant.level)
        during = partial(last_epoch_of, bounds)
        coordinator = SnapshotStore(
            Coordinator(codec, config, places, holds_appends=bounds.appends), during=during
        )
        retired, _ = coordinator.after(coordinator.first, "retire")
        self.actors = {
            "coordinator": ActorUnderTest("coordinator", coordinator, coordinator.first),
            "placement.former": ActorUnderTest("coordinator", coordinator, retired),
        }
        for i in range(bounds.instances):
            client = Client(
                codec,
                is_v2=is_v2,
                remembers=remembers,
                instance=i,
                places=places,
                is_told_when_to_find=bounds.loads,
            )
            store = SnapshotStore(client)
            self.actors[f"clients[{i}]"] = ActorUnderTest("client", store, store.first)
        for p in range(len(places)):
            kind = "group" if p == group_partition(places) else "leader"
            leader = LEADERS[kind](codec, rules, p, bounds.producer_ids)
            store = SnapshotStore(leader, holds_guards=bounds.guards, during=during)
            self.actors[f"leaders[{p}]"] = ActorUnderTest(kind, store, store.first)


LEADERS: Final[Mapping[str, type[Leader]]] = {"leader": Leader, "group": GroupLeader}
"""The actors that lead a partition."""


def of_release(table: Mapping[str, T], release: str) -> T:
    """The row of a release; if it has none, that of the newest release before it. A row for one
    patch release applies to that release alone."""
    if release in table:
        return table[release]
    rows = [row for row in table if row.count(".") == 1 and numbers(row) <= numbers(release)]
    return table[max(rows, key=numbers)]


def numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, for comparison."""
    return tuple(int(part) for part in release.split("."))


def refuse(k: Any) -> None:
    """Raises NotApplicable for a variant that no configuration of `impl` stands for: `impl` has
    releases alone."""
    variant = k.variant
    released = model_of_configuration(k).variants.RELEASES[variant.release]
    for field in fields(variant):
        value = getattr(variant, field.name)
        if field.name not in CHOSEN and value != getattr(released, field.name):
            raise NotApplicable(
                f"impl has the rules of releases, and {variant.release} has another {field.name}"
                f" than {value.name.lower()}; leave {field.name} out of the variant"
            )


CHOSEN: Final = ("name", "level", "requests", "late_bump", "group_memory", "leaderless_marker")
"""The rules that users of any release choose, and those in which `impl` differs, which the judge
sees."""
