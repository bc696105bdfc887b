"""Fetches from all leaders at the same time, ahead of what the application takes.

1. A leader has at most one Fetch in flight, for all assigned partitions that it leads. It is asked
   again while at most one of its answers waits to be taken.
2. Records are delivered in the order in which answers arrived; a position moves when they are
   taken.
3. What was fetched for a position that has changed since is dropped.
4. An error of a Fetch, or of its records, is raised by the next `wait`; the partition is asked
   again after it.

Source: `Fetcher`, `AbstractFetch`, `FetchBuffer` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from impl.client.connection import Body
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.errors import OffsetOutOfRangeError
from impl.consumer.fetched import ConsumerRecord, FetchedPartition
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition, topic_rows
from impl.protocol.schemas import ApiKey

MAX_WAITING_ANSWERS: Final = 2
"""Of each leader: one that is being taken, one that is ready."""


class FetchSettings(NamedTuple):
    """Times in ms, sizes in bytes."""

    isolation_level: int
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int


class AssignedPartition:
    """An assigned partition at one position; `assign` and `seek` replace it.

    `position`: the next record to deliver, None if unknown. `fetch_offset`: the next to fetch.
    """

    __slots__ = ("fetch_offset", "place", "position")

    def __init__(self, place: TopicPartition, position: int | None) -> None:
        self.place = place
        self.position = position
        self.fetch_offset = position

    def set_position(self, position: int) -> None:
        """Deliver and fetch from here on."""
        self.position = self.fetch_offset = position


class _Answer:
    """What one Fetch answer has left to deliver."""

    __slots__ = ("node_id", "parts")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.parts: deque[tuple[AssignedPartition, FetchedPartition]] = deque()


class Fetcher:
    """The assigned partitions of a consumer, and what was fetched of them.

    Read-only: `assigned`; `paused`, those of them that are neither fetched nor delivered;
    `may_ask`, whether `send_fetches` may find a leader to ask.
    """

    def __init__(
        self,
        requests: ConsumerRequests,
        settings: FetchSettings,
        reset_position: Callable[[TopicPartition], Awaitable[int | None]],
    ) -> None:
        """`reset_position` finds where to go on after OFFSET_OUT_OF_RANGE; None for nowhere."""
        self._requests = requests
        self._settings = settings
        self._reset_position = reset_position
        self._answers: deque[_Answer] = deque()
        self._in_flight: set[int] = set()
        self._failures: deque[Exception] = deque()
        self._arrived = asyncio.Event()
        self.may_ask = True
        self.assigned: dict[TopicPartition, AssignedPartition] = {}
        self.paused: set[TopicPartition] = set()

    def assign(self, places: Iterable[TopicPartition]) -> None:
        """Replace the assignment; positions are unknown, and nothing is paused."""
        self.assigned = {place: AssignedPartition(place, None) for place in places}
        self.paused = set()
        self._answers.clear()
        self._failures.clear()
        self.may_ask = True

    def reassign(self, places: Iterable[TopicPartition]) -> None:
        """Replace the assignment; what stays goes on as before."""
        kept, self.assigned = self.assigned, {}
        for place in places:
            self.assigned[place] = kept.get(place) or AssignedPartition(place, None)
        self.paused &= self.assigned.keys()
        self.may_ask = True

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Deliver from this offset on."""
        self.assigned[place] = AssignedPartition(place, offset)
        self.may_ask = True

    def pause(self, place: TopicPartition) -> None:
        """Neither fetch nor deliver this partition; what was fetched ahead is dropped."""
        self.paused.add(place)
        self.assigned[place] = AssignedPartition(place, self.assigned[place].position)

    def resume(self, place: TopicPartition) -> None:
        """Undo `pause`."""
        self.paused.discard(place)
        self.may_ask = True

    # ---- records

    def take(self, max_records: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records by partition, at most so many."""
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = max_records
        while self._answers and left != 0:
            answer = self._answers[0]
            if not answer.parts:
                self._answers.popleft()
                self.may_ask = True
                continue
            part, fetched = answer.parts[0]
            if self.assigned.get(part.place) is part:
                records = fetched.take(left)
                part.position = fetched.next_offset
                if records:
                    taken.setdefault(part.place, []).extend(records)
                left = None if left is None else left - len(records)
                if not fetched.is_empty:
                    continue
                if fetched.error is not None:
                    self._failures.append(fetched.error)
                    self.seek(part.place, part.position)
            answer.parts.popleft()
        return taken

    def wake(self) -> None:
        """End the current `wait`."""
        self._arrived.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for an answer, which may have no records. Raises the error of a Fetch."""
        if not self._failures:
            self._arrived.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                return
        if self._failures:
            raise self._failures.popleft()

    # ---- requests

    def send_fetches(self) -> None:
        """Ask the leaders that may be asked. Raises `OSError` once the client is closed."""
        self.may_ask = False
        by_leader: dict[int, list[AssignedPartition]] = {}
        leaders = self._requests.cluster.leaders
        for part in self.assigned.values():
            if part.position is not None and part.place not in self.paused:
                by_leader.setdefault(leaders.get(part.place, -1), []).append(part)
        for node_id, parts in by_leader.items():
            waiting = sum(answer.node_id == node_id for answer in self._answers)
            if node_id not in self._in_flight and waiting < MAX_WAITING_ANSWERS:
                self._requests.cluster.start_task(self._fetch(node_id, parts))
                self._in_flight.add(node_id)

    async def _fetch(self, node_id: int, parts: list[AssignedPartition]) -> None:
        try:
            if node_id < 0:
                self._requests.raise_no_leader(parts[0].place)
            await self._fetch_once(node_id, parts)
        except (RetriableError, OSError):
            await self._requests.refresh()
        except Exception as error:
            self._failures.append(error)
        finally:
            self._in_flight.discard(node_id)
            self.may_ask = True
            self._arrived.set()

    async def _fetch_once(self, node_id: int, parts: list[AssignedPartition]) -> None:
        began_s = asyncio.get_running_loop().time()
        connection = await self._requests.cluster.connect_node(node_id)
        answer = await self._requests.ask(connection, ApiKey.FETCH, self._body(parts))
        self._requests.check(answer["error_code"], "Fetch")
        if not await self._receive(node_id, parts, answer):
            # A broker may answer at once although it has nothing.
            early_s = began_s + self._settings.max_wait_ms / 1_000
            pause_s = early_s - asyncio.get_running_loop().time()
            await asyncio.sleep(min(max(pause_s, 0.0), self._requests.backoff_s))

    def _body(self, parts: Iterable[AssignedPartition]) -> Body:
        rows = (
            (
                part.place[0],
                {
                    "partition": part.place[1],
                    "fetch_offset": part.fetch_offset,
                    "partition_max_bytes": self._settings.partition_max_bytes,
                },
            )
            for part in parts
        )
        return {
            "max_wait_ms": self._settings.max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._settings.max_bytes,
            "isolation_level": self._settings.isolation_level,
            "topics": topic_rows(rows, name="topic"),
        }

    async def _receive(self, node_id: int, parts: Iterable[AssignedPartition], body: Body) -> bool:
        """Keep what was fetched; whether that is anything, or an error."""
        asked = {part.place: part for part in parts}
        answer = _Answer(node_id)
        refused = []
        for topic in body["responses"]:
            for row in topic["partitions"]:
                part = asked.get((topic["topic"], row["partition_index"]))
                if part is None or self.assigned.get(part.place) is not part:
                    continue
                if row["error_code"]:
                    refused.append((part, row["error_code"]))
                elif row["records"]:
                    answer.parts.append((part, self._fetched(part, row)))
        if answer.parts:
            self._answers.append(answer)
            self._arrived.set()
        for part, error in refused:
            await self._process_error(part, error)
        return bool(answer.parts or refused)

    def _fetched(self, part: AssignedPartition, row: Body) -> FetchedPartition:
        assert part.fetch_offset is not None
        aborted = [
            (aborted["producer_id"], aborted["first_offset"])
            for aborted in row["aborted_transactions"] or ()
        ]
        fetched = FetchedPartition(part.place, row["records"], part.fetch_offset, aborted)
        part.fetch_offset = fetched.end_offset
        return fetched

    async def _process_error(self, part: AssignedPartition, error: int) -> None:
        if error != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._requests.check(error, f"Fetch of {part.place}")
        position = await self._reset_position(part.place)
        if position is None:
            problem = f"{part.place} does not have offset {part.fetch_offset}"
            raise OffsetOutOfRangeError(f"{problem}, and auto_offset_reset is none: seek one")
        if self.assigned.get(part.place) is part:
            self.seek(part.place, position)
