"""Looks for the positions of assigned partitions, each by itself, while others are read.

1. A partition without a leader, or without an answer of its coordinator, holds no other one up.
2. Lookups that have just begun are waited for: one Fetch then asks for all partitions of a leader.
3. A failure is raised once, by the next call for records; the partition is looked up again then.

Source: `OffsetsRequestManager`, `SubscriptionState` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from typing import Final

from impl.client.network_client import NetworkClient
from impl.consumer.assigned_partition import AssignedPartition
from impl.consumer.fetcher import Fetcher
from impl.consumer.positions import Positions

PATIENCE_S: Final = 0.2
"""How long a call for records waits for lookups that it has begun."""


class UnknownPositions:
    """Those of one consumer."""

    def __init__(self, cluster: NetworkClient, positions: Positions, fetcher: Fetcher) -> None:
        self._cluster = cluster
        self._positions = positions
        self._fetcher = fetcher
        self._running: dict[AssignedPartition, asyncio.Task[None]] = {}
        self._failures: list[tuple[AssignedPartition, Exception]] = []

    async def find(self) -> None:
        """Look for all positions that are unknown; those that take long are not waited for.

        Raises what a lookup has raised whose partition has no position yet; `OSError` once the
        client is closed.
        """
        self._raise_failure()
        begun = [part for part in self._list() if part not in self._running]
        for part in begun:
            self._running[part] = self._cluster.start_task(self._find(part))
        if begun:
            tasks = [self._running[part] for part in begun]
            await self._cluster.clock.wait(tasks, PATIENCE_S)
            self._raise_failure()

    def _list(self) -> list[AssignedPartition]:
        return [part for part in self._fetcher.assigned.values() if part.position is None]

    def _raise_failure(self) -> None:
        failures, self._failures = self._failures, []
        unknown = set(self._list())
        for part, failure in failures:
            if part in unknown:
                raise failure

    async def _find(self, part: AssignedPartition) -> None:
        try:
            found = await self._positions.find(part)
            if part.position is None:
                part.set_position(found.offset, found.leader_epoch)
        except Exception as failure:
            self._failures.append((part, failure))
        finally:
            del self._running[part]
            self._fetcher.may_ask = True
            self._fetcher.wake()
