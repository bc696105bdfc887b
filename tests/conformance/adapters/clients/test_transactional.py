"""Transactional runs of Kafka's own client, recorded behind the proxy: they keep all rules and all
guarantees, and each change that breaks one is found. The adapters of other clients run at the end.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.clients import transactional_rules as rules
from conformance.adapters.clients import visible_records as promises
from conformance.adapters.clients.known_causes import known_cause, known_causes
from conformance.adapters.clients.processes import ADAPTERS, SHIPPED, check_command, client_version
from conformance.adapters.clients.trace import (
    COMMITTED,
    ClientTrace,
    ConnectionEvent,
    CoordinatorAnswered,
    CoordinatorRequested,
    PartitionResult,
    ProduceAnswered,
    ProduceRequested,
    ProducerIdAnswered,
    ProducerIdRequested,
    WireBatch,
    format_trace,
    parse_trace,
)
from conformance.adapters.clients.transactional_judgement import (
    findings_of,
    outcome_of_transactions,
)
from conformance.adapters.clients.transactional_plan import (
    TransactionalPlan,
    draw_transactional,
)
from conformance.adapters.clients.transactional_rules import broken_rules, differing_policies
from conformance.adapters.clients.visible_records import observe_transactions
from conformance.judging.causes import Severity
from impl.protocol.errors import ErrorCode
from proofs.run import BadUse
from tests.conformance.adapters.clients.test_recorded import runs_of

LEVELS = (0, 2)
Change = Callable[[ConnectionEvent], ConnectionEvent | None]


@pytest.fixture(scope="module", params=LEVELS)
def recorded(request) -> list[ClientTrace]:
    return runs_of(f"java-4.3.1-transactions-{request.param}.jsonl")


def test_the_java_client_keeps_all_rules_and_guarantees(recorded):
    met: set[str] = set()
    for trace in recorded:
        outcome = outcome_of_transactions(trace)
        assert findings_of(trace, outcome.found.seen) == [], trace.plan.number
        assert outcome.verdict == "explained"
        met |= outcome.found.seen.met
    assert met == promises.GUARANTEES.keys()


def test_a_recorded_run_is_read_as_it_was_written(recorded):
    for trace in recorded:
        assert parse_trace(format_trace(trace), "memory") == trace


def changed(trace: ClientTrace, change: Change) -> ClientTrace:
    """The run with other events, or without some."""
    return replace(trace, events=tuple(e for one in trace.events if (e := change(one)) is not None))


def without(api: str) -> Change:
    def change(event: ConnectionEvent) -> ConnectionEvent | None:
        is_of = isinstance(event, CoordinatorRequested | CoordinatorAnswered) and event.api == api
        return None if is_of else event

    return change


def not_transactional(event: ConnectionEvent) -> ConnectionEvent:
    if not isinstance(event, ProduceRequested):
        return event
    batches = tuple(replace(batch, is_transactional=False) for batch in event.batches)
    return replace(event, batches=batches)


def other_epoch(event: ConnectionEvent) -> ConnectionEvent:
    is_end = isinstance(event, CoordinatorRequested) and event.api == "END_TXN"
    return replace(event, producer_epoch=event.producer_epoch + 7) if is_end else event


def never_ended(event: ConnectionEvent) -> ConnectionEvent:
    """Ends that are refused, so that the next transaction's records join the one before."""
    is_end = isinstance(event, CoordinatorAnswered) and event.api == "END_TXN"
    return replace(event, error=ErrorCode.CONCURRENT_TRANSACTIONS) if is_end else event


def rules_broken(traces: list[ClientTrace], change: Change) -> set[str]:
    return {breach.rule for trace in traces for breach in broken_rules(changed(trace, change))}


@pytest.mark.parametrize(
    ("level", "rule", "change"),
    [
        (0, "batches_are_transactional", not_transactional),
        (2, "batches_are_transactional", not_transactional),
        (0, "epochs_are_given", other_epoch),
        (2, "epochs_are_given", other_epoch),
        (0, "partitions_are_added", without("ADD_PARTITIONS_TO_TXN")),
        (0, "offsets_are_added", without("ADD_OFFSETS_TO_TXN")),
        (0, "transactions_do_not_mix", never_ended),
    ],
)
def test_a_run_that_is_changed_breaks_the_rule(level: int, rule: str, change: Change):
    traces = runs_of(f"java-4.3.1-transactions-{level}.jsonl")
    assert rule not in rules_broken(traces, lambda event: event)
    assert rule in rules_broken(traces, change)


def test_an_end_that_overtakes_its_batches_is_found():
    trace = next(t for t in runs_of("java-4.3.1-transactions-2.jsonl") if ends_of(t))
    early = {*ends_of(trace)}
    found = set()
    for end in early:
        events = [e for e in trace.events if e is not end]
        for position, event in enumerate(events):
            if isinstance(event, ProduceRequested):
                moved = (*events[: position + 1], end, *events[position + 1 :])
                found |= {b.rule for b in broken_rules(replace(trace, events=moved))}
    assert "commits_need_all_stored" in found


def test_a_later_sequence_shows_that_a_batch_is_stored():
    """librdkafka does not send again what NOT_ENOUGH_REPLICAS_AFTER_APPEND has answered."""
    unsure = PartitionResult(0, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1, -1)
    events = (
        ProducerIdAnswered(0, 0, 0, 0, 7, 0),
        ProduceRequested(0, 0, 1, (WireBatch(0, 7, 0, 0, (0,), True),), 13),
        ProduceAnswered(0, 0, 1, (unsure,)),
        ProduceRequested(0, 0, 2, (WireBatch(0, 7, 0, 1, (1,), True),), 13),
        ProduceAnswered(0, 0, 2, (replace(unsure, error=0, base_offset=1),)),
        CoordinatorRequested(0, 0, 3, "END_TXN", 5, 7, 0, commits=True),
    )
    trace = runs_of("java-4.3.1-transactions-2.jsonl")[0]
    assert not broken_rules(replace(trace, events=events))
    (breach,) = broken_rules(replace(trace, events=(*events[:3], *events[5:])))
    assert breach.rule == "commits_need_all_stored"


def ends_of(trace: ClientTrace) -> Iterator[CoordinatorRequested]:
    for event in trace.events:
        if isinstance(event, CoordinatorRequested) and event.api == "END_TXN":
            yield event


def test_an_end_that_changes_its_outcome_is_found():
    """The first one is not answered: it may have been done."""
    trace = next(t for t in runs_of("java-4.3.1-transactions-0.jsonl") if [*ends_of(t)])
    end = next(ends_of(trace))
    other = replace(end, commits=not end.commits, correlation_id=9_999)
    position = trace.events.index(end)
    events = (*trace.events[:position], other, *trace.events[position:])
    assert "ends_keep_their_outcome" in {
        b.rule for b in broken_rules(replace(trace, events=events))
    }


def test_who_is_fenced_stays_fenced():
    trace = runs_of("java-4.3.1-transactions-0.jsonl")[0]
    fenced = CoordinatorAnswered(0, 0, 1, "END_TXN", ErrorCode.PRODUCER_FENCED)
    again = ProducerIdRequested(0, 0, 2, -1, -1)
    assert not broken_rules(replace(trace, events=(fenced,)))
    (breach,) = broken_rules(replace(trace, events=(fenced, again)))
    assert (breach.rule, breach.position) == ("fenced_stays_fenced", 1)


def test_what_was_told_and_is_not_there_breaks_a_promise(recorded):
    trace = next(t for t in recorded if promises.visible_of(t).records)
    seen = promises.visible_of(trace)
    assert COMMITTED in trace.ends.values()
    assert observe_transactions(replace(trace, stored=())).broken >= {"no_lost_write"}
    twice = replace(trace, stored=(*trace.stored, *trace.stored))
    assert "acked_once" in observe_transactions(twice).broken
    known = trace.plan.transaction_of
    number = known[seen.records[0]]
    lied = replace(trace, ends={**trace.ends, number: "aborted"})
    assert "no_aborted_read" in observe_transactions(lied).broken
    (found,) = findings_of(lied, observe_transactions(lied))
    assert (found["breaks"], found["rule"]) == (Severity.PROMISE, "no_aborted_read")


def test_records_out_of_order_torn_or_with_other_offsets_break_promises(recorded):
    broken: set[str] = set()
    for trace in recorded:
        backwards = tuple(replace(b, records=b.records[::-1]) for b in trace.stored)
        torn = tuple(replace(b, records=b.records[1:]) for b in trace.stored)
        for stored in (backwards, torn):
            broken |= observe_transactions(replace(trace, stored=stored)).broken
        broken |= observe_transactions(replace(trace, offset=77)).broken
    assert {"order_kept", "all_or_none", "offsets_with_outcome"} <= broken


def test_v1_requests_at_level_2_are_another_policy():
    """Clients without KIP-890: the protocol allows it."""
    (trace, *_) = [t for t in runs_of("java-4.3.1-transactions-0.jsonl") if [*ends_of(t)]]
    found = differing_policies(replace(trace, plan=replace(trace.plan, level=2)))
    assert "level_2_is_used" in [policy.rule for policy in found]
    assert not differing_policies(trace)


def test_an_end_of_nothing_is_another_policy():
    found = [
        policy.rule
        for trace in runs_of("java-4.3.1-transactions-0.jsonl")
        for policy in differing_policies(
            changed(trace, lambda e: None if isinstance(e, ProduceRequested) or is_add(e) else e)
        )
    ]
    assert "empty_transactions_are_not_ended" in found


def is_add(event: ConnectionEvent) -> bool:
    is_of = isinstance(event, CoordinatorRequested | CoordinatorAnswered)
    return is_of and event.api.startswith(("ADD_", "TXN_OFFSET"))


def test_every_rule_and_policy_has_a_change_that_breaks_it():
    text = Path(__file__).read_text(encoding="utf-8")
    for rule in (*rules.RULES, *rules.POLICIES, *promises.GUARANTEES.values()):
        assert f'"{rule.__name__}"' in text, rule.__name__


def test_plans_are_a_function_of_seed_and_number():
    plan = draw_transactional(3, 5, 0)
    assert plan == draw_transactional(3, 5, 0) != draw_transactional(3, 6, 0)
    assert TransactionalPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    words = list(plan.words)
    assert words[0] == "begin:0"
    assert words[-1].partition(":")[0] in ("commit", "abort")


def test_shipped_clients_have_versions_and_say_what_is_missing(monkeypatch):
    assert {client_version(name) for name in SHIPPED}.isdisjoint(SHIPPED)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(BadUse, match=r"--client kafkajs: Node\.js is not installed"):
        check_command("kafkajs")


@pytest.mark.parametrize("name", ["librdkafka", "aiokafka", "kafka-python"])
def test_an_adapter_has_fewer_than_30_lines(name: str):
    (file,) = [Path(word) for word in check_command(name) if word.endswith(".py")]
    assert file.parent == ADAPTERS
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= 36  # with its imports and its first sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", ["librdkafka", "aiokafka", "kafka-python"])
def test_a_client_of_python_ends_its_transactions(name: str, tmp_path: Path):
    arguments = ["--system", "client", "--client", name, "--transactions", "--faults", "none"]
    out = tmp_path / "out"
    main(["run", *arguments, "--traces", "2", "--partitions", "2", "--out", str(out)])
    report = json.loads((out / "report.json").read_text())
    assert report["undecided"] == 0
    assert report["guarantees"]["no_lost_write"] == "holds"
    assert [row["rule"] for row in report["divergences"]] == ["level_2_is_used"]
    assert report["divergences"][0]["decided_by"].startswith("At transaction.version 2")


def test_transactions_are_for_clients(tmp_path: Path, capsys):
    assert main(["run", "--transactions", "--out", str(tmp_path / "out")]) == 2
    assert "--transactions goes with --system client" in capsys.readouterr().err
    client = f"{sys.executable} -c pass"
    arguments = ["--system", "client", "--client", client, "--level", "2"]
    assert main(["run", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert "--level is of transactions" in capsys.readouterr().err


def test_what_is_known_of_clients_names_a_rule_its_source_and_a_public_issue():
    names = {rule.__name__ for rule in (*rules.RULES, *rules.OF_IDEMPOTENT, *rules.POLICIES)}
    for row in known_causes():
        assert row.client in SHIPPED
        assert row.cause in names | {"init_producer_id", "acked_is_stored"}
        assert row.source
        assert row.issue.startswith("https://github.com/") or not row.issue
        assert known_cause(row.client, f"{row.cause}: some.field") == row
    assert known_cause("java:4.3.1", "level_2_is_used") is None


def test_what_clients_break_in_the_kept_matrix_is_known():
    """A new breach is checked by hand in the client's source, and gets a row."""
    kept = json.loads((Path(__file__).parents[4] / "evidence" / "matrix.json").read_text())
    cells = [cell for cell in kept["cells"] if cell["client"]]
    assert {cell["client"] for cell in cells} == {*SHIPPED, "java:4.3.1"}
    for cell in cells:
        for cause in cell["causes"]:
            if cause["breaks"] in (Severity.PROMISE, Severity.PROTOCOL):
                assert known_cause(cell["client"], cause["cause"]), (cell["name"], cause["cause"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["franz-go", "kafkajs"])
def test_a_client_of_another_language_commits_offsets(name: str, tmp_path: Path):
    try:
        check_command(name)
    except BadUse as error:
        pytest.skip(str(error))
    arguments = ["--system", "client", "--client", name, "--transactions", "--faults", "none"]
    out = tmp_path / "out"
    main(["run", *arguments, "--traces", "3", "--partitions", "3", "--out", str(out)])
    report = json.loads((out / "report.json").read_text())
    assert report["undecided"] == 0
    assert {row["rule"] for row in report["divergences"]} <= {"level_2_is_used"}
    assert report["guarantees"]["offsets_with_outcome"] == "holds"
