"""Prepares a trace for nodes that are stopped, killed and restarted.

1. All partitions but the last are near: their leader is always up. The last is far: its leader is
   down from before a decision until its marker is written, if the trace has other steps in between.
2. State on the far side that a step touched is compared once its leader is back.
3. In a scope whose leaders leave, the far leader is down while the model's is gone: its marker
   waits or is skipped, as the release does. The trace ends with a leader again.
4. If a marker was under way to the far leader when the coordinator moved, it may still arrive
   before the new coordinator's marker: then `other` has the rest of the trace. If it arrives later,
   it is fenced and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from conformance.adapters.brokers.fault_schedule import HOLD, MOVE, RELEASE
from conformance.adapters.brokers.recorded_events import RecordedEvents
from conformance.adapters.brokers.transactions.transaction_probes import Probe
from conformance.adapters.brokers.transactions.transaction_script import (
    KnownEndings,
    ModelReplay,
    ScriptedRequest,
    ScriptedStep,
    ServerState,
    TransactionScript,
    events_of,
    refuse,
)
from conformance.adapters.impl.transactions.tables import TransactionTables
from conformance.generate.broker_graph import (
    AT_NODES,
    DELAYS_MARKER,
    LATE_MARKER_ARRIVES,
    LEAVES,
    MARKER,
    NEEDS_LEADER,
    RETURNS,
    SKIP,
    events_at,
)
from model.language import Disabled
from proofs.trace.format import Instance

LATE_BATCH: Final = "late_batch_arrives"
MOVES: Final = "coordinator_moves"

FAULTS: Final[Mapping[str, str]] = {LEAVES: HOLD, RETURNS: RELEASE, MOVES: MOVE}
"""The faults that bring about an event."""


@dataclass(frozen=True, slots=True)
class NodeScript(TransactionScript):
    """A script with the faults before each step.

    `branch` is the step before which a late marker may have arrived; 0 if none may. `is_lenient`:
    the far leader may be killed, because the trace needs no state that a killed leader forgets.
    `loses_leader`: the far leader must be killed.
    """

    faults_at: Mapping[int, tuple[str, ...]]
    branch: int
    other: NodeScript | None
    is_lenient: bool
    loses_leader: bool

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults, in order."""
        return tuple(fault for step in sorted(self.faults_at) for fault in self.faults_at[step])


class NodesWriter:
    """Turns the traces of one configuration into scripts. Raises NotApplicable."""

    def __init__(self, tables: TransactionTables) -> None:
        refuse(tables.k, nodes=True)
        self.tables = tables
        self._events = events_of(tables)
        self._endings = KnownEndings()

    def script(self, steps: Iterable[Instance]) -> NodeScript:
        """The script of the enabled steps among `steps`."""
        given = tuple(steps)
        script = self._played(given, late_marker=False)
        if not script.branch:
            return script
        return replace(script, other=self._played(given, late_marker=True))

    def _played(self, steps: Sequence[Instance], *, late_marker: bool) -> NodeScript:
        played = ReplayAtNodes(self.tables, self._events, self._endings, late_marker=late_marker)
        played.play(steps)
        return played.script()


class ReplayAtNodes(ModelReplay):
    """The model's world in one trace. The far leader is held where the trace goes on without it."""

    rules = events_at(AT_NODES)
    probes: ClassVar[Mapping[str, Probe]] = {}

    def __init__(
        self,
        tables: TransactionTables,
        events: RecordedEvents,
        endings: KnownEndings,
        *,
        late_marker: bool,
    ) -> None:
        super().__init__(tables, events, endings)
        self._far = tables.k.bounds.partitions - 1
        self._late_marker = late_marker
        self._waits_on = False
        self._is_held = False
        self._can_leave = tables.k.budgets.leaves > 0
        skipped = tables.model.configuration.LeaderlessMarker.SKIPPED
        self._skips = tables.k.variant.leaderless_marker == skipped
        self._faults_at: dict[int, tuple[str, ...]] = {}
        self._branch = 0

    @property
    def _is_gone(self) -> bool:
        """Whether the model's far leader has left."""
        return bool(self._world.leaderless[self._far])

    # ---- from any world

    def send(self, instance: Instance) -> ScriptedRequest | None:
        """See `ModelReplay`; includes the markers that follow at once. While the far marker waits,
        its leader is held, and steps that need the leader cannot happen. Raises Disabled."""
        if instance[0] in (MARKER, LEAVES) and not self._is_far(instance):
            raise Disabled(by_scope=True)
        if self._waits(self._far) and self._needs_far(instance):
            raise Disabled(by_scope=True)
        sent = super().send(instance)
        self._is_held = self._is_gone or not self._can_leave
        self.finish_markers()
        if self._is_skipping():
            self._play((SKIP, (("partition", self._far),)))
        return sent

    def finish(self) -> None:
        """Bring the far leader back, and write all markers. Raises Disabled."""
        self._is_held = False
        if self._is_gone:
            self._play((RETURNS, (("partition", self._far),)))
        self.finish_markers()

    # ---- a whole trace

    def play(self, steps: Sequence[Instance]) -> None:
        """Play all steps up to one that needs a leader that is down."""
        for at, instance in enumerate(steps):
            if instance[0] in (MARKER, SKIP):
                if self._is_held and not self._is_gone and self._is_far(instance):
                    self._release()
                continue
            if self._is_held and self._needs_far(instance):
                break
            self._waits_on = not self._can_leave and self._goes_on_without(steps[at + 1 :])
            if self.move(instance):
                self.write_markers()
        if self._is_gone:
            self.move((RETURNS, (("partition", self._far),)))
            self.write_markers()
        elif self._is_held:
            self._release()

    def move(self, instance: Instance) -> bool:
        """Play one step, with the faults that it needs. Raises NotApplicable."""
        rule = instance[0]
        if rule == LEAVES and not self._is_far(instance):
            return False
        if rule == MOVES and self._is_held and self._waits(self._far):
            self._run((DELAYS_MARKER, (("partition", self._far),)))
        was_held = self._is_held
        if rule in (LEAVES, RETURNS):
            self._is_held = rule == LEAVES
        is_enabled = super().move(instance)
        if not is_enabled:
            self._is_held = was_held
        elif rule in FAULTS:
            self._faults_at[len(self._steps)] = (
                *self._faults_at.get(len(self._steps), ()),
                FAULTS[rule],
            )
        return is_enabled

    def script(self) -> NodeScript:
        """The script of everything that was played."""
        played = super().script()
        rules = [rule for rule, _ in played.steps]
        return NodeScript(
            played.steps,
            played.moved,
            played.settled,
            played.endings,
            played.seen,
            faults_at=self._faults_at,
            branch=self._branch,
            other=None,
            is_lenient=LATE_BATCH not in rules,
            loses_leader=LEAVES in rules,
        )

    def _run(self, instance: Instance) -> None:
        """Apply an event that is not a step of the trace."""
        self._world = self._events.run(self._world, instance).world

    def _needs_far(self, instance: Instance) -> bool:
        return instance[0] in NEEDS_LEADER and self._is_far(instance)

    def _is_far(self, instance: Instance) -> bool:
        return bool(dict(instance[1])["partition"] == self._far)

    def _goes_on_without(self, rest: Sequence[Instance]) -> bool:
        """Whether another step comes before the far marker."""
        following = (
            rule != MARKER
            for rule, choice in rest
            if rule != MARKER or dict(choice)["partition"] == self._far
        )
        return next(following, False)

    # ---- the far leader

    def _format_step(self) -> ScriptedStep:
        if not self._is_held and self._waits_on and self._waits(self._far):
            self._is_held = True
            self._faults_at[len(self._steps)] = (HOLD,)
        return super()._format_step()

    def _release(self) -> None:
        """Bring the far leader back; it writes what was waiting for it."""
        self._is_held, self._waits_on = False, False
        step = len(self._steps) + 1
        self._faults_at[step] = (RELEASE,)
        if self._world.late_markers:
            self._branch = step
            if self._late_marker:
                self._run((LATE_MARKER_ARRIVES, (("late", 0), ("partition", self._far))))
                self._touched.add(self._far)
            self._world = replace(self._world, late_markers=())
        self.write_markers()

    def write_markers(self) -> None:
        """Write all markers under way, and skip a partition without a leader if this release
        does."""
        super().write_markers()
        if self._is_skipping():
            self.move((SKIP, (("partition", self._far),)))

    def _is_skipping(self) -> bool:
        return self._skips and self._is_gone and self._waits(self._far)

    def _goes_on(self) -> bool:
        return super()._goes_on() or self._is_skipping()

    def _waits(self, partition: int) -> bool:
        state = self._world.coordinator
        metadata = state.known.metadata
        is_prepared = metadata.state.name.startswith("PREPARE") and not state.is_stopped
        return is_prepared and bool(metadata.partitions[partition])

    def _next_marker(self) -> int | None:
        waiting = super()._next_marker()
        return None if self._is_held and waiting == self._far else waiting

    def _shown(self) -> ServerState:
        """The states to compare; far state is compared when its leader is up."""
        kept = {self._far} & self._touched if self._is_held else set()
        self._touched -= kept
        shown = super()._shown()
        self._touched |= kept
        return shown
