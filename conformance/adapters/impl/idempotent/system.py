"""`impl` in this process: its producers and its partition leaders, with or without its codec.

`impl` is used unchanged: its cores are called as a driver would call them (`client`, `leader`), and
messages are those that the cores made (`messages`).

Theory of operation. Every actor exists twice, once plain and once memoised (`memoised`); a trace
uses one kind. No requests bring a producer near the wrap in reasonable time (2^31 records). If a
scope begins there, the adapter sets the producer's next sequence. The first record of the scope is
then really sent, stored and acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.adapters.impl.idempotent.client import ImplClient
from conformance.adapters.impl.idempotent.leader import ImplLeader
from conformance.adapters.impl.idempotent.messages import (
    CODECS,
    BatchViews,
    ProducePayload,
    Shared,
    ViewsByBytes,
    as_it_is,
    played_request,
)
from conformance.adapters.impl.idempotent.transaction import ImplTransactionClient
from conformance.adapters.impl.shared.memoised import Interner, MemoisedActor
from conformance.judging.idempotent.judge import Judge
from conformance.judging.idempotent.system import ClientUnderTest, LeaderUnderTest, WireNumbers
from conformance.judging.idempotent.tables import Tables
from conformance.judging.system import Payload, View
from impl import SendRequest
from model.idempotent.configuration import Configuration


class ImplSystem:
    """`impl`'s leaders, and its producers if they are under test. `on` is "bytes" or "values".

    `clients` and `leaders` are the actors of the trace that `reset` began.
    """

    clients: Sequence[ClientUnderTest]
    leaders: Sequence[LeaderUnderTest]

    def __init__(self, k: Configuration, actors: frozenset[str], on: str) -> None:
        self._k = k
        self._codec = CODECS[on]
        self._played: dict[tuple[int, View], tuple[SendRequest, ProducePayload]] = {}
        views = BatchViews()
        self._actors = cast_of(Shared(k, self._codec, views, as_it_is), actors)
        interned = cast_of(Shared(k, self._codec, views, Interner()), actors)
        self._memoised = tuple(tuple(map(MemoisedActor, kind)) for kind in interned)
        self.clients, self.leaders = self._actors
        self._is_memoised = False

    def reset(self, memoised: bool = False) -> None:
        """Reset all actors, and execute the prefix of the scope."""
        cast: Any = self._memoised if memoised else self._actors
        self.clients, self.leaders = cast
        self._is_memoised = memoised
        for actor in (*cast[0], *cast[1]):
            actor.reset()
        first = self._k.bounds.first_sequence
        if first > 0:
            self._begin(WireNumbers(self._k)[first])

    def request(self, partition: int, request: View) -> Payload:
        """A request with the batch that the view describes."""
        played = self._played.get((partition, request))
        if played is None:
            if len(self._played) >= ViewsByBytes.LIMIT:
                self._played.clear()
            sent = played_request(partition, request)
            played = self._played[partition, request] = sent, self._arrived(sent, request)
        sent, interned = played
        return interned if self._is_memoised else self._arrived(sent, request)

    def _arrived(self, sent: SendRequest, request: View) -> ProducePayload:
        return ProducePayload(*self._codec.request(sent), request)

    def _begin(self, first: int) -> None:
        """Send record 0 of each partition with sequence `first`; it is stored and acknowledged."""
        clients: Sequence[Any] = self.clients
        for partition, leader in enumerate(self.leaders):
            if clients:
                clients[0].begin_at(partition, first)
                payload = clients[0].send_new(partition, 1)[1][0][1]
            else:
                payload = self.request(partition, (0, 0, first, 1, 0))
            answer = leader.on_produce(payload)[1][0][1]
            leader.advance_high_watermark()
            if clients:
                clients[0].on_answer(partition, answer, 0)


CLIENTS: Final[Mapping[str, type[ImplClient]]] = {
    "client": ImplClient,
    "transaction": ImplTransactionClient,
}
"""The producers that can be under test, by the name of the actor."""


def cast_of(
    shared: Shared, actors: frozenset[str]
) -> tuple[tuple[ImplClient, ...], tuple[ImplLeader, ...]]:
    """(producers, leaders), in the numbers that the bounds give."""
    bounds = shared.k.bounds
    kinds = [kind for name, kind in CLIENTS.items() if name in actors]
    return (
        tuple(kind(shared, producer) for kind in kinds for producer in range(bounds.producers)),
        tuple(ImplLeader(shared, partition) for partition in range(bounds.partitions)),
    )


def judge_of_impl(tables: Tables, actors: str, on: str) -> Judge:
    """The judge of `impl`."""
    return Judge(tables, ImplSystem(tables.k, frozenset(actors.split(",")), on))
