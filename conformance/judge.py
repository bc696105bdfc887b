"""Lockstep: a system and the model take the same steps, and must agree after each.

1. Each step compares the actors that moved, their whole state, and all that they sent; every
   CHECK_ALL_EVERY steps and at the end of a trace all actors are compared, moved or not, and
   clients get the chance to send where the model's must not.
2. The network is here. It has the connections of `model.idempotent.network`, and what travels on
them is
   both the model's message and what the system made of it.
3. Actors that the system does not have are played by the model.
4. A trace must be one that the model allows; guards of the world are not looked at again.

Theory of operation: `Judge._events` maps each rule of the world to a method here, which says which
actor takes which input; the test of the tables holds this against `model.idempotent.world` for
every
transition of a scope. A first difference ends a trace: what comes after it would only repeat it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from conformance.systems import SYSTEMS
from conformance.systems.base import (
    SENT,
    SHAPES,
    Actor,
    ClientUnderTest,
    Payload,
    System,
    differences,
)
from conformance.tables import ActorTables, Message, Node, Row, Tables
from model.idempotent.world import oldest, records_in
from model.language import Disabled
from proofs.trace.format import Instance as Instance
from proofs.trace.format import label

Json = Any
Steps = tuple[Instance, ...]
"""A trace: rule instances, in order."""

CHECK_ALL_EVERY = 256


class NotAllowed(ValueError):
    """A trace that the model does not allow; `step` counts from 1."""

    def __init__(self, step: int, instance: Instance) -> None:
        super().__init__(f"step {step}, {label(*instance)}: the model does not allow it here")
        self.step = step


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of a trace. `trace` ends with the step that shows it.

    `expected` and `observed` have the fields that differ, by path.
    """

    trace: Steps
    expected: dict[str, Json]
    observed: dict[str, Json]

    @property
    def step(self) -> int:
        """Which step it is, from 1; 0 if the beginning differs already."""
        return len(self.trace)

    @property
    def instance(self) -> Instance:
        """The rule instance that shows it."""
        return self.trace[-1] if self.trace else ("initial", ())


@dataclass(frozen=True, slots=True)
class TraceResult:
    """`steps` that were executed, the differing one included; `seen` has a bit for each point
    of the model's text that they covered (`Tables.points`)."""

    steps: int
    divergence: Divergence | None
    seen: int


class Differs(AssertionError):
    """System and model differ in a step: what was `expected` and `observed`, by field path."""

    def __init__(self, found: Sequence[tuple[str, Json, Json]]) -> None:
        super().__init__("; ".join(f"{path}: {a!r} expected, {b!r} seen" for path, a, b in found))
        self.expected = {path: expected for path, expected, _ in found}
        self.observed = {path: observed for path, _, observed in found}


_Item = tuple[Message, Payload]
"""A message on its way, as the model has it and as the system made it."""


class Move(NamedTuple):
    """A rule instance, and what the judge does about it."""

    instance: Instance
    event: Callable[..., None]
    values: tuple[int, ...]


class _Link:
    """The open connection and the broken ones, oldest first, as `model.idempotent.network.Link`."""

    __slots__ = ("answers", "broken", "requests")

    def __init__(self) -> None:
        self.requests: deque[_Item] = deque()
        self.answers: deque[_Item] = deque()
        self.broken: list[deque[_Item]] = []


class Lockstep(ABC):
    """What judges have in common: traces, step by step."""

    def __init__(self, tables: ActorTables, events: dict[str, Callable[..., None]]) -> None:
        self.tables: Any = tables
        self._events = events
        self._seen = 0
        self._lived = True

    @abstractmethod
    def begin(self) -> None:
        """Model and system at the beginning of the scope. Raises Differs."""

    @abstractmethod
    def check_all(self) -> None:
        """Compare all actors. Raises Differs."""

    @abstractmethod
    def check_restraint(self) -> None:
        """Each client has the chance to send where it must not. Raises Differs."""

    # ---- traces

    def judge(self, steps: Steps) -> TraceResult:
        """Execute a trace until its end or the first difference. Raises NotAllowed."""
        return self.follow([self.move(instance) for instance in steps])

    def move(self, instance: Instance) -> Move:
        """What `follow` needs to know of a step."""
        rule, choice = instance
        return Move(instance, self._events[rule], tuple([value for _, value in choice]))

    def follow(self, moves: Sequence[Move], lived: bool = True) -> TraceResult:
        """As `judge`, for a trace of which all is looked up. `lived`: actors do all anew, even what
        they did before in the same place, and there is `check_restraint` in the middle and at the
        end. Raises NotAllowed."""
        done, half = 0, len(moves) // 2
        self._lived = lived
        try:
            self.begin()
            for part in (moves[:half], moves[half:]):
                for _, event, values in part:
                    done += 1
                    event(*values)
                    if not done % CHECK_ALL_EVERY:
                        self.check_all()
                if lived:
                    self.check_restraint()
            self.check_all()
        except Differs as differs:
            trace = tuple([move.instance for move in moves[:done]])
            found = Divergence(trace, differs.expected, differs.observed)
            return TraceResult(done, found, self._seen)
        except (IndexError, Disabled) as error:
            raise NotAllowed(done, moves[done - 1].instance) from error
        return TraceResult(done, None, self._seen)

    def step(self, instance: Instance) -> None:
        """One rule instance, on both sides. Raises Differs."""
        _, event, values = self.move(instance)
        event(*values)

    def _react(self, method: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """What the system's actor does; that it fails is a difference, too."""
        try:
            return method(*given)
        except Exception as error:
            raise failed(error) from error


def failed(error: Exception) -> Differs:
    """What the system's actor did not do: it raised."""
    return Differs([("raised", None, f"{type(error).__name__}: {error}")])


class Judge(Lockstep):
    """Judges traces of one configuration on one system; its tables grow from trace to trace.

    While a trace runs, `clients` and `leaders` are the model's states, `links` what travels, by
    producer and partition.
    """

    def __init__(self, tables: Tables, system: System) -> None:
        self.system = system
        events: dict[str, Callable[..., None]] = {
            "client_sends": self._client_sends,
            "client_retries": self._client_retries,
            "client_bumps_epoch": self._client_bumps_epoch,
            "client_receives_producer_id": self._client_receives_producer_id,
            "client_gives_up": self._client_gives_up,
            "client_resolves": self._client_resolves,
            "answer_arrives": self._answer_arrives,
            "answer_arrives_late": self._answer_arrives_late,
            "request_arrives": self._request_arrives,
            "request_is_refused": self._request_is_refused,
            "request_outlives_replicas": self._request_outlives_replicas,
            "late_request_arrives": self._late_request_arrives,
            "high_watermark_advances": self._high_watermark_advances,
            "connection_breaks": self._connection_breaks,
            "connection_breaks_late": self._connection_breaks_late,
            "producer_id_expires": self._producer_id_expires,
            "records_are_deleted": self._records_are_deleted,
            "leader_restarts": self._leader_restarts,
            "leader_crashes": self._leader_crashes,
            "leader_fails_over": self._leader_fails_over,
            "leader_fails_over_uncleanly": self._leader_fails_over,
        }
        super().__init__(tables, events)
        self.clients: list[Node] = []
        self.leaders: list[Node] = []
        self.links: list[list[_Link]] = []
        self._upkeep: list[tuple[Any, ...]] = [("bump_epoch",), ("resolve_sequences",)]
        if tables.k.bounds.without_producer_id:
            self._upkeep.append(("receive_producer_id", 0))
        self._given_producer_ids = 0

    def begin(self) -> None:
        """Model and system at the beginning of the scope. Raises Differs."""
        self.clients = list(self.tables.clients)
        self.leaders = list(self.tables.leaders)
        self.links = [[_Link() for _ in self.leaders] for _ in self.clients]
        self._given_producer_ids = self.tables.given_producer_ids
        self._seen = 0
        self._react(self.system.reset, (self._lived,))
        self.check_all()

    def check_all(self) -> None:
        """Compare all actors, once each client has had the chance to send what it must not send
        again. Raises Differs."""
        for client, partition in self._waiting():
            self._react(client.wait, (partition,))
        kinds: tuple[tuple[str, Sequence[Actor], list[Node]], ...] = (
            ("client", self.system.clients, self.clients),
            ("leader", self.system.leaders, self.leaders),
        )
        for kind, actors, nodes in kinds:
            for i, actor in enumerate(actors):
                view = self._react(actor.view, ())
                if view != nodes[i].view:
                    self._differ(f"{kind}[{i}]", kind, nodes[i].view, view)

    def check_restraint(self) -> None:
        """Each client has the chance to send what is new where it must not. Raises Differs."""
        for producer, client in enumerate(self.system.clients):
            node = self.clients[producer]
            for partition in self._silent(node):
                if self.tables.refuses(node, "send_new", partition, 1):
                    first_record = node.state.partitions[partition].records_sent
                    self._react(client.offer, (partition, first_record))

    def _waiting(self) -> Iterator[tuple[ClientUnderTest, int]]:
        """Clients under test, with the partitions to which they send nothing by themselves."""
        for producer, client in enumerate(self.system.clients):
            for partition in self._silent(self.clients[producer]):
                yield client, partition

    def _silent(self, node: Node) -> list[int]:
        """Partitions to which the model's client sends nothing again, if it has nothing else to
        do by itself: that comes first, whatever waits."""
        refuses = self.tables.refuses
        if not all(refuses(node, *upkeep) for upkeep in self._upkeep):
            return []
        return [p for p in range(len(self.leaders)) if refuses(node, "send_again", p)]

    # ---- actors

    def _client(
        self, producer: int, key: tuple[Any, ...], given: tuple[Any, ...]
    ) -> Sequence[_Item]:
        """A producer moves; what it sends. `key` is the rule and the model's inputs, `given` are
        the system's."""
        node = self.clients[producer]
        row = node.rows.get(key) or self.tables.after(node, *key)
        self.clients[producer], expected, seen = row
        self._seen |= seen
        clients = self.system.clients
        if clients:
            return self._moved("client", producer, row, getattr(clients[producer], key[0]), given)
        request = self.system.request
        return [(message, request(key[1], message.view)) for message in expected]

    def _leader(
        self, partition: int, key: tuple[Any, ...], given: tuple[Any, ...]
    ) -> Sequence[_Item]:
        """A leader moves; what it sends."""
        node = self.leaders[partition]
        row = node.rows.get(key) or self.tables.after(node, *key)
        self.leaders[partition], _, seen = row
        self._seen |= seen
        method = getattr(self.system.leaders[partition], key[0])
        return self._moved("leader", partition, row, method, given)

    def _moved(
        self, kind: str, index: int, row: Row, method: Callable[..., Any], given: tuple[Any, ...]
    ) -> Sequence[_Item]:
        """The system's actor moves as `row` says. Raises Differs, also where it fails."""
        try:
            state, sent = method(*given)
        except Exception as error:
            raise failed(error) from error
        node, expected, _ = row
        if len(sent) != len(expected):
            raise Differs([(f"{kind}[{index}].sends", len(expected), len(sent))])
        items: list[_Item] = []
        for message, (view, payload) in zip(expected, sent, strict=True):
            if view != message.view:
                path = f"{kind}[{index}].sends[{len(items)}]"
                raise Differs(list(differences(path, SENT[kind], message.view, view)))
            items.append((message, payload))
        if state != node.view:
            self._differ(f"{kind}[{index}]", kind, node.view, state)
        return items

    def _differ(self, path: str, kind: str, expected: Any, observed: Any) -> None:
        raise Differs(list(differences(path, SHAPES[kind], expected, observed)))

    # ---- the rules of the world

    def _client_sends(self, producer: int, partition: int) -> None:
        records_sent = self.clients[producer].state.partitions[partition].records_sent
        record_count = records_in(self.tables.k, records_sent)
        given = (partition, records_sent, record_count)
        items = self._client(producer, ("send_new", partition, record_count), given)
        self.links[producer][partition].requests.extend(items)

    def _client_retries(self, producer: int, partition: int) -> None:
        items = self._client(producer, ("send_again", partition), (partition,))
        self.links[producer][partition].requests.extend(items)

    def _client_bumps_epoch(self, producer: int) -> None:
        self._client(producer, ("bump_epoch",), ())

    def _client_receives_producer_id(self, producer: int) -> None:
        given = (self._given_producer_ids,)
        self._given_producer_ids += 1
        self._client(producer, ("receive_producer_id", *given), given)

    def _client_gives_up(self, producer: int, partition: int) -> None:
        client = self.clients[producer].state
        first_record = oldest(self.tables.k, client, partition)[0].batch.first_record
        given = (partition, first_record)
        self._client(producer, ("expire_batch", *given), given)

    def _client_resolves(self, producer: int) -> None:
        self._client(producer, ("resolve_sequences",), ())

    def _answer_arrives(self, producer: int, partition: int, overdue: int = 0) -> None:
        message, payload = self.links[producer][partition].answers.popleft()
        given = (partition, payload, overdue)
        self._client(producer, ("on_answer", partition, message, overdue), given)

    def _answer_arrives_late(self, producer: int, partition: int) -> None:
        self._answer_arrives(producer, partition, overdue=1)

    def _request_arrives(self, producer: int, partition: int) -> None:
        link = self.links[producer][partition]
        message, payload = link.requests.popleft()
        link.answers.extend(self._leader(partition, ("on_produce", message), (payload,)))

    def _request_is_refused(self, producer: int, partition: int) -> None:
        link = self.links[producer][partition]
        message, payload = link.requests.popleft()
        key = ("on_produce_without_replicas", message)
        link.answers.extend(self._leader(partition, key, (payload,)))

    def _request_outlives_replicas(self, producer: int, partition: int, timed_out: int) -> None:
        link = self.links[producer][partition]
        message, payload = link.requests.popleft()
        key = ("on_produce_then_unreplicated", message, timed_out)
        link.answers.extend(self._leader(partition, key, (payload, timed_out)))

    def _late_request_arrives(self, producer: int, partition: int, connection: int) -> None:
        """The answer is lost."""
        broken = self.links[producer][partition].broken
        message, payload = broken[connection].popleft()
        self._leader(partition, ("on_produce", message), (payload,))
        if not broken[connection]:
            del broken[connection]

    def _high_watermark_advances(self, partition: int) -> None:
        self._leader(partition, ("advance_high_watermark",), ())

    def _producer_id_expires(self, partition: int, producer_id: int) -> None:
        self._leader(partition, ("expire_producer", producer_id), (producer_id,))

    def _records_are_deleted(self, partition: int, deleted: int) -> None:
        self._leader(partition, ("delete_records", deleted), (deleted,))

    def _connection_breaks_late(self, producer: int, partition: int, survivors: int) -> None:
        self._connection_breaks(producer, partition, survivors, overdue=1)

    def _connection_breaks(
        self, producer: int, partition: int, survivors: int, overdue: int = 0
    ) -> None:
        link = self.links[producer][partition]
        if survivors > 0:
            link.broken.append(deque(list(link.requests)[:survivors]))
        link.requests.clear()
        link.answers.clear()
        given = (partition, overdue)
        self._client(producer, ("on_disconnect", *given), given)

    def _leader_restarts(self, partition: int) -> None:
        self._leader(partition, ("restart",), ())
        self._hang_up(partition)

    def _leader_crashes(self, partition: int, covered: int) -> None:
        self._leader(partition, ("recover", covered), (covered,))
        self._hang_up(partition)

    def _leader_fails_over(self, partition: int, kept: int) -> None:
        self._leader(partition, ("fail_over", kept), (kept,))
        self._hang_up(partition)

    def _hang_up(self, partition: int) -> None:
        """The broker is gone, with all its connections."""
        for producer in range(len(self.clients)):
            self.links[producer][partition] = _Link()
            self._client(producer, ("on_disconnect", partition, 0), (partition, 0))


def judge_of_system(tables: Tables, system: str, actors: str, on: str) -> Judge:
    """The judge of a system in process, by its name in SYSTEMS."""
    return Judge(tables, SYSTEMS[system](tables.k, frozenset(actors.split(",")), on))
