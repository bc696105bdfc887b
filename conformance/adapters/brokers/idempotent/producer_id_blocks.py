"""Compares a broker that uses ZooKeeper with the model of producer id blocks.

The broker is stopped, killed, and asked for ids in between. Each id must be the model's.
ZooKeeper's node for the latest block must have the content of the model's store, as soon as a
prefetched block has been written.

Theory of operation. With one broker as ZooKeeper's only client, the model leaves open only when a
block is fetched; it is fetched in the end. So the model runs until it has no step left of its own,
and the test waits for the node for a bounded time.
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
"""More blocks, requests and restarts than the test has."""
NO_BLOCK: Final = -1
BROKER: Final = 0
"""The model's number of the one broker."""

OF_ITSELF: Final = ("block_turns_over", "block_is_wanted", "block_is_read", "block_is_written")
"""Steps that a broker takes by itself."""

ASKED: Final = (1, PREFETCH_AT - 1, 1, BLOCK_SIZE - PREFETCH_AT - 1, 1, 200)
"""The numbers of ids to ask for between two looks at the node: the first id, those up to the one at
which a broker prefetches, that one, the last of the block, and the first of the next block."""


class ZooKeeperNode(NamedTuple):
    """ZooKeeper's node: the ids of the latest block, the broker that took it, and how often the
    node was written."""

    block_start: int
    block_end: int
    broker: int
    version: int


NOTHING: Final = (-1, -1, -1)
"""The data of the node before a block was taken."""


def check_blocks(kafka: KafkaBroker) -> SideCheck:
    """Stop, kill and ask the broker; returns the first difference, if any. Raises BackendFailed."""
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
    """Pairs of the model's value and the observed one, for the node and for ids in turn."""
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
    """The model in Kafka's own numbers, with one broker, starting from the state in ZooKeeper."""

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
        """The broker restarts."""
        self._act("broker_restarts")
        self._rest()

    def ask(self, count: int) -> list[int]:
        """This many ids, given one after the other; a request that is refused is repeated."""
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
        """The content of the node in ZooKeeper."""
        store = self._world.store
        if store.block == NO_BLOCK:
            return ZooKeeperNode(*NOTHING, store.version)
        first = store.block * BLOCK_SIZE
        return ZooKeeperNode(first, first + BLOCK_SIZE - 1, node_id, store.version)

    def _rest(self) -> None:
        """Run until the broker has no step left of its own."""
        while any(self._act(rule) for rule in OF_ITSELF):
            pass

    def _act(self, rule: str) -> bool:
        """Apply a rule of the world, if it is enabled."""
        try:
            self._world = self._model.rules[rule](self._k, self._world, BROKER)
        except Disabled:
            return False
        return True


# ZooKeeper


def awaited(wanted: ZooKeeperNode, look: Callable[[], ZooKeeperNode]) -> tuple[Any, Any]:
    """The expected node, and the node read last, after at most NODE_TIMEOUT_S."""
    seen = poll(look, lambda node: node == wanted, NODE_TIMEOUT_S)
    return wanted._asdict(), seen._asdict()


@contextmanager
def watched(kafka: KafkaBroker) -> Iterator[Callable[[], ZooKeeperNode]]:
    """A function that reads the node in the broker's ZooKeeper. Raises BackendFailed."""
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
    """Parses the node. Its numbers of ids are strings."""
    if not data:
        return ZooKeeperNode(*NOTHING, stat.version)
    value = json.loads(data)
    return ZooKeeperNode(
        int(value["block_start"]), int(value["block_end"]), value["broker"], stat.version
    )
