"""`python -m conformance.adapters.brokers.served.commands CONTROL SEATS ...`: `kafka-eos serve`
with several nodes, which are stopped, started and moved by command.

CONTROL is the path of a socket. Each connection to it carries one command, a line of JSON. The
answer is `done` after the command, or the error that prevented it:

    ["stop", NODE]                      stop a node; its partitions have no leader
    ["start", NODE]                     start it; it leads its partitions again
    ["move", TOPIC, PARTITION, NODE]    another node leads a partition

SEATS, in JSON, names the leader of each topic before any node starts. Otherwise the first node
would lead all topics after a start, and send the markers of prepared transactions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from impl import Broker
from impl.broker import serve
from impl.broker.cluster import BrokerEndPoint, Cluster

NOWHERE: Final = ("", 0)
"""The address of a node that has not started."""


def seat(cluster: Cluster, seats: Mapping[str, int], nodes: int) -> None:
    """Let these nodes lead these topics. The first `nodes` start later, other nodes only by
    command: until then their partitions have no leader."""
    for node_id in set(seats.values()):
        cluster.register(BrokerEndPoint(node_id, *NOWHERE))
    for name, node_id in seats.items():
        topic = cluster.topics.get(name)
        for partition in range(len(topic.partitions) if topic else 0):
            cluster.move(name, partition, node_id)
    for node_id in sorted(set(seats.values()), reverse=True):
        if node_id > nodes:
            cluster.remove(node_id)
        else:
            del cluster.brokers[node_id]  # removing the node would take its partitions from it


async def do(broker: Broker, command: list[Any]) -> None:
    """Execute one command. Raises KeyError, ValueError, OSError."""
    name, *what = command
    if name == "stop":
        await broker.stop_node(*what, fail_over=False)
    elif name == "start":
        await broker.start_node(*what)
    else:
        {"move": broker.move_leader}[name](*what)


async def serve_by_command(broker: Broker, control: Path) -> None:
    """Serve until SIGINT or SIGTERM."""

    async def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await do(broker, json.loads(await reader.readline()))
            writer.write(b"done\n")
        except (LookupError, ValueError, OSError) as error:
            writer.write(f"{error!r}\n".encode())
        await writer.drain()
        writer.close()

    control.unlink(missing_ok=True)
    async with await asyncio.start_unix_server(obey, control):
        await serve.serve(broker)


def main() -> None:
    """Serve as the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("control", type=Path)
    parser.add_argument("seats", type=json.loads)
    serve.add_arguments(parser)
    options = parser.parse_args()
    broker = serve.broker_of(options)
    seat(broker.cluster, options.seats, options.nodes)
    asyncio.run(serve_by_command(broker, options.control))


if __name__ == "__main__":
    main()
