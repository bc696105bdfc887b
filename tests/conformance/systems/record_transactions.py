"""Writes `fixtures/transactions-RELEASE-REQUESTS.jsonl`: what a real broker answered to traces.

    python tests/conformance/systems/record_transactions.py 4.3.1 v1 v2

A header line, then a line for each trace: its steps, its ground, and the calls in their order with
what was answered: {"api": 22, "version": 5, "answer": "<hex>"}, payloads without their size.
"""

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from conformance.homes import SERVED
from conformance.plan import Plan, prepare, setting
from conformance.systems.transactions.tables import tables_of
from conformance.systems.transactions_wire_harness import Supply
from conformance.systems.transactions_wire_script import Script, ScriptWriter
from conformance.systems.transactions_wire_trial import Ended, Ground, Trial
from conformance.transactions.ground import Ground as Servers
from conformance.transactions.reading import TRANSACTION_STATE, leadership
from conformance.transactions.wire import Wire
from impl import encode_response

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SCOPE = "transactions-default"
TRIED = 1_000
TRACES = 40


def chosen(scripts: Iterable[Script]) -> Iterator[Script]:
    """Those with two requests in a row, or their answers, that none before had."""
    met: set[Any] = set()
    for script in scripts:
        sent = [(script.instance(m.step)[0], m.sent.answer[0]) for m in script.moved if m.sent]
        new = {*pairwise(sent)} - met
        if new:
            met |= new
            yield script


def recorded(servers: Servers, wire: Wire, script: Script, ground: Ground) -> list[dict[str, Any]]:
    """The calls of one trace with their answers; the broker is as the model says."""
    requests = "v2" if ground.transactional_id.endswith("v2") else "v1"
    asking = Trial(script, ground, servers.conversation(requests)).run()
    rows: list[dict[str, Any]] = []
    asks = next(asking)
    while True:
        answers = []
        for ask in asks:
            call = ask.call.request
            body = wire.connection.ask(call.api_key, call.api_version, call.body)
            payload = encode_response(call.api_key, call.api_version, 0, body)
            rows.append({"api": call.api_key, "version": call.api_version, "answer": payload.hex()})
            answers.append(ask.call.read(body))
        try:
            asks = asking.send(answers)
        except StopIteration as ended:
            outcome: Ended = ended.value
            assert outcome.difference is None, outcome
            return rows


def record(release: str, requests: str) -> None:
    """Write the file of a release and a kind of requests."""
    level = 2 if release.startswith("4") else 0
    variant = f"{release}/level={level}/requests={requests}"
    plan = Plan(
        scope=SCOPE,
        variant=variant,
        actors=SERVED,
        faults="connections",
        traces_from=("cover",),
    )
    with tempfile.TemporaryDirectory() as directory, Servers(release, level=level) as servers:
        prepared = prepare(plan, Path(directory))
        writer = ScriptWriter(tables_of(setting(plan)))
        tried = range(0, prepared.cover_traces, max(prepared.cover_traces // TRIED, 1))
        scripts = [writer.script(prepared.trace(number)) for number in tried]
        epoch = servers.coordinator().ask(leadership(TRANSACTION_STATE)).leader_epoch
        supply, wire = Supply(servers), servers.connect()
        wire.retry(servers.conversation("v1").init_producer_id(None))  # ids are there from now on
        lines: list[Any] = [{"scope": SCOPE, "variant": variant}]
        for number, script in enumerate(list(chosen(scripts))[:TRACES]):
            partitions, ends = zip(*supply.take(2), strict=True)
            ground = Ground(f"recorded-{number}-{requests}", partitions, ends, epoch)
            lines.append(
                {
                    "id": ground.transactional_id,
                    "steps": script.steps,
                    "partitions": partitions,
                    "coordinator_epoch": epoch,
                    "calls": recorded(servers, wire, script, ground),
                }
            )
    path = FIXTURES / f"transactions-{release}-{requests}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    for kind in sys.argv[2:]:
        record(sys.argv[1], kind)
