"""Producer ids: blocks of a thousand from the controller, one at a time to clients.

Five rules:

1. An id is allocated once. Ids need not be dense: a broker that stops loses the rest of its block,
   and a lost answer loses a whole block.
2. The next free id is durable: it is persisted before a block leaves the controller.
3. A broker that registers again has a new epoch; its old epoch gets no block.
4. A broker never waits for a block: without one it answers COORDINATOR_LOAD_IN_PROGRESS (3.6+).
5. At most one request for a block is in flight; it is sent when 90 % of the current block are used.

Theory of operation: `ProducerIdBlocks` is a number that only grows; `ProducerIdController` gives
its blocks to registered brokers. `ProducerIdManager` is the broker's side: a current block, at most
one next block, and the request for it, which the driver gets from `take_request` and answers with
`receive` or `time_out`. The first block is empty, so a new broker refuses its first InitProducerId.
The older form of allocation, over ZooKeeper, is in `zookeeper`.
Sources: `RPCProducerIdManager`, `ProducerIdControlManager`, `ClusterControlManager`; KIP-730.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from impl.protocol.errors import ErrorCode
from impl.protocol.fields import NO_PRODUCER_ID

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = (1 << 63) - 1
RETRY_BACKOFF_MS: Final = 50
ITERATION_LIMIT: Final = 3


class ProducerIdsNotIncreasing(ValueError):
    """A persisted next id is not above the previous one: it is damaged or out of order."""


class ProducerIdBlock(NamedTuple):
    """`size` ids from `first_producer_id` on."""

    first_producer_id: int
    size: int


EMPTY_BLOCK: Final = ProducerIdBlock(0, 0)


def _discard(next_producer_id: int) -> None:
    """Persist nothing, for a controller that never restarts."""


class ProducerIdBlocks:
    """Allocates blocks, each once. Only `next_producer_id` is durable."""

    __slots__ = ("_persist", "next_producer_id")

    def __init__(
        self, next_producer_id: int = 0, *, persist: Callable[[int], None] = _discard
    ) -> None:
        """`persist` stores the next free id before a block is returned; if it raises, none is."""
        self.next_producer_id = next_producer_id
        self._persist = persist

    def allocate(self, broker_id: int = -1) -> ProducerIdBlock | ErrorCode:
        """The next block, or UNKNOWN_SERVER_ERROR when the ids are exhausted.

        `ProducerIdControlManager.generateNextProducerId`.
        """
        first = self.next_producer_id
        if first > MAX_PRODUCER_ID - BLOCK_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self._persist(first + BLOCK_SIZE)
        self.next_producer_id = first + BLOCK_SIZE
        return ProducerIdBlock(first, BLOCK_SIZE)

    def replay(self, next_producer_id: int) -> None:
        """Apply persisted ids, in order. Raises `ProducerIdsNotIncreasing`.

        `ProducerIdControlManager.replay`.
        """
        if next_producer_id <= self.next_producer_id:
            raise ProducerIdsNotIncreasing(f"{next_producer_id} after {self.next_producer_id}")
        self.next_producer_id = next_producer_id


class BlockSource(Protocol):
    """Allocates blocks: from the controller's own number, or from ZooKeeper."""

    def allocate(self, broker_id: int) -> ProducerIdBlock | ErrorCode:
        """The next block for this broker, or the error to answer."""


class ProducerIdController:
    """Answers AllocateProducerIds. `ControllerApis.handleAllocateProducerIdsRequest`.

    `unregistered` is the answer to an unknown broker: STALE_BROKER_EPOCH of a KRaft
    controller, BROKER_ID_NOT_REGISTERED of one in ZooKeeper mode.
    """

    __slots__ = ("_blocks", "_epochs", "_unregistered")

    def __init__(
        self,
        blocks: BlockSource,
        *,
        unregistered: ErrorCode = ErrorCode.STALE_BROKER_EPOCH,
    ) -> None:
        self._blocks = blocks
        self._epochs: dict[int, int] = {}
        self._unregistered = unregistered

    def register(self, broker_id: int, broker_epoch: int) -> None:
        """Register a broker's epoch; earlier ones are stale."""
        self._epochs[broker_id] = broker_epoch

    def unregister(self, broker_id: int) -> None:
        """Forget a broker."""
        self._epochs.pop(broker_id, None)

    def allocate(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock | ErrorCode:
        """A block for the broker, or an error. `ClusterControlManager.checkBrokerEpoch`."""
        known_epoch = self._epochs.get(broker_id)
        if known_epoch is None:
            return self._unregistered
        if broker_epoch != known_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return self._blocks.allocate(broker_id)


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
        """(NONE, a new id), or (COORDINATOR_LOAD_IN_PROGRESS, -1) until a block arrives."""
        for _ in range(ITERATION_LIMIT):
            if self._claimed < self._block.size:
                return ErrorCode.NONE, self._claim(now_ms)
            if self._next is None:
                self._request_block(now_ms)
                break
            self._use(self._next)
            self._next, self._in_flight = None, False
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_PRODUCER_ID

    @property
    def has_request(self) -> bool:
        """Whether a request is waiting to be sent."""
        return self._to_send

    def take_request(self) -> bool:
        """Whether to send an AllocateProducerIds request now; True once for each."""
        is_due, self._to_send = self._to_send, False
        return is_due

    def receive(self, answer: ProducerIdBlock | ErrorCode, now_ms: int) -> None:
        """Process the controller's answer; repeat the request after a backoff if it is unusable.

        A late answer is dropped, and its ids are never used.
        """
        if not self._in_flight or self._next is not None:
            return
        if isinstance(answer, ProducerIdBlock) and self._is_usable(answer):
            self._next = answer
            return
        self._in_flight = False
        self._backoff_deadline_ms = now_ms + RETRY_BACKOFF_MS

    def time_out(self) -> None:
        """Give up on the request: the next InitProducerId repeats it, without a backoff."""
        self._in_flight = self._to_send = False

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
