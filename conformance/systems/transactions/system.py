"""`impl` as a system with transactions: its actors, kept as moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conformance.systems.base import NotApplicable
from conformance.systems.transactions.client import Client
from conformance.systems.transactions.coordinator import Coordinator
from conformance.systems.transactions.group import GroupLeader
from conformance.systems.transactions.leader import Leader
from conformance.systems.transactions.messages import CODECS, Places, group_partition, places_of
from conformance.systems.transactions.moments import Kept
from impl.coordinator.config import TransactionConfig
from impl.partition.rules import RULES

_BEFORE_4_3: Final = {"logs_producer_ids": False, "tolerates_last_epoch": False}
_BEFORE_4_2: Final = {**_BEFORE_4_3, "transition_assigns": "by_target"}

CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "4.3.1": {},
    "4.2.1": _BEFORE_4_3,
    "4.1.2": _BEFORE_4_2,
    "4.0.2": _BEFORE_4_2,
    "3.9.2": {**_BEFORE_4_2, "add_partitions_pending_first": False},
}
"""What a release's coordinator has of its own."""


class ImplTransactions:
    """Instances, the coordinator and leaders of `impl` in one setting. `on` is "bytes" or
    "values". Raises NotApplicable."""

    def __init__(self, k: Any, *, is_v2: bool, on: str) -> None:
        refuse(k)
        codec, layout = CODECS[on], k.layout
        places = places_of(layout.partitions, has_group=layout.offsets)
        release = k.variant.release
        rules = RULES[release[:3] if release[:3] in RULES else "3.6"]
        config = TransactionConfig(transaction_version=k.variant.level, **CONFIGS[release])
        self.clients = tuple(
            Kept(Client(codec, is_v2=is_v2, instance=i, places=places))
            for i in range(layout.instances)
        )
        self.coordinator = Kept(Coordinator(codec, config, places, holds_appends=layout.appends))
        self.leaders = tuple(
            Kept(kind(codec, rules, p, layout.producer_ids), holds_guards=layout.guards)
            for p, kind in enumerate(kinds_of(places))
        )


def kinds_of(places: Places) -> list[type[Leader]]:
    """What leads each partition."""
    of_group = group_partition(places)
    return [GroupLeader if p == of_group else Leader for p in range(len(places))]


def refuse(k: Any) -> None:
    """Raises NotApplicable for what `impl` cannot be brought to."""
    if k.layout.epochs_end:
        raise NotApplicable("the last epoch of impl is 32767: no short trace comes near it")
    if k.variant.release not in CONFIGS:
        raise NotApplicable(f"impl has no coordinator of release {k.variant.release}")
    for name, is_there in (("appends", k.layout.appends),):
        if is_there:
            raise NotApplicable(f"scopes with {name} are not driven yet")
