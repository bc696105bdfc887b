"""What can be done to brokers beside asking them: a deed has the name of a rule of the leader.

A broker that only listens somewhere is left alone. One that was started here is stopped, killed and
started again; then its connections are gone, and it leads all its partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from conformance.kafka.broker import KafkaBroker

Address = tuple[str, int]

BUDGETS: Final[Mapping[str, str]] = {
    "restarts": "restart",
    "crashes": "recover",
    "failovers": "fail_over",
    "losses": "fail_over",
    "expiries": "expire_producer",
    "deletions": "delete_records",
}
"""The rule of the leader that each budget of a scope is for, where a deed or a request does it."""


def played(scope: str, rules: Collection[str]) -> str:
    """The scope without the budgets of what nobody can do."""
    return "/".join((scope, *(f"{name}=0" for name, rule in BUDGETS.items() if rule not in rules)))


class Nodes(Protocol):
    """The brokers that are judged."""

    @property
    def address(self) -> Address:
        """Where the one listens that leads."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """The brokers that each partition is put on, the leader first; empty: wherever."""

    @property
    def plays(self) -> Collection[str]:
        """What can be done."""

    @property
    def kafka(self) -> KafkaBroker | None:
        """The one broker, if it was started here."""

    def do(self, deed: str) -> None:
        """Do it, until the brokers answer again. Raises KafkaError, JavaError."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A broker that listens at an address, and to which nothing is done."""

    address: Address
    replicas: tuple[int, ...] = ()
    plays: frozenset[str] = frozenset()
    kafka: None = None

    def do(self, deed: str) -> None:
        """Raises LookupError."""
        raise LookupError(deed)


class OneBroker:
    """A broker that was started here."""

    replicas: tuple[int, ...] = ()
    plays = frozenset(("restart", "recover", "delete_records"))

    def __init__(self, broker: KafkaBroker) -> None:
        self.kafka: KafkaBroker | None = broker
        self._broker = broker

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._broker.address

    def do(self, deed: str) -> None:
        """Stop or kill it, and start it again on what it left."""
        if deed == "restart":
            self._broker.stop()
        else:
            self._broker.kill()
        self._broker.start()
