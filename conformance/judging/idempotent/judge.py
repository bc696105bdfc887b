"""Lockstep of a system's producers and leaders with the model's; the model may play the
producers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from conformance.judging.idempotent.system import SENT, SHAPES, ClientUnderTest, SystemUnderTest
from conformance.judging.idempotent.tables import Tables
from conformance.judging.judge import Differs, Instance, Item, JudgeStep, Lockstep, Mover, failed
from conformance.judging.system import Actor, EndOfComparison, differences
from conformance.judging.tables import InternedState


class Judge(Lockstep):
    """Judges traces of one configuration on one system; its tables grow from trace to trace.

    While a trace runs, `_cells` has the parts of the model's world, with a node of the tables in
    place of each actor, and an `Item` in place of each message.
    """

    def __init__(self, tables: Tables, system: SystemUnderTest) -> None:
        super().__init__(tables)
        self.system = system
        self._world = tables.world
        self._cells: list[Any] = []
        self._moves: dict[Instance, JudgeStep] = {}
        self._under_test: dict[int, Actor] = {}
        self._clients, self._leaders = (
            [i for i in self._world.actors if self._world.cells[i].path.startswith(kind)]
            for kind in ("clients", "leaders")
        )
        self._movers = {
            **{c: self._mover("client", c, i) for i, c in enumerate(self._clients)},
            **{c: self._mover("leader", c, i) for i, c in enumerate(self._leaders)},
        }
        if not system.clients:
            self._movers |= dict.fromkeys(self._clients, self._player())
        self._upkeep: list[tuple[Any, ...]] = [("bump_epoch",), ("resolve_sequences",)]
        if tables.k.bounds.without_producer_id:
            self._upkeep.append(("receive_producer_id", 0))

    @property
    def clients(self) -> list[InternedState]:
        """The model's clients, by producer."""
        return [self._cells[i] for i in self._clients]

    @property
    def leaders(self) -> list[InternedState]:
        """The model's leaders, by partition."""
        return [self._cells[i] for i in self._leaders]

    def move(self, instance: Instance) -> JudgeStep:
        """The data that `follow` needs for a step."""
        move = self._moves.get(instance)
        if move is None:
            event = self._world.bound(instance, self._cells, self._movers)
            move = self._moves[instance] = JudgeStep(instance, event)
        return move

    def begin(self) -> None:
        """Put model and system into the initial state of the scope. Raises Differs."""
        self._cells[:] = self.tables.beginning
        self._seen = 0
        self._react(self.system.reset, (self._memoised,))
        self._under_test.update(zip(self._leaders, self.system.leaders, strict=True))
        self._under_test.update(zip(self._clients, self.system.clients, strict=False))
        self.check_all()

    def check_all(self) -> None:
        """Compare all actors, after each client has had the chance to send what it must not send
        again. Raises Differs."""
        for client, partition in self._waiting():
            self._react(client.wait, (partition,))
        kinds: tuple[tuple[str, Sequence[Actor], list[InternedState]], ...] = (
            ("client", self.system.clients, self.clients),
            ("leader", self.system.leaders, self.leaders),
        )
        for kind, actors, nodes in kinds:
            for i, actor in enumerate(actors):
                view = self._react(actor.view, ())
                if view != nodes[i].view:
                    self._differ(f"{kind}[{i}]", kind, nodes[i].view, view)

    def check_restraint(self) -> None:
        """Give each client the chance to send new records while it must not, and give copies of the
        actors inputs that no scope has. Raises Differs."""
        for client, node in zip(self.system.clients, self.clients, strict=False):
            self._react(client.ask_copies, ())
            for partition in self._silent(node):
                if self.tables.refuses(node, "send_new", partition, 1):
                    self._react(client.offer, (partition,))

    def _waiting(self) -> Iterator[tuple[ClientUnderTest, int]]:
        """Clients under test, each with the partitions to which it sends nothing by itself."""
        for client, node in zip(self.system.clients, self.clients, strict=False):
            for partition in self._silent(node):
                yield client, partition

    def _silent(self, node: InternedState) -> list[int]:
        """Partitions to which the model's client retries nothing. Empty if the client has anything
        else to do by itself: it does that first, whatever waits."""
        refuses = self.tables.refuses
        if not all(refuses(node, *upkeep) for upkeep in self._upkeep):
            return []
        return [p for p in range(len(self._leaders)) if refuses(node, "send_again", p)]

    # ---- actors

    def _player(self) -> Mover[InternedState]:
        """How a producer that the model plays moves. A closure, for the reason given at
        `_mover`."""
        after, request = self.tables.after, self.system.request

        def move(
            node: InternedState, key: tuple[Any, ...], _: tuple[Any, ...]
        ) -> tuple[InternedState, tuple[Item, ...]]:
            """The new state of the producer, and the messages that it sends. `key` is the rule and
            its inputs."""
            node, sent, seen = node.rows.get(key) or after(node, *key)
            self._seen |= seen
            if not sent:
                return node, ()
            return node, tuple([(message, request(key[1], message.view)) for message in sent])

        return move

    def _mover(self, kind: str, cell: int, index: int) -> Mover[InternedState]:
        """How the actor in a cell moves, on both sides. A closure, because no other code runs as
        often."""
        actors, after, name = self._under_test, self.tables.after, f"{kind}[{index}]"

        def move(
            node: InternedState, key: tuple[Any, ...], given: tuple[Any, ...]
        ) -> tuple[InternedState, tuple[Item, ...]]:
            """The new state of the actor, and the messages that it sends. `key` has the rule and
            the model's inputs, `given` the system's inputs. Raises Differs, also if the system's
            actor fails."""
            node, expected, seen = node.rows.get(key) or after(node, *key)
            self._seen |= seen
            try:
                state, sent = getattr(actors[cell], key[0])(*given)
            except EndOfComparison as end:
                if end.is_due(node.view):
                    raise
                raise failed(end) from end
            except Exception as error:
                raise failed(error) from error
            if len(sent) != len(expected):
                raise Differs([(f"{name}.sends", len(expected), len(sent))])
            items: tuple[Item, ...] = ()
            if expected:
                for message, (view, payload) in zip(expected, sent, strict=True):
                    if view != message.view:
                        path = f"{name}.sends[{len(items)}]"
                        self.differ(differences(path, SENT[kind], message.view, view))
                    items += ((message, payload),)
            if state != node.view:
                self._differ(name, kind, node.view, state)
            return node, items

        return move

    def _differ(self, path: str, kind: str, expected: Any, observed: Any) -> None:
        self.differ(differences(path, SHAPES[kind], expected, observed))
