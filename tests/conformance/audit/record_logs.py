"""Records logs of Apache Kafka 4.3.1 and 3.3.2 into `recorded/`.

    python -m tests.conformance.audit.record_logs [NAME ...]

- `ordinary`: an idempotent producer, and transactions of both outcomes with offsets of a group
- `delayed`: the three shapes of a delayed EndTxn, V1 requests (KAFKA-17754)
- `skipped`: markers that a coordinator skips, V1 and V2 requests (KAFKA-20734); three brokers
- `hanging`: a record behind its marker, on 3.3.2, which asks no coordinator (KIP-890)
"""

from __future__ import annotations

import asyncio
import sys
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.campaigns.stories.player import play
from conformance.campaigns.stories.story import FOLDER, stories
from impl import Producer

RELEASE = "4.3.1"
RECORDED = Path(__file__).parent / "recorded"


async def work(servers: str, topic: str) -> None:
    """What applications do every day."""
    async with Producer(servers, linger_ms=0) as producer:
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
    async with Producer(servers, transactional_id="orders-1", linger_ms=0) as producer:
        for number in range(8):
            await producer.begin_transaction()
            for partition in (0, 1):
                await producer.send_and_wait(topic, b"value", partition=partition)
            await producer.send_offsets_to_transaction({(topic, 0): number}, "group")
            await (producer.commit_transaction() if number % 3 else producer.abort_transaction())


def record(name: str, testbed: KafkaTestbed) -> None:
    """Keep the segments of all brokers, but those of the controllers."""
    RECORDED.mkdir(exist_ok=True)
    with zipfile.ZipFile(RECORDED / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for node, broker in testbed.brokers.items():
            for path in sorted((broker.folder / "data").glob("*/*.log")):
                if path.stat().st_size and path.parent.name != "__cluster_metadata-0":
                    archive.write(path, f"{node}/{path.parent.name}/{path.name}")


def play_all(testbed: KafkaTestbed, names: Sequence[str]) -> None:
    """Play experiments, which must not fail."""
    there_are = stories(FOLDER)
    for name in names:
        result = play(there_are[name], testbed, 1)
        assert not result.failure, result.failure


def record_ordinary() -> None:
    """What applications do."""
    with KafkaTestbed(RELEASE) as testbed:
        [place, *_] = testbed.topic(2)
        [broker] = testbed.brokers.values()
        asyncio.run(work(":".join(map(str, broker.address)), place[0]))
        record("ordinary", testbed)


def record_played(name: str, release: str, nodes: int, layout: str, *played: str) -> None:
    """What experiments leave behind."""
    with KafkaTestbed(release, nodes=nodes, layout=layout) as testbed:
        play_all(testbed, played)
        record(name, testbed)


DELAYED = tuple(
    f"delayed_end_txn_{shape}_v1"
    for shape in ("torn_transaction", "lost_write", "aborted_write_shown")
)
RECORDINGS = {
    "ordinary": record_ordinary,
    "delayed": partial(record_played, "delayed", RELEASE, 1, "", *DELAYED),
    "skipped": partial(
        record_played, "skipped", RELEASE, 3, "seated", "leaderless_v1", "leaderless_v2"
    ),
    "hanging": partial(record_played, "hanging", "3.3.2", 1, "", "late_produce_unverified_v1"),
}


def main() -> None:
    """Record all, or those that are named."""
    for name in sys.argv[1:] or RECORDINGS:
        RECORDINGS[name]()


if __name__ == "__main__":
    main()
