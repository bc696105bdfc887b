"""Producer ids of a broker beside a ZooKeeper, held to the model of their blocks.

The broker is stopped and killed, and asked for ids between. Each id is the one that the model
gives; and ZooKeeper's node for the latest block says what the model's store says, as soon as a
block that is fetched ahead has been written.

Theory of operation. With one broker, and nobody else at ZooKeeper, all that the model leaves open
is when a block is fetched; at last it is. So the model goes on until it has nothing more to do of
itself, and the node is waited for, for a bounded time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.kafka.admin import init_producer_ids
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.wait import poll
from conformance.judging.backend import BackendFailed
from conformance.judging.reports.report import SideCheck
from model.language import Disabled
from proofs.lift.source import Model, load_model

NODE: Final = "/latest_producer_id_block"
NODE_TIMEOUT_S: Final = 10.0

BLOCK_SIZE: Final = 1_000
PREFETCH_AT: Final = 900
MANY: Final = 100_000
"""More blocks, questions and restarts than there will be."""
NO_BLOCK: Final = -1
BROKER: Final = 0
"""The model's number of the one broker."""

OF_ITSELF: Final = ("block_turns_over", "block_is_wanted", "block_is_read", "block_is_written")
"""What a broker does without being told."""

ASKED: Final = (1, PREFETCH_AT - 1, 1, BLOCK_SIZE - PREFETCH_AT - 1, 1, 200)
"""How many ids are asked for between two looks at the node: the first, those up to the one that
makes a broker fetch ahead, that one, the last of the block, the first of the next."""


class ZooKeeperNode(NamedTuple):
    """ZooKeeper's node: the latest block's ids, who took it, how often the node was written."""

    block_start: int
    block_end: int
    broker: int
    version: int


NOTHING: Final = (-1, -1, -1)
"""The node's data before a block was taken."""


def check_blocks(kafka: KafkaBroker) -> SideCheck:
    """Stop, kill and ask the broker; the first difference, if any. Raises BackendFailed."""
    compared = 0
    try:
        with watched(kafka) as look:
            for wanted, seen in comparisons(kafka, look):
                compared += 1
                if wanted != seen:
                    return SideCheck(compared, wanted, seen)
    except KafkaError as error:
        raise BackendFailed(f"the broker failed while it was asked for ids: {error}") from error
    return SideCheck(compared)


def comparisons(kafka: KafkaBroker, look: Callable[[], ZooKeeperNode]) -> Iterator[tuple[Any, Any]]:
    """What the model says, and what is seen, of the node and of ids in turns."""
    blocks = Blocks(kafka.release.name, look())
    for stop in (kafka.stop, kafka.kill):
        stop()
        kafka.start()
        blocks.restart()
        yield awaited(blocks.node(kafka.node.node_id), look)
        for count in ASKED:
            with kafka.connect() as connection:
                seen = [one.producer_id for one in init_producer_ids(connection, count)]
            yield blocks.ask(count), seen
            yield awaited(blocks.node(kafka.node.node_id), look)


# The model


class Blocks:
    """The model in Kafka's own numbers, with one broker, from what was found in ZooKeeper."""

    def __init__(self, release: str, found: ZooKeeperNode) -> None:
        self._model: Model = load_model("producer_ids")
        configuration = self._model.configuration
        bounds = configuration.Bounds(
            brokers=1,
            blocks=MANY,
            block_size=BLOCK_SIZE,
            prefetch_at=PREFETCH_AT,
            producers=1,
            asked=MANY,
            faults=self._model.faults.Faults(restarts=MANY),
        )
        budgets = configuration.Budgets(asked=MANY, restarts=MANY)
        self._k = configuration.Configuration(self._model.variants.parse(release), bounds, budgets)
        block = NO_BLOCK if found[:3] == NOTHING else found.block_start // BLOCK_SIZE
        store = self._model.store.Store(block, BROKER, found.version)
        self._world = replace(self._model.scopes.initial(self._k), store=store)

    def restart(self) -> None:
        """The broker begins again."""
        self._act("broker_restarts")
        self._rest()

    def ask(self, count: int) -> list[int]:
        """So many ids, given one after the other; who is refused asks again."""
        given: list[int] = []
        while len(given) < count:
            self._act("producer_asks")
            self._rest()
            following = self._model.manager.next_id(self._k, self._world.managers[BROKER])
            if self._act("producer_id_is_given"):
                given.append(following)
            else:
                self._act("producer_id_is_refused")
        self._rest()
        return given

    def node(self, node_id: int) -> ZooKeeperNode:
        """What ZooKeeper says."""
        store = self._world.store
        if store.block == NO_BLOCK:
            return ZooKeeperNode(*NOTHING, store.version)
        first = store.block * BLOCK_SIZE
        return ZooKeeperNode(first, first + BLOCK_SIZE - 1, node_id, store.version)

    def _rest(self) -> None:
        """Until the broker has nothing more to do of itself."""
        while any(self._act(rule) for rule in OF_ITSELF):
            pass

    def _act(self, rule: str) -> bool:
        """A rule of the world, if it is enabled."""
        try:
            self._world = self._model.rules[rule](self._k, self._world, BROKER)
        except Disabled:
            return False
        return True


# ZooKeeper


def awaited(wanted: ZooKeeperNode, look: Callable[[], ZooKeeperNode]) -> tuple[Any, Any]:
    """What the node is to say, and what it says, at the latest after NODE_TIMEOUT_S."""
    seen = poll(look, lambda node: node == wanted, NODE_TIMEOUT_S)
    return wanted._asdict(), seen._asdict()


@contextmanager
def watched(kafka: KafkaBroker) -> Iterator[Callable[[], ZooKeeperNode]]:
    """A look at the node of the broker's ZooKeeper. Raises BackendFailed."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise BackendFailed(
            "kazoo is missing, which reads ZooKeeper; type: pip install 'kafka-eos[zookeeper]'"
        ) from error
    assert kafka.zookeeper_address is not None
    client = KazooClient(hosts="{}:{}".format(*kafka.zookeeper_address), read_only=True)
    try:
        client.start()
        yield lambda: node_from(*client.get(NODE))
    except (KazooException, KazooTimeoutError) as error:
        raise BackendFailed(f"ZooKeeper does not tell of {NODE}: {error!r}") from error
    finally:
        client.stop()
        client.close()


def node_from(data: bytes | None, stat: Any) -> ZooKeeperNode:
    """The node as it was read. Numbers of ids are texts there."""
    if not data:
        return ZooKeeperNode(*NOTHING, stat.version)
    value = json.loads(data)
    return ZooKeeperNode(
        int(value["block_start"]), int(value["block_end"]), value["broker"], stat.version
    )
