"""`impl`'s producer ids against `model.producer_ids`: brokers, their blocks, and the controller.

1. An id of the model stands for a part of a block of `impl`: half a block if blocks of the model
   have two ids. Index 900, at which Kafka's broker asks for its next block, is in the last part.
2. The controller begins near the last producer id, so that it has as many blocks as the scope.
3. If the answer to a request is lost, the broker's channel sends the request again, so it stays
   under way.
4. A broker that restarts has a new epoch; the controller gives no block to the previous epoch.

Theory of operation: each event has a method with its name. The broker replaces a used block by the
next one only when it needs an id. Nobody can see the difference, so views show the next block at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from conformance.generate.models import model_of_configuration
from conformance.judging.system import Many, NotApplicable, Shape, View
from conformance.judging.world_lockstep import WorldJudge, WorldTables
from impl import ErrorCode
from impl.broker.producer_ids import (
    BLOCK_SIZE,
    MAX_PRODUCER_ID,
    RETRY_BACKOFF_MS,
    ProducerIdBlock,
    ProducerIdBlocks,
    ProducerIdController,
    ProducerIdManager,
)
from model.language import Set

NONE: Final = -1

SHAPE: Final[Mapping[str, Shape]] = {
    "brokers": Many(dict.fromkeys(("block", "used", "next_block", "requests"))),
    "latest_block": None,
    "given": Many(None),
    "repeated": None,
}


class ImplProducerIds:
    """Brokers and the controller in one configuration. Raises NotApplicable."""

    def __init__(self, k: Any) -> None:
        if k.variant.form.name != "CONTROLLER":
            raise NotApplicable(
                "impl reads and writes ZooKeeper's block in one call, and the model in two events;"
                " leave out the releases with ZooKeeper"
            )
        self._k = k
        self._part = BLOCK_SIZE // k.bounds.block_size
        self._first = MAX_PRODUCER_ID - k.bounds.blocks * BLOCK_SIZE
        self.reset()

    def reset(self) -> None:
        """No block was ever allocated."""
        brokers = range(self._k.bounds.brokers)
        self._now_ms = 0
        self._blocks = ProducerIdBlocks(self._first)
        self._controller = ProducerIdController(self._blocks)
        self._epochs = [0 for _ in brokers]
        self._managers = [ProducerIdManager() for _ in brokers]
        self._requests = [0 for _ in brokers]
        self._ids: set[int] = set()
        self._has_repeated = False
        for broker in brokers:
            self._controller.register(broker, 0)

    # ---- producers

    def producer_asks(self, broker: int) -> None:
        """A producer's request is under way."""

    def producer_id_is_given(self, broker: int) -> None:
        """The broker gives as many ids as one id of the model stands for. Raises
        UnexpectedEffects."""
        given = [self._generate(broker) for _ in range(self._part)]
        ids = [producer_id for error, producer_id in given if not error]
        if ids != [*range(ids[0], ids[0] + self._part)]:
            raise UnexpectedEffects(f"broker {broker} gives {len(ids)} of {self._part} ids")
        self._has_repeated |= not self._ids.isdisjoint(ids)
        self._ids.update(ids)

    def producer_id_is_refused(self, broker: int) -> None:
        """The broker answers COORDINATOR_LOAD_IN_PROGRESS. Raises UnexpectedEffects."""
        self._now_ms += RETRY_BACKOFF_MS
        error, _ = self._generate(broker)
        if error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise UnexpectedEffects(f"broker {broker} answers {error.name}")

    def _generate(self, broker: int) -> tuple[ErrorCode, int]:
        generated = self._managers[broker].generate(self._now_ms)
        self._requests[broker] += self._managers[broker].take_request()
        return generated

    # ---- brokers

    def block_turns_over(self, broker: int) -> None:
        """Happens with the next id."""

    def broker_restarts(self, broker: int) -> None:
        """The broker loses its blocks; see rule 4. Raises UnexpectedEffects."""
        old, self._epochs[broker] = self._epochs[broker], self._epochs[broker] + 1
        self._controller.register(broker, self._epochs[broker])
        self._managers[broker], self._requests[broker] = ProducerIdManager(), 0
        answer = self._controller.allocate(broker, old)
        if answer is not ErrorCode.STALE_BROKER_EPOCH:
            raise UnexpectedEffects(f"broker {broker} of before gets {answer}")

    def block_is_allocated(self, broker: int) -> None:
        """The controller answers; its answer arrives twice, and counts once."""
        answer = self._ask(broker)
        self._requests[broker] -= 1
        check_unanswered(self._managers[broker], self._now_ms)
        for _ in range(2):
            self._managers[broker].receive(answer, self._now_ms)

    def block_is_allocated_unheard(self, broker: int) -> None:
        """The network loses the controller's answer."""
        self._ask(broker)

    def _ask(self, broker: int) -> Any:
        """The controller's answer to the request under way. Raises UnexpectedEffects."""
        self._now_ms += RETRY_BACKOFF_MS
        if not self._requests[broker]:
            raise UnexpectedEffects(f"broker {broker} does not ask for a block")
        return self._controller.allocate(broker, self._epochs[broker])

    # ---- the observable state

    def view(self) -> View:
        """The state of brokers and controller, shaped as SHAPE."""
        given = sorted({(producer_id - self._first) // self._part for producer_id in self._ids})
        latest = self._block_of(self._blocks.next_producer_id) - 1
        brokers = tuple(map(self._broker_view, self._managers, self._requests))
        return (brokers, latest, tuple(given), self._has_repeated)

    def _broker_view(self, manager: ProducerIdManager, requests: int) -> View:
        following = manager._next
        ahead = NONE if following is None else self._block_of(following.first_producer_id)
        block = self._block_of(manager._block.first_producer_id) if manager._block.size else NONE
        return turned_over(block, manager._claimed // self._part, ahead, self._k, requests)

    def _block_of(self, producer_id: int) -> int:
        return int(producer_id - self._first) // BLOCK_SIZE


def check_unanswered(manager: ProducerIdManager, now_ms: int) -> None:
    """Check when a broker repeats a request. It does not while the request is under way. It does at
    once after it has given up, and after a backoff if the answer was of no use. Raises
    UnexpectedEffects."""
    before = ProducerIdBlock(manager._block.first_producer_id - 1, BLOCK_SIZE)
    for what, expected in (
        (None, (False, False)),
        ("too late", (True, False)),
        (ErrorCode.UNKNOWN_SERVER_ERROR, (False, True)),
        (before, (False, True)),
    ):
        copy = deepcopy(manager)
        copy._claimed = copy._block.size
        if what == "too late":
            copy.time_out()
        elif isinstance(what, (ErrorCode, ProducerIdBlock)):
            copy.receive(what, now_ms)
        asked = tuple([asks(copy, now_ms + wait_ms) for wait_ms in (0, RETRY_BACKOFF_MS)])
        if asked != expected:
            raise UnexpectedEffects(f"{what}: it asks at once, and after a backoff: {asked}")


def asks(manager: ProducerIdManager, now_ms: int) -> bool:
    """Whether the broker asks for a block when an id is needed and its block is used up."""
    manager.generate(now_ms)
    return manager.take_request()


def turned_over(block: int, used: int, next_block: int, k: Any, requests: int) -> View:
    """A broker that uses its next block once its block is used up; `requests` are under way."""
    is_empty = block == NONE or used == k.bounds.block_size
    if is_empty and next_block != NONE:
        return (next_block, 0, NONE, requests)
    return (block, used, next_block, requests)


def tables_of(k: Any) -> WorldTables:
    """The tables of a configuration."""

    def view_of(world: Any) -> View:
        brokers = tuple(
            turned_over(m.block, m.used, m.next_block, k, int(m.asking.name == "WANTED"))
            for m in world.managers.values()
        )
        given = tuple(i for i in range(k.bounds.ids) if i in world.given)
        return (brokers, world.store.block, given, bool(world.repeated))

    return WorldTables(k, model_of_configuration(k), view_of)


def judge_of_impl(tables: WorldTables, actors: str, on: str) -> WorldJudge:
    """The judge of `impl`. Raises NotApplicable."""
    return WorldJudge(tables, ImplProducerIds(tables.k), SHAPE)


def observed_world(judge: WorldJudge) -> Any:
    """The model's last world, with the ids that the system has given out."""
    _, _, given, repeated = judge.system.view()
    bits = sum(1 << producer_id for producer_id in given)
    return replace(judge.node.world, given=Set(bits), repeated=repeated)
