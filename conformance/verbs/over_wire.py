"""`run` for brokers over their wire: the same folder and report as in process, with connections."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.idempotent.deliveries import CannotPlay
from conformance.adapters.brokers.idempotent.started_brokers import (
    TwoReplicas,
    means_at_one,
    started,
)
from conformance.adapters.brokers.idempotent.testbed_of_leaders import (
    SHARE_A_FAULT,
    leaders_backend,
)
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.listening_broker import ListeningBroker, address_of
from conformance.adapters.brokers.recording import record
from conformance.adapters.brokers.reproduction import reproduction_of
from conformance.adapters.brokers.transactions.servers import ListeningServer
from conformance.generate.faults import CLIENTS, Means, faults_not_had
from conformance.judging.automatic_masks import NONE, AutomaticMasks, find_masks, kept_masks
from conformance.judging.backend import Backend, BackendError, ResultRow, TraceRange
from conformance.judging.causes import AT_BROKERS
from conformance.judging.compositions import IDEMPOTENT, judged_composition
from conformance.judging.distinguish.known import ONE_BROKER, THREE_BROKERS
from conformance.judging.distinguish.play import Player, TraceNotApplicable
from conformance.judging.findings import plan_of, steps_of
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.plan import FAULTS as ALL_FAULTS
from conformance.judging.plan import Plan, PreparedPlan, configuration, prepare_one, scope_without
from conformance.judging.reports.pipeline import OpenTarget, Target
from conformance.judging.reports.report import SideCheck
from conformance.judging.reports.script import Exchanges, NotReproducible
from conformance.judging.signatures import Finding
from conformance.judging.system import NotApplicable
from impl import DecodeError
from proofs.java import find_java
from proofs.run import BadUse
from proofs.trace.shrink import Steps

ON: Final = "bytes"
ACTORS: Final = "leader"
FAULTS: Final = "connections"
LEFT_ALONE: Final = ("connections", "none")
"""The faults of a broker that cannot be stopped from here."""

BrokersOpener = Callable[[PreparedPlan, Path], AbstractContextManager[BrokersBackend]]


def check_ready(plan: Plan, options: argparse.Namespace) -> None:
    """Make failures that would follow the planning happen before it. Raises NoBroker,
    MissingTool."""
    if plan.system == "wire":
        check_listening(plan.scope, options.system)
    else:
        find_java()


def check_listening(scope: str, text: str) -> None:
    """Check that a single broker listens at an address, with the features that a scope needs.
    Raises NoBroker, BackendFailed."""
    is_idempotent = judged_composition(scope) is IDEMPOTENT
    broker = ListeningBroker(address_of(text)) if is_idempotent else ListeningServer(text)
    with closing(broker):
        broker.check_alone()


def in_process_alone(plan: Plan) -> BadUse:
    """The reason why there is no target: over a wire the actors of these scopes cannot be told
    apart."""
    instead = "consume-transform-produce, experiments"
    return BadUse(f"{plan.scope} is judged in process alone; for brokers there are {instead}")


@dataclass(frozen=True, slots=True)
class OverWire:
    """Brokers under test. `least_ranges` is the number of ranges that share a fault, if traces have
    faults: then a hundred traces take as long as one."""

    prepared: PreparedPlan
    judge: BrokersBackend
    left_out: Mapping[str, str]
    least_ranges: int

    @property
    def not_applicable(self) -> Sequence[str]:
        """The features that the brokers' versions lack, and the faults that they cannot have."""
        return [*self.judge.not_applicable, *self.left_out.values()]

    def take_note(self) -> Any:
        """The data that the testbed's checks need."""
        return self.judge.testbed.take_note()

    def checks(self, notes: Sequence[Any]) -> Mapping[str, SideCheck]:
        """The checks of the testbed."""
        return self.judge.testbed.checks(notes)

    def backend(self) -> Backend:
        """The connections to the brokers."""
        return self.judge

    def shrunk(self, finding: Finding) -> Finding:
        """The finding, shrunk by playing traces at the brokers, behind the same masks."""
        masks = self.judge.testbed.masks.texts
        self.judge.look_past(finding.get("behind", masks))
        try:
            return self.judge.shrunk(finding)
        finally:
            self.judge.look_past(masks)

    def masks(self, progress: Callable[[], None]) -> AutomaticMasks:
        """The masks from a sample of the traces; the run ignores masked differences from then on.
        If brokers are stopped, a sample would take as long as the run, so there are no masks."""
        plan = self.prepared.plan
        if plan.faults == "nodes":
            return NONE

        def judge(ranges: Sequence[TraceRange], masks: Sequence[str]) -> Iterator[ResultRow | None]:
            self.judge.look_past(masks)
            return self.judge.judge(ranges)

        file = self.prepared.directory / "masks.json"
        count = self.prepared.count
        found = kept_masks(
            file, lambda: find_masks(count, AT_BROKERS[0], plan.ignored, judge, progress)
        )
        self.judge.agreed.clear()
        self.judge.look_past((*plan.ignored, *found.masks))
        return found

    @property
    def player(self) -> Player | None:
        """The brokers as a player, if they can be opened for another scope."""
        return None if self.judge.other_scopes is None else self

    @property
    def observer(self) -> str:
        """The observer: by the number of brokers; leaders alone are observed at one broker."""
        plan = self.prepared.plan
        is_cluster = plan.faults == "nodes" and judged_composition(plan.scope) is not IDEMPOTENT
        return THREE_BROKERS if is_cluster else ONE_BROKER

    def play(
        self, scope: str, traces: Sequence[Steps]
    ) -> Iterator[Finding | TraceNotApplicable | None]:
        """Play traces at the same brokers."""
        steps = sum(map(len, traces))
        plan = replace(self.prepared.plan, scope=scope)
        one = prepare_one(plan, self.prepared.directory, len(traces), steps)
        assert self.judge.other_scopes is not None
        try:
            backend = self.judge.other_scopes(one)
        except (NotApplicable, CannotPlay) as error:
            yield from [TraceNotApplicable(str(error))] * len(traces)
            return
        for number in range(len(traces)):
            yield self._played(backend, traces[number])
        backend.close()

    def _played(self, backend: BrokersBackend, steps: Steps) -> Finding | TraceNotApplicable | None:
        try:
            played = backend.replayed(steps)
        except (NotApplicable, CannotPlay) as error:
            return TraceNotApplicable(str(error))
        if played.is_undecided:
            return TraceNotApplicable("the broker did not come to rest in time")
        # Behind the run's own masks, which are made for the scope's traces, a difference would not
        # show again.
        return played.finding and {**played.finding, "behind": [*backend.testbed.masks.texts]}

    def shown_by(self, finding: Finding) -> ObservedProperties:
        """The properties of a diverging system: none, since only its answers are known."""
        return ObservedProperties()

    def reproduced(self, finding: Finding) -> Exchanges:
        """The exchanges, from playing the trace once more, alone. Raises NotReproducible."""
        if self.judge.afresh is None:
            raise NotReproducible("it takes more than requests to brokers")
        plan = plan_of(self.prepared, finding)
        steps = steps_of(finding)
        one = prepare_one(plan, self.prepared.directory, 1, len(steps))
        try:
            with closing(self.judge.afresh(one)) as backend:
                script = backend.script(steps)
                behind = finding.get("behind", self.judge.testbed.masks.texts)
                return reproduction_of(record(backend.testbed, script, behind))
        except (BackendError, KafkaError, DecodeError, NotApplicable) as error:
            raise NotReproducible(str(error)) from error


def target_at_brokers(
    plan: Plan, options: argparse.Namespace, means: Means, judge: BrokersOpener
) -> Target:
    """The target for the traces that a test with these means can play."""
    missing = left_out(plan, means)
    least_ranges = SHARE_A_FAULT if plan.faults == "nodes" else 1

    @contextmanager
    def opens(prepared: PreparedPlan, log: Path) -> Iterator[OpenTarget]:
        with judge(prepared, log) as backend:
            yield OverWire(prepared, backend, missing, least_ranges)

    # Traces do not depend on the system.
    traces = replace(plan, system="impl", scope=scope_without(plan.scope, missing))
    more = {"address": options.system, "kafka": options.kafka, "nodes": options.nodes}
    return Target(plan, traces, opens, more)


def left_out(plan: Plan, means: Means) -> dict[str, str]:
    """The faults of the scope that a test with these means cannot have, and the reason of each."""
    return faults_not_had(configuration(plan), judged_composition(plan.scope).model, means)


def fit(plan: Plan, options: argparse.Namespace, actors: str, faults: Sequence[str]) -> Plan:
    """The plan, limited to what a wire allows. Raises BadUse, NoBroker for a text that is no
    address."""
    for name, given, only in (
        ("--codec", options.on, (ON,)),
        ("--actors", options.actors, (actors,)),
        ("--faults", options.faults, faults),
        ("--master", options.master, ()),
        ("--remote", options.remote, ()),
        ("--conf", options.conf, ()),
    ):
        if given is not None and given not in only:
            valid = f"valid: {' or '.join(only)}" if only else "leave it out"
            raise BadUse(f"invalid {name} {given!r} for a broker over its wire; {valid}")
    if plan.system == "wire":
        address_of(options.system)
    return replace(plan, on=ON, actors=actors, faults=options.faults or FAULTS)


# Leaders alone: the idempotent composition needs no more


def leaders_target(plan: Plan, options: argparse.Namespace) -> Target:
    """The leaders of a broker, or of two replicas. Raises BadUse, NoBroker."""
    plan = fit(plan, options, ACTORS, LEFT_ALONE if plan.system == "wire" else ALL_FAULTS)

    @contextmanager
    def judge(prepared: PreparedPlan, log: Path) -> Iterator[BrokersBackend]:
        with broker_of(plan, options) as broker, closing(leaders_backend(prepared, broker)) as one:
            yield one

    return target_at_brokers(plan, options, means_of(plan, options), judge)


def means_of(plan: Plan, options: argparse.Namespace) -> Means:
    """The means of a test at these brokers."""
    if plan.system == "wire":
        return CLIENTS
    if options.nodes == 3:
        return TwoReplicas.means
    return means_at_one(find_release(options.kafka or configuration(plan).variant.release))


@contextmanager
def broker_of(plan: Plan, options: argparse.Namespace) -> Iterator[ListeningBroker]:
    """The requested broker, open until the end of the run. Raises NoBroker, BackendFailed."""
    if plan.system == "wire":
        with closing(ListeningBroker(address_of(options.system))) as listening:
            yield listening
        return
    variant = configuration(plan).variant
    release = options.kafka or variant.release
    is_killed = plan.faults == "nodes"
    with started(release, variant.level, options.nodes or 1, is_killed=is_killed) as broker:
        yield broker
