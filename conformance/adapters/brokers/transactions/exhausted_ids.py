"""Makes many transactional ids whose first producer id is near its last epoch.

Each InitProducerId increases the epoch by one: 32,764 of them take seconds for one id. Here each id
is requested once. Then the coordinator's record of the id is written once more with another epoch
and no other change, as admin clients may write to internal topics; the broker restarts and loads
its log. In the same way the broker is made to forget ids whose transaction nothing ends: for each
of them a record without a value is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from conformance.adapters.brokers.kafka.connection import BrokerConnection, WireRequest
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.reading import TRANSACTION_STATE, Fetched, ReadIsolation, fetch
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.wire import BUSY, CoordinatorConnection, error_of
from conformance.judging.backend import BackendFailed
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from impl.protocol.state_records import decode_record, encode_record

LAST_EPOCH: Final = 32_767
"""The epoch with which no producer writes. `TransactionMetadata.isEpochExhausted`."""

ADMIN_CLIENT: Final = "__admin_client"
"""The client id whose requests may write to internal topics. `AdminUtils.ADMIN_CLIENT_ID`."""
_KEY_VERSION: Final = 0
_PRODUCE_VERSION: Final = 8
_PRODUCE_TIMEOUT_MS: Final = 10_000
_IN_A_BATCH: Final = 500
_ALL_REPLICAS: Final = -1


class ExhaustedIds:
    """This many ids whose last epoch is `epoch`. The broker restarts: all connections to it are
    closed. Raises KafkaError."""

    def __init__(self, kafka: KafkaTestbed, epoch: int, count: int) -> None:
        self._kafka = kafka
        self._taken: list[str] = []
        self._names = deque(kafka.fresh("exhausted") for _ in range(count))
        _ask_for(kafka, self._names)
        _write(kafka, [_aged(*record, epoch) for record in _states(kafka, self._names)])
        kafka.restart()

    def take(self) -> str:
        """Take an unused id. Raises BackendFailed."""
        if not self._names:
            raise BackendFailed("all transactional ids that were aged are used up")
        self._taken.append(self._names.popleft())
        return self._taken[-1]

    def bury(self) -> None:
        """Make the coordinator forget all ids that were taken, with their open transactions. The
        broker restarts: all connections to it are closed. Raises KafkaError."""
        _write(self._kafka, [(_key(name), None) for name in self._taken])
        self._taken.clear()
        self._kafka.restart()


def _ask_for(kafka: KafkaTestbed, names: Sequence[str]) -> None:
    """Request each id, so that the coordinator knows it. Raises RequestRefused."""
    wire, speaks = kafka.coordinator(), kafka.conversation("v1")
    wire.retry(speaks.init_producer_id(None))
    waiting = list(names)
    while waiting:
        answers = wire.pipeline([speaks.init_producer_id(name) for name in waiting])
        told = dict(zip(waiting, (answer.error for answer in answers), strict=True))
        waiting = [name for name in waiting if told[name] in BUSY]
        refused = {told[name] for name in told if told[name] not in {*BUSY, ErrorCode.NONE}}
        if refused:
            raise RequestRefused(f"InitProducerId: {', '.join(error.name for error in refused)}")


def _states(kafka: KafkaTestbed, names: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """The last record of each id in the log of transactions."""
    found: dict[str, tuple[bytes, bytes]] = {}
    wanted = set(names)
    for record in _log(kafka.coordinator()):
        assert record.key is not None, "all have keys"
        _, who = decode_record("TRANSACTION_LOG_KEY", record.key)
        if who["transactional_id"] in wanted and record.value is not None:
            found[who["transactional_id"]] = record.key, record.value
    return list(found.values())


def _log(wire: CoordinatorConnection) -> Iterator[Record]:
    """All records of the log of transactions."""
    offset = 0
    while True:
        fetched: Fetched = wire.ask(
            fetch(TRANSACTION_STATE, offset, ReadIsolation.READ_UNCOMMITTED)
        )
        if not fetched.batches:
            return
        for batch in fetched.batches:
            yield from batch.records
        offset = fetched.batches[-1].last_offset + 1


def _aged(key: bytes, value: bytes, epoch: int) -> tuple[bytes, bytes]:
    """The same record with another epoch."""
    version, body = decode_record("TRANSACTION_LOG_VALUE", value)
    return key, encode_record("TRANSACTION_LOG_VALUE", version, body | {"producer_epoch": epoch})


def _key(name: str) -> bytes:
    return encode_record("TRANSACTION_LOG_KEY", _KEY_VERSION, {"transactional_id": name})


def _write(kafka: KafkaTestbed, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Write records into the log of transactions. Raises RequestRefused."""
    address = kafka.coordinator().connection.address
    with BrokerConnection(*address, client_id=ADMIN_CLIENT) as connection:
        for first in range(0, len(records), _IN_A_BATCH):
            rows = records[first : first + _IN_A_BATCH]
            request = _produce([Record(i, 0, *row) for i, row in enumerate(rows)])
            body = connection.ask(request.api_key, request.api_version, request.body)
            [row] = body["topics"][0]["partitions"]
            if row["error_code"]:
                raise RequestRefused(f"{TRANSACTION_STATE}: {error_of(row['error_code']).name}")


def _produce(records: Sequence[Record]) -> WireRequest:
    topic, partition = TRANSACTION_STATE
    row: Value = {"index": partition, "records": encode_batch(client_batch(records))}
    body = {
        "transactional_id": None,
        "acks": _ALL_REPLICAS,
        "timeout_ms": _PRODUCE_TIMEOUT_MS,
        "topics": [{"name": topic, "partitions": [row]}],
    }
    return WireRequest(ApiKey.PRODUCE, _PRODUCE_VERSION, body)
