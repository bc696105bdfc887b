"""Writes `fixtures/kafka-RELEASE.jsonl`: what a real broker answers to some traces of a cover.

    python tests/conformance/adapters/brokers/record_wire.py 4.3.1 2.0.0

A header line, then a line for each Produce request, in the order in which its trace sent it:
{"trace": 0, "request": "<hex>", "answer": "<hex>"}, both payloads without their size. The answer is
what was read of it, written again.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from recorded_session import recorded

from conformance.adapters.brokers.exchange import Session
from conformance.adapters.brokers.idempotent.deliveries import LeaderScript, LeaderScriptWriter
from conformance.adapters.brokers.idempotent.observer import Observer
from conformance.adapters.brokers.idempotent.started_brokers import started
from conformance.adapters.brokers.idempotent.testbed_of_leaders import LeadersTestbed
from conformance.adapters.brokers.idempotent.wire_messages import Binding
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.listening_broker import ListeningBroker
from conformance.adapters.brokers.scheduler import Scheduler
from conformance.judging.plan import Plan, configuration, prepare
from impl import ApiKey, encode_request, encode_response
from model.idempotent.configuration import FirstSequence
from model.idempotent.variants import parse

FIXTURES = Path(__file__).resolve().parent / "fixtures"
SCOPES = {"idempotent-default": 14, "idempotent-wrap": 4}
"""How many traces of each."""


def scopes_of(version: str) -> dict[str, int]:
    """Those whose beginning a leader of the release accepts."""
    any_first = parse(version).first_sequence == FirstSequence.ANY
    return {name: count for name, count in SCOPES.items() if any_first or "wrap" not in name}


class RecordingTestbed(LeadersTestbed):
    """Keeps each batch that is sent, and what was answered, by the trace's number."""

    def __init__(self, observer: Observer, broker: ListeningBroker, traces: int) -> None:
        super().__init__(observer, broker, traces)
        self.heard: dict[int, list[tuple[WireRequest, Any]]] = {}

    def session(self, number: int, script: LeaderScript, factor: int) -> tuple[Binding, Session]:
        binding, session = super().session(number, script, factor)
        rows = self.heard[number] = []

        def keep(request: WireRequest, body: Any) -> None:
            if request.api_key == ApiKey.PRODUCE:
                rows.append((request, body))

        return binding, recorded(session, keep)


def record(name: str) -> None:
    release = find_release(name)
    level = release.default_level
    lines: list[dict[str, Any]] = [{"release": name, "level": level}]
    with started(name, level) as broker, tempfile.TemporaryDirectory() as folder:
        for scope, traces in scopes_of(release.version).items():
            plan = Plan(faults="connections", variant=release.version, scope=scope)
            prepared = prepare(plan, Path(folder) / scope)
            k = configuration(plan)
            observer = Observer(k)
            writer = LeaderScriptWriter(k, observer)
            first = len({line.get("trace") for line in lines}) - 1
            testbed = RecordingTestbed(observer, broker, traces)
            scheduler = Scheduler(testbed)
            numbers = range(0, prepared.cover_traces, prepared.cover_traces // traces)
            scripts = ((n, writer.script(prepared.trace(n))) for n in numbers[:traces])
            for _ in scheduler.run(scripts):
                pass
            scheduler.close()
            testbed.close()
            heard = testbed.heard
            for at, number in enumerate(sorted(heard), start=first):
                lines += [line(at, request, body) for request, body in heard[number]]
    text = "".join(json.dumps(row) + "\n" for row in lines)
    (FIXTURES / f"kafka-{name}.jsonl").write_text(text)


def line(trace: int, request: WireRequest, body: Any) -> dict[str, Any]:
    """One request and its answer. Correlation ids are 0: they say nothing of a broker."""
    key, version = request.api_key, request.api_version
    return {
        "trace": trace,
        "request": encode_request(key, version, 0, "kafka-eos", request.body).hex(),
        "answer": encode_response(key, version, 0, body).hex(),
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(name)
