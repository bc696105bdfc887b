"""Actors of `impl`, kept as snapshots, so that each step from a state is computed once.

1. A snapshot is the whole actor as bytes. Its step is a function of these bytes and the input: the
   actor is restored from them, takes the step, and is stored as bytes again.
2. A snapshot leaves out only the values of counters that nobody can see any more: correlation ids
   while no request is open, tokens while no append is open, guards while none is held. A connection
   without a request is treated as no connection.
3. An actor that fails is not kept.

Theory of operation: `SnapshotStore.after` looks up the result of a snapshot and an input, and calls
the actor only if the result is not known. So a judge computes each pair of state and input once,
however many traces meet it. Inputs are compared as keys of a dict, so equal messages have to be one
object.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any, ClassVar, Final

from conformance.judging.system import NotApplicable, View
from impl import ProducerError
from impl.coordinator.config import TransactionConfig
from impl.coordinator.state_manager import TransactionStateManager
from impl.coordinator.transactions import TransactionCoordinator
from impl.form import IS_COMPILED
from impl.partition.log_config import LogConfig
from impl.partition.producer_states import ProducerStates
from impl.partition.rules import TransactionRules
from impl.producer import ProducerConfig
from impl.producer.in_flight_requests import InFlightRequests
from impl.producer.transactional_requests import RequestVersions, TxnRequestQueue

Reduced = tuple[Any, ...]
MAX_SNAPSHOTS: Final = 100_000
"""The most snapshots of one actor, some 5 kB each; then the store begins anew."""


class PicklableActor(ABC):
    """An actor that can be pickled. Attributes in `SHARED` (settings and caches) are not part of
    its state; all of its snapshots share them."""

    SHARED: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def view(self) -> View:
        """Its state, in its shape."""

    def tidy(self) -> None:  # noqa: B027
        """Called after each step: forget what is over, so that equal states are equal bytes."""


class ActorSnapshot:
    """An actor at one time; `known` has the results of its next steps, by call."""

    __slots__ = ("known", "state", "view")

    def __init__(self, state: bytes, view: View) -> None:
        self.state = state
        self.view = view
        self.known: dict[tuple[Any, ...], tuple[ActorSnapshot, Any]] = {}


# Attributes that are the same for all snapshots, or are counted anew

_SHARED: list[Any] = []


def _shared(index: int) -> Any:
    return _SHARED[index]


def _by_place(value: Any) -> Reduced:
    """Pickles a value that never changes as a reference; the process keeps it once."""
    if value not in _SHARED:
        _SHARED.append(value)
    return _shared, (_SHARED.index(value),)


def _slots(value: Any) -> dict[str, Any]:
    names: tuple[str, ...] = type(value).__slots__
    return {name: getattr(value, name) for name in names}


def _connections(connections: InFlightRequests) -> Reduced:
    state = vars(connections).copy()
    state["_nodes"] = {
        node_id: node
        for node_id, node in sorted(connections._nodes.items())
        if node.in_flight or node.throttled_until_ms
    }
    if not connections._connection_of:
        state["_next_correlation_id"] = 0
    return copyreg.__newobj__, (type(connections),), state  # type: ignore[attr-defined]


def _queue(queue: TxnRequestQueue) -> Reduced:
    waiting = [
        (priority, number, request)
        for number, (priority, _, request) in enumerate(sorted(queue._waiting, key=_order))
    ]
    state = vars(queue) | {"_waiting": waiting, "_ticket": count(len(waiting))}
    return copyreg.__newobj__, (type(queue),), state  # type: ignore[attr-defined]


def _order(waiting: tuple[Any, int, Any]) -> tuple[Any, int]:
    return waiting[:2]


def _states(states: TransactionStateManager) -> Reduced:
    slots = _slots(states)
    if not states.pending_appends:
        slots["_next_token"] = 0
    return copyreg.__newobj__, (type(states),), (None, slots)  # type: ignore[attr-defined]


def _coordinator(coordinator: TransactionCoordinator) -> Reduced:
    slots = _slots(coordinator)
    if not list(coordinator._completions):
        slots["_next_token"] = 0
    return copyreg.__newobj__, (type(coordinator),), (None, slots)  # type: ignore[attr-defined]


def _producers(states: ProducerStates) -> Reduced:
    slots = _slots(states)
    if not states.verifications:
        slots["_last_guard"] = 0
    return copyreg.__newobj__, (type(states),), (None, slots)  # type: ignore[attr-defined]


def _error(error: ProducerError) -> Reduced:
    """Rebuilds an exception without its constructor, whose arguments an exception does not keep."""
    return copyreg.__newobj__, (type(error), *error.args), vars(error)  # type: ignore[attr-defined]


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _kinds(inner)


_REDUCERS: Final[dict[type, Callable[[Any], Reduced]]] = {
    ProducerConfig: _by_place,
    RequestVersions: _by_place,
    TransactionConfig: _by_place,
    TransactionRules: _by_place,
    LogConfig: _by_place,
    InFlightRequests: _connections,
    TxnRequestQueue: _queue,
    TransactionStateManager: _states,
    TransactionCoordinator: _coordinator,
    **dict.fromkeys(_kinds(ProducerError), _error),
}


class SnapshotStore:
    """All snapshots of one actor. With `holds_guards`, a guard may be used much later, so no number
    of a guard is used twice. `during` is entered while the actor moves.

    Raises NotApplicable if `impl` is compiled: its classes cannot be restored from bytes.
    """

    def __init__(
        self,
        actor: PicklableActor,
        *,
        holds_guards: bool = False,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if IS_COMPILED:
            raise NotApplicable(
                "impl is compiled in this process, and only its text can be judged here: import"
                " conformance before impl, or judge a served broker at wire://"
            )
        self._during = during
        self._shared_parts = {name: vars(actor)[name] for name in actor.SHARED}
        own = {} if holds_guards else {ProducerStates: _producers}
        self._table = copyreg.dispatch_table | _REDUCERS | own | {type(actor): self._reduced}
        self._snapshots: dict[bytes, ActorSnapshot] = {}
        self.first = self._snapshot(actor)

    def after(self, snapshot: ActorSnapshot, name: str, *given: Any) -> tuple[ActorSnapshot, Any]:
        """The snapshot after a call of the actor's method, and the result of the method.

        Raises what the method raises.
        """
        key = (name, *given)
        known = snapshot.known.get(key)
        if known is None:
            actor = self.actor(snapshot)
            with self._during():
                returned = getattr(actor, name)(*given)
                actor.tidy()
            known = snapshot.known[key] = (self._snapshot(actor), returned)
        return known

    def ask(self, snapshot: ActorSnapshot, name: str, *given: Any) -> Any:
        """The result of a method of the actor; its other effects are dropped. Raises what the
        method raises."""
        known = snapshot.known.get((name, *given))
        if known is None:
            with self._during():
                returned = getattr(self.actor(snapshot), name)(*given)
            known = snapshot.known[name, *given] = (snapshot, returned)
        return known[1]

    def actor(self, snapshot: ActorSnapshot) -> Any:
        """A copy of the actor at that time; the caller may change it."""
        actor = pickle.loads(snapshot.state)
        vars(actor).update(self._shared_parts)
        return actor

    def _reduced(self, actor: PicklableActor) -> Reduced:
        state = {n: value for n, value in vars(actor).items() if n not in self._shared_parts}
        return copyreg.__newobj__, (type(actor),), state  # type: ignore[attr-defined]

    def _snapshot(self, actor: PicklableActor) -> ActorSnapshot:
        view = actor.view()
        file = io.BytesIO()
        pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = self._table
        pickler.dump(actor)
        state = file.getvalue()
        found = self._snapshots.get(state)
        if found is None:
            if len(self._snapshots) >= MAX_SNAPSHOTS:
                self._forget()
            found = self._snapshots[state] = ActorSnapshot(state, view)
        return found

    def _forget(self) -> None:
        """Begin anew; snapshots in use stay valid."""
        for snapshot in self._snapshots.values():
            snapshot.known.clear()
        self._snapshots.clear()
