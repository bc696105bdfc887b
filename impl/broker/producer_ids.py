"""Producer ids: blocks of a thousand from the controller, one at a time to clients.

Three rules:

1. An id is handed out once. Ids need not be dense: a block is abandoned with the node that held it.
2. A node never waits for a block: without one it answers COORDINATOR_LOAD_IN_PROGRESS (3.6+).
3. At most one request for a block is under way; it leaves when 90 % of the current one are gone.

Theory of operation: `ProducerIdBlocks` is the controller's side, a number that only grows.
`ProducerIdManager` is the broker's: a current block, at most one next block, and the request for
it, which the driver fetches with `take_request` and answers with `receive`. The first block is
empty, so a fresh broker refuses its first InitProducerId once.
Sources: `RPCProducerIdManager`, `ProducerIdControlManager`; KIP-730.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER_ID

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = (1 << 63) - 1
RETRY_BACKOFF_MS: Final = 50
ITERATION_LIMIT: Final = 3


class ProducerIdBlock(NamedTuple):
    """`size` ids from `first_producer_id` on."""

    first_producer_id: int
    size: int


EMPTY_BLOCK: Final = ProducerIdBlock(0, 0)


class ProducerIdBlocks:
    """The controller: gives out blocks, each once. `next_producer_id` is all that must last."""

    __slots__ = ("next_producer_id",)

    def __init__(self, next_producer_id: int = 0) -> None:
        self.next_producer_id = next_producer_id

    def allocate(self) -> ProducerIdBlock | ErrorCode:
        """The next block, or UNKNOWN_SERVER_ERROR when the ids have run out.

        `ProducerIdControlManager.generateNextProducerId`.
        """
        first = self.next_producer_id
        if first > MAX_PRODUCER_ID - BLOCK_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self.next_producer_id = first + BLOCK_SIZE
        return ProducerIdBlock(first, BLOCK_SIZE)


class ProducerIdManager:
    """One broker's ids. `RPCProducerIdManager`."""

    __slots__ = (
        "_backoff_deadline_ms",
        "_block",
        "_claimed",
        "_in_flight",
        "_next",
        "_prefetch_at",
        "_to_send",
    )

    def __init__(self) -> None:
        self._next: ProducerIdBlock | None = None
        self._in_flight = False
        self._to_send = False
        self._backoff_deadline_ms = 0
        self._use(EMPTY_BLOCK)

    def generate(self, now_ms: int) -> tuple[ErrorCode, int]:
        """(NONE, a fresh id), or (COORDINATOR_LOAD_IN_PROGRESS, -1) until a block arrives."""
        for _ in range(ITERATION_LIMIT):
            if self._claimed < self._block.size:
                return ErrorCode.NONE, self._claim(now_ms)
            if self._next is None:
                self._request_block(now_ms)
                break
            self._use(self._next)
            self._next, self._in_flight = None, False
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_PRODUCER_ID

    def take_request(self) -> bool:
        """Whether an AllocateProducerIds request is to be sent now; asks once for each."""
        is_due, self._to_send = self._to_send, False
        return is_due

    def receive(self, answer: ProducerIdBlock | ErrorCode, now_ms: int) -> None:
        """The controller's answer. One that is no use is asked for again after a backoff."""
        if isinstance(answer, ProducerIdBlock) and self._is_usable(answer):
            self._next = answer
            return
        self._in_flight = False
        self._backoff_deadline_ms = now_ms + RETRY_BACKOFF_MS

    def _is_usable(self, block: ProducerIdBlock) -> bool:
        least = self._block.first_producer_id + self._block.size
        most = MAX_PRODUCER_ID - block.size + 1
        return block.size >= 0 and least <= block.first_producer_id <= most

    def _use(self, block: ProducerIdBlock) -> None:
        self._block = block
        self._claimed = 0
        self._prefetch_at = block.size * 9 // 10

    def _claim(self, now_ms: int) -> int:
        index = self._claimed
        self._claimed += 1
        if index == self._prefetch_at:
            self._request_block(now_ms)
        return self._block.first_producer_id + index

    def _request_block(self, now_ms: int) -> None:
        if self._next is None and not self._in_flight and now_ms >= self._backoff_deadline_ms:
            self._in_flight = self._to_send = True
