"""The two sides of a lockstep in transactions: each actor is the model's state and the system's.

Theory of operation: the model's actors are rows of tables, those of `impl` moments of `Kept`: what
either does in a state is computed once. `Sides` moves either, and compares them; what moves, and
what goes between them, is `judge.TransactionJudge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from conformance.judge import Differs, Instance, JudgeStep, Lockstep
from conformance.systems.base import View, differences
from conformance.systems.transactions.client import GROUP_COORDINATOR
from conformance.systems.transactions.messages import NONE, Payload
from conformance.systems.transactions.moments import ActorSnapshot, Kept
from conformance.systems.transactions.shapes import SHAPES
from conformance.systems.transactions.system import ImplTransactions
from conformance.systems.transactions.tables import TransactionTables
from conformance.tables import InternedMessage, InternedState, MemoisedStep
from impl import ApiKey
from impl.partition.verification import NO_GUARD

Answered = tuple[InternedMessage, Payload]
"""An answer, as the model has it and as the system made it."""


class CoordinatorExchange(NamedTuple):
    """A request to the transaction coordinator: what the model's coordinator does with it, the
    system's, and the model's client with its answer."""

    api_key: int
    handled: str
    does: str
    heard: str


ASKING: Final[Mapping[str, CoordinatorExchange]] = {
    "ask_producer_id": CoordinatorExchange(
        ApiKey.INIT_PRODUCER_ID, "on_init_producer_id", "on_init_producer_id", "on_producer_id"
    ),
    "add_partitions": CoordinatorExchange(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "on_add_partitions",
        "on_add_partitions",
        "on_partitions_added",
    ),
    "add_offsets": CoordinatorExchange(
        ApiKey.ADD_OFFSETS_TO_TXN, "on_add_partitions", "on_add_offsets", "on_partitions_added"
    ),
    "end_transaction": CoordinatorExchange(ApiKey.END_TXN, "on_end_txn", "on_end_txn", "on_ended"),
}
"""By the rule of the model's client that sends it."""


class Writing(NamedTuple):
    """A request to a partition's leader."""

    api_key: int
    heard: str
    node_id: int | None


WRITING: Final[Mapping[str, Writing]] = {
    "produce": Writing(ApiKey.PRODUCE, "on_produced", None),
    "commit_offsets": Writing(ApiKey.TXN_OFFSET_COMMIT, "on_offsets_committed", GROUP_COORDINATOR),
}
"""The same; without a node it goes to the leader's."""


class Open(NamedTuple):
    """A request whose answer waits for an append, by the rule that asked."""

    instance: int
    rule: str
    request: Late


class Late(NamedTuple):
    """A request that its sender has given up. `guard` is the system's, where it was verified."""

    message: InternedMessage
    payload: Payload
    guard: int = NO_GUARD


class Pair:
    """An actor: the model's state, and the system's, where it has done what it `did`."""

    __slots__ = ("first", "kept", "kind", "moment", "name", "node", "written_by")

    def __init__(self, kind: str, name: str, node: InternedState, kept: Kept, *did: str) -> None:
        self.kind = kind
        self.name = name
        self.node = node
        self.kept = kept
        self.moment: ActorSnapshot = kept.first
        for deed in did:
            self.moment, _ = kept.after(self.moment, deed)
        self.first = node, self.moment
        self.written_by = "commit_offsets" if kind == "group" else "produce"


class Sides(Lockstep):
    """All actors of one configuration, of the model and of `impl`."""

    def __init__(self, tables: TransactionTables, system: ImplTransactions) -> None:
        events: dict[str, Callable[..., None]] = {
            rule: getattr(self, f"_{rule}") for rule in tables.model.rules
        }
        super().__init__(tables)
        self._events = events
        self.system = system
        self.clients = [
            Pair("client", f"client[{i}]", node, kept)
            for i, (node, kept) in enumerate(zip(tables.clients, system.clients, strict=True))
        ]
        self.coordinator = Pair(
            "coordinator", "coordinator", tables.coordinator, system.coordinator
        )
        self.former, self.elsewhere = (
            Pair("coordinator", name, tables.former, system.coordinator, "begins_as_nobody")
            for name in ("former", "elsewhere")
        )
        self.leaders = [
            Pair(self._kind(p), f"leader[{p}]", node, kept)
            for p, (node, kept) in enumerate(zip(tables.leaders, system.leaders, strict=True))
        ]
        self._open: Open | None = None

    def _kind(self, partition: int) -> str:
        is_of_group = self.tables.model.messages.is_of_group(self.tables.k, partition)
        return "group" if is_of_group else "leader"

    @property
    def _pairs(self) -> list[Pair]:
        return [*self.clients, self.coordinator, self.former, self.elsewhere, *self.leaders]

    def begin(self) -> None:
        """All as the scope begins. Raises Differs."""
        for pair in self._pairs:
            pair.node, pair.moment = pair.first
        self._open = None
        self._seen = 0
        self.check_all()

    def check_all(self) -> None:
        """Compare all actors. Raises Differs."""
        for pair in self._pairs:
            self._agree(pair)

    def move(self, instance: Instance) -> JudgeStep:
        """What `follow` needs to know of a step."""
        rule, choice = instance
        return JudgeStep(instance, partial(self._events[rule], *[value for _, value in choice]))

    def check_restraint(self) -> None:
        """Clients are asked at every step: see `_agree`."""

    # ---- one actor

    def _models(self, pair: Pair, rule: str, *inputs: Any) -> MemoisedStep:
        """The model's actor moves."""
        row: MemoisedStep = self.tables.after(pair.node, rule, *inputs)
        pair.node = row.node
        self._seen |= row.seen
        return row

    def _leads(self, partition: int, rule: str, *inputs: Any) -> InternedMessage | None:
        """The model's leader moves; what it sends."""
        sent = self._models(self.leaders[partition], rule, *inputs).sent
        return sent[0] if sent else None

    def _does(self, pair: Pair, name: str, *given: Any) -> Any:
        """The system's actor moves; what it gives. Raises Differs if it fails."""
        pair.moment, returned = self._react(pair.kept.after, (pair.moment, name, *given))
        return returned

    def _agree(self, pair: Pair) -> None:
        """Both are in the same state. Raises Differs."""
        node, moment = pair.node, pair.moment
        if moment.peer is node:
            return
        expected = self.tables.view_of(pair.kind, node)
        self._same(pair.name, SHAPES[pair.kind], expected, moment.view)
        if pair.kind == "client":
            self._check_restraint(pair)
        moment.peer = node

    def _check_restraint(self, pair: Pair) -> None:
        """The client would send what the model lets it send, or nothing. Raises Differs."""
        refuses = self.tables.refuses
        instance = self.clients.index(pair)
        allowed = {it.api_key for rule, it in ASKING.items() if not refuses(pair.node, rule)}
        for partition, leader in enumerate(self.leaders):
            if not refuses(pair.node, leader.written_by, instance, partition):
                allowed.add(WRITING[leader.written_by].api_key)
        if self._waits(instance) or not allowed:
            allowed = {NONE}
        _, api = self._react(pair.kept.after, (pair.moment, "would_send"))
        if api not in allowed:
            raise Differs([(f"{pair.name}.would_send", sorted(allowed), api)])

    @staticmethod
    def _same(path: str, shape: Any, expected: View, observed: View) -> None:
        if expected != observed:
            raise Differs(list(differences(path, shape, expected, observed)))

    def _waits(self, instance: int) -> bool:
        """Whether the instance has a request open."""
        return self._open is not None and self._open.instance == instance
