"""Fetches from all leaders at the same time, ahead of what the application takes.

1. A leader has at most one Fetch in flight, for all assigned partitions that it leads. It is asked
   again while at most one of its answers waits to be taken; also for partitions that are wanted
   alone, when none of theirs waits. Of a partition at most two answers wait.
2. Records are delivered in the order in which answers arrived; a position moves when they are
   taken.
3. What was fetched for a position that has changed since is dropped.
4. An error of a Fetch, or of its records, is raised once, when nothing is left to take; the
   partition is asked again after it.
5. A Fetch asks for topics by their ids, if the cluster knows these: the topic that is created again
   with the name of a deleted one is not read from the old position (KIP-516).
6. A Fetch names the leader's epoch. After a change of leader a position is validated before
   anything is fetched there (KIP-320, `PositionValidator`).
7. A leader may send the consumer to a replica of its rack, for a while (KIP-392).

Source: `Fetcher`, `AbstractFetch`, `FetchBuffer` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NamedTuple

from impl.client.arguments import check_boolean, check_callable, check_integer, check_text
from impl.client.connection import Body
from impl.consumer.assigned_partition import AssignedPartition, LogEnds
from impl.consumer.consumer_record import PLAIN_DECODING, ConsumerRecord, Decoding
from impl.consumer.consumer_requests import ConsumerRequests, RetriableError
from impl.consumer.errors import LogTruncationError, OffsetOutOfRangeError
from impl.consumer.fetched import FetchedPartition
from impl.consumer.position_validator import PositionValidator
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation, TopicPartition, topic_rows
from impl.protocol.schemas import ApiKey

MAX_WAITING_ANSWERS: Final = 2
"""Of each leader: one that is being taken, one that is ready."""


class FetchSettings(NamedTuple):
    """As the arguments of `Consumer`: times in ms, sizes in bytes."""

    isolation_level: Isolation
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    metadata_max_age_ms: int
    client_rack: str | None = None
    decoding: Decoding = PLAIN_DECODING

    def check(self) -> None:
        """Raises `InvalidArgumentError`."""
        for name in _INTEGERS:
            check_integer(name, getattr(self, name))
        if self.client_rack is not None:
            check_text("client_rack", self.client_rack)
        check_boolean("check_crcs", self.decoding.check_crcs)
        check_callable("key_deserializer", self.decoding.key_deserializer)
        check_callable("value_deserializer", self.decoding.value_deserializer)


_INTEGERS: Final = (
    "fetch_max_wait_ms",
    "fetch_min_bytes",
    "fetch_max_bytes",
    "max_partition_fetch_bytes",
    "metadata_max_age_ms",
)


class _Answer:
    """What one Fetch answer has left to deliver."""

    __slots__ = ("node_id", "parts")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.parts: deque[tuple[AssignedPartition, FetchedPartition]] = deque()

    def has_any(self, wanted: Collection[TopicPartition]) -> bool:
        """Whether it has something of these partitions; of any, if none is named."""
        return not wanted or any(part.place in wanted for part, _ in self.parts)


class Fetcher:
    """The assigned partitions of a consumer, and what was fetched of them.

    Read-only: `assigned`; `paused`, those of them that are neither fetched nor delivered;
    `log_ends` of those that were fetched; `may_ask`, whether `send_fetches` may find a leader to
    ask; and, since the start, `fetches`, `fetched_bytes`, `taken_records`.
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
        self._validator = PositionValidator(requests, reset_position)
        self._answers: deque[_Answer] = deque()
        self._in_flight: set[int] = set()
        self._failures: dict[TopicPartition | int, Exception] = {}
        self._arrived = asyncio.Event()
        self.may_ask = True
        self.assigned: dict[TopicPartition, AssignedPartition] = {}
        self.paused: set[TopicPartition] = set()
        self.log_ends: dict[TopicPartition, LogEnds] = {}
        self.fetches = self.fetched_bytes = self.taken_records = 0

    # ---- assignment

    def assign(self, places: Iterable[TopicPartition]) -> None:
        """Replace the assignment; positions are unknown, and nothing is paused."""
        self._answers.clear()
        self.assigned, self.paused = {}, set()
        self.reassign(places)

    def reassign(self, places: Iterable[TopicPartition]) -> None:
        """Replace the assignment; what stays goes on as before."""
        kept, self.assigned = self.assigned, {}
        for place in places:
            self.assigned[place] = kept.get(place) or AssignedPartition(place, None)
        self.paused &= self.assigned.keys()
        self.log_ends = {at: ends for at, ends in self.log_ends.items() if at in self.assigned}
        self._failures.clear()
        self.may_ask = True

    def seek(self, place: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Deliver from this offset on; `epoch` is that of the record before it, -1 if unknown."""
        self.assigned[place] = AssignedPartition(place, offset, epoch)
        self._failures.pop(place, None)
        self.may_ask = True

    def forget_topic(self, topic: str) -> None:
        """It was created again: positions, and what was fetched, are of records that are gone."""
        for place, part in self.assigned.items():
            if place[0] == topic:
                self.assigned[place] = part.of_new_topic()
                self.log_ends.pop(place, None)
                self._failures.pop(place, None)
        self.may_ask = True
        self.wake()

    def began_at(self, place: TopicPartition) -> int | None:
        """The position of the last assignment or `seek`; None if it is unknown, or not assigned."""
        part = self.assigned.get(place)
        return part.returned.begin if part is not None else None

    def pause(self, place: TopicPartition) -> None:
        """Neither fetch nor deliver this partition; what was fetched ahead is dropped."""
        self.paused.add(place)
        self.assigned[place] = self.assigned[place].fetched_again()

    def resume(self, place: TopicPartition) -> None:
        """Undo `pause`."""
        self.paused.discard(place)
        self.may_ask = True

    # ---- records

    def take(
        self, max_records: int | None, wanted: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records by partition, at most so many; of these partitions alone, if any."""
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = max_records
        at = 0
        while at < len(self._answers) and left != 0:
            answer = self._answers[at]
            left = self._take_from(answer, taken, left, wanted)
            if answer.parts:
                at += 1
            else:
                del self._answers[at]
                self.may_ask = True
        return taken

    def _take_from(
        self,
        answer: _Answer,
        taken: dict[TopicPartition, list[ConsumerRecord]],
        left: int | None,
        wanted: Collection[TopicPartition],
    ) -> int | None:
        """Take of one answer; how many records are left to take."""
        at = 0
        while at < len(answer.parts) and left != 0:
            part, fetched = answer.parts[at]
            if wanted and part.place not in wanted:
                at += 1
                continue
            if self.assigned.get(part.place) is part:
                records = fetched.take(left)
                part.deliver_to(fetched.next_offset, fetched.next_epoch)
                if records:
                    self.taken_records += len(records)
                    part.returned.return_to(records[-1].offset + 1)
                    taken.setdefault(part.place, []).extend(records)
                left = None if left is None else left - len(records)
                if not fetched.is_empty:
                    continue
                if fetched.error is not None:
                    self._failures[part.place] = fetched.error
                    self.assigned[part.place] = part.fetched_again()
            part.waiting -= 1
            del answer.parts[at]
        return left

    def wake(self) -> None:
        """End the current `wait`."""
        self._arrived.set()

    def raise_failure(self) -> None:
        """Raise the first error of a Fetch or of its records that was not raised yet."""
        if self._failures:
            raise self._failures.pop(next(iter(self._failures)))

    async def wait(self, timeout_s: float) -> None:
        """Wait for an answer, which may have no records. Raises as `raise_failure`."""
        self.raise_failure()
        self._arrived.clear()
        try:
            async with self._requests.cluster.clock.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return
        self.raise_failure()

    # ---- requests

    def send_fetches(self, wanted: Collection[TopicPartition] = ()) -> None:
        """Ask the leaders that may be asked. Raises `OSError` once the client is closed.

        `wanted` are the partitions that the application waits for, if not for all.
        """
        self.may_ask = False
        by_node: dict[int, list[AssignedPartition]] = {}
        for part in self.assigned.values():
            can_be_asked = part.position is not None and part.waiting < MAX_WAITING_ANSWERS
            if can_be_asked and part.place not in self.paused:
                by_node.setdefault(self._node_of(part), []).append(part)
        for node_id, parts in by_node.items():
            answers = (answer for answer in self._answers if answer.node_id == node_id)
            waiting = sum(answer.has_any(wanted) for answer in answers)
            if node_id not in self._in_flight and waiting < MAX_WAITING_ANSWERS:
                self._requests.cluster.start_task(self._fetch(node_id, parts))
                self._in_flight.add(node_id)

    def _node_of(self, part: AssignedPartition) -> int:
        """The replica that its leader has named, or the leader; -1 for none."""
        nearest = part.nearest_replica(self._requests.cluster.clock.time_s())
        return self._requests.cluster.leaders.get(part.place, -1) if nearest is None else nearest

    async def _fetch(self, node_id: int, parts: list[AssignedPartition]) -> None:
        try:
            if node_id < 0:
                self._requests.raise_no_leader(parts[0].place)
            await self._fetch_once(node_id, await self._validate(parts))
        except (RetriableError, OSError):
            for part in parts:
                part.forget_replica()
            await self._requests.refresh()
        except Exception as error:
            self._failures[node_id] = error
        finally:
            self._in_flight.discard(node_id)
            self.may_ask = True
            self._arrived.set()

    async def _validate(self, parts: list[AssignedPartition]) -> list[AssignedPartition]:
        """Those of them that can be fetched now. Raises as `ConsumerRequests`."""
        for part in [part for part in parts if self._validator.is_due(part)]:
            try:
                valid = await self._validator.validate(part)
            except LogTruncationError as error:
                self._failures[part.place] = error
                continue
            if self.assigned.get(part.place) is part:
                self.assigned[part.place] = valid
        return [
            part
            for part in parts
            if self.assigned.get(part.place) is part and not self._validator.is_due(part)
        ]

    async def _fetch_once(self, node_id: int, parts: list[AssignedPartition]) -> None:
        if not parts:
            return
        clock = self._requests.cluster.clock
        began_s = clock.time_s()
        connection = await self._requests.cluster.connect_node(node_id)
        self.fetches += 1
        topics = {part.place[0] for part in parts}
        answer = await self._requests.ask(
            connection, ApiKey.FETCH, self._body(parts), topics=topics
        )
        self._requests.check(answer["error_code"], "Fetch")
        if not await self._receive(node_id, parts, answer):
            # A broker may answer at once although it has nothing.
            early_s = began_s + self._settings.fetch_max_wait_ms / 1_000
            pause_s = early_s - clock.time_s()
            await clock.sleep(min(max(pause_s, 0.0), self._requests.backoff_s))

    def _body(self, parts: Iterable[AssignedPartition]) -> Body:
        settings = self._settings
        rows = (
            (
                part.place[0],
                {
                    "partition": part.place[1],
                    "current_leader_epoch": part.leader_epoch,
                    "fetch_offset": part.fetch_offset,
                    "partition_max_bytes": settings.max_partition_fetch_bytes,
                },
            )
            for part in parts
        )
        return {
            "max_wait_ms": settings.fetch_max_wait_ms,
            "min_bytes": settings.fetch_min_bytes,
            "max_bytes": settings.fetch_max_bytes,
            "isolation_level": settings.isolation_level,
            "topics": self._requests.with_ids(topic_rows(rows, name="topic"), name="topic"),
            "rack_id": settings.client_rack or "",
        }

    async def _receive(self, node_id: int, parts: Iterable[AssignedPartition], body: Body) -> bool:
        """Keep what was fetched; whether that is anything, or an error."""
        asked = {part.place: part for part in parts}
        answer = _Answer(node_id)
        refused = []
        is_redirected = False
        now_ms = self._requests.cluster.clock.wall_ms()
        for topic in body["responses"]:
            name = self._requests.name_of(topic, name="topic")
            for row in topic["partitions"]:
                part = asked.get((name, row["partition_index"]))
                if part is None or self.assigned.get(part.place) is not part:
                    continue
                if row["error_code"]:
                    refused.append((part, row["error_code"]))
                    continue
                self.log_ends[part.place] = LogEnds.of(row, now_ms)
                if row["preferred_read_replica"] >= 0:
                    is_redirected = True
                    self._read_elsewhere(part, row["preferred_read_replica"])
                elif row["records"]:
                    answer.parts.append((part, self._fetched(part, row)))
        if answer.parts:
            self._answers.append(answer)
            self._arrived.set()
        for part, error in refused:
            await self._process_error(part, error)
        return bool(answer.parts or refused or is_redirected)

    def _fetched(self, part: AssignedPartition, row: Body) -> FetchedPartition:
        assert part.fetch_offset is not None
        aborted = [
            (aborted["producer_id"], aborted["first_offset"])
            for aborted in row["aborted_transactions"] or ()
        ]
        fetched = FetchedPartition(
            part.place, row["records"], part.fetch_offset, aborted, self._settings.decoding
        )
        self.fetched_bytes += len(row["records"])
        part.fetch_to(fetched.end_offset, fetched.end_epoch)
        return fetched

    def _read_elsewhere(self, part: AssignedPartition, node_id: int) -> None:
        age_s = self._settings.metadata_max_age_ms / 1_000
        part.read_from(node_id, self._requests.cluster.clock.time_s() + age_s)

    async def _process_error(self, part: AssignedPartition, error: int) -> None:
        if error == ErrorCode.OFFSET_OUT_OF_RANGE and part.forget_replica():
            return  # the replica may lag: the leader decides
        if error != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._requests.check(error, f"Fetch of {part.place}")
        position = await self._reset_position(part.place)
        if position is None:
            problem = f"{part.place} does not have offset {part.fetch_offset}"
            raise OffsetOutOfRangeError(f"{problem}, and auto_offset_reset is none: seek one")
        if self.assigned.get(part.place) is part:
            self.seek(part.place, position)
