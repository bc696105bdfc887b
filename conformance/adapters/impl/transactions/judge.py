"""Lockstep in transactions: `impl`'s clients, coordinators and leaders against the model's.

1. A pair is the model's state of an actor, with a snapshot of the system's. A step of a pair is
   computed once: the next states, the messages, and whether both sides agree.
2. Messages are compared when they are sent, and actors at the end of each event: within an event, a
   system may act in another order than the model.
3. In each state that a client reaches, it is asked what it would send. It must send what one of its
   rules lets it send, or nothing. Coordinators and leaders get requests that they must refuse
   (`probes`).

Theory of operation: events are the model's, compiled by `conformance.judging.lockstep`. A pair
moves by the name of the rule on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple, get_origin, get_type_hints

from conformance.adapters.impl.shared.snapshots import ActorSnapshot
from conformance.adapters.impl.transactions.messages import NONE
from conformance.adapters.impl.transactions.probes import expected_in_transactions, is_refused
from conformance.adapters.impl.transactions.refusals import Refused, expected_after
from conformance.adapters.impl.transactions.shapes import ANSWER, MARKER, REQUEST, SHAPES
from conformance.adapters.impl.transactions.system import ActorUnderTest, ImplTransactions
from conformance.adapters.impl.transactions.tables import TransactionTables
from conformance.judging.judge import Differs, Instance, Item, JudgeStep, Lockstep, Mover, failed
from conformance.judging.system import Shape, View, differences
from conformance.judging.tables import InternedMessage, InternedState
from impl import ApiKey
from impl.producer import State
from model.language import Map, Step, is_input
from proofs.lift.values import Shapes

MAX_STEPS: Final = 1_000_000
"""The most steps of pairs that are kept; then the judge begins anew."""
SENT: Final[dict[str, tuple[str, Shape]]] = {
    "Request": ("sends", REQUEST),
    "Answer": ("answers", ANSWER),
    "ProduceAnswer": ("answers", ANSWER),
    "Marker": ("sends", MARKER),
}
"""The shape and name by which a message is compared, by the model's type."""
PLAIN: Final[tuple[str, Shape]] = ("answers", None)
"""The same for an error."""


class ActorPair:
    """An actor at one time: the model's `state` and the system's `snapshot`, with the number of
    `open` requests, which have no answer yet. `has_agreed` says that both are known to agree."""

    __slots__ = ("has_agreed", "node", "open", "snapshot", "state", "steps")

    def __init__(self, node: InternedState, snapshot: ActorSnapshot, requests: int) -> None:
        self.node = node
        self.state = node.state
        self.snapshot = snapshot
        self.open = requests
        self.has_agreed = False
        self.steps: dict[tuple[Any, ...], PairStep] = {}


class PairStep(NamedTuple):
    """The result of a pair's step: the next pair, the messages, and the points that the model
    covers."""

    pair: ActorPair
    sent: tuple[Item, ...]
    seen: int


class SendingRule(NamedTuple):
    """A rule by which the model's client may send something, with its other arguments."""

    rule: str
    arguments: tuple[int, ...]


class TransactionJudge(Lockstep):
    """Judges traces of one configuration; its pairs grow from trace to trace."""

    def __init__(self, tables: TransactionTables, system: ImplTransactions) -> None:
        super().__init__(tables)
        self._world = tables.world
        self._pairs: dict[tuple[InternedState, ActorSnapshot, int], ActorPair] = {}
        self._known_steps = 0
        self._asked: set[tuple[str, View]] = set()
        self._moves: dict[Instance, JudgeStep] = {}
        paths = {cell: self._world.cells[cell].path for cell in self._world.actors}
        self._actors = {cell: system.actors[path] for cell, path in paths.items()}
        self._names = {cell: name_of(path) for cell, path in paths.items()}
        self._movers = {cell: self._mover(cell) for cell in paths}
        self._sending = tuple(sending_rules(tables))
        self._opens = {rule for rule, _ in self._sending}
        self._closes = {name for name, rule in client_rules(tables) if is_input(rule)}
        self._first = [
            self._pair(tables.node(cell.first), self._actors[number].first, 0)
            if number in paths
            else cell.first
            for number, cell in enumerate(self._world.cells)
        ]
        self._cells = list(self._first)

    # ---- traces

    def move(self, instance: Instance) -> JudgeStep:
        """The data that `follow` needs for a step."""
        move = self._moves.get(instance)
        if move is None:
            event = self._checked(self._world.bound(instance, self._cells, self._movers))
            move = self._moves[instance] = JudgeStep(instance, event)
        return move

    def begin(self) -> None:
        """Put model and system into the initial state of the scope. Raises Differs."""
        self._cells[:] = self._first
        self._seen = 0
        self.check_all()

    def check_all(self) -> None:
        """Compare all actors whose pairs were not compared before; a pair never changes. Raises
        Differs."""
        for cell in self._actors:
            if not self._cells[cell].has_agreed:
                self._agree(cell)

    def check_restraint(self) -> None:
        """Nothing: clients are asked after every event, see `_agree`."""

    def pairs(self, kind: str) -> list[ActorPair]:
        """The actors of one of the model's types, in the order of the world."""
        found = (self._cells[cell] for cell in self._actors)
        return [pair for pair in found if type(pair.state).__name__ == kind]

    def world(self) -> Any:
        """The model's world, without parts that no rule reads."""
        return self._world.world([self._value(part) for part in self._cells])

    def _value(self, part: Any) -> Any:
        if isinstance(part, ActorPair):
            return part.state
        if isinstance(part, tuple):
            return tuple(item[0].value for item in part)
        return part

    def _checked(self, event: Callable[[], None]) -> Callable[[], None]:
        """The event, extended by a comparison of all actors that it has moved."""
        cells, numbers, agree = self._cells, tuple(self._actors), self._agree

        def checked() -> None:
            event()
            for cell in numbers:
                if not cells[cell].has_agreed:
                    agree(cell)

        return checked

    # ---- actors

    def _pair(self, node: InternedState, snapshot: ActorSnapshot, requests: int) -> ActorPair:
        key = node, snapshot, requests
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = ActorPair(*key)
        return pair

    def _mover(self, cell: int) -> Mover[ActorPair]:
        """How the actor in a cell moves, on both sides. A closure, because no other code runs as
        often."""

        def move(
            pair: ActorPair, key: tuple[Any, ...], given: tuple[Any, ...]
        ) -> tuple[ActorPair, tuple[Item, ...]]:
            """The new pair, and the messages that it sends. `key` has the rule and the model's
            inputs, `given` the system's inputs. Raises Differs, also if the system's actor
            fails."""
            after, sent, seen = pair.steps.get((key, given)) or self._step(cell, pair, key, given)
            self._seen |= seen
            return after, sent

        return move

    def _step(
        self, cell: int, pair: ActorPair, key: tuple[Any, ...], given: tuple[Any, ...]
    ) -> PairStep:
        """Compute a step that is not known yet. Raises Differs."""
        node, expected, seen = self.tables.after(pair.node, *key)
        self._seen |= seen
        try:
            snapshot, sent = self._actors[cell].store.after(pair.snapshot, key[0], *given)
        except Exception as error:
            raise failed(error) from error
        requests = max(0, pair.open + (key[0] in self._opens) - (key[0] in self._closes))
        after = self._pair(node, snapshot, requests)
        try:
            items = tuple(self._compared(self._names[cell], expected, sent or ()))
        except Differs:
            self._cells[cell] = after
            raise
        self._make_room()
        step = pair.steps[key, given] = PairStep(after, items, seen)
        return step

    def _make_room(self) -> None:
        self._known_steps += 1
        if self._known_steps > MAX_STEPS:
            for pair in self._pairs.values():
                pair.steps.clear()
            self._pairs.clear()
            self._asked.clear()
            self._known_steps = 0

    def _compared(
        self, name: str, expected: tuple[InternedMessage, ...], sent: tuple[tuple[View, Any], ...]
    ) -> Iterator[Item]:
        """Each message with the model's and the system's form of it. Raises Differs."""
        kinds = [SENT.get(type(message.value).__name__, PLAIN) for message in expected]
        if len(sent) != len(expected):
            what = kinds[0][0] if kinds else "answers"
            raise Differs([(f"{name}.{what}", len(expected), len(sent))])
        for message, (what, shape), (view, payload) in zip(expected, kinds, sent, strict=True):
            if view is not None:
                self._same(f"{name}.{what}", shape, message.view, view)
            yield message, payload

    def _same(self, path: str, shape: Shape, expected: View, observed: View) -> None:
        """Compare two views. Raises Differs with the fields that differ."""
        if expected != observed:
            self.differ(differences(path, shape, expected, observed))

    def _agree(self, cell: int) -> None:
        """Check that both are in the same state, or that masks hide the difference. Raises
        Differs."""
        pair, actor = self._cells[cell], self._actors[cell]
        expected = self.tables.view_of(actor.kind, pair.node)
        self._same(self._names[cell], SHAPES[actor.kind], expected, pair.snapshot.view)
        CHECKS[actor.kind](self, self._names[cell], pair, actor)
        pair.has_agreed = not self.masks  # each trace counts the differences that its masks hide

    def _check_refusals(self, name: str, pair: ActorPair, actor: ActorUnderTest) -> None:
        """Check that the coordinator refuses each producer that is not its own. Done once for each
        view. Raises Differs."""
        view = pair.snapshot.view
        if (name, view) in self._asked:
            return
        found = self._react(actor.store.ask, (pair.snapshot, "refusals"))
        if not is_refused(view, found):
            raise Differs([(f"{name}.refuses", "newer epochs, unknown ids", found)])
        self._asked.add((name, view))

    def _check_batches(self, name: str, pair: ActorPair, actor: ActorUnderTest) -> None:
        """Check that the leader accepts no foreign batch into an open transaction. Done once for
        each view. Raises Differs."""
        view = pair.snapshot.view
        expected = tuple(expected_in_transactions(view))
        if not any(expected) or (name, view) in self._asked:
            return
        found = self._react(actor.store.ask, (pair.snapshot, "refusals"))
        if found and found != expected:
            raise Differs([(f"{name}.refuses", expected, found)])
        self._asked.add((name, view))

    def _check_restraint(self, name: str, pair: ActorPair, actor: ActorUnderTest) -> None:
        """Check that the client would send what the model lets it send, or nothing. Raises
        Differs."""
        allowed = {NONE} if pair.open else self._sendable(pair.node) or {NONE}
        refused = self._react(actor.store.ask, (pair.snapshot, "would_send"))
        if refused.api not in allowed:
            raise Differs([(f"{name}.would_send", sorted(allowed), refused.api)])
        if refused.api != NONE:
            check_refusal(name, refused, pair.snapshot.view)
        if not self.tables.is_v2 and may_lose(pair.snapshot.view):
            found = self._react(actor.store.ask, (pair.snapshot, "loses_all"))
            if found not in ("", State.FATAL_ERROR.name):
                raise Differs([(f"{name}.loses_all", State.FATAL_ERROR.name, found)])

    def _sendable(self, node: InternedState) -> set[int]:
        """The APIs of all requests that the model's client may send."""
        tables = self.tables
        return {
            tables.after(node, rule, *arguments).sent[0].view[0]
            for rule, arguments in self._sending
            if not tables.refuses(node, rule, *arguments)
        }


Check = Callable[[TransactionJudge, str, ActorPair, ActorUnderTest], None]

CHECKS: Final[Mapping[str, Check]] = {
    "client": TransactionJudge._check_restraint,
    "coordinator": TransactionJudge._check_refusals,
    "leader": TransactionJudge._check_batches,
    "group": TransactionJudge._check_batches,
}
"""The checks of a copy of an actor in each state, by the kind of actor."""


def may_lose(state: View) -> bool:
    """Whether a client in this state lacks the answer to the last request of its transaction. If an
    earlier answer is missing, Kafka's client notices no loss
    (`TransactionManager.maybeResolveSequences`)."""
    is_open = state[0] in ("IN_TRANSACTION", "COMMITTING")
    return is_open and any(write == "SENT" for _, write, _, _ in state[4])


def check_refusal(name: str, refused: Refused, state: View) -> None:
    """Check that the client reacts as Kafka's does to an error that the scope may not have. Raises
    Differs."""
    after, then = expected_after(refused, state)
    if refused.after != after or then not in (None, refused.then):
        path = f"{name}.after {ApiKey(refused.api).name} {refused.error.name}"
        raise Differs([(path, [after, then], [refused.after, refused.then])])


def name_of(path: str) -> str:
    """The name of an actor, by its place in the world: `leader[0]`, `former`."""
    return path.rpartition(".")[2].replace("s[", "[")


def client_rules(tables: TransactionTables) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The rules of the model's client, by name."""
    for name, rule in tables.model.actor_rules.items():
        if tables.model.client.Client in list(get_type_hints(rule).values())[:2]:
            yield name, rule


def sending_rules(tables: TransactionTables) -> Iterator[SendingRule]:
    """The rules by which the model's client sends something, with all arguments that they may
    have."""
    bounds = Shapes(tables.k.bounds).bounds
    for name, rule in client_rules(tables):
        _, _, *given, result = get_type_hints(rule, include_extras=True).values()
        if get_origin(result) is Step:
            ranges = (range(lo, hi + 1) for lo, hi in map(bounds, given))
            yield from (SendingRule(name, arguments) for arguments in product(*ranges))


def judge_of_impl(tables: TransactionTables, actors: str, on: str) -> TransactionJudge:
    """The judge of `impl`. Raises NotApplicable."""
    return TransactionJudge(tables, ImplTransactions(tables.k, is_v2=tables.is_v2, on=on))


def observed_world(judge: TransactionJudge) -> Any:
    """The model's last world, with the system's logs and the outcomes that its applications
    received."""
    tables = judge.tables
    world = tables.model.scopes.initial(tables.k)
    return replace(
        world,
        clients=Map(tuple(observed_client(tables, pair) for pair in judge.pairs("Client"))),
        coordinator=judge.pairs("Coordinator")[0].state,
        leaders=Map(tuple(observed_leader(tables, pair) for pair in judge.pairs("Leader"))),
    )


def observed_client(tables: TransactionTables, pair: ActorPair) -> Any:
    """The model's client, with the outcomes that the system's application received."""
    told = [tables.model.client.Outcome[name] for name in pair.snapshot.view[-1]]
    outcomes = (*told, *pair.state.outcomes.values()[len(told) :])
    return replace(pair.state, outcomes=Map(outcomes))


def observed_leader(tables: TransactionTables, pair: ActorPair) -> Any:
    """The model's leader, with the system's log."""
    rules = tables.model.leader
    log = []
    for kind, producer_id, producer_epoch, sequence, record in pair.snapshot.view[0]:
        instance, transaction, number = record or (0, 0, 0)
        log.append(
            rules.Stored(
                kind=rules.Kind[kind],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=sequence or 0,
                instance=instance,
                transaction=transaction,
                number=number,
            )
        )
    return replace(pair.state, log=tuple(log))
