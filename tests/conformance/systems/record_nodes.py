"""Writes `fixtures/nodes-RELEASE-KIND.jsonl`: what three brokers answered to traces while they
were frozen, killed and moved.

    python tests/conformance/systems/record_nodes.py 4.3.1 v1 v2 leaderless

A header line, then a line for each trace: its steps, its ground, and in their order the calls with
what was answered, {"api": 22, "version": 5, "answer": "<hex>"}, and what was done, {"deed": "move",
"epoch": 1}.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from conformance.generate.served import SKIP
from conformance.homes import SERVED
from conformance.plan import Plan, configuration, prepare
from conformance.systems.brokers.transactions.cluster_nodes import ClusterNodes, ground_of
from conformance.systems.brokers.transactions.nodes_script import NodeScript, NodesWriter
from conformance.systems.brokers.transactions.nodes_session import NodeFault, NodesTrial, Rest
from conformance.systems.brokers.transactions.testbed_of_nodes import ClusterHarness
from conformance.systems.brokers.transactions.transaction_probes import with_room
from conformance.systems.brokers.transactions.transaction_session import Ask
from conformance.systems.transactions.tables import tables_of
from conformance.transactions.wire import Requests, WireCall
from impl import encode_response

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
KINDS: dict[str, tuple[str, Requests]] = {
    "v1": ("transactions-small/unheard=0", "v1"),
    "v2": ("transactions-small", "v2"),
    "leaderless": ("transactions-leaderless", "v2"),
}
"""Their scopes and requests."""
TRIED = 300
MOST_ALIKE = 3


class RecordedTrial(NodesTrial):
    """A trial that keeps what it asked and heard."""

    kept: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, script: NodeScript, ground: Any, *more: Any, **kinds: Any) -> None:
        super().__init__(script, ground, *more, **kinds)
        self.rows: list[dict[str, Any]] = []
        self.kept[ground.transactional_id] = {
            "id": ground.transactional_id,
            "steps": script.steps,
            "partitions": ground.partitions,
            "log_ends": ground.log_ends,
            "coordinator_epoch": ground.coordinator_epoch,
            "calls": self.rows,
        }

    def run(self) -> Any:
        """As it is; what led to a rest is not kept, for it is asked again."""
        asking = super().run()
        asks: Sequence[Any] = next(asking)
        while True:
            first = len(self.rows)
            answers = yield [self._kept(ask) for ask in asks]
            if isinstance(asks[0], NodeFault):
                self.rows.append({"deed": asks[0].deed, "epoch": answers[0]})
            try:
                asks = asking.send(answers)
            except StopIteration as ended:
                return ended.value
            if isinstance(asks[0], Rest):
                del self.rows[first:]

    def _kept(self, ask: Any) -> Any:
        if not isinstance(ask, Ask):
            return ask
        request, read = ask.call.request, ask.call.read

        def keep(body: Any) -> Any:
            payload = encode_response(request.api_key, request.api_version, 0, body)
            row = {"api": request.api_key, "version": request.api_version}
            self.rows.append({**row, "answer": payload.hex()})
            return read(body)

        return ask._replace(call=WireCall(request, keep))


def chosen(scripts: Iterable[NodeScript]) -> Iterator[NodeScript]:
    """Some of each kind: what is done, whether the transaction times out, whether a marker may be
    late, how many are skipped."""
    met: Counter[Any] = Counter()
    for script in scripts:
        skipped = sum(rule == SKIP for rule, _ in script.steps)
        kind = script.signature, bool(script.times_out), bool(script.branch), skipped
        met[kind] += 1
        if script.signature and met[kind] <= MOST_ALIKE:
            yield script


def record(release: str, kind: str) -> None:
    """Write the file of a release and a kind of traces."""
    scope, requests = KINDS[kind]
    variant = f"{release}/level={2 if release.startswith('4') else 0}/requests={requests}"
    plan = Plan(scope=scope, variant=variant, actors=SERVED, traces_from=("hunts",), traces=TRIED)
    with tempfile.TemporaryDirectory() as directory:
        prepared = prepare(plan, Path(directory))
        k = configuration(plan)
        writer = NodesWriter(tables_of(with_room(k)))
        scripts = list(chosen(writer.script(prepared.trace(n)) for n in range(prepared.count)))
    with ground_of(release, k.variant.level) as ground:
        speaks = ground.conversation(requests)
        player = ClusterHarness(
            ClusterNodes(ground, speaks),
            speaks,
            k.bounds.partitions,
            can_kill_leaders=False,
            trial=RecordedTrial,
        )
        for ended in player.run(enumerate(scripts)):
            assert ended is None or ended[1].difference is None, "the nodes are as the model says"
            assert ended is None or not ended[1].is_undecided, "the nodes come to rest"
    head = {"scope": scope, "variant": variant}
    lines: list[Mapping[str, Any]] = [head, *RecordedTrial.kept.values()]
    path = FIXTURES / f"nodes-{release}-{kind}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    RecordedTrial.kept.clear()


if __name__ == "__main__":
    for kind in sys.argv[2:]:
        record(sys.argv[1], kind)
