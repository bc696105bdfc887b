"""Generates logs of any size with all planted defects, and checks that an audit finds exactly
these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from conformance.audit.kinds import KINDS, AuditFinding
from conformance.audit.planted import PLANTS, PlantedCluster, PlantedFinding
from impl.coordinator.states import TransactionState
from impl.protocol.records import encode_record

FILLER_BYTES: Final = 16_000
FILLER_RECORDS: Final = 16


def filler() -> tuple[bytes, ...]:
    """Records of an ordinary batch."""
    value = bytes(range(250)) * (FILLER_BYTES // FILLER_RECORDS // 250)
    return tuple(encode_record(number, 0, None, value, ()) for number in range(FILLER_RECORDS))


class OtherProducers:
    """Ordinary producers: one without transactions for each partition, and one with successive
    transactions over two partitions."""

    def __init__(self, cluster: PlantedCluster, partitions: int) -> None:
        self._cluster = cluster
        self._logs = [cluster.partition(number=number) for number in range(partitions)]
        self._plain = [cluster.producer_id() for _ in self._logs]
        self._sequence = 0
        self._transactional = cluster.producer_id()
        self._epoch = 0
        self._payload: dict[str, Any] = {"payload": filler(), "records": FILLER_RECORDS}

    def write_some(self, rounds: int) -> None:
        """Write a few batches to each partition, and a transaction with as many to two of them."""
        for _ in range(rounds):
            for log, producer_id in zip(self._logs, self._plain, strict=True):
                log.data(producer_id, 0, self._sequence, **self._payload)
            self._sequence += FILLER_RECORDS
            self._write_transaction()

    def _write_transaction(self) -> None:
        if self._epoch > 30_000:
            self._transactional, self._epoch = self._cluster.producer_id(), 0
        logs = self._logs[:2]
        self._cluster.state(self._transactional, self._epoch, TransactionState.ONGOING, *logs)
        for log in logs:
            log.data(self._transactional, self._epoch, 0, in_transaction=True, **self._payload)
        self._epoch += 1
        self._cluster.end(self._transactional, self._epoch, "COMMIT", *logs)


def generate(
    directory: Path, size_bytes: int, *, of_each: int = 100, partitions: int = 8
) -> list[PlantedFinding]:
    """Write logs of about `size_bytes` with `of_each` plants of each kind, spread evenly. Returns
    the findings that an audit must have, in the order of places. Raises OSError."""
    cluster = PlantedCluster(directory)
    background = OtherProducers(cluster, partitions)
    plants = [plant for _ in range(of_each) for plant in PLANTS.values()]
    each = size_bytes // max(1, len(plants) * (partitions + 2) * FILLER_BYTES)
    for number, plant in enumerate(plants):
        background.write_some(each)
        plant(cluster, cluster.partition(number=number % partitions), True)
    cluster.close()
    return sorted(cluster.expected, key=lambda one: one[1:] + one[:1])


def differences(expected: Iterable[PlantedFinding], findings: Iterable[AuditFinding]) -> list[str]:
    """The expected findings that are missing, and the unexpected ones. Defects are compared by
    their offsets; allowed findings are counted by partition."""
    wanted = Counter(place_of(*one) for one in expected)
    found = Counter[PlantedFinding]()
    for one in findings:
        found[place_of(*one[:4])] += one.places
    return [
        f"{one.kind} at {one.topic}-{one.partition} offset {one.offset}:"
        f" {wanted[one]} planted, {found[one]} found"
        for one in sorted(wanted.keys() | found.keys())
        if wanted[one] != found[one]
    ]


def place_of(kind: str, topic: str, partition: int, offset: int) -> PlantedFinding:
    """The key by which two findings are compared."""
    return PlantedFinding(kind, topic, partition, offset if KINDS[kind].is_defect else -1)
