"""Blocks of producer ids in ZooKeeper, the original form of allocation.

Four rules:

1. One znode holds the block that was allocated last. A broker allocates the next one by writing it
   there, on condition that the znode has not changed since (compare-and-set by version).
2. A broker whose write failed because of another one reads the znode again, and retries.
3. A write whose answer is lost is sent again, and then fails because of itself. With
   `checks_own_data` (2.8 and older) the broker finds its own block in the znode and uses it;
   without (3.0 and later) that block is wasted. Two brokers never get the same block.
4. Near 2^63 no block is left: UNKNOWN_SERVER_ERROR. A broker that gets this for its first block
   does not start.

Theory of operation: `ZooKeeperBlocks.allocate` is that loop; the caller connects the client and
closes it. `ZooKeeperProducerIdManager` is a broker of 2.8: it allocates its first block when it
starts, and another one when its ids are used up, while the client waits. Brokers of 3.0 to 3.9 in
ZooKeeper mode ask their controller instead, a `ProducerIdController` with these blocks.

How to use it, with a started `kazoo.client.KazooClient`:

    blocks = ZooKeeperBlocks(client, checks_own_data=False)
    blocks.create_node()
    node = Node(config, blocks=blocks)  # or Cluster(..., blocks=blocks), and each node with it
    server = Server(config, make_node=lambda config: Node(config, blocks=blocks))

The node then allocates blocks in `advance`, waits for ZooKeeper there, and raises as `allocate`. A
broker of 2.8 is `TransactionCoordinator(lambda now_ms: manager.generate())`.
Sources: `ZkProducerIdManager`, `ProducerIdManager` (2.8), `ProducerIdBlockZNode`, `KafkaZkClient`.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

try:
    from kazoo.exceptions import BadVersionError, NoNodeError
    from kazoo.retry import KazooRetry
except ImportError as error:
    raise ImportError("ids from ZooKeeper need: pip install 'kafka-eos[zookeeper]'") from error

from impl.broker.producer_ids import BLOCK_SIZE, MAX_PRODUCER_ID, ProducerIdBlock
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER_ID

PATH: Final = "/latest_producer_id_block"

FORMAT_VERSION: Final = 1

ATTEMPT_LIMIT: Final = 1_000
"""Kafka has no limit; an attempt fails only if another broker's succeeds, or without a znode."""

RESEND_LIMIT: Final = 100
"""How often one request is sent if its connections break."""


class InvalidBlockNode(ValueError):
    """The znode does not hold a block: find out who wrote it, and remove it by hand."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{PATH} holds {found}: find out who wrote it, and remove it by hand")


class BlockNotWritten(RuntimeError):
    """The znode is missing, or other brokers are always faster: create it (`create_node`)."""


class ProducerIdsExhausted(RuntimeError):
    """All 2^63 ids are used up: this cluster cannot start another broker."""


class ZooKeeperClient(Protocol):
    """The methods of a started `kazoo.client.KazooClient` that are used here."""

    def get(self, path: str) -> tuple[bytes, Any]:
        """Data and status."""

    def set(self, path: str, value: bytes, version: int) -> Any:
        """Write on condition of the version."""

    def ensure_path(self, path: str) -> Any:
        """Create the node unless it exists."""


def encode_node(broker_id: int, block: ProducerIdBlock) -> bytes:
    """The node's JSON; ids are strings. `ProducerIdBlockZNode.generateProducerIdBlockJson`."""
    fields = {
        "version": FORMAT_VERSION,
        "broker": broker_id,
        "block_start": str(block.first_producer_id),
        "block_end": str(block.first_producer_id + block.size - 1),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_node(data: bytes) -> tuple[int, ProducerIdBlock]:
    """(broker, block) of the node's JSON. Raises `InvalidBlockNode`."""
    try:
        fields = json.loads(data)
        first, last = int(fields["block_start"]), int(fields["block_end"])
        broker_id = int(fields["broker"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidBlockNode(f"{data!r}") from error
    if not 0 <= first <= last <= MAX_PRODUCER_ID:
        raise InvalidBlockNode(f"a block from {first} to {last}")
    return broker_id, ProducerIdBlock(first, last - first + 1)


class ZooKeeperBlocks:
    """The blocks of a cluster in ZooKeeper: see the rules above."""

    def __init__(self, client: ZooKeeperClient, *, checks_own_data: bool) -> None:
        self._client = client
        self._checks_own_data = checks_own_data
        self._resend = KazooRetry(
            max_tries=RESEND_LIMIT, delay=0.01, max_delay=0.5, ignore_expire=False
        )

    def create_node(self) -> None:
        """Create the znode; every broker starts like that. `KafkaZkClient.createTopLevelPaths`."""
        self._resend(self._client.ensure_path, PATH)

    def allocate(self, broker_id: int) -> ProducerIdBlock | ErrorCode:
        """The next block for this broker, or UNKNOWN_SERVER_ERROR if the ids are used up.

        Raises `InvalidBlockNode`, `BlockNotWritten`, and kazoo's errors, except for broken
        connections and concurrent writes. `ZkProducerIdManager.getNewProducerIdBlock`.
        """
        for _ in range(ATTEMPT_LIMIT):
            try:
                data, status = self._resend(self._client.get, PATH)
            except NoNodeError:
                continue
            last = decode_node(data)[1] if data else ProducerIdBlock(0, 0)
            first = last.first_producer_id + last.size
            if first - 1 > MAX_PRODUCER_ID - BLOCK_SIZE:
                return ErrorCode.UNKNOWN_SERVER_ERROR
            block = ProducerIdBlock(first, BLOCK_SIZE)
            if self._write(encode_node(broker_id, block), status.version):
                return block
        attempts = f"{PATH} could not be written in {ATTEMPT_LIMIT} attempts"
        raise BlockNotWritten(f"{attempts}: check that it exists (create_node), and who writes it")

    def _write(self, data: bytes, version: int) -> bool:
        """Whether this broker wrote what the znode holds. `KafkaZkClient.conditionalUpdatePath`."""
        try:
            self._resend(self._client.set, PATH, data, version)
        except BadVersionError:
            return self._checks_own_data and self._holds(data)
        except NoNodeError:
            return False
        return True

    def _holds(self, data: bytes) -> bool:
        """`ProducerIdManager.checkProducerIdBlockZkData`, 2.8."""
        try:
            found, _ = self._resend(self._client.get, PATH)
        except NoNodeError:
            return False
        return bool(found) and decode_node(found) == decode_node(data)


class ZooKeeperProducerIdManager:
    """The ids of a broker of 2.8 or older. `ProducerIdManager`, 2.8."""

    def __init__(self, broker_id: int, blocks: ZooKeeperBlocks) -> None:
        """Take the first block. Raises `ProducerIdsExhausted`: such a broker does not start."""
        self._broker_id = broker_id
        self._blocks = blocks
        self._claimed = 0
        first = blocks.allocate(broker_id)
        if isinstance(first, ErrorCode):
            raise ProducerIdsExhausted(f"{PATH} holds the last block: no other broker can start")
        self._block = first

    def generate(self) -> tuple[ErrorCode, int]:
        """(NONE, a fresh id), or (UNKNOWN_SERVER_ERROR, -1) when they have run out."""
        if self._claimed == self._block.size:
            following = self._blocks.allocate(self._broker_id)
            if isinstance(following, ErrorCode):
                return following, NO_PRODUCER_ID
            self._block, self._claimed = following, 0
        self._claimed += 1
        return ErrorCode.NONE, self._block.first_producer_id + self._claimed - 1
