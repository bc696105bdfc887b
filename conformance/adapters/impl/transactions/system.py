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
    """An actor of the system: what sort of view it has, and where it begins."""

    kind: str
    store: SnapshotStore
    first: ActorSnapshot


class ImplTransactions:
    """Instances, coordinators and leaders of `impl` in one configuration. `on` is "bytes" or
    "values". Raises NotApplicable.

    `actors` has them by their places in the model's world; what was the coordinator before is the
    same broker as the coordinator, at another time.
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
"""What leads a partition."""


def of_release(table: Mapping[str, T], release: str) -> T:
    """The row of a release: that of the newest one before it where it has none of its own. A row
    for one patch is that patch's alone."""
    if release in table:
        return table[release]
    rows = [row for row in table if row.count(".") == 1 and numbers(row) <= numbers(release)]
    return table[max(rows, key=numbers)]


def numbers(release: str) -> tuple[int, ...]:
    """A release in order."""
    return tuple(int(part) for part in release.split("."))


def refuse(k: Any) -> None:
    """Raises NotApplicable for a variant that `impl` has no configuration of: it has releases."""
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
"""What every release has to choose from; and in what `impl` differs, which the judge sees."""
