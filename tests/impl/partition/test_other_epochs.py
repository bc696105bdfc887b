"""Batches of other epochs while a transaction of epoch 1 is open, as real brokers answered.

The leader and the coordinator of a release are one node, and the requests are those of a producer:
who is asked about a batch, and what a refusal leaves behind, differs by release.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest

from impl.coordinator.config import CONFIGS
from impl.partition.log_config import LogConfig
from impl.partition.rules import RULES
from impl.protocol.errors import ErrorCode
from tests.impl.broker.network import Network, Producer
from tests.impl.broker.transacting import ready, started

NONE = ErrorCode.NONE
BAD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
T0 = ("t", 0)


class Release(NamedTuple):
    """The rules of its leaders, those of its coordinators, and its newest Produce of V1."""

    rules: str
    config: str
    produce_version: int


RELEASES = {
    "3.3.2": Release("2.8", "2.6", 9),
    "3.9.2": Release("3.6", "3.8", 11),
    "4.0.2": Release("4.0", "4.0", 11),
    "4.1.2": Release("4.1", "4.1", 11),
}
V1 = tuple(RELEASES)
V2 = ("4.0.2", "4.1.2")


class Story:
    """Epoch 1 has a transaction open in t-0, with one batch of it stored."""

    def __init__(self, release: str, v2: bool) -> None:
        rules, config, version = RELEASES[release]
        self.version = 12 if v2 else version
        self.network: Network = started(
            log=LogConfig(rules=RULES[rules]),
            transactions=replace(CONFIGS[config], num_partitions=1),
        )
        self.producer: Producer = ready(self.network, v2=v2)
        assert self.producer.init() is NONE
        assert self.producer.epoch == 1
        if not v2:
            assert self.producer.add(T0) == [NONE]
        assert self.send(0) is NONE

    def send(self, sequence: int, epoch: int = 1) -> ErrorCode:
        self.producer.epoch = epoch
        (error,) = self.producer.produce(sequence, T0, version=self.version)
        self.producer.epoch = 1
        return error

    @property
    def stored(self) -> list[tuple[int, int]]:
        """Epoch and sequence of each batch in the log."""
        batches = self.network.leader(*T0).batches
        return [(batch.producer_epoch, batch.base_sequence) for batch in batches]


EVERY = [(name, False) for name in V1] + [(name, True) for name in V2]


@pytest.mark.parametrize(("release", "v2"), EVERY)
def test_a_late_batch_of_an_older_epoch_stops_the_open_transaction_in_4_0_alone(
    release: str, v2: bool
) -> None:
    story = Story(release, v2)
    assert story.send(0, epoch=0) is BAD_EPOCH
    is_stopped = release == "4.0.2"
    assert story.send(1) is (OUT_OF_ORDER if is_stopped else NONE)
    assert story.stored == ([(1, 0)] if is_stopped else [(1, 0), (1, 1)])


@pytest.mark.parametrize(("release", "v2"), EVERY)
def test_an_unassigned_newer_epoch_is_stored_before_4_0(release: str, v2: bool) -> None:
    """An open transaction vouches for any epoch there; since then the coordinator is asked."""
    story = Story(release, v2)
    is_stored = release in ("3.3.2", "3.9.2")
    assert story.send(0, epoch=2) is (NONE if is_stored else BAD_EPOCH)
    assert story.stored == ([(1, 0), (2, 0)] if is_stored else [(1, 0)])
