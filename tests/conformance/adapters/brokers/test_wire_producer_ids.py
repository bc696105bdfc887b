"""Blocks of producer ids: the check against a broker played here, and bugs planted in it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.adapters.brokers.idempotent import producer_id_blocks as producer_ids
from conformance.adapters.brokers.idempotent.producer_id_blocks import (
    ASKED,
    NOTHING,
    Blocks,
    ZooKeeperNode,
    check_blocks,
    node_from,
)
from conformance.adapters.brokers.kafka.admin import ProducerIdentity
from conformance.judging.backend import BackendFailed

pytestmark = pytest.mark.fast

BLOCK = 1_000


@dataclass
class FakeKafka:
    """A broker of some release beside its ZooKeeper, that gives ids as the notes of it say."""

    name: str
    fetches_at: int | None
    """The index at which it fetches ahead; None: when a block is used up, or it begins."""
    used: int = 0
    first: int | None = None
    following: int | None = None
    latest: int = -1
    writes: int = 0
    planted: Callable[["FakeKafka"], None] = lambda _: None
    node: Any = field(default_factory=lambda: SimpleNamespace(node_id=1))

    def __post_init__(self) -> None:
        self.release = SimpleNamespace(name=self.name)
        self.zookeeper_address = ("127.0.0.1", 1)

    def stop(self) -> None:
        self.first, self.following, self.used = None, None, 0
        self.planted(self)

    kill = stop

    def start(self) -> None:
        if self.fetches_at is None:
            self.following = self.take()

    def take(self) -> int:
        self.latest += 1
        self.writes += 1
        return self.latest * BLOCK

    def give(self) -> int:
        if self.first is None or self.used == BLOCK:
            self.first = self.take() if self.following is None else self.following
            self.following, self.used = None, 0
        given = self.first + self.used
        if self.fetches_at == self.used:
            self.following = self.take()
        self.used += 1
        return given

    def look(self) -> ZooKeeperNode:
        start = self.latest * BLOCK
        return (
            ZooKeeperNode(start, start + BLOCK - 1, 1, self.writes)
            if self.writes
            else ZooKeeperNode(*NOTHING, 0)
        )

    @contextmanager
    def connect(self) -> Iterator["FakeKafka"]:
        yield self


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    @contextmanager
    def watched(kafka: FakeKafka) -> Iterator[Callable[[], ZooKeeperNode]]:
        yield kafka.look

    def init(kafka: FakeKafka, count: int) -> list[ProducerIdentity]:
        return [ProducerIdentity(kafka.give(), 0) for _ in range(count)]

    monkeypatch.setattr(producer_ids, "watched", watched)
    monkeypatch.setattr(producer_ids, "init_producer_ids", init)
    monkeypatch.setattr(producer_ids, "NODE_TIMEOUT_S", 0.0)


@pytest.mark.parametrize(
    ("release", "fetches_at"), [("3.9.2-zookeeper", 900), ("2.8.2", None), ("2.0.0", None)]
)
def test_a_broker_of_the_release_holds(release, fetches_at):
    check = check_blocks(FakeKafka(release, fetches_at, latest=4, writes=5))
    assert check.holds
    assert check.compared == 2 * (1 + 2 * len(ASKED))


def reused(kafka: FakeKafka) -> None:
    """A restart goes on in the block that it had."""
    kafka.latest -= 1


@pytest.mark.parametrize(
    ("release", "fetches_at", "planted"),
    [
        ("3.9.2-zookeeper", 901, lambda _: None),
        ("3.9.2-zookeeper", None, lambda _: None),
        ("2.8.2", 900, lambda _: None),
        ("2.8.2", None, reused),
    ],
)
def test_a_broker_that_takes_blocks_otherwise_is_found(release, fetches_at, planted):
    check = check_blocks(FakeKafka(release, fetches_at, latest=4, writes=5, planted=planted))
    assert not check.holds
    assert check.expected != check.observed


def test_ids_go_on_where_the_next_block_begins():
    blocks = Blocks("3.9.2-zookeeper", ZooKeeperNode(5_000, 5_999, 1, 7))
    blocks.restart()
    assert blocks.ask(2) == [6_000, 6_001]
    assert blocks.node(3) == ZooKeeperNode(6_000, 6_999, 3, 8)
    assert blocks.ask(1_000)[-1] == 7_001


def test_the_node_is_read_as_kafka_writes_it():
    stat = SimpleNamespace(version=3)
    value = {"version": 1, "broker": 2, "block_start": "1000", "block_end": "1999"}
    assert node_from(json.dumps(value).encode(), stat) == ZooKeeperNode(1_000, 1_999, 2, 3)
    assert node_from(b"", stat) == node_from(None, stat) == ZooKeeperNode(*NOTHING, 3)


def test_kazoo_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "kazoo.client", None)
    with pytest.raises(BackendFailed, match=r"pip install 'kafka-eos\[zookeeper\]'"):
        check_blocks(FakeKafka("2.8.2", None))
