"""kafka-python.

Release 3.0.12 loses requests of transactions. `Sender._maybe_send_pending_request` takes a request
off its queue. If `await_ready` or `send` raises because the coordinator is gone, it does not put
the request back, because only `target_node is None` leads to `retry`. The call that waits for the
request has no time limit, and never returns. So each call has a limit here.

The library also reports a transaction as committed that the broker has aborted. If the broker ends
a transaction that takes too long, a batch is refused with INVALID_PRODUCER_EPOCH, and the producer
takes a new epoch. Then `TransactionManager.next_request_handler` finds no EndTxn to send, and
completes the waiting commit. The records' futures have failed, so `commit` checks them.

Refused offsets stay in `TransactionManager._pending_txn_offset_commits` when their transaction is
aborted. The next transaction would commit them, although the results for these records are missing.
So this producer begins no transaction after offsets were refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.transaction_manager import TransactionalRequestResult
from kafka.structs import OffsetAndMetadata

from conformance.campaigns.kills.roles import Told
from conformance.campaigns.kills.workload import (
    HEARTBEAT_INTERVAL_MS,
    MOST_RECORDS,
    SESSION_TIMEOUT_MS,
    TOPIC,
    TRANSACTION_TIMEOUT_MS,
    Delivered,
)

BACKOFF_MS = 100
RECONNECT_MS = 500
CLOSE_S = 10
WAIT_MS = 20_000
"""The longest wait for an answer: no broker is down for so long, and a transaction is aborted long
before."""


class LostRequest(Exception):
    """kafka-python has lost a request, and would wait for its answer for ever."""


class PendingOffsets(Exception):
    """kafka-python would commit offsets of an aborted transaction with the next one."""


class NotCommitted(Exception):
    """kafka-python reports a transaction as committed, and records of it as failed."""


class PythonProducer:
    """The `LoadProducer`."""

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        self._in_transaction = self._has_pending_offsets = False
        self._sent: list[FutureRecordMetadata] = []

    def send(self, topic: str, partition: int, value: str, told: Told) -> None:
        """`LoadProducer.send`."""
        sent = self._producer.send(topic, value.encode(), partition=partition)
        sent.add_callback(lambda metadata: told(metadata.offset, None))
        sent.add_errback(lambda error: told(None, error))
        if self._in_transaction:
            self._sent.append(sent)

    def flush(self) -> None:
        """`LoadProducer.flush`."""
        self._producer.flush()

    def begin(self) -> None:
        """`LoadProducer.begin`. Raises `PendingOffsets`, and what the library raises."""
        if self._has_pending_offsets:
            raise PendingOffsets("kafka-python still has offsets of an aborted transaction")
        self._producer.begin_transaction()
        self._in_transaction, self._sent = True, []

    def send_offsets(self, offsets: Mapping[int, int], consumer: PythonConsumer) -> None:
        """`LoadProducer.send_offsets`."""
        manager = self._producer._transaction_manager
        member = consumer.consumer.group_metadata()
        self._has_pending_offsets = True
        self._wait(manager.send_offsets_to_transaction(places(offsets), member))
        self._has_pending_offsets = False

    def commit(self) -> None:
        """`LoadProducer.commit`. Raises `NotCommitted`, and what the library raises."""
        self._wait(self._producer._transaction_manager.begin_commit())
        failed = [sent.exception for sent in self._sent if sent.failed()]
        if failed:
            raise NotCommitted(f"{len(failed)} of {len(self._sent)} records failed: {failed[0]!r}")

    def abort(self) -> None:
        """`LoadProducer.abort`."""
        self._wait(self._producer._transaction_manager.begin_abort())

    def _wait(self, result: TransactionalRequestResult) -> None:
        """Wait as the library's own calls do. Raises `LostRequest`, and what they raise."""
        self._producer._sender.wakeup()
        if not result.wait(timeout_ms=WAIT_MS):
            error = LostRequest(f"kafka-python has had no answer for {WAIT_MS} ms")
            self._producer._transaction_manager.transition_to_fatal_error(error)
            raise error

    def close(self) -> None:
        """`LoadProducer.close`."""
        self._producer.close(CLOSE_S)


class PythonConsumer:
    """The `LoadConsumer`."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer

    def poll(self, timeout_s: float) -> Sequence[Delivered]:
        """`LoadConsumer.poll`."""
        timeout_ms = int(timeout_s * 1_000)
        found = self.consumer.poll(timeout_ms=timeout_ms, max_records=MOST_RECORDS)
        return [
            Delivered(record.partition, record.offset, record.value.decode())
            for records in found.values()
            for record in records
        ]

    def assignment(self) -> set[int]:
        """`LoadConsumer.assignment`."""
        return {place.partition for place in self.consumer.assignment()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """`LoadConsumer.commit`."""
        self.consumer.commit(places(offsets))

    def seek(self, partition: int, offset: int) -> None:
        """`LoadConsumer.seek`."""
        self.consumer.seek(TopicPartition(TOPIC, partition), offset)

    def close(self) -> None:
        """`LoadConsumer.close`."""
        self.consumer.close(autocommit=False, timeout_ms=CLOSE_S * 1_000)


def places(offsets: Mapping[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets in the library's form."""
    return {
        TopicPartition(TOPIC, partition): OffsetAndMetadata(offset, "", -1)
        for partition, offset in offsets.items()
    }


class PythonListener(ConsumerRebalanceListener):
    """Reports each change of the assignment."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def on_partitions_revoked(self, revoked):
        """Positions must not be committed any more."""
        self._on_change()

    def on_partitions_assigned(self, assigned):
        """The same."""
        self._on_change()


class PythonLibrary:
    """The `ClientLibrary`."""

    def __init__(self, address: str) -> None:
        self._settings = {
            "bootstrap_servers": address,
            "retry_backoff_ms": BACKOFF_MS,
            "reconnect_backoff_max_ms": RECONNECT_MS,
        }

    def producer(self, transactional_id: str | None) -> PythonProducer:
        """`ClientLibrary.producer`."""
        settings = {"enable_idempotence": True, "linger_ms": 2}
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
            settings["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS
            settings["max_block_ms"] = WAIT_MS
        producer = KafkaProducer(**self._settings, **settings)
        if transactional_id is not None:
            producer.init_transactions()
        return PythonProducer(producer)

    def consumer(self, group: str, protocol: str, on_change: Callable[[], None]) -> PythonConsumer:
        """`ClientLibrary.consumer`."""
        consumer = KafkaConsumer(
            **self._settings,
            group_id=group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        consumer.subscribe([TOPIC], listener=PythonListener(on_change))
        return PythonConsumer(consumer)


def open_library(address: str) -> PythonLibrary:
    """The library, for a broker at this address."""
    return PythonLibrary(address)
