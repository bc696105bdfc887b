"""One trace at nodes: as at one broker, and it waits where something is done to them.

1. A deed is asked for, and happens to all traces that are on their way together.
2. A transaction that the trace lets time out has a time-out so long that all before it is done by
   then; where it is not, the trace is undecided.
3. Who says that it does not lead, or does not coordinate, has done nothing and is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

from conformance.systems.base import Shape, View
from conformance.systems.transactions_nodes.nodes import MOVE, RELEASE
from conformance.systems.transactions_nodes.script import NodeScript
from conformance.systems.transactions_wire_trial import (
    NONE,
    NOT_YET,
    SETTLE_TIMEOUT_S,
    TRANSACTION_TIMEOUT_MS,
    Ask,
    Ground,
    Trial,
    Undecided,
)
from conformance.transactions.reading import Isolation, list_latest
from conformance.transactions.wire import Conversation
from impl.protocol.errors import ErrorCode

ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""What a broker says that was stopped, or that has not heard yet what others are."""

MARGIN_S: Final = 0.5
SCAN_S: Final = 20.0
"""How long a coordinator may take to see that a transaction has lasted too long."""
LATE_MARKER: Final = "a late marker was written"

UNKNOWN_EPOCH: Final = -2
"""What stands for the epoch of a coordinator that nobody moved to."""

_PAUSE_S: Final = 0.1


class Do(NamedTuple):
    """Something is done to nodes; the answer is how often coordination began."""

    deed: str


class Rest(NamedTuple):
    """Nothing is asked until `until`, in time.monotonic."""

    until: float


Waiting = Generator[Sequence[Any], list[Any], Any]


class NodesTrial(Trial):
    """One trace on its ground. `lasts_s`: how long its transactions may last, where one times
    out."""

    not_yet = NOT_YET | ELSEWHERE

    def __init__(
        self,
        script: NodeScript,
        ground: Ground,
        conversation: Conversation,
        *,
        lasts_s: float = 0.0,
    ) -> None:
        super().__init__(script, ground, conversation)
        self._nodes = script
        self._epochs = [ground.coordinator_epoch]
        self._since: float | None = None
        self._lasts_s = lasts_s
        if lasts_s:
            self.timeout_ms = round(1_000 * lasts_s)

    def _followed(self) -> Waiting:
        at = 0
        while at < len(self._nodes.moved):
            moved = self._nodes.moved[at]
            self._step = moved.step
            for deed in self._nodes.deeds.get(moved.step, ()):
                yield from self._done(deed)
            if moved.step == self._nodes.times_out:
                yield from self._timed_out()
            if moved.step == self._nodes.branch:
                yield from self._choose(at)
            self._watch(at)
            yield from self._compared(self._nodes.moved[at])
            at += 1
        for deed in self._nodes.deeds.get(len(self._nodes.steps) + 1, ()):
            yield from self._done(deed)

    def _done(self, deed: str) -> Waiting:
        """Something is done. Raises Undecided where the coordinator has moved unasked."""
        [epoch] = yield [Do(deed)]
        if deed == MOVE:
            self._epochs.append(epoch)
        elif epoch != self._epochs[-1]:
            raise Undecided
        if deed == RELEASE and self._nodes.loses_leader:
            yield from self._caught_up()

    def _caught_up(self) -> Waiting:
        """A leader that was killed leads before its high watermark is where it was; it names no
        last offset until then. `Partition.fetchOffsetForTimestamp`, KIP-207."""
        far = len(self._ground.partitions) - 1
        latest = list_latest(self._ground.partitions[far], Isolation.READ_UNCOMMITTED)
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while (yield [Ask(latest, to=far)]) == [NONE]:
            if time.monotonic() > deadline:
                raise Undecided
            yield [Rest(time.monotonic() + _PAUSE_S)]

    def _choose(self, at: int) -> Waiting:
        """Which of the two follows: the far log shows whether the late marker was written."""
        other = self._nodes.other
        assert other is not None
        shown = other.moved[at].shown
        assert shown is not None, "the last marker was written"
        yield from self._at_rest(shown.coordinator)
        partition, expected = shown.leaders[-1]
        if (yield from self._leader(partition)) == expected:
            self._script = self._nodes = other
            self._told = (LATE_MARKER,)

    # ---- time-outs

    def _watch(self, at: int) -> None:
        """Since when a transaction may be open."""
        sent = self._nodes.moved[at].sent
        if sent is None:
            return
        if sent.request.api.name in ("END_TXN", "INIT_PRODUCER_ID"):
            if sent.answer[0] == ErrorCode.NONE:
                self._since = None
        elif self._since is None:
            self._since = time.monotonic()

    @property
    def _is_too_late(self) -> bool:
        """The transaction may have timed out before the trace says so."""
        return (
            self._lasts_s > 0
            and self._since is not None
            and time.monotonic() - self._since > self._lasts_s - MARGIN_S
        )

    def _timed_out(self) -> Waiting:
        """Wait until the transaction is not open any more, as long as it may take."""
        if self._is_too_late:
            raise Undecided
        deadline = time.monotonic() + self._lasts_s + SCAN_S
        while (yield from self._described())[0] == "Ongoing" and time.monotonic() < deadline:
            yield [Rest(time.monotonic() + _PAUSE_S)]
        self._since, self.timeout_ms = None, TRANSACTION_TIMEOUT_MS

    def _same(self, path: str, shape: Shape, expected: View, observed: View) -> None:
        if expected != observed and self._is_too_late:
            raise Undecided
        super()._same(path, shape, expected, observed)

    # ---- what servers show

    def _read(self, partition: int) -> Waiting:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            log, producers = yield from super()._read(partition)
            if log.error not in ELSEWHERE:
                return log, producers
            if time.monotonic() > deadline:
                raise Undecided
            yield [Rest(time.monotonic() + _PAUSE_S)]

    def _coordinator_epoch(self, epoch: int) -> int:
        """Its place among those that were; any other is a difference."""
        if epoch == NONE:
            return NONE
        return self._epochs.index(epoch) if epoch in self._epochs else UNKNOWN_EPOCH
