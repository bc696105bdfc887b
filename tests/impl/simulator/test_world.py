"""Nodes that come and go: what belongs to one life of a node does not reach the next."""

import asyncio

from impl.coordinator.config import TransactionConfig
from impl.coordinator.placement import partition_for
from impl.producer.producer import Producer
from impl.simulator import ClientHost, Faults, World

SLOW_MS = 500


def producer(world, name):
    network = ClientHost(world, name)
    settings = {"transactional_id": name, "linger_ms": 0}
    return Producer(world.bootstrap_servers, network=network, clock_ms=world.clock_ms, **settings)


def test_an_answer_to_a_stopped_node_does_not_reach_its_successor():
    """Node 1 sends node 2 a request and restarts; then it sends another request."""

    async def program(world):
        async with producer(world, "T1") as first, producer(world, "T3") as second:
            await first.partitions_for("t")
            await first.begin_transaction()
            lost = await first.send("t", b"a")
            await asyncio.sleep(0.1)
            world.stop_node(1)
            world.start_node(1)
            await second.partitions_for("u")
            assert world.cluster.topics.get("u").leader_ids == (1,)
            async with second.transaction():
                assert (await second.send_and_wait("u", b"b")).offset == 0
            await lost
            await first.commit_transaction()

    assert [partition_for(name, 2) for name in ("T1", "T3")] == [1, 1]
    faults = Faults(broker_delay_ms=(SLOW_MS, SLOW_MS))
    transactions = TransactionConfig(num_partitions=2)
    world = World(0, faults, nodes=2, transactions=transactions)

    async def stormy():
        world.begin_faults()
        await program(world)

    world.run(stormy)
