"""Consume, transform, produce: what an aborted transaction took back is read again, or is missed
with an error."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from impl.client.errors import IllegalStateError
from impl.consumer.consumer import Consumer
from impl.producer.errors import SkippedRecordsError, TransactionAbortableError
from impl.producer.producer import Producer
from tests.impl.consumer.test_consumer import T, consumer, in_a_world, producer, write

READING = {"group_id": "g", "enable_auto_commit": False, "isolation_level": "read_committed"}


class TillClosed(Exception):
    """What the application raises in a transaction."""


async def copy(p: Producer, c: Consumer, records: Mapping[Any, Any], fails: bool = False) -> None:
    """One round of the textbook's loop, after its poll."""
    async with p.transaction():
        for place, found in records.items():
            for record in found:
                await p.send("copies", record.value)
            if fails:
                raise TillClosed
            await p.send_offsets_to_transaction({place: found[-1].offset + 1}, c.group_metadata())


async def poll(c: Consumer, most: int = 3) -> Mapping[Any, Any]:
    found: Mapping[Any, Any] = {}
    while not found:
        found = await c.getmany(timeout_ms=500, max_records=most)
    return found


async def copies(world: Any) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with consumer(world, isolation_level="read_committed") as c:
        c.assign([("copies", 0)])
        end = (await c.end_offsets([("copies", 0)]))["copies", 0]
        while await c.position(("copies", 0)) < end:
            for records in (await c.getmany(timeout_ms=100)).values():
                values += [record.value for record in records]
    return values


@pytest.mark.parametrize("committed_before", [0, 1])
def test_the_loop_that_seeks_to_committed_copies_each_record_once(committed_before: int) -> None:
    """Also before the group has committed anything."""

    async def program(world: Any) -> None:
        await write(world, 9)
        async with consumer(world, **READING) as c, producer(world, transactional_id="x") as p:
            c.assign([T])
            for number in range(4 + committed_before):
                try:
                    await copy(p, c, await poll(c), fails=number == committed_before)
                except TillClosed:
                    await c.seek_to_committed()
                if await c.position(T) == 9:
                    break
            assert await copies(world) == [b"%d" % number for number in range(9)]

    in_a_world(program)


@pytest.mark.parametrize("committed_before", [0, 1])
def test_who_reads_on_after_an_abort_is_told_what_would_be_skipped(committed_before: int) -> None:
    async def program(world: Any) -> None:
        await write(world, 9)
        async with consumer(world, **READING) as c, producer(world, transactional_id="x") as p:
            c.assign([T])
            for _ in range(committed_before):
                await copy(p, c, await poll(c))
            with suppress(TillClosed):
                await copy(p, c, await poll(c), fails=True)
            begin = 3 * committed_before
            for _ in range(2):  # and again, as long as nothing is done
                with pytest.raises(SkippedRecordsError, match="seek_to_committed") as told:
                    await copy(p, c, await poll(c, most=1))
                found = told.value.partition, told.value.begin, told.value.end
                assert found == (T, begin, begin + 3)
                assert told.value.legal_calls == ("begin_transaction", "stop")
            await c.seek_to_committed()
            await copy(p, c, await poll(c, most=9))
            assert await copies(world) == [b"%d" % number for number in range(9)]

    in_a_world(program)


def test_an_application_may_send_again_what_it_has_kept() -> None:
    """Nothing is read after the abort, or what was read before it is committed first."""

    async def program(world: Any) -> None:
        await write(world, 9)
        async with consumer(world, **READING) as c, producer(world, transactional_id="x") as p:
            c.assign([T])
            kept = await poll(c)
            with suppress(TillClosed):
                await copy(p, c, kept, fails=True)
            more = await poll(c)
            await copy(p, c, kept)
            await copy(p, c, more)
            await copy(p, c, await poll(c))
            assert await copies(world) == [b"%d" % number for number in range(9)]

    in_a_world(program)


def test_who_seeks_has_said_where_to_go_on() -> None:
    async def program(world: Any) -> None:
        await write(world, 9)
        async with consumer(world, **READING) as c, producer(world, transactional_id="x") as p:
            c.assign([T])
            with suppress(TillClosed):
                await copy(p, c, await poll(c), fails=True)
            c.seek(T, await c.position(T))
            await copy(p, c, await poll(c, most=9))
            assert await copies(world) == [b"%d" % number for number in range(3, 9)]

    in_a_world(program)


def test_aborts_of_other_producers_concern_nobody() -> None:
    """A transaction of several polls goes on beside them; records of transactions are followed by
    markers, which no offset that is committed counts."""

    async def program(world: Any) -> None:
        async with (
            consumer(world, **READING) as c,
            producer(world, transactional_id="x") as p,
            producer(world, transactional_id="y") as other,
        ):
            c.assign([T])
            for _ in range(3):
                async with other.transaction():
                    await other.send("t", b"v")
                polled = await poll(c)
                await other.begin_transaction()
                await other.abort_transaction()
                async with p.transaction():
                    await p.send_offsets_to_transaction(
                        {T: polled[T][-1].offset + 1}, c.group_metadata()
                    )
                await p.begin_transaction()  # of a poll without records
                await p.abort_transaction()
            assert await c.committed(T) == 5

    in_a_world(program)


def test_a_pause_and_another_producer_forget_nothing() -> None:
    async def program(world: Any) -> None:
        await write(world, 9)
        async with consumer(world, **READING) as c:
            c.assign([T])
            async with producer(world, transactional_id="x") as p:
                await copy(p, c, await poll(c))
                await p.begin_transaction()
                for record in (await poll(c))[T]:
                    await p.send("copies", record.value)
            c.pause(T)
            c.resume(T)
            async with producer(world, transactional_id="x") as p:
                with pytest.raises(SkippedRecordsError):
                    await copy(p, c, await poll(c))

    in_a_world(program)


def test_a_transaction_whose_offsets_are_refused_cannot_be_committed() -> None:
    async def program(world: Any) -> None:
        await write(world, 9)
        async with consumer(world, **READING) as c, producer(world, transactional_id="x") as p:
            c.assign([T])
            with suppress(TillClosed):
                await copy(p, c, await poll(c), fails=True)
            await poll(c)
            await p.begin_transaction()
            with pytest.raises(SkippedRecordsError) as told:
                await p.send_offsets_to_transaction({T: 6}, c.group_metadata())
            assert told.value.legal_calls == ("abort_transaction", "stop")
            with pytest.raises(TransactionAbortableError, match="seek_to_committed"):
                await p.commit_transaction()

    in_a_world(program)


def test_a_consumer_that_commits_by_itself_is_refused() -> None:
    """It would commit the positions of transactions that are aborted, too."""

    async def program(world: Any) -> None:
        settings = READING | {"enable_auto_commit": True}
        async with consumer(world, **settings) as c, producer(world, transactional_id="x") as p:
            c.assign([T])
            await p.begin_transaction()
            with pytest.raises(IllegalStateError, match="enable_auto_commit=False"):
                await p.send_offsets_to_transaction({T: 1}, c.group_metadata())

    in_a_world(program)


def test_a_copy_of_the_metadata_is_of_no_consumer() -> None:
    async def program(world: Any) -> None:
        async with consumer(world, **READING) as c:
            metadata = c.group_metadata()
            for copied in (pickle.loads(pickle.dumps(metadata)), metadata._replace()):
                assert copied == metadata
                assert getattr(copied, "reader", None) is None

    in_a_world(program)
