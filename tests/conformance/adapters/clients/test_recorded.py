"""Runs of Apache Kafka's own producers, recorded behind the proxy: explained as they were, and no
longer once something in them is changed."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.adapters.clients.judgement import DIVERGES, EXPLAINED, judge_trace
from conformance.adapters.clients.outcome import outcome_of
from conformance.adapters.clients.protocol_rules import first_breach, waits_for_all_replicas
from conformance.adapters.clients.recorded_run import judge_file
from conformance.adapters.clients.trace import (
    BadClientTrace,
    ClientTrace,
    ConnectionClosed,
    ConnectionOpened,
    ProduceRequested,
    ProducerIdRequested,
    format_trace,
    parse_trace,
)
from conformance.adapters.clients.trace_text import format_run
from model.idempotent.variants import parse
from proofs.run.files import pretty
from tests.sizes import sized

FIXTURES = Path(__file__).parent / "fixtures"
REPOSITORY = Path(__file__).parents[4]
RELEASES = ("4.3.1", "2.4.1", "2.0.0")


def runs_of(name: str) -> list[ClientTrace]:
    """The runs of a file: each begins with its header."""
    texts: list[list[str]] = []
    for line in (FIXTURES / name).read_text().splitlines():
        if line.startswith('{"format"'):
            texts.append([])
        texts[-1].append(line)
    assert texts, f"{name} has no run"
    return [parse_trace("\n".join(text), name) for text in texts]


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_java_client_did_is_explained(release: str):
    rules_met: set[str] = set()
    for trace in runs_of(f"java-{release}.jsonl"):
        judgement = judge_trace(parse(release), trace)
        assert judgement.verdict == EXPLAINED, (trace.plan.number, judgement)
        seen = [e for e in trace.events if isinstance(e, ProduceRequested | ProducerIdRequested)]
        assert judgement.requests == len(seen)
        rules_met |= judgement.rules
    own = {"bump_epoch"} if release == "4.3.1" else set()
    assert rules_met >= own | {
        "send_new",
        "send_again",
        "on_answer",
        "on_disconnect",
        "receive_producer_id",
        "expire_batch",
    }
    assert ("bump_epoch" in rules_met) == bool(own)


@pytest.mark.parametrize("release", RELEASES)
def test_what_it_did_with_batches_whose_time_was_up_is_explained(release: str):
    for trace in runs_of(f"java-{release}-time.jsonl"):
        judgement = judge_trace(parse(release), trace)
        assert judgement.verdict == EXPLAINED, (trace.plan.number, judgement)


@pytest.mark.parametrize("release", ["2.4.1", "2.0.0"])
def test_what_it_did_beside_batches_of_an_old_producer_id_is_explained(release: str):
    """What waits goes in the order of sequences, whatever the id; the last offset that was
    acknowledged outlives a renumbering."""
    runs = runs_of(f"java-{release}-resets.jsonl")
    assert len(runs) == 3
    for trace in runs:
        judgement = judge_trace(parse(release), trace)
        assert judgement.verdict == EXPLAINED, (trace.plan.number, judgement)
        assert sum(isinstance(event, ProducerIdRequested) for event in trace.events) > 1


@pytest.mark.parametrize(
    ("release", "broken"),
    [
        ("4.3.1", {"acked_once"}),
        ("2.4.1", {"acked_once", "acked_is_stored"}),
        ("2.0.0", {"acked_once", "acked_is_stored"}),
    ],
)
def test_what_it_did_beside_a_batch_refused_for_good_is_explained(release: str, broken: set[str]):
    """KAFKA-14034: the next epoch stores a batch again that had a late error. Before KIP-360 the
    next batch takes the sequence of one that is stored, and is lost as its duplicate."""
    for trace in runs_of(f"java-{release}-rejected.jsonl"):
        outcome = outcome_of(parse(release), trace)
        assert outcome.verdict == EXPLAINED, trace.plan.number
        assert outcome.found.seen.broken == broken


def changed(trace: ClientTrace, position: int, **fields: int) -> ClientTrace:
    """The run with one field of one batch of one request changed."""
    event = trace.events[position]
    assert isinstance(event, ProduceRequested)
    first, *others = event.batches
    other = replace(event, batches=(replace(first, **fields), *others))
    return replace(trace, events=(*trace.events[:position], other, *trace.events[position + 1 :]))


def format_all_runs() -> str:
    """The reports of all runs, as they were and with one number changed."""
    all_lines: list[str] = []
    for release in RELEASES:
        for trace in (*runs_of(f"java-{release}.jsonl"), *runs_of(f"java-{release}-time.jsonl")):
            last = max(i for i, e in enumerate(trace.events) if isinstance(e, ProduceRequested))
            for run in (trace, changed(trace, last, base_sequence=7)):
                all_lines.append(pretty(outcome_of(parse(release), run).to_json()))
                all_lines += format_run(run, judge_trace(parse(release), run))
    return "\n".join(all_lines)


@pytest.mark.parametrize("seed", sized(range(2), [1]))
def test_reports_do_not_depend_on_the_order_of_hashes(seed: int):
    """Two orders: a seed's, and this process has its own."""
    program = (
        "from tests.conformance.adapters.clients.test_recorded import *; print(format_all_runs())"
    )
    text = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert text == format_all_runs() + "\n"
    assert text.count('"verdict": "explained"') == text.count("nothing explains this") > 30


def with_connections(trace: ClientTrace, count: int, to_node: bool) -> ClientTrace:
    """The run, with connections before its own on which nothing was asked; the proxy hears late
    that they are closed."""
    opened = [ConnectionOpened(0, number, to_node) for number in range(count)]
    own = [replace(event, connection=event.connection + count) for event in trace.events]
    closed = [ConnectionClosed(trace.ended_us, number) for number in range(count)]
    return replace(trace, events=(*opened, *own, *closed))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("to_node", [False, True])
def test_connections_that_carry_nothing_do_not_multiply_the_states(release: str, to_node: bool):
    """Under load a client opens many, and gives them up."""
    for trace in runs_of(f"java-{release}.jsonl"):
        alone = judge_trace(parse(release), trace)
        crowded = judge_trace(parse(release), with_connections(trace, 14, to_node))
        assert (crowded.verdict, crowded.requests) == (EXPLAINED, alone.requests)
        assert crowded.client == alone.client


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("field", ["base_sequence", "producer_epoch", "producer_id"])
def test_one_changed_number_is_found(release: str, field: str):
    tried = 0
    for trace in runs_of(f"java-{release}.jsonl")[:4]:
        produces = [i for i, e in enumerate(trace.events) if isinstance(e, ProduceRequested)]
        for position in {produces[0], produces[len(produces) // 2], produces[-1]}:
            event = trace.events[position]
            assert isinstance(event, ProduceRequested)
            value = getattr(event.batches[0], field) + 1
            judgement = judge_trace(parse(release), changed(trace, position, **{field: value}))
            assert judgement.verdict == DIVERGES, (trace.plan.number, position)
            assert judgement.position >= position
            tried += 1
    assert tried >= 8


@pytest.mark.parametrize("release", RELEASES)
def test_a_request_that_was_not_sent_for_a_reason_is_found(release: str):
    """A request once more, while its answer is awaited: no client of these retries so."""
    found = 0
    for trace in runs_of(f"java-{release}.jsonl")[:4]:
        position = next(i for i, e in enumerate(trace.events) if isinstance(e, ProduceRequested))
        event = trace.events[position]
        assert isinstance(event, ProduceRequested)
        twice = replace(event, correlation_id=1_000_000)
        events = (*trace.events[: position + 1], twice, *trace.events[position + 1 :])
        judgement = judge_trace(parse(release), replace(trace, events=events))
        assert (judgement.verdict, judgement.position) == (DIVERGES, position + 1)
        found += 1
    assert found == 4


@pytest.mark.parametrize("release", RELEASES)
def test_a_false_word_to_the_application_is_found(release: str):
    told = 0
    for trace in runs_of(f"java-{release}.jsonl"):
        for record, outcome in trace.outcomes.items():
            other = replace(outcome, error="" if outcome.error else "TimeoutException")
            lie = replace(trace, outcomes={**trace.outcomes, record: other})
            assert judge_trace(parse(release), lie).verdict == DIVERGES, (trace.plan.number, record)
            told += 1
            break
    assert told > 4


def test_silence_is_found():
    for trace in runs_of("java-4.3.1.jsonl"):
        record = max(trace.outcomes)
        rest = {key: value for key, value in trace.outcomes.items() if key != record}
        assert judge_trace(parse("4.3.1"), replace(trace, outcomes=rest)).verdict == DIVERGES


def test_another_release_does_not_explain_it():
    """Releases before 2.5 forget their producer id where later ones take the next epoch."""
    runs = runs_of("java-2.4.1.jsonl")
    assert any(judge_trace(parse("4.3.1"), trace).verdict == DIVERGES for trace in runs)
    runs = runs_of("java-4.3.1.jsonl")
    assert any(judge_trace(parse("2.4.1"), trace).verdict == DIVERGES for trace in runs)


def test_a_file_comes_back_as_it_was():
    for release in RELEASES:
        for trace in runs_of(f"java-{release}.jsonl"):
            assert parse_trace(format_trace(trace), "memory") == trace


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format":"kafka-eos client run","version":2}'])
def test_what_is_no_recorded_run_is_refused(text: str):
    with pytest.raises(BadClientTrace, match=r"here\.jsonl"):
        parse_trace(text, "here.jsonl")


def test_the_newest_client_keeps_the_rules_of_the_protocol():
    names = ("java-4.3.1.jsonl", "java-4.3.1-time.jsonl", "java-4.3.1-load.jsonl")
    runs = [trace for name in names for trace in runs_of(name)]
    assert len(runs) == 12
    assert [first_breach(trace) for trace in runs] == [None] * 12


@pytest.mark.parametrize("name", ["java-2.0.0-resets.jsonl", "java-2.4.1-grown.jsonl"])
def test_old_clients_use_a_sequence_twice(name: str):
    """A batch that was split, or whose sequence was taken back, shares sequences with another that
    may be stored: KAFKA-9703 and what KIP-360 ended."""
    breaches = [breach for trace in runs_of(name) if (breach := first_breach(trace))]
    assert breaches
    assert {breach.rule for breach in breaches} == {"sequences_name_one_record"}


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("producer_id", 77, "ids_are_given"),
        ("producer_epoch", -1, "ids_are_given"),
        ("base_sequence", 77, "sequences_follow"),
        ("records", (99,), "sequences_name_one_record"),
    ],
)
def test_a_broken_rule_of_the_protocol_is_named(field: str, value: int, rule: str):
    trace = runs_of("java-4.3.1.jsonl")[0]
    position, again = sent_twice(trace)
    assert first_breach(trace) is None
    breach = first_breach(
        changed(trace, again if field == "records" else position, **{field: value})
    )
    assert breach is not None
    assert breach.rule == rule


def test_a_file_is_judged_by_the_variant_of_its_run(tmp_path: Path):
    """A client without a release of Java, whose run asked for an old one's rules."""
    trace = replace(runs_of("java-2.0.0-resets.jsonl")[0], client="mine")
    of_old, of_newest = tmp_path / "old.jsonl", tmp_path / "newest.jsonl"
    of_old.write_text(format_trace(replace(trace, variant="2.0.0")))
    of_newest.write_text(format_trace(trace))
    assert judge_file(of_old).outcome.verdict == EXPLAINED
    assert judge_file(of_newest).outcome.verdict == DIVERGES
    assert judge_file(of_newest, "2.0.0").outcome.verdict == EXPLAINED


@pytest.mark.parametrize("name", ["java-4.3.1.jsonl", "java-4.3.1-transactions-2.jsonl"])
def test_acks_of_the_leader_alone_break_the_protocol(name: str):
    trace = runs_of(name)[0]
    position = next(p for p, e in enumerate(trace.events) if isinstance(e, ProduceRequested))
    for acks in (-1, 0, 1):
        events = list(trace.events)
        events[position] = replace(events[position], acks=acks)
        rules = first_breach(replace(trace, events=tuple(events)), (waits_for_all_replicas,))
        assert (rules is None) == (acks == -1)


def sent_twice(trace: ClientTrace) -> tuple[int, int]:
    """The positions of two requests with the same first batch."""
    first: dict[object, int] = {}
    for position, event in enumerate(trace.events):
        if isinstance(event, ProduceRequested):
            if event.batches[0] in first:
                return first[event.batches[0]], position
            first[event.batches[0]] = position
    raise AssertionError("no batch is sent twice")
