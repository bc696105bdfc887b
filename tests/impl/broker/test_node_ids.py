"""Nodes have the ids that are asked for: `node.id`, or `broker.id`, is that of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl import Broker
from impl.broker.durable_cluster import ForeignDirectory
from impl.settings import InvalidSetting


def ids_served(broker: Broker) -> list[int]:
    return sorted(broker.cluster.brokers)


def leaders(broker: Broker) -> tuple[int, ...]:
    topic = broker.cluster.topics.get("t")
    assert topic is not None
    return topic.leader_ids


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_the_first_node_has_the_id_of_the_setting(name: str) -> None:
    with Broker(nodes=3, topics={"t": 3}, settings={name: "7"}) as kafka:
        assert ids_served(kafka) == [7, 8, 9]
        assert sorted(leaders(kafka)) == [7, 8, 9]


def test_a_node_may_be_the_one_with_id_0() -> None:
    with Broker(settings={"node.id": "0"}) as kafka:
        assert ids_served(kafka) == [0]
        assert kafka.cluster.controller_id == 0


def test_a_negative_id_is_refused() -> None:
    with pytest.raises(InvalidSetting):
        Broker(settings={"node.id": "-1"})


def test_a_directory_is_served_by_the_node_whose_it_is(tmp_path: Path) -> None:
    with Broker(topics={"t": 1}, settings={"node.id": "7"}, directory=tmp_path):
        pass
    assert "node.id=7" in (tmp_path / "meta.properties").read_text()
    with pytest.raises(ForeignDirectory, match=r"of node 7.*node\.id=7"):
        Broker(directory=tmp_path)
    with Broker(settings={"node.id": "7"}, directory=tmp_path) as kafka:
        assert leaders(kafka) == (7,)
