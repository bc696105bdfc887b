"""`impl` in process: its producers and its partition leaders, with or without its codec.

Nothing of `impl` is changed or guessed: its cores are called as a driver would call them
(`impl_client`, `impl_leader`), and what travels is what they gave (`impl_messages`).

Theory of operation. No requests bring a producer near the wrap in reasonable time (2^31 records):
where a scope begins there, the adapter sets the sequence that the producer gives next, and the
first record of the scope is then sent, stored and acknowledged for real.
"""

from __future__ import annotations

from conformance.systems.base import Payload, View, WireNumbers
from conformance.systems.impl_client import ImplClient
from conformance.systems.impl_leader import ImplLeader
from conformance.systems.impl_messages import (
    CODECS,
    BatchViews,
    Request,
    Shared,
    ViewsByBytes,
    played_request,
)
from impl import SendRequest
from model.setting import Setting


class ImplSystem:
    """`impl`'s leaders, and its producers if they are under test. `on` is "bytes" or "values"."""

    def __init__(self, k: Setting, actors: frozenset[str], on: str) -> None:
        shared = Shared(k, CODECS[on], BatchViews())
        self._k = k
        self._codec = shared.codec
        self._payloads: dict[tuple[int, View], SendRequest] = {}
        self.leaders = tuple(ImplLeader(shared, p) for p in range(k.layout.partitions))
        producers = range(k.layout.producers) if "client" in actors else ()
        self.clients = tuple(ImplClient(shared, producer) for producer in producers)

    def reset(self) -> None:
        """All new, and the prefix of the scope executed."""
        for leader in self.leaders:
            leader.reset()
        for client in self.clients:
            client.reset()
        first = self._k.layout.first_sequence
        if first > 0:
            self._begin(WireNumbers(self._k)[first])

    def request(self, partition: int, request: View) -> Payload:
        """A request with the batch that the view describes."""
        sent = self._payloads.get((partition, request))
        if sent is None:
            if len(self._payloads) >= ViewsByBytes.LIMIT:
                self._payloads.clear()
            sent = self._payloads[partition, request] = played_request(partition, request)
        correlation_id, body = self._codec.request(sent)
        return Request(correlation_id, body, request)

    def _begin(self, first: int) -> None:
        """Record 0 of each partition is sent at `first`, stored and acknowledged."""
        for partition, leader in enumerate(self.leaders):
            if self.clients:
                self.clients[0].begin_at(partition, first)
                payload = self.clients[0].send_new(partition, 0, 1)[1][0][1]
            else:
                payload = self.request(partition, (0, 0, first, 1, 0))
            answer = leader.on_produce(payload)[1][0][1]
            leader.advance_high_watermark()
            if self.clients:
                self.clients[0].on_answer(partition, answer, 0)
