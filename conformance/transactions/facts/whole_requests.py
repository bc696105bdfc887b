"""What is looked at before any partition is: whole Produce requests, and what may be described."""

from __future__ import annotations

from conformance.kafka.admin import TopicPartition
from conformance.kafka.connection import Request
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.reading import describe_transactions
from conformance.transactions.wire import Call, Produced, Producer, error_of
from impl.protocol.errors import ErrorCode

REFUSED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


@experiment("v1")
def produce_requests(lab: Lab) -> None:
    """A transactional id without its batches, batches without an id, two producers in one."""
    c = lab.v1
    first, second = lab.begin(c), lab.begin(c)
    [one, other] = lab.ground.topic(2)
    for producer, partition in ((first, one), (second, other)):
        lab.retry(c.add_partitions(producer, [partition]))
    nobody = _named(c.produce(first, one, 0, "value"), None)
    lab.fact("a transactional batch without an id", REFUSED, lab.ask_leader(one, nobody))
    plain = c.produce(lab.begin(c), one, 0, "value", is_transactional=False)
    named = _named(plain, first.transactional_id)
    lab.fact("a plain batch with an id", "NONE", lab.ask_leader(one, named))
    each = lab.since({"0": "NONE", "3.6": "INVALID_PRODUCER_ID_MAPPING"})
    observed = [error.name for error in _both(lab, first, second, one, other)]
    lab.fact("two producers in one request", f"{each} {each}", " ".join(observed))
    alone = c.produce(first, one, 0, "value", acks=1)
    lab.fact("acks=1", "NONE", lab.ask_leader(one, alone))


@experiment("v1")
def describing(lab: Lab) -> None:
    """Ids that cannot be described."""
    for what, name, expected in (
        ("an id that nobody knows", lab.ground.fresh("nobody"), "TRANSACTIONAL_ID_NOT_FOUND"),
        ("an empty id", "", "INVALID_REQUEST"),
    ):
        seen = lab.ground.coordinator().ask(describe_transactions([name]))[name]
        lab.fact(what, expected, seen.error.name)


def _named(call: Call[Produced], transactional_id: str | None) -> Call[Produced]:
    """The same request in another name."""
    request = call.request
    body = {**request.body, "transactional_id": transactional_id}
    return Call(Request(request.api_key, request.api_version, body), call.read)


def _both(
    lab: Lab, first: Producer, second: Producer, one: TopicPartition, other: TopicPartition
) -> list[ErrorCode]:
    """A request with a batch of each producer, in the name of the first."""
    c = lab.v1
    request = c.produce(first, one, 0, "value").request
    [topic] = request.body["topics"]
    [more] = c.produce(second, other, 0, "value").request.body["topics"]
    both = {**topic, "partitions": topic["partitions"] + more["partitions"]}
    connection = lab.ground.leader(one).connection
    body = connection.ask(request.api_key, request.api_version, {**request.body, "topics": [both]})
    rows = [row for topic in body["topics"] for row in topic["partitions"]]
    return [error_of(row["error_code"]) for row in rows]
