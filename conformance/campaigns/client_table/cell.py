"""A cell: one client's program for one feature at one broker, and its outcome."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.admin import TopicPartition, create_topic
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.reading import ReadIsolation, fetch, fetch_offsets, see
from conformance.adapters.brokers.wire import CoordinatorConnection
from conformance.adapters.clients.install import program_command
from conformance.campaigns.client_table.brokers import ALICE, OPEN, PASSWORD, SecuredBroker
from conformance.campaigns.client_table.features import CODECS, Feature
from impl import ApiKey, RecordBatch

PROGRAMS: Final = Path(__file__).with_name("programs")
TIMEOUT_S: Final = 90.0
QUOTED: Final = 400
LIST_GROUPS_VERSION: Final = 5
"""The first version that names the types of groups (KIP-848)."""
WORKS: Final = "works"
FAILS: Final = "fails"


class ProgramOutcome(NamedTuple):
    """The outcome of a program: WORKS or FAILS, its facts, those of the logs, and the error's
    text."""

    result: str
    facts: tuple[str, ...]
    error: str


def run_cell(client: str, feature: Feature, broker: SecuredBroker) -> ProgramOutcome:
    """Run the program. Raises BadUse, JavaError, KafkaError."""
    command = program_command(client, PROGRAMS)
    topic = topic_of(client, feature)
    with broker.connect() as connection:
        if feature.partitions:
            create_topic(connection, topic, feature.partitions)
        if feature.verb == "process":
            create_topic(connection, f"{topic}-out", 1)
        if feature.verb == "refused":
            create_topic(connection, f"{OPEN}{topic}", 1)
        address = broker.secured if feature.mechanism else broker.plaintext
        given = [
            feature.verb,
            topic,
            address,
            *feature.options,
            *options_of(feature, topic, broker),
        ]
        facts, error = execute_program([*command, *given])
        if not error:
            facts += observe(connection, topic, feature)
    expected = (*feature.facts, *feature.log)
    if not error and facts != expected:
        error = f"not {' | '.join(expected)} but {' | '.join(facts)}"
    return ProgramOutcome(FAILS if error else WORKS, facts, error)


def topic_of(client: str, feature: Feature) -> str:
    """A name for the topic, the group and the transactional id of a cell."""
    name = re.sub("[^a-z0-9]+", "-", f"{client} {feature.name}".lower())
    return name if feature.verb == "refused" else f"{OPEN}{name}"


def options_of(feature: Feature, topic: str, broker: SecuredBroker) -> Iterator[str]:
    """The options that depend on the broker and the topic."""
    if feature.verb == "refused":
        yield f"open={OPEN}{topic}"
    if feature.mechanism:
        yield from (f"mechanism={feature.mechanism}", f"ca={broker.ca_file}")
        yield from (f"user={ALICE}", f"password={PASSWORD}")


def execute_program(command: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The lines that a program prints, and the error, if any."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        problem = ""
        try:
            said, complaint = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            said, complaint = process.communicate()
            problem = f"not done after {TIMEOUT_S:.0f} s; "
        except BaseException:
            _kill_group(process.pid)
            raise
    facts = tuple(said.split("\n")[:-1])
    if problem or process.returncode:
        return facts, f"{problem}{last_line(complaint) or f'exit code {process.returncode}'}"
    return facts, ""


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def last_line(text: str) -> str:
    """The last line that is not empty, shortened: it describes an uncaught error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:QUOTED] if lines else ""


def observe(connection: BrokerConnection, topic: str, feature: Feature) -> tuple[str, ...]:
    """The broker's view of the facts that `feature.log` names. Raises KafkaError."""
    wire = CoordinatorConnection(connection)
    partitions = [(topic, index) for index in range(feature.partitions)]
    return tuple(OBSERVERS[fact.split()[0]](wire, partitions) for fact in feature.log)


def _committed(wire: CoordinatorConnection, partitions: Sequence[TopicPartition]) -> str:
    """The group has the topic's name."""
    call = fetch_offsets(partitions[0][0], partitions, require_stable=True)
    return f"committed {sum(max(row.committed_offset, 0) for row in wire.ask(call).values())}"


def _group(wire: CoordinatorConnection, partitions: Sequence[TopicPartition]) -> str:
    """The protocol of the group: some clients fall back to the older one."""
    everything: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
    groups = wire.connection.ask(ApiKey.LIST_GROUPS, LIST_GROUPS_VERSION, everything)["groups"]
    types = [row["group_type"].lower() for row in groups if row["group_id"] == partitions[0][0]]
    return f"group {' '.join(types)}"


def _batches(
    wire: CoordinatorConnection, partitions: Sequence[TopicPartition]
) -> Iterator[RecordBatch]:
    for partition in partitions:
        yield from wire.ask(fetch(partition, 0, ReadIsolation.READ_UNCOMMITTED)).batches


def _codec(wire: CoordinatorConnection, partitions: Sequence[TopicPartition]) -> str:
    used = {CODECS[batch.compression] for batch in _batches(wire, partitions)}
    return f"codec {' '.join(sorted(used))}"


def _idempotent(wire: CoordinatorConnection, partitions: Sequence[TopicPartition]) -> str:
    has_ids = all(batch.producer_id >= 0 for batch in _batches(wire, partitions))
    return "idempotent" if has_ids else "without producer ids"


def _markers(wire: CoordinatorConnection, partitions: Sequence[TopicPartition]) -> str:
    markers = (see(batch).marker for batch in _batches(wire, partitions))
    return f"markers {' '.join(marker for marker in markers if marker)}"


OBSERVERS: Final[Mapping[str, Callable[[CoordinatorConnection, Sequence[TopicPartition]], str]]] = {
    "codec": _codec,
    "committed": _committed,
    "group": _group,
    "idempotent": _idempotent,
    "markers": _markers,
}
"""Functions that read the broker's view of a fact, by the first word of the fact."""
