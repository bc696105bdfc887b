"""Plays one trace at nodes: as at one broker, with waits for faults.

1. A session asks for a fault, which then affects all traces under way.
2. A broker that answers that it does not lead, or does not coordinate, has done nothing, so it is
   asked again.
"""

from __future__ import annotations

from typing import Any, Final

from conformance.adapters.brokers.exchange import Ask, Asks, BrokerFault, Wait
from conformance.adapters.brokers.fault_schedule import MOVE, RELEASE
from conformance.adapters.brokers.reading import ReadIsolation, list_latest
from conformance.adapters.brokers.transactions.nodes_script import NodeScript
from conformance.adapters.brokers.transactions.transaction_session import (
    NONE,
    NOT_YET,
    PAUSE_S,
    SETTLE_TIMEOUT_S,
    ServerUnsettled,
    TraceResources,
    TransactionSession,
)
from impl.protocol.errors import ErrorCode

ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""The errors of a broker that was stopped, or that does not know its new role yet."""

UNKNOWN_EPOCH: Final = -2
"""Stands for the epoch of a coordinator to which no fault moved."""


class NodesSession(TransactionSession):
    """One trace, with its resources."""

    not_yet = NOT_YET | ELSEWHERE

    def __init__(self, script: NodeScript, resources: TraceResources, *given: Any, **times: Any):
        super().__init__(script, resources, *given, **times)
        self._nodes = script
        self._epochs = [resources.coordinator_epoch]

    def _followed(self) -> Asks:
        at = 0
        while at < len(self._nodes.moved):
            step = self._nodes.moved[at].step
            self._step, self._instance = step, self._nodes.instance(step)
            for fault in self._nodes.faults_at.get(step, ()):
                yield from self._inject(fault)
            yield from self._waited(step)
            if step == self._nodes.branch:
                yield from self._choose(at)
            moved = self._nodes.moved[at]
            yield from self._compared(moved.sent, moved.shown)
            at += 1
        for fault in self._nodes.faults_at.get(len(self._nodes.steps) + 1, ()):
            yield from self._inject(fault)

    def _inject(self, fault: str) -> Asks:
        """Wait for a fault. Raises Undecided if the coordinator has moved by itself."""
        [epoch] = yield [BrokerFault(fault)]
        if fault == MOVE:
            self._epochs.append(epoch)
        elif epoch != self._epochs[-1]:
            raise ServerUnsettled
        if fault == RELEASE and self._nodes.loses_leader:
            yield from self._caught_up()

    def _caught_up(self) -> Asks:
        """Wait until a killed leader has restored its high watermark: it leads before that, and
        until then names no last offset. `Partition.fetchOffsetForTimestamp`, KIP-207."""
        far = len(self._own.partitions) - 1
        latest = list_latest(self._own.partitions[far], ReadIsolation.READ_UNCOMMITTED)
        deadline = self._clock.now_s() + SETTLE_TIMEOUT_S
        while (yield [Ask(latest, to=far)]) == [NONE]:
            if self._clock.now_s() > deadline:
                raise ServerUnsettled
            yield [Wait(self._clock.now_s() + PAUSE_S)]

    def _choose(self, at: int) -> Asks:
        """Choose between the two continuations: the far log shows whether the late marker was
        written."""
        other = self._nodes.other
        assert other is not None
        shown = other.moved[at].shown
        assert shown is not None, "the last marker was written"
        yield from self._at_rest(shown.coordinator)
        partition, expected = shown.leaders[-1]
        if (yield from self._leader(partition, expected)) == expected:
            self._script = self._nodes = other
            self._departs_at = other.branch

    # ---- observations

    def _read(self, partition: int) -> Asks:
        deadline = self._clock.now_s() + SETTLE_TIMEOUT_S
        while True:
            log, producers = yield from super()._read(partition)
            if log.error not in ELSEWHERE:
                return log, producers
            if self._clock.now_s() > deadline:
                raise ServerUnsettled
            yield [Wait(self._clock.now_s() + PAUSE_S)]

    def _coordinator_epoch(self, epoch: int) -> int:
        """The index of an epoch among those that occurred; any other epoch is a difference."""
        if epoch == NONE:
            return NONE
        return self._epochs.index(epoch) if epoch in self._epochs else UNKNOWN_EPOCH
