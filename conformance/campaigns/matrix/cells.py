"""The cells of the matrix: a system, a level, a kind of requests, and a scope.

A cell is a `run` with these arguments; no other code judges. A cell that cannot be run here gives
the reason (`BrokerMissing`, and the errors of `run`), and stays a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.releases import RELEASES, find_release
from conformance.adapters.brokers.kfake_process import child_broker, kfake_binary, kfake_version
from conformance.adapters.brokers.served.served_broker import ServedBroker
from conformance.adapters.clients.processes import client_version
from conformance.adapters.impl.impl_rules import OWN_RULES
from conformance.judging.compositions import judged_composition
from model.releases import NEWEST
from model.releases import RELEASES as MODELLED
from proofs.run import BadUse

KFAKE: Final = "kfake"
OURS: Final = "impl"
WIRE: Final = "wire://"
KAFKAS: Final = MODELLED["transactions"]
BROKERS: Final = (*KAFKAS, KFAKE, OURS)
REQUESTS: Final = ("v2", "v1")
JAVA: Final = "java:"
SCOPES: Final = ("idempotent-default", "transactions-default")


CLIENT_SCOPES: Final = (("idempotent", 0), ("transactions", 2), ("transactions", 0))
"""The scope of clients by the level of the broker."""


class MatrixCell(NamedTuple):
    """One run. `broker` is a release of Kafka, KFAKE, OURS or an address. It is empty if a `client`
    is judged, which has a broker of its own and a scope of CLIENT_SCOPES."""

    broker: str
    level: int
    requests: str
    client: str
    scope: str

    @property
    def name(self) -> str:
        """The name in journals, and of the folder."""
        parts = (self.broker or self.client, f"level{self.level}", self.requests, self.scope)
        text = "-".join(part for part in parts if part)
        return "".join(c if c.isalnum() or c in ".-" else "_" for c in text.strip("-"))

    @property
    def variant(self) -> str:
        """The variant of the model: the broker's own release; the newest for brokers that are not
        Kafka's."""
        if self.client:
            return ""
        release = self.broker if self.broker in RELEASES else NEWEST
        own = OWN_RULES.get(judged_composition(self.scope).name, "")
        rules = f"/{own}" if self.broker == OURS else ""
        return f"{release}/level={self.level}/requests={self.requests}{rules}"

    def arguments(self, system: str, traces: int | None) -> list[str]:
        """The arguments of its `run`."""
        limit = [] if traces is None else ["--traces", str(traces)]
        if self.client:
            level = ["--transactions", "--level", str(self.level)]
            kind = [] if self.scope == CLIENT_SCOPES[0][0] else level
            return ["--system", "client", "--client", self.client, *kind, *limit]
        kafka = ["--kafka", self.broker] if system == "kafka" else []
        given = ["--system", system, *kafka, "--scope", self.scope, "--variant", self.variant]
        return [*given, "--faults", "connections", *limit]


def cells_of(
    brokers: Sequence[str], clients: Sequence[str], scopes: Sequence[str]
) -> list[MatrixCell]:
    """Each broker at each of its levels, with each kind of requests for which it has transactions;
    and each client. Raises BadUse."""
    found = [
        MatrixCell(broker, level, requests, "", scope)
        for broker in brokers
        for level in levels_of(broker)
        for requests in requests_at(level)
        for scope in scopes
        if is_apart(scope, level, requests, broker)
    ]
    return found + [
        MatrixCell("", level, "", client, scope)
        for client in clients
        for scope, level in CLIENT_SCOPES
    ]


def levels_of(broker: str) -> Sequence[int]:
    """The levels of transaction.version, the newest first. Raises BadUse."""
    if broker in RELEASES:
        return tuple(reversed(find_release(broker).stable_levels))
    if broker == OURS:
        return levels_of(NEWEST)
    if broker == KFAKE or broker.startswith(WIRE):
        return (2,)
    raise BadUse(f"invalid --brokers {broker!r}; valid: {', '.join(BROKERS)}, {WIRE}HOST:PORT")


def requests_at(level: int) -> Sequence[str]:
    """V2 needs a level that can log it."""
    return REQUESTS if level else REQUESTS[1:]


def is_apart(scope: str, level: int, requests: str, broker: str) -> bool:
    """Whether a cell has a result of its own. Leaders alone know neither level nor requests, and
    are judged once."""
    first = levels_of(broker)[0]
    is_first = (level, requests) == (first, requests_at(first)[0])
    return is_first or judged_composition(scope).name != "idempotent"


def open_system(cell: MatrixCell) -> AbstractContextManager[str]:
    """The broker of a cell, in the form that `run` takes, while it runs. Raises BrokerMissing."""
    if cell.client or cell.broker.startswith(WIRE):
        return nullcontext(cell.broker)
    if cell.broker in RELEASES:
        return nullcontext("kafka")
    return kfake() if cell.broker == KFAKE else ours(cell.level)


@contextmanager
def kfake() -> Iterator[str]:
    """kfake in a process of its own. Raises BrokerMissing."""
    with child_broker([kfake_binary()]) as broker:
        yield f"{WIRE}{broker.address[0]}:{broker.address[1]}"


@contextmanager
def ours(level: int) -> Iterator[str]:
    """The broker of this project, served by a process. Raises BrokerFailed."""
    with ServedBroker(find_release(NEWEST), level, is_killed=False) as broker:
        yield "{}{}:{}".format(WIRE, *broker.address)


def version_of(cell: MatrixCell) -> str:
    """The system under test, with its version."""
    if cell.client:
        return client_version(cell.client)
    names = {KFAKE: f"kfake {kfake_version()}", OURS: "this project's broker"}
    names |= {release: f"Kafka {release}" for release in RELEASES}
    return names.get(cell.broker, cell.broker)
