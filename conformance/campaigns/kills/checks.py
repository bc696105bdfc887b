"""Compares the files on disk with the journals of clients: each check yields defects, as text.

A check may run whenever the broker is dead. Results in a journal were received before the kill, so
their records must be on the disk; records without a result may be there or not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.kills.journal import SUFFIX, checksum, read_events
from conformance.campaigns.kills.stored import Place, StoredLog, StoredState
from conformance.campaigns.kills.workload import (
    OUTPUT_PARTITIONS,
    PROCESSING,
    RECORDS_IN_TRANSACTION,
    TOPIC,
    TRANSACTIONAL,
    Delivered,
    group_id,
    output_topic,
    transformed,
)

ERROR_CHARS: Final = 90
"""The part of an error's text that is kept."""

Spans = dict[tuple[str, int], list[tuple[int, int, int, int]]]


@dataclass(slots=True)
class Told:
    """The content of the journals of all clients together."""

    acks: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Topic, partition, offset and value."""
    begun: set[str] = field(default_factory=set)
    committing: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    reads: Spans = field(default_factory=lambda: defaultdict(list))
    """First and last offset, number and checksum of delivered records, by group and partition."""
    commits: set[tuple[str, int, int]] = field(default_factory=set)
    """Group, partition and offset of each attempted commit."""
    commits_done: set[tuple[str, int, int]] = field(default_factory=set)
    producer_ids: list[int] = field(default_factory=list)
    """The producer ids that the killer of the broker was given."""
    events: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """By client, the failed operation, and the beginning of the error."""

    def add(self, event: list[Any], client: str) -> None:
        """Add one event of a journal."""
        name, *rest = event
        self.events[f"{name} {rest[0]}" if name in ("started", "replaced") else name] += 1
        match name:
            case "ack":
                self.acks.append((rest[0], rest[1], rest[2], rest[3]))
            case "begin":
                self.begun.add(rest[0])
            case "committing":
                self.committing.add(rest[0])
            case "committed":
                self.committed.add(rest[0])
            case "aborted":
                self.aborted.add(rest[0])
            case "read":
                group, partition, *span = rest
                self.reads[group, partition].append(tuple(span))
            case "commit":
                self.commits |= _offsets(*rest)
            case "commit_done":
                self.commits_done |= _offsets(*rest)
            case "refused" | "error":
                self.errors[
                    f"{client}: {rest[0] if name == 'error' else name}: {rest[1][:90]}"
                ] += 1


def _offsets(group: str, offsets: Mapping[str, int]) -> set[tuple[str, int, int]]:
    return {(group, int(partition), offset) for partition, offset in offsets.items()}


def read_told(folder: Path, producer_ids: Iterable[int] = ()) -> Told:
    """The content of all journals in a folder. Raises `OSError`."""
    told = Told(producer_ids=list(producer_ids))
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        client = "-".join(file.stem.split("-")[:2])
        for event in read_events(file):
            told.add(event, client)
    return told


def check(stored: StoredState, told: Told, libraries: Iterable[str]) -> list[str]:
    """All defects; empty if everything is right."""
    return [
        *(f"{name}: what was decided is not carried out" for name in stored.undecided),
        *check_acks(stored, told),
        *check_order(stored),
        *check_transactions(stored, told),
        *check_producer_ids(stored, told),
        *check_reads(stored, told),
        *check_offsets(stored, told),
        *check_outputs(stored, libraries),
    ]


# ---- records


def check_acks(stored: StoredState, told: Told) -> Iterator[str]:
    """Each acknowledged record has the offset that its producer was told, and no record is stored
    twice."""
    values = {place: dict(log.written) for place, log in stored.logs.items()}
    lost = defaultdict[Place, list[str]](list)
    for topic, partition, offset, value in told.acks:
        if values.get((topic, partition), {}).get(offset) != value:
            lost[topic, partition].append(f"{value} at {offset}")
    for place, missing in lost.items():
        yield f"{_name(place)}: {len(missing)} acknowledged records are not there, as {missing[0]}"
    for place, log in stored.logs.items():
        once = log.written if place[0] == TOPIC else log.committed
        twice = [value for value, n in Counter(value for _, value in once).items() if n > 1]
        if twice:
            yield f"{_name(place)}: {len(twice)} records are there twice, as {twice[0]}"


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def number_of(value: str) -> tuple[int, ...]:
    """Session, instance, number, and place in a transaction: these increase within a client's
    partition."""
    _, _, instance, number = value.split("/")
    return tuple(int(part) for part in (*instance.split("."), *number.split(".")))


def check_order(stored: StoredState) -> Iterator[str]:
    """Records of one client are in the order in which it sent them."""
    for place, log in stored.logs.items():
        if place[0] != TOPIC:
            continue
        clients = defaultdict[str, list[str]](list)
        for _, value in log.written:
            clients["/".join(value.split("/")[:2])].append(value)
        for values in clients.values():
            wrong = [pair for pair in pairwise(values) if number_of(pair[0]) >= number_of(pair[1])]
            if wrong:
                first = " before ".join(wrong[0])
                yield f"{_name(place)}: {len(wrong)} times out of order, as {first}"


def check_transactions(stored: StoredState, told: Told) -> Iterator[str]:
    """Committed transactions are stored whole, aborted ones are not visible, and others are all or
    nothing."""
    seen = Counter[str]()
    for (topic, _), log in stored.logs.items():
        if topic == TOPIC:
            seen.update(v.rpartition(".")[0] for _, v in log.committed if f"/{TRANSACTIONAL}/" in v)
    mine = {name for name in told.begun if f"/{TRANSACTIONAL}/" in name}
    rules = (
        ("is committed, and not whole", mine & told.committed, {RECORDS_IN_TRANSACTION}),
        ("is aborted, and seen", mine & told.aborted, {0}),
        ("was not to be committed, and is seen", mine - told.committing, {0}),
        ("is seen in part", mine, {0, RECORDS_IN_TRANSACTION}),
    )
    for what, names, allowed in rules:
        wrong = sorted(name for name in names if seen[name] not in allowed)
        if wrong:
            first = f"{wrong[0]}: {seen[wrong[0]]} records"
            yield f"{len(wrong)} times a transaction {what}, as {first}"
    if unknown := sorted(set(seen) - mine):
        yield f"{len(unknown)} transactions are seen that nobody began, as {unknown[0]}"


def check_producer_ids(stored: StoredState, told: Told) -> Iterator[str]:
    """No producer id has two owners."""
    owners = defaultdict[int, set[str]](set)
    for log in stored.logs.values():
        for producer_id, names in log.producers.items():
            owners[producer_id] |= names
    for producer_id, times in Counter(told.producer_ids).items():
        if times > 1 or producer_id in owners:
            others = ", ".join(sorted(owners.get(producer_id, ()))) or "nobody else"
            yield f"producer id {producer_id} was given out twice; {others} wrote with it"
    for producer_id, names in owners.items():
        if producer_id >= 0 and len(names) > 1:
            yield f"producer id {producer_id} has owners {', '.join(sorted(names)[:2])}"


# ---- groups


def _between(log: StoredLog, first: int, last: int) -> list[tuple[int, str]]:
    begin = bisect_left(log.committed, (first, ""))
    return log.committed[begin : bisect_left(log.committed, (last + 1, ""))]


def check_reads(stored: StoredState, told: Told) -> Iterator[str]:
    """Members received exactly the committed records, without gaps."""
    for (group, partition), spans in told.reads.items():
        log = stored.logs.get((TOPIC, partition), StoredLog())
        wrong = []
        for first, last, count, total in spans:
            there = _between(log, first, last)
            if len(there) != count or checksum(value for _, value in there) != total:
                wrong.append(
                    f"{count} of offsets {first} to {last}, where {len(there)} are committed"
                )
        if wrong:
            what = f"{TOPIC}-{partition} what is not so, as {wrong[0]}"
            yield f"{group}: read {len(wrong)} times of {what}"


def check_offsets(stored: StoredState, told: Told) -> Iterator[str]:
    """Offsets of groups never go back, are those that members committed, and skip no record."""
    for group, commits in stored.commits.items():
        last: dict[int, int] = {}
        for partition, offset in commits:
            if offset < last.get(partition, 0):
                before = last[partition]
                yield f"{group}: the offset of {partition} goes back from {before} to {offset}"
            if (group, partition, offset) not in told.commits:
                yield f"{group}: nobody committed offset {offset} of {partition}"
            last[partition] = offset
        answered = stored.offsets.get(group, {})
        if answered != last:
            yield f"{group}: the log has the offsets {last}, the broker answers {answered}"
        for partition, offset in last.items():
            yield from _check_skipped(stored, told, group, partition, offset)
    there = {(group, *commit) for group, commits in stored.commits.items() for commit in commits}
    if lost := sorted(told.commits_done - there):
        yield f"{len(lost)} commits of offsets are lost, as {lost[0]}"


def _check_skipped(
    stored: StoredState, told: Told, group: str, partition: int, offset: int
) -> Iterator[str]:
    """A group received all committed records below its offset."""
    reached, skipped = 0, 0
    log = stored.logs.get((TOPIC, partition), StoredLog())
    for first, last, *_ in sorted(told.reads[group, partition]):
        if first > reached:
            skipped += len(_between(log, reached, min(first, offset) - 1))
        reached = max(reached, last + 1)
    skipped += len(_between(log, reached, offset - 1))
    if skipped:
        which = f"{TOPIC}-{partition} below offset {offset}"
        yield f"{group}: {skipped} records of {which} were skipped"


def check_outputs(stored: StoredState, libraries: Iterable[str]) -> Iterator[str]:
    """Each committed record below a group's offset was transformed once, in order; no other record
    was."""
    for library in libraries:
        offsets = stored.offsets.get(group_id(library, PROCESSING), {})
        topic = output_topic(library)
        wanted = {
            partition: [
                transformed(Delivered(partition, *row))
                for row in _between(log, 0, offsets.get(partition, 0) - 1)
            ]
            for (name, partition), log in stored.logs.items()
            if name == TOPIC
        }
        found = defaultdict[int, list[str]](list)
        for place in ((topic, index) for index in range(OUTPUT_PARTITIONS)):
            for _, value in stored.logs.get(place, StoredLog()).committed:
                found[int(value.partition(":")[0])].append(value)
        for partition, values in wanted.items():
            if found[partition] != values:
                how = _differ(values, found[partition])
                yield f"{topic}: of {len(values)} records of {TOPIC}-{partition} {how}"


def _differ(wanted: list[str], found: list[str]) -> str:
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    if not missing and not more:
        return "the order is another one"
    which = next(iter((*missing, *more)))
    return f"{missing.total()} are missing and {more.total()} are too many, as {which}"
