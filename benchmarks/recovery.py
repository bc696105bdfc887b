"""How long a killed broker takes to serve again: `python -m benchmarks.recovery`.

A directory is filled by idempotent producers, and its broker killed before any recovery point was
written, so that the next start reads and checks all of it. Measured is `kafka-eos serve --dir`,
from the start of its process to its first answer, Python's own start included; `empty` is the same
of a directory without data. The data is in the page cache, as it is after the kill of a process.
Processor time is all of the process's.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.measuring import (
    Time,
    alternate,
    count_option,
    median_time,
    round_figures,
    run_benchmark,
)
from impl import Broker
from impl.protocol.messages import encode_request
from impl.protocol.primitives import frame
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

HOST: Final = "127.0.0.1"
TOPIC: Final = "t"
VALUE: Final = bytes(range(256)) * 4
MIB: Final = 1 << 20
PAUSE_S: Final = 0.002
LIMIT_S: Final = 120.0


def fill(directory: Path, size_bytes: int, batch_bytes: int, partitions: int) -> None:
    """Write batches of producers into a directory, and be killed. To be run in a process."""
    now_ms = time.time_ns() // 1_000_000
    records = [
        Record(delta, now_ms, None, VALUE) for delta in range(max(batch_bytes // len(VALUE), 1))
    ]
    broker = Broker(directory=directory, topics={TOPIC: partitions})
    with broker:
        topic = broker.cluster.topics.get(TOPIC)
        assert topic is not None
        for number in range(size_bytes // (len(records) * len(VALUE))):
            sequence = number // partitions * len(records)
            batch = client_batch(
                records, producer_id=1, producer_epoch=0, base_sequence=sequence % (1 << 31)
            )
            leader = topic.partitions[number % partitions]
            answer = leader.produce(encode_batch(batch), required_acks=-1, now_ms=now_ms)
            assert answer.error == 0, answer
        os.kill(os.getpid(), signal.SIGKILL)


def start_and_ask(directory: Path) -> tuple[Time, int]:
    """The time until `serve` answers, and the most memory it has had, MiB. It is killed then."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "kafka_eos", "serve", "--dir", str(directory)]
    begun = perf_counter()
    server = subprocess.Popen([*command, "--listen", f"{HOST}:{port}"], stdout=subprocess.DEVNULL)
    try:
        while not answers(port):
            if server.poll() is not None or perf_counter() - begun > LIMIT_S:
                raise OSError(f"serve does not answer: exit code {server.returncode}")
            time.sleep(PAUSE_S)
        seconds = perf_counter() - begun
        process = Path(f"/proc/{server.pid}")
        used = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
        status = (process / "status").read_text()
        memory_mib = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024
        return Time(seconds, sum(map(int, used)) / os.sysconf("SC_CLK_TCK")), memory_mib
    finally:
        server.kill()
        server.wait()


def answers(port: int) -> bool:
    """Whether a broker answers ApiVersions there."""
    body = {"client_software_name": "recovery", "client_software_version": "1"}
    try:
        with socket.create_connection((HOST, port), timeout=LIMIT_S) as connection:
            connection.sendall(frame(encode_request(ApiKey.API_VERSIONS, 3, 1, "recovery", body)))
            return bool(connection.recv(4))
    except OSError:
        return False


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Fill two directories, and start brokers on them by turns."""
    with tempfile.TemporaryDirectory(prefix="kafka-eos-recovery-") as folder:
        directories = {"full": Path(folder) / "full", "empty": Path(folder) / "empty"}
        arguments = (directories["full"], asked.mib * MIB, asked.batch_bytes, asked.partitions)
        filling = multiprocessing.get_context("spawn").Process(target=fill, args=arguments)
        filling.start()
        filling.join()
        assert filling.exitcode == -signal.SIGKILL, filling.exitcode
        logs = directories["full"].glob(f"{TOPIC}-*/*.log")
        stored = sum(log.stat().st_size for log in logs)
        found = alternate(
            list(directories), asked.rounds, lambda name: start_and_ask(directories[name])
        )
    print(f"{stored / MIB:.0f} MiB in batches of {asked.batch_bytes} bytes")
    report: dict[str, Any] = {"bytes": stored, "batch_bytes": asked.batch_bytes}
    for name, rounds in found.items():
        times, memory_mib = [row[0] for row in rounds], max(row[1] for row in rounds)
        middle = median_time(times)
        report[name] = {
            "seconds": [round_figures(one.seconds) for one in times],
            "cpu_seconds": [round_figures(one.cpu_seconds) for one in times],
            "memory_mib": memory_mib,
        }
        print(
            f"  {name:6} {middle.seconds:6.2f} s, {middle.cpu_seconds:6.2f} s of processor time"
            f" (medians of {len(times)}), {memory_mib:,} MiB at most"
        )
    return report


OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--mib": count_option(1024, "size of the logs"),
    "--batch-bytes": count_option(16_384, "about the size of a batch, as batch.size of producers"),
    "--partitions": count_option(4, "partitions"),
    "--rounds": count_option(5, "starts of each"),
}


def main(words: list[str] | None = None) -> int:
    """Exit code 0; 2 if a broker does not start."""
    return run_benchmark("recovery", __doc__, OPTIONS, measure, (OSError,), words)


if __name__ == "__main__":
    sys.exit(main())
