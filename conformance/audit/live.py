"""Copies a cluster's topics as segments, by Fetch with read_uncommitted, so that control batches
come.

1. The copy of a partition ends at the high watermark of its first answer.
2. Internal topics come first. So a transaction that ends meanwhile is open in the coordinator's log
   and ended in its partitions, and never the other way round.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.audit.headers import walk
from conformance.audit.segments import no_such_topic
from impl.client.connection import Body, Connection
from impl.client.network_client import NetworkClient, UnsupportedClusterError
from impl.client.security import ClientSecurity
from impl.client.transport import AsyncioNetwork
from impl.consumer.consumer_requests import NEWEST_BY_NAME
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import whole_batches_end
from impl.protocol.schemas import ApiKey

REQUEST_TIMEOUT_MS: Final = 30_000
FETCH_BYTES: Final = 32 << 20
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
CONSUMER_REPLICA: Final = -1

At = tuple[str, int]


class FetchRefused(Exception):
    """The cluster refuses a request; the message says which."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A cluster's address, the client's credentials, and an expression for the topics."""

    bootstrap_servers: str
    security: ClientSecurity
    topics: str | None


def check_cluster(cluster: LiveCluster) -> None:
    """Check that the cluster answers, and has topics with a matching name. Raises BadUse,
    FetchRefused, OSError."""
    asyncio.run(_check(cluster))


def copy_cluster(cluster: LiveCluster, directory: Path) -> None:
    """Copy topics with matching names into a log directory. Raises BadUse, FetchRefused,
    OSError."""
    asyncio.run(_copy(cluster, directory))


async def _check(cluster: LiveCluster) -> None:
    async with _client(cluster) as client:
        await find_topics(client, cluster.topics)


async def _copy(cluster: LiveCluster, directory: Path) -> None:
    async with _client(cluster) as client:
        for at in await find_topics(client, cluster.topics):
            await copy_partition(client, at, directory / f"{at[0]}-{at[1]}")


@asynccontextmanager
async def _client(cluster: LiveCluster) -> AsyncIterator[NetworkClient]:
    client = NetworkClient(
        AsyncioNetwork(cluster.security.context),
        cluster.bootstrap_servers,
        "kafka-eos-audit",
        REQUEST_TIMEOUT_MS,
        cluster.security,
    )
    try:
        await client.start()
        yield client
    except UnsupportedClusterError as error:
        raise FetchRefused(str(error)) from error
    finally:
        await client.close()


async def find_topics(client: NetworkClient, topics: str | None) -> Sequence[At]:
    """All partitions of topics with matching names, internal ones first. Raises BadUse, OSError."""
    connection = await client.any_connection()
    answer = await ask(
        client,
        connection,
        ApiKey.METADATA,
        {"topics": None, "allow_auto_topic_creation": False},
    )
    named = {row["name"]: row["is_internal"] for row in answer["topics"]}
    chosen = [name for name in named if topics is None or re.fullmatch(topics, name)]
    if not chosen:
        raise no_such_topic(topics, "the cluster", named)
    await client.refresh(chosen)
    ordered = sorted(chosen, key=lambda name: (not named[name], name))
    return [(name, index) for name in ordered for index in range(client.partitions[name])]


async def ask(client: NetworkClient, connection: Connection, api: ApiKey, body: Body) -> Body:
    """The answer to one request. Raises OSError."""
    async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1_000):
        version = min(client.version(api), NEWEST_BY_NAME.get(api, client.version(api)))
        return await connection.request(api, version, body)


async def copy_partition(client: NetworkClient, at: At, folder: Path) -> None:
    """Copy one partition, as one segment. Raises FetchRefused, OSError."""
    node_id = client.leaders.get(at, -1)
    if node_id < 0:
        raise FetchRefused(f"{at[0]}-{at[1]} has no leader; leave it out by --topics")
    connection = await client.connect_node(node_id)
    begin = await first_offset(client, connection, at)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{begin:020}.log").open("wb") as file:
        async for batches in fetch_all(client, connection, at, begin):
            file.write(batches)


async def first_offset(client: NetworkClient, connection: Connection, at: At) -> int:
    """The log start offset. Raises FetchRefused, OSError."""
    wanted = {"partition_index": at[1], "timestamp": EARLIEST}
    body = {
        "replica_id": CONSUMER_REPLICA,
        "isolation_level": READ_UNCOMMITTED,
        "topics": [{"name": at[0], "partitions": [wanted]}],
    }
    row = only_row((await ask(client, connection, ApiKey.LIST_OFFSETS, body))["topics"], at)
    offset: int = row["offset"]
    return offset


async def fetch_all(
    client: NetworkClient, connection: Connection, at: At, offset: int
) -> AsyncIterator[bytes]:
    """Whole batches from an offset to the high watermark of the first answer."""
    end: int | None = None
    while end is None or offset < end:
        body = fetch_request(at, offset)
        row = only_row((await ask(client, connection, ApiKey.FETCH, body))["responses"], at)
        end = row["high_watermark"] if end is None else end
        data: bytes = row["records"] or b""
        *_, size = walk(data)
        if size:
            yield data[:size]
            offset = whole_batches_end(data)
        elif offset < end:
            raise FetchRefused(f"{at[0]}-{at[1]}: nothing is at offset {offset}")


def fetch_request(at: At, offset: int) -> dict[str, Any]:
    """Fetch of one partition."""
    row = {"partition": at[1], "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": FETCH_BYTES,
        "isolation_level": READ_UNCOMMITTED,
        "topics": [{"topic": at[0], "partitions": [row]}],
    }


def only_row(topics: Iterable[Body], at: At) -> Body:
    """The answer's row of the one partition. Raises FetchRefused for an error."""
    row: Body
    [row] = [row for topic in topics for row in topic["partitions"]]
    error = ErrorCode.of(row["error_code"])
    if error is not ErrorCode.NONE:
        raise FetchRefused(f"{at[0]}-{at[1]}: {error.name}")
    return row
