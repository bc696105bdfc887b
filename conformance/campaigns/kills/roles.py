"""The actions of a client until it is told to stop, the same for every library.

1. A library's error is written into the journal. If the client cannot continue, another client of
   the same name takes its place, which is also written.
2. If the commit of a transaction raised, it may be committed or not. If its commit was never
   called, it is not committed.
3. A consumer commits offsets only for records that it has written into the journal, and for
   partitions that it was not told to give up since.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from threading import Event, Semaphore, Thread
from typing import Any, Final, Protocol

from conformance.campaigns.kills.journal import EventJournal, checksum
from conformance.campaigns.kills.workload import (
    ABORTED_OF_TEN,
    CONSUMER_GROUP,
    GROUP,
    IDEMPOTENT,
    MEMBERS,
    OUTPUT_PARTITIONS,
    PARTITIONS,
    PROCESSING,
    RECORDS_IN_TRANSACTION,
    TOPIC,
    TRANSACTIONAL,
    Delivered,
    group_id,
    output_topic,
    transformed,
)

IN_FLIGHT: Final = 60
"""The most records of an idempotent producer in flight."""
BURST: Final = 5
PAUSE_S: Final = 0.3
"""The pause between bursts, and between transactions. The load is moderate, because most events of
interest are around kills."""
POLL_S: Final = 0.2
COMMIT_S: Final = 0.4
"""The interval between commits of a member."""
STAYS_S: Final = (4.0, 20.0)
"""The time for which a member stays in its group."""
ERROR_PAUSE_S: Final = 0.3

Told = Callable[[int | None, object], None]
"""Called with the offset of a record, or with None and the error."""


class LoadProducer(Protocol):
    """A library's producer; all calls wait, and raise the library's errors."""

    def send(self, topic: str, partition: int, value: str, told: Told) -> None:
        """Queue a record."""

    def flush(self) -> None:
        """Wait until each record is answered."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send_offsets(self, offsets: Mapping[int, int], consumer: Any) -> None:
        """Add the offsets of a `LoadConsumer` to the transaction."""

    def commit(self) -> None:
        """Commit it."""

    def abort(self) -> None:
        """Abort it."""

    def close(self) -> None:
        """Close."""


class LoadConsumer(Protocol):
    """A library's consumer, a member of a group."""

    def poll(self, timeout_s: float) -> Sequence[Delivered]:
        """The records that are available, or arrive in time."""

    def assignment(self) -> Iterable[int]:
        """The partitions that are assigned to it."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets by partition, and wait for the answer."""

    def seek(self, partition: int, offset: int) -> None:
        """Read this partition from this offset on."""

    def close(self) -> None:
        """Leave, and close."""


class ClientLibrary(Protocol):
    """Makes clients; both calls wait until the client is ready, and raise the library's errors."""

    def producer(self, transactional_id: str | None) -> LoadProducer:
        """An idempotent producer, or one with a transactional id."""

    def consumer(self, group: str, protocol: str, on_change: Callable[[], None]) -> LoadConsumer:
        """A member that reads the topic. `on_change` is called when it must give up partitions, and
        when it receives some. `protocol` is the setting `group.protocol`."""


class Load:
    """One client process: its name, its library, its journal, and when it stops."""

    def __init__(
        self,
        library: ClientLibrary,
        names: tuple[str, str],
        session: int,
        journal: EventJournal,
        stopped: Event,
    ) -> None:
        self.library = library
        self.library_name, self.role = names
        self.session = session
        self.journal = journal
        self.stopped = stopped
        self.draw = random.Random(f"{names}{session}")

    def run(self) -> None:
        """Play the role. Returns when it is told to stop."""
        ROLES[self.role](self)

    def instance_name(self, instance: int) -> str:
        """The name of one producer."""
        return f"{self.library_name}/{self.role}/{self.session}.{instance}"

    def fail(self, what: str, error: BaseException) -> None:
        """Write an error, and wait a little."""
        self.journal.write("error", what, repr(error)[:300])
        self.stopped.wait(ERROR_PAUSE_S)

    def close(self, client: LoadProducer | LoadConsumer | None, what: str) -> None:
        """Close a client, and ignore its errors."""
        try:
            if client is not None:
                client.close()
        except Exception as error:
            self.fail(f"close {what}", error)
        if not self.stopped.is_set():
            self.journal.write("replaced", what)


# ---- an idempotent producer


def send_records(load: Load) -> None:
    """Send record after record, several batches in flight."""
    for instance in count():
        if load.stopped.is_set():
            return
        producer = None
        try:
            producer = load.library.producer(None)
            load.journal.write("started", "producer")
            _send_until_refused(load, producer, load.instance_name(instance))
            producer.flush()
        except Exception as error:
            load.fail("idempotent producer", error)
        load.close(producer, "producer")


def _send_until_refused(load: Load, producer: LoadProducer, name: str) -> None:
    """Send records. Raises what the library raises; returns at the first refused record."""
    room, refused = Semaphore(IN_FLIGHT), Event()
    for number in count():
        if load.stopped.is_set() or refused.is_set():
            return
        value, partition = f"{name}/{number}", number % PARTITIONS

        def told(
            offset: int | None, error: object, value: str = value, partition: int = partition
        ) -> None:
            if offset is None:
                load.journal.write("refused", value, repr(error)[:300])
                refused.set()
            else:
                load.journal.write("ack", TOPIC, partition, offset, value)
            room.release()

        while not room.acquire(timeout=POLL_S):
            if load.stopped.is_set() or refused.is_set():
                return
        producer.send(TOPIC, partition, value, told)
        if number % BURST == 0:
            load.stopped.wait(PAUSE_S)


# ---- a transactional producer


def transact(load: Load) -> None:
    """Run transaction after transaction; some are aborted."""
    for instance in count():
        if load.stopped.is_set():
            return
        producer = None
        try:
            producer = load.library.producer(f"{load.library_name}-{load.role}")
            load.journal.write("started", "producer")
            for number in count():
                if load.stopped.is_set():
                    break
                name = f"{load.instance_name(instance)}/{number}"
                _transact_once(load, producer, name, number)
                load.stopped.wait(PAUSE_S)
        except Exception as error:
            load.fail("transactional producer", error)
        load.close(producer, "producer")


def _transact_once(load: Load, producer: LoadProducer, name: str, number: int) -> None:
    """Run one transaction. Raises what the library raises if this producer cannot continue."""
    values = [
        (TOPIC, (number + place) % PARTITIONS, f"{name}.{place}")
        for place in range(RECORDS_IN_TRANSACTION)
    ]
    commits = load.draw.randrange(10) >= ABORTED_OF_TEN
    write_in_transaction(load, producer, name, values, commits=commits)


def write_in_transaction(
    load: Load,
    producer: LoadProducer,
    name: str,
    values: Sequence[tuple[str, int, str]],
    *,
    commits: bool = True,
    before_end: Callable[[], None] = lambda: None,
) -> bool:
    """Write values (topic, partition, value) in one transaction.

    Returns False if it was aborted because of an error. Raises if the abort did not succeed either.
    """
    load.journal.write("begin", name)
    try:
        producer.begin()
        for topic, partition, value in values:
            producer.send(topic, partition, value, _acknowledge(load, topic, partition, value))
        before_end()
        if commits:
            load.journal.write("committing", name)
            producer.commit()
            load.journal.write("committed", name)
            return True
    except Exception as error:
        load.fail("transaction", error)
        load.journal.write("aborting", name)
        producer.abort()
        load.journal.write("aborted", name)
        return False
    load.journal.write("aborting", name)
    producer.abort()
    load.journal.write("aborted", name)
    return True


def _acknowledge(load: Load, topic: str, partition: int, value: str) -> Told:
    def told(offset: int | None, error: object) -> None:
        if offset is not None:
            load.journal.write("ack", topic, partition, offset, value)

    return told


# ---- members of a group


def read_in_group(load: Load) -> None:
    """Two members, which leave and rejoin."""
    members = [Thread(target=_be_member, args=(load, number)) for number in range(MEMBERS)]
    for member in members:
        member.start()
    for member in members:
        while member.is_alive():
            member.join(POLL_S)


def _be_member(load: Load, number: int) -> None:
    draw = random.Random(f"{load.library_name}{load.session}{number}")
    while not load.stopped.is_set():
        reader = None
        try:
            reader = GroupReader(load)
            leaves = time.monotonic() + draw.uniform(*STAYS_S)
            while time.monotonic() < leaves and not load.stopped.is_set():
                reader.read()
                if reader.is_due:
                    reader.commit()
        except Exception as error:
            load.fail("consumer", error)
        load.close(reader.consumer if reader else None, "consumer")


class GroupReader:
    """A consumer, the positions that it may commit, and its journal."""

    def __init__(self, load: Load) -> None:
        """Raises what the library raises."""
        self._load = load
        self.group = group_id(load.library_name, load.role)
        protocol = "consumer" if load.role == CONSUMER_GROUP else "classic"
        self.positions: dict[int, int] = {}
        self._assigned: set[int] = set()
        self._committed_s = time.monotonic()
        self.consumer = load.library.consumer(self.group, protocol, self._forget)
        load.journal.write("started", "consumer")

    def _forget(self) -> None:
        self.positions = {}

    @property
    def is_due(self) -> bool:
        """Whether it is time to commit."""
        return bool(self.positions) and time.monotonic() - self._committed_s > COMMIT_S

    def read(self) -> Sequence[Delivered]:
        """Poll once. Raises what the library raises."""
        records = self.consumer.poll(POLL_S)
        assigned = set(self.consumer.assignment())
        if assigned != self._assigned:
            self._assigned = assigned
            self._load.journal.write("assigned", sorted(assigned))
        by_partition = defaultdict[int, list[Delivered]](list)
        for record in records:
            by_partition[record.partition].append(record)
        for partition, found in by_partition.items():
            places = found[0].offset, found[-1].offset, len(found)
            total = checksum(record.value for record in found)
            self._load.journal.write("read", self.group, partition, *places, total)
            self.positions[partition] = found[-1].offset + 1
        return records

    def commit(self) -> None:
        """Commit the offsets that were read. A refusal is written: the group may have moved on."""
        offsets = dict(self.positions)
        self._committed_s = time.monotonic()
        self._load.journal.write("commit", self.group, offsets)
        try:
            self.consumer.commit(offsets)
        except Exception as error:
            self._load.fail("commit", error)
            return
        self._load.journal.write("commit_done", self.group, offsets)


# ---- consume, transform, produce


def process(load: Load) -> None:
    """Read committed records, write a result for each, and commit both in one transaction."""
    for instance in count():
        if load.stopped.is_set():
            return
        producer = reader = None
        try:
            producer = load.library.producer(f"{load.library_name}-{load.role}")
            load.journal.write("started", "producer")
            reader = GroupReader(load)
            for number in count():
                if load.stopped.is_set():
                    break
                records = reader.read()
                if records:
                    name = f"{load.instance_name(instance)}/{number}"
                    _process_once(load, producer, reader, name, records)
        except Exception as error:
            load.fail("processing", error)
        load.close(reader.consumer if reader else None, "consumer")
        load.close(producer, "producer")


def _process_once(
    load: Load, producer: LoadProducer, reader: GroupReader, name: str, records: Sequence[Delivered]
) -> None:
    topic = output_topic(load.library_name)
    values = [
        (topic, record.partition % OUTPUT_PARTITIONS, transformed(record)) for record in records
    ]
    offsets = {record.partition: record.offset + 1 for record in records}

    def send_offsets() -> None:
        load.journal.write("commit", reader.group, offsets)
        producer.send_offsets(offsets, reader.consumer)

    if not write_in_transaction(load, producer, name, values, before_end=send_offsets):
        for record in reversed(records):
            reader.consumer.seek(record.partition, record.offset)


ROLES: Final[Mapping[str, Callable[[Load], None]]] = {
    IDEMPOTENT: send_records,
    TRANSACTIONAL: transact,
    GROUP: read_in_group,
    CONSUMER_GROUP: read_in_group,
    PROCESSING: process,
}
