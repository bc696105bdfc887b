"""Writes `fixtures/transactions-RELEASE-SCOPE-REQUESTS.jsonl`: a real broker's answers to traces.

    python tests/conformance/adapters/brokers/record_transactions.py 4.3.1 default offsets small

A header line, then a line for each trace: its steps, what it has for itself, and the calls
in their order with
what was answered: {"api": 22, "version": 5, "answer": "<hex>"}, payloads without their size. V1 is
recorded, and V2 where the release has it.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from conformance.adapters.brokers.exchange import Session, TraceEnd, Wait
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.transactions.exhausted_ids import LAST_EPOCH, ExhaustedIds
from conformance.adapters.brokers.transactions.testbed_of_servers import ServersTestbed
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import (
    TransactionScript,
    TransactionScriptWriter,
)
from conformance.adapters.brokers.wire import CoordinatorConnection, Requests
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.generate.broker_graph import AT_ONE
from conformance.judging.compositions import SERVER_ACTORS
from conformance.judging.plan import Plan, configuration, prepare, scope_without
from conformance.verbs.at_servers import FORGETFUL, ID_EXPIRES_S
from conformance.verbs.over_wire import left_out
from impl import encode_response

FIXTURES = Path(__file__).resolve().parent / "fixtures"
TRIED = 1_000
TRACES = 12
WAITING = {"small": 6, "forgotten": 4}
"""Scopes of which traces are recorded that wait for the broker, and how many: each takes long."""


def plan_of(variant: str, scope: str) -> Plan:
    """The plan whose traces are recorded."""
    return Plan(
        scope=f"transactions-{scope}",
        variant=variant,
        actors=SERVER_ACTORS,
        faults="connections",
        traces_from=("cover",),
    )


def chosen(scripts: Iterable[TransactionScript], *, waits: bool) -> Iterator[TransactionScript]:
    """Those with two requests in a row, or their answers, that none before had; only those that
    wait for the broker, if there are such."""
    met: set[Any] = set()
    for script in scripts:
        if waits and not (script.times_out or script.forgotten):
            continue
        sent = [(script.instance(m.step)[0], m.sent.answer[0]) for m in script.moved if m.sent]
        new = {*pairwise(sent)} - met
        if new:
            met |= new
            yield script


def recorded(wire: CoordinatorConnection, asking: Session) -> list[dict[str, Any]]:
    """The calls of one trace with their answers; the broker is as the model says."""
    rows: list[dict[str, Any]] = []
    asks = next(asking)
    while True:
        answers = []
        for ask in asks:
            if isinstance(ask, Wait):
                time.sleep(max(ask.until - time.monotonic(), 0))
                continue
            call = ask.call.request
            body = wire.connection.ask(call.api_key, call.api_version, call.body)
            payload = encode_response(call.api_key, call.api_version, 0, body)
            rows.append({"api": call.api_key, "version": call.api_version, "answer": payload.hex()})
            answers.append(ask.call.read(body))
        try:
            asks = asking.send(answers)
        except StopIteration as ended:
            outcome: TraceEnd = ended.value
            assert (outcome.difference, outcome.is_undecided) == (None, False), outcome
            return rows


def record(release: str, scope: str, requests: Requests) -> None:
    """Write the file of a release, a scope and a kind of requests."""
    level = 2 if release.startswith("4") else 0
    variant = f"{release}/level={level}/requests={requests}"
    plan = plan_of(variant, scope)
    plan = replace(plan, scope=scope_without(plan.scope, left_out(plan, AT_ONE)))
    k = configuration(plan)
    last = LAST_EPOCH - k.bounds.max_epoch - 1
    count, properties = WAITING.get(scope, TRACES), FORGETFUL if k.budgets.forgotten else {}
    kafka = KafkaTestbed(release, level=level, properties=properties)
    with tempfile.TemporaryDirectory() as directory, kafka:
        ids = ExhaustedIds(kafka, last, count) if k.bounds.epochs_end else None
        prepared = prepare(plan, Path(directory))
        writer = TransactionScriptWriter(tables_of(with_room(k)))
        tried = range(0, prepared.cover_traces, max(prepared.cover_traces // TRIED, 1))
        scripts = (writer.script(prepared.trace(number)) for number in tried)
        wire = kafka.connect()
        wire.retry(kafka.conversation("v1").init_producer_id(None))  # ids are there from now on
        id_s = ID_EXPIRES_S if k.budgets.forgotten else 0.0
        testbed = ServersTestbed(kafka, kafka.conversation(requests), k, ids=ids, id_s=id_s)
        lines: list[Any] = [{"scope": plan.scope, "variant": variant}]
        for script in islice(chosen(scripts, waits=scope in WAITING), count):
            own, session = testbed.session(0, script, 1)
            lines.append(
                {
                    "id": own.transactional_id,
                    "steps": script.steps,
                    "partitions": own.partitions,
                    "coordinator_epoch": own.coordinator_epoch,
                    "group": own.group_id,
                    "first_epoch": own.first_epoch,
                    "calls": recorded(wire, session),
                }
            )
    path = FIXTURES / f"transactions-{release}-{scope}-{requests}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    for which in sys.argv[2:]:
        for kind in ("v1", "v2") if sys.argv[1].startswith("4") else ("v1",):
            record(sys.argv[1], which, kind)
