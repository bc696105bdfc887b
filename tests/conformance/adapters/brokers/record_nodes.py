"""Writes `fixtures/nodes-RELEASE-KIND.jsonl`: what three brokers answered to traces while they
were frozen, killed and moved.

    python tests/conformance/adapters/brokers/record_nodes.py 4.3.1 v1 v2 leaderless

A header line, then a line for each trace: its steps, its ground, and in their order the calls with
what was answered, {"api": 22, "version": 5, "answer": "<hex>"}, and what was done, {"deed": "move",
"epoch": 1}.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from recorded_session import recorded

from conformance.adapters.brokers.exchange import BrokerFault, Session, TraceEnd, Wait
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.scheduler import Scheduler
from conformance.adapters.brokers.transactions.cluster_nodes import ClusterNodes, seated_cluster
from conformance.adapters.brokers.transactions.nodes_script import NodeScript, NodesWriter
from conformance.adapters.brokers.transactions.nodes_session import NodesSession
from conformance.adapters.brokers.transactions.testbed_of_nodes import ClusterTestbed
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_session import TraceResources
from conformance.adapters.brokers.wire import Requests
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.campaigns.stories.marker_without_leader import leaderless
from conformance.generate.broker_graph import SKIP
from conformance.judging.compositions import SERVER_ACTORS
from conformance.judging.plan import Plan, configuration, prepare
from impl import encode_response

FIXTURES = Path(__file__).resolve().parent / "fixtures"
KINDS: dict[str, tuple[str, Requests]] = {
    "v1": ("transactions-small/unheard=0", "v1"),
    "v2": ("transactions-small", "v2"),
    "leaderless": ("transactions-leaderless", "v2"),
}
"""Their scopes and requests."""
TRIED = 300
MOST_ALIKE = 3


class RecordingSession(NodesSession):
    """A session that keeps what it asked and heard; what led to a rest is not kept, for it is asked
    again."""

    kept: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, script: NodeScript, own: TraceResources, *more: Any, **kinds: Any) -> None:
        super().__init__(script, own, *more, **kinds)
        self.rows: list[dict[str, Any]] = []
        self.kept[own.transactional_id] = {
            "id": own.transactional_id,
            "steps": script.steps,
            "partitions": own.partitions,
            "log_ends": own.log_ends,
            "coordinator_epoch": own.coordinator_epoch,
            "calls": self.rows,
        }

    def run(self) -> Session:
        session, answers, first = recorded(super().run(), self._keep), None, 0
        while True:
            try:
                asks = session.send(answers)  # type: ignore[arg-type]
            except StopIteration as ended:
                end: TraceEnd = ended.value
                return end
            if isinstance(asks[0], Wait):
                del self.rows[first:]
            first = len(self.rows)
            answers = yield asks
            if isinstance(asks[0], BrokerFault):
                self.rows.append({"deed": asks[0].name, "epoch": answers[0]})

    def _keep(self, request: WireRequest, body: Any) -> None:
        payload = encode_response(request.api_key, request.api_version, 0, body)
        row = {"api": request.api_key, "version": request.api_version}
        self.rows.append({**row, "answer": payload.hex()})


class RecordingTestbed(ClusterTestbed):
    """Nodes at which sessions are kept."""

    session_kind: type[NodesSession] = RecordingSession


def chosen(scripts: Iterable[NodeScript]) -> Iterator[NodeScript]:
    """Some of each kind: what is done, whether the transaction times out, whether a marker may be
    late, how many are skipped."""
    met: Counter[Any] = Counter()
    for script in scripts:
        skipped = sum(rule == SKIP for rule, _ in script.steps)
        kind = script.faults, bool(script.times_out), bool(script.branch), skipped
        met[kind] += 1
        if script.faults and met[kind] <= MOST_ALIKE:
            yield script


def record(release: str, kind: str) -> None:
    """Write the file of a release and a kind of traces."""
    scope, requests = KINDS[kind]
    variant = f"{release}/level={2 if release.startswith('4') else 0}/requests={requests}"
    plan = Plan(
        scope=scope, variant=variant, actors=SERVER_ACTORS, traces_from=("hunts",), traces=TRIED
    )
    with tempfile.TemporaryDirectory() as directory:
        prepared = prepare(plan, Path(directory))
        k = configuration(plan)
        writer = NodesWriter(tables_of(with_room(k)))
        scripts = list(chosen(writer.script(prepared.trace(n)) for n in range(prepared.count)))
    with seated_cluster(release, k.variant.level) as kafka:
        speaks = kafka.conversation(requests)
        nodes = ClusterNodes(kafka, speaks)
        seen = leaderless(nodes, speaks)
        player = Scheduler(RecordingTestbed(nodes, speaks, k, seen))
        for ended in player.run(enumerate(scripts)):
            assert ended is None or ended[1].difference is None, "the nodes are as the model says"
            assert ended is None or not ended[1].is_undecided, "the nodes come to rest"
    head = {"scope": scope, "variant": variant}
    lines: list[Mapping[str, Any]] = [head, *RecordingSession.kept.values()]
    path = FIXTURES / f"nodes-{release}-{kind}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    RecordingSession.kept.clear()


if __name__ == "__main__":
    for kind in sys.argv[2:]:
        record(sys.argv[1], kind)
