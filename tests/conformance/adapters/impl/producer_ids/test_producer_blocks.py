"""Producer ids of impl's brokers and controller: as the model has them, and what a bug shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.adapters.impl.judges import judge_of
from conformance.adapters.impl.producer_ids.producer_blocks import observed_world
from conformance.judging.compositions import judged_composition
from conformance.judging.guaranteed import observe_world
from conformance.judging.plan import BadPlan, Plan
from impl.broker.producer_ids import ProducerIdBlocks, ProducerIdController, ProducerIdManager
from impl.protocol.errors import ErrorCode
from model.releases import NEWEST
from proofs.trace.format import Instance

pytestmark = pytest.mark.fast

SCOPE = "producer-ids"
EVENTS = {
    "asks": "producer_asks",
    "gives": "producer_id_is_given",
    "refuses": "producer_id_is_refused",
    "gets": "block_is_allocated",
    "loses": "block_is_allocated_unheard",
    "turns": "block_turns_over",
    "restarts": "broker_restarts",
}


def judge(variant: str = NEWEST) -> Any:
    composition = judged_composition(SCOPE)
    name = composition.model.variants.parse(variant).name
    return judge_of.__wrapped__(Plan(scope=SCOPE, variant=name, actors=composition.actors[0]))


def story(text: str) -> tuple[Instance, ...]:
    steps = (step.split() for step in text.split(", "))
    return tuple((EVENTS[name], (("broker", int(broker)),)) for name, broker in steps)


FIRST = "asks 0, refuses 0, gets 0, turns 0, asks 0, gives 0"
BOTH = f"{FIRST}, asks 1, refuses 1, gets 1, turns 1"
AHEAD = f"{FIRST}, asks 0, gives 0, gets 0, turns 0"
LOST = "asks 0, refuses 0, loses 0, gets 0, turns 0, asks 0, gives 0"
BACK = f"{FIRST}, restarts 0"


@pytest.mark.parametrize("text", [FIRST, BOTH, AHEAD, LOST, BACK])
def test_the_stories_agree(text: str) -> None:
    """A block is wasted where an answer is lost."""
    played = judge()
    assert played.judge(story(text)).divergence is None
    seen = observe_world(played.tables.k, observed_world(played))
    assert seen.broken == ({"no_block_wasted"} if text == LOST else set())


def repeats(self: ProducerIdBlocks, broker_id: int = -1) -> Any:
    before = self.next_producer_id
    found = allocates(self, broker_id)
    self.next_producer_id = before
    return found


allocates = ProducerIdBlocks.allocate


def late(self: ProducerIdManager, now_ms: int) -> int:
    self._prefetch_at = -1
    return claims(self, now_ms)


claims = ProducerIdManager._claim


def trusts(self: ProducerIdController, broker_id: int, broker_epoch: int) -> Any:
    return self._blocks.allocate(broker_id)


@pytest.mark.parametrize(
    ("kind", "method", "bug", "text", "field"),
    [
        (ProducerIdBlocks, "allocate", repeats, FIRST, "world.latest_block"),
        (ProducerIdManager, "_claim", late, AHEAD, "world.brokers[0].requests"),
        (ProducerIdController, "allocate", trusts, BACK, "raised"),
        (ProducerIdManager, "generate", lambda *_: (ErrorCode.NONE, 0), FIRST, "raised"),
    ],
)
def test_a_bug_shows(
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    method: str,
    bug: Callable[..., Any],
    text: str,
    field: str,
) -> None:
    monkeypatch.setattr(kind, method, bug)
    divergence = judge().judge(story(text)).divergence
    assert divergence is not None
    assert field in divergence.observed


def test_zookeeper_is_refused() -> None:
    with pytest.raises(BadPlan, match="leave out the releases with ZooKeeper"):
        judge("2.8.2")
