"""Counting protocol events: a request counts once with its delivery, in every composition."""

import pytest

from model.releases import NEWEST
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, load_model, model_for
from proofs.trace.events import events, only_delivers, requests
from proofs.trace.format import Header
from proofs.trace.replay import Stepper, configuration_of, domains, record

pytestmark = pytest.mark.fast

DELIVERIES = {
    "idempotent": {
        "request_arrives",
        "request_is_refused",
        "request_is_rejected",
        "request_outlives_replicas",
        "late_request_arrives",
    },
    "producer_ids": set(),
    "transactions": {
        "late_init_arrives",
        "late_addition_arrives",
        "late_end_arrives",
        "late_batch_arrives",
        "late_batch_is_verified",
        "late_offsets_arrive",
        "late_marker_arrives",
    },
    "processing": set(),
}


def model_of(composition):
    return load_model(composition)


def count(scope, variant, script):
    """The steps and events of a trace written by hand; it is run, so that it is one."""
    model = model_for(scope)
    k = configuration_of(model, scope, variant)
    lines = [line.split() for line in script.strip().splitlines()]
    named = [(rule, zip(domains(model, k, rule), choice, strict=True)) for rule, *choice in lines]
    run = [(rule, tuple((name, int(value)) for name, value in choice)) for rule, choice in named]
    trace, _ = record(Stepper(model, k), Header(scope, variant), run)
    return len(trace.steps), events(model, trace.steps)


def test_deliveries_are_told_by_the_types_of_what_is_sent_and_answered():
    assert set(COMPOSITIONS) == DELIVERIES.keys()
    for composition, deliveries in DELIVERIES.items():
        model = model_of(composition)
        assert {rule for rule in model.rules if only_delivers(model, rule)} == deliveries


def test_what_is_sent_and_answered_is_a_request():
    named = {c: {r.__name__ for r in requests(model_of(c))} for c in DELIVERIES}
    assert named == {
        "idempotent": {"ProduceRequest"},
        "producer_ids": set(),
        "transactions": {"Request", "Marker"},
        "processing": set(),
    }


WRITTEN = {
    "a batch and its answer": (
        "idempotent-tiny",
        NEWEST,
        """
        client_sends 0 0
        request_arrives 0 0
        answer_arrives 0 0
        """,
        (3, 2),
    ),
    "a lost answer, and a retry": (
        "idempotent-tiny",
        NEWEST,
        """
        client_sends 0 0
        connection_breaks 0 0 1
        late_request_arrives 0 0 0
        client_retries 0 0
        request_arrives 0 0
        answer_arrives 0 0
        """,
        (6, 4),
    ),
    "a producer id is refused, and then given": (
        "producer-ids",
        "3.9.2-zookeeper",
        """
        producer_asks 0
        producer_id_is_refused 0
        block_is_read 0
        block_is_written 0
        block_turns_over 0
        producer_asks 0
        producer_id_is_given 0
        """,
        (7, 7),
    ),
    "a member that starts, joins and fetches": (
        "processing",
        NEWEST,
        """
        member_starts 0
        member_joins 0
        offset_is_fetched 0
        record_is_produced 0
        """,
        (4, 4),
    ),
    "a transaction of V2: its requests are asked and heard in one step": (
        "transactions-tiny",
        "v2",
        """
        instance_begins 0
        producer_id_is_asked 0 1
        transaction_begins 0
        record_is_sent 0 0
        batch_is_produced 0 0 1
        commit_is_asked 0
        transaction_is_ended 0 1
        marker_is_written 0 1
        """,
        (8, 8),
    ),
    "an EndTxn of V1 that is late": (
        "transactions-default",
        "v1",
        """
        instance_begins 0
        producer_id_is_asked 0 1
        transaction_begins 0
        record_is_sent 0 0
        partitions_are_added 0 1
        abort_is_asked 0
        end_is_delayed 0
        late_end_arrives 0
        transaction_is_ended 0 1
        marker_is_written 0 1
        """,
        (10, 9),
    ),
    "a batch that is late": (
        "transactions-late-batch",
        "v1",
        """
        instance_begins 0
        producer_id_is_asked 0 1
        transaction_begins 0
        record_is_sent 0 0
        partitions_are_added 0 1
        batch_is_delayed 0 0
        late_batch_arrives 0 0
        """,
        (7, 6),
    ),
    "a batch that is late, and a marker between its verification and the log": (
        "transactions-guards",
        "v1",
        """
        instance_begins 0
        producer_id_is_asked 0 1
        transaction_begins 0
        record_is_sent 0 0
        partitions_are_added 0 1
        batch_is_delayed 0 0
        late_batch_is_verified 0 0
        batch_expires 0 0 1
        abort_is_asked 0
        transaction_is_ended 0 1
        marker_is_written 0 1
        verified_batch_arrives 0 0
        """,
        (12, 11),
    ),
    "a marker that is late": (
        "transactions-markers",
        "v2",
        """
        instance_begins 0
        producer_id_is_asked 0 1
        transaction_begins 0
        record_is_sent 0 0
        batch_is_produced 0 0 1
        commit_is_asked 0
        transaction_is_ended 0 1
        marker_is_delayed 0
        marker_is_written 0 1
        late_marker_arrives 0 0
        """,
        (10, 9),
    ),
}


@pytest.mark.parametrize(("scope", "variant", "script", "counts"), WRITTEN.values(), ids=WRITTEN)
def test_a_trace_has_so_many_events(scope, variant, script, counts):
    assert count(scope, variant, script) == counts


def test_a_patched_model_is_counted_by_its_own_text():
    epoch = Patch("leader.check_producer_epoch", "Error.INVALID_PRODUCER_EPOCH", "Error.NONE")
    model = load_model("idempotent", [epoch])
    assert {rule for rule in model.rules if only_delivers(model, rule)} == DELIVERIES["idempotent"]
