"""Runs of clients up to 2.4 that need a legacy behaviour beside the rules of the protocol; none of
these behaviours excuses a bug."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from conformance.adapters.clients import legacy
from conformance.adapters.clients.judgement import DIVERGES, EXPLAINED, MAX_CANDIDATES, judge_trace
from conformance.adapters.clients.legacy import LegacyBehaviour
from conformance.adapters.clients.record_order import renumber_records
from conformance.adapters.clients.trace import (
    ClientTrace,
    ProduceAnswered,
    ProduceRequested,
    WireBatch,
)
from impl.protocol.errors import ErrorCode
from model.idempotent.variants import parse
from tests.conformance.adapters.clients.test_recorded import RELEASES, changed, runs_of

B = LegacyBehaviour
OLD = ("2.0.0", "2.4.1")


def only(release: str, number: int) -> ClientTrace:
    (run,) = [r for r in runs_of(f"java-{release}-legacy.jsonl") if r.plan.number == number]
    return run


@pytest.mark.parametrize(("release", "count"), [("2.0.0", 6), ("2.4.1", 7)])
def test_what_no_rule_explains_alone_is_explained(release: str, count: int):
    runs = runs_of(f"java-{release}-legacy.jsonl")
    assert len(runs) == count
    for trace in runs:
        judgement = judge_trace(parse(release), trace)
        assert judgement.verdict == EXPLAINED, (trace.plan.number, judgement)


def remove_behaviour(release: str, behaviour: LegacyBehaviour, patch: pytest.MonkeyPatch) -> None:
    recovery = parse(release).recovery
    rest = legacy.BEHAVIOURS[recovery] - {behaviour}
    patch.setitem(legacy.BEHAVIOURS, recovery, rest)


@pytest.mark.parametrize(
    ("release", "number", "behaviour"),
    [
        ("2.0.0", 32, B.NUMBERS_ON_LOOKUP),
        ("2.0.0", 229, B.KEEPS_LAST_ACKED_OFFSET),
        ("2.0.0", 291, B.THROWS_BELOW_ZERO),
        ("2.0.0", 147, B.RENUMBERS_IN_HEAP_ORDER),
        ("2.0.0", 276, B.QUEUES_BY_OLD_SEQUENCE),
        ("2.4.1", 267, B.TRACKS_BY_SEQUENCE),
        ("2.4.1", 217, B.RENUMBERS_OLD_PARTS),
        ("2.4.1", 413, B.CLEARS_TRACKED_BATCHES),
        ("2.4.1", 75, B.THROWS_PAST_OTHER_BATCHES),
        ("2.4.1", 443, B.EXPIRES_THROWN_BATCHES),
        ("2.4.1", 413, B.FAILS_EXPIRED_BATCHES_AGAIN),
        ("2.4.1", 6, B.ABORTS_IN_NEXT_LOOP),
    ],
)
def test_each_behaviour_is_needed_to_explain_a_run(
    release: str, number: int, behaviour: LegacyBehaviour, monkeypatch: pytest.MonkeyPatch
):
    trace = only(release, number)
    assert judge_trace(parse(release), trace).verdict == EXPLAINED
    remove_behaviour(release, behaviour, monkeypatch)
    assert judge_trace(parse(release), trace).verdict == DIVERGES


@pytest.mark.parametrize(("release", "count"), [("2.4.1", 3), ("2.0.0", 1)])
def test_a_part_that_takes_more_records_is_explained(
    release: str, count: int, monkeypatch: pytest.MonkeyPatch
):
    """KAFKA-9703: its sequences overlap with those of what comes next."""
    runs = runs_of(f"java-{release}-grown.jsonl")
    assert len(runs) == count
    for trace in runs:
        assert judge_trace(parse(release), trace).verdict == EXPLAINED
        (position, larger), *_ = grown_parts(trace)
        wrong = replace(larger, base_sequence=larger.base_sequence + 1)
        swapped = replace(larger, records=(*larger.records[:-2], *larger.records[:-3:-1]))
        for other in (with_batch(trace, position, larger, row) for row in (wrong, swapped)):
            assert judge_trace(parse(release), other).verdict == DIVERGES
    remove_behaviour(release, B.GROWS_SPLIT_PARTS, monkeypatch)
    assert {judge_trace(parse(release), trace).verdict for trace in runs} == {DIVERGES}


@pytest.mark.parametrize("release", OLD)
def test_records_that_a_part_passes_over_are_counted_behind_those_that_it_takes(release: str):
    trace = runs_of(f"java-{release}-grown.jsonl")[-1]
    taken = {b.records for _, e in produces(trace) for b in e.batches if is_torn(b)}
    assert taken in ({(2, 3, 5, 6)}, {(2, 3, 6)})
    counted = renumber_records(trace)
    assert not any(is_torn(b) for _, event in produces(counted) for b in event.batches)
    assert renumber_records(counted) is counted
    assert len(counted.outcomes) == len(trace.outcomes)
    assert counted.outcomes[0, 4] == trace.outcomes[0, 5 if release == "2.4.1" else 6]


def is_torn(batch: WireBatch) -> bool:
    return any(after != before + 1 for before, after in pairwise(batch.records))


def test_runs_without_such_parts_are_judged_as_they_are():
    for release in RELEASES:
        for trace in all_runs(release):
            assert renumber_records(trace) is trace


def grown_parts(trace: ClientTrace) -> Iterator[tuple[int, WireBatch]]:
    """What was sent with more records than when it was too large."""
    before: dict[tuple[int, int], int] = {}
    for position, event in produces(trace):
        for b in event.batches:
            count = before.setdefault((b.partition, b.records[0]), len(b.records))
            if len(b.records) > count:
                yield position, b


def with_batch(
    trace: ClientTrace, position: int, batch: WireBatch, other: WireBatch
) -> ClientTrace:
    """The run, another batch sent in the place of one."""
    event = trace.events[position]
    assert isinstance(event, ProduceRequested)
    batches = tuple(other if b == batch else b for b in event.batches)
    events = list(trace.events)
    events[position] = replace(event, batches=batches)
    return replace(trace, events=tuple(events))


def test_clients_that_a_busy_machine_held_up_are_explained():
    """Eighteen connections, on ten of which nothing was asked; all batches given up in flight:
    both were too many states once."""
    for release, requests in (("2.4.1", 9), ("4.3.1", 9)):
        (trace,) = runs_of(f"java-{release}-load.jsonl")
        judgement = judge_trace(parse(release), trace)
        assert (judgement.verdict, judgement.requests) == (EXPLAINED, requests)
        assert judgement.most_states < MAX_CANDIDATES // 4


def test_that_a_request_is_read_late_says_nothing_of_when_it_was_sent():
    """The proxy stood still for 200 ms, the client did not: its batch expired meanwhile."""
    trace = only("2.0.0", 49)
    last = max(i for i, event in enumerate(trace.events) if isinstance(event, ProduceRequested))
    before = trace.events[last - 1]
    assert isinstance(before, ProduceAnswered)
    waited_us = trace.events[last].at_us - before.at_us
    assert waited_us > 10 * trace.plan.settings.retry_backoff_ms * 1_000
    assert judge_trace(parse("2.0.0"), trace).verdict == EXPLAINED


# None of it excuses a bug


def produces(trace: ClientTrace) -> list[tuple[int, ProduceRequested]]:
    return [
        (i, event) for i, event in enumerate(trace.events) if isinstance(event, ProduceRequested)
    ]


@pytest.mark.parametrize("release", OLD)
@pytest.mark.parametrize("field", ["base_sequence", "producer_epoch", "producer_id"])
def test_one_changed_number_is_found_in_a_legacy_run(release: str, field: str):
    tried = 0
    for trace in runs_of(f"java-{release}-legacy.jsonl"):
        for position, event in produces(trace)[::3]:
            value = getattr(event.batches[0], field) + 1
            judgement = judge_trace(parse(release), changed(trace, position, **{field: value}))
            assert judgement.verdict == DIVERGES, (trace.plan.number, position)
            assert judgement.position >= position
            tried += 1
    assert tried >= 12


def parts_of(trace: ClientTrace) -> Iterator[tuple[int, WireBatch]]:
    """What was sent of a batch after MESSAGE_TOO_LARGE, if it comes first in its request."""
    requests = {(e.connection, e.correlation_id): e for _, e in produces(trace)}
    large: set[tuple[int, tuple[int, ...]]] = set()
    for position, event in enumerate(trace.events):
        if isinstance(event, ProduceAnswered):
            sent = requests[event.connection, event.correlation_id].batches
            refused = {
                row.partition
                for row in event.partitions
                if row.error == ErrorCode.MESSAGE_TOO_LARGE
            }
            large |= {(b.partition, b.records) for b in sent if b.partition in refused}
        if isinstance(event, ProduceRequested):
            first = event.batches[0]
            for partition, records in large:
                if partition == first.partition and set(first.records) <= set(records):
                    yield position, first
                    break


def all_runs(release: str) -> list[ClientTrace]:
    names = [f"java-{release}.jsonl", f"java-{release}-time.jsonl"]
    names += [f"java-{release}-legacy.jsonl"] if release in OLD else []
    return [trace for name in names for trace in runs_of(name)]


@pytest.mark.parametrize("release", RELEASES)
def test_a_wrong_sequence_of_a_split_part_is_found(release: str):
    tried = 0
    for trace in all_runs(release):
        for position, part in list(parts_of(trace))[:2]:
            wrong = changed(trace, position, base_sequence=part.base_sequence + len(part.records))
            judgement = judge_trace(parse(release), wrong)
            assert judgement.verdict == DIVERGES, (trace.plan.number, position)
            tried += 1
    assert tried >= 2


def test_a_wrong_epoch_after_a_bump_is_found():
    tried = 0
    for trace in all_runs("4.3.1"):
        for position, event in produces(trace):
            epoch = event.batches[0].producer_epoch
            if epoch > 0:
                wrong = changed(trace, position, producer_epoch=epoch - 1)
                assert judge_trace(parse("4.3.1"), wrong).verdict == DIVERGES, trace.plan.number
                tried += 1
                break
    assert tried >= 3


@pytest.mark.parametrize("release", OLD)
def test_silence_without_an_exception_is_found(release: str):
    """Only what an exception silenced may stay silent."""
    for trace in runs_of(f"java-{release}.jsonl"):
        record = max(trace.outcomes)
        rest = {key: value for key, value in trace.outcomes.items() if key != record}
        assert judge_trace(parse(release), replace(trace, outcomes=rest)).verdict == DIVERGES


@pytest.mark.parametrize(("release", "number"), [("2.0.0", 32), ("2.0.0", 291), ("2.4.1", 75)])
def test_one_silence_more_than_the_exception_explains_is_found(release: str, number: int):
    trace = only(release, number)
    stored = [record for record, outcome in trace.outcomes.items() if not outcome.error]
    assert len(stored) > 3
    for record in stored[:3]:
        rest = {key: value for key, value in trace.outcomes.items() if key != record}
        assert judge_trace(parse(release), replace(trace, outcomes=rest)).verdict == DIVERGES, (
            record
        )
