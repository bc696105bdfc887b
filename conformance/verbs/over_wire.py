"""`run` for a broker over its wire: the same folder and report, other connections."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from conformance.backends import Backend
from conformance.compositions import IDEMPOTENT, judged_composition
from conformance.faults import CLIENTS, Means, faults_not_had
from conformance.findings import Finding
from conformance.guaranteed import ObservedProperties
from conformance.kafka.releases import find_release
from conformance.plan import FAULTS as ALL_FAULTS
from conformance.plan import Plan, PreparedPlan, configuration, scope_without
from conformance.report import SideCheck
from conformance.systems.brokers.backend import BrokersBackend, traces_plan
from conformance.systems.brokers.idempotent.connecting import address_of, running, started
from conformance.systems.brokers.idempotent.judged_brokers import TwoReplicas, means_at_one
from conformance.systems.brokers.idempotent.producer_id_blocks import check_blocks
from conformance.systems.brokers.idempotent.testbed_of_leaders import SHARE_A_FAULT, Broker
from conformance.systems.brokers.testbeds import leaders_backend
from conformance.verbs.pipeline import OpenTarget, Target
from conformance.verbs.pipeline import run as run_pipeline
from proofs.run import BadUse

ON: Final = "bytes"
ACTORS: Final = "leader"
FAULTS: Final = "connections"
LEFT_ALONE: Final = ("connections", "none")
"""The faults of a broker that cannot be stopped from here."""


def run(plan: Plan, options: argparse.Namespace) -> int:
    """Judge the plan; the exit code.

    Raises BackendError, OtherRun, BadPlan, BadBaseline, BadUse, CannotPlay, NotApplicable.
    """
    composition = judged_composition(plan.scope)
    return run_pipeline(composition.called(composition.over_wire)(plan, options), options)


def subject_of(plan: Plan, options: argparse.Namespace) -> Target:
    """Leaders alone: what is idempotent asks for no more. Raises BadUse, NoBroker."""
    plan = over_wire(plan, options)
    missing = left_out(plan, options)

    @contextmanager
    def opens(prepared: PreparedPlan, log: Path) -> Iterator[OpenTarget]:
        with broker_of(plan, options) as broker:
            wire = leaders_backend(prepared, broker)
            try:
                yield OverWire(wire, broker, plan.faults == "nodes", (*missing.values(),))
            finally:
                wire.close()

    more = {"address": options.system, "kafka": options.kafka, "nodes": options.nodes}
    return Target(plan, traces_of(plan, options), opens, more)


def traces_of(plan: Plan, options: argparse.Namespace) -> Plan:
    """The traces that these brokers are judged by: with the faults alone that they can have."""
    return replace(traces_plan(plan), scope=scope_without(plan.scope, left_out(plan, options)))


def left_out(plan: Plan, options: argparse.Namespace) -> dict[str, str]:
    """The faults of the scope that these brokers cannot have, and why."""
    k = configuration(plan)
    return faults_not_had(k, IDEMPOTENT.model, means_of(plan, options, k.variant.release))


def means_of(plan: Plan, options: argparse.Namespace, release: str) -> Means:
    """By what a test brings events about at these brokers."""
    if plan.system == "wire":
        return CLIENTS
    if options.nodes == 3:
        return TwoReplicas.means
    return means_at_one(find_release(options.kafka or release))


@dataclass(frozen=True, slots=True)
class OverWire:
    """A broker that is talked to."""

    wire: BrokersBackend
    broker: Broker
    with_deeds: bool
    left_out: tuple[str, ...]

    @property
    def least_ranges(self) -> int:
        """As many as share a deed: one to a hundred traces takes as long as one to one."""
        return SHARE_A_FAULT if self.with_deeds else 1

    def checks(self) -> dict[str, SideCheck]:
        """Where producer ids come from, if that is a ZooKeeper which can be read."""
        kafka = self.broker.nodes.kafka
        if kafka is None or kafka.zookeeper_address is None:
            return {}
        return {"producer_id_blocks": check_blocks(kafka)}

    @property
    def not_applicable(self) -> Sequence[str]:
        """What the broker's versions lack, and the faults that cannot be injected."""
        return [*self.wire.not_applicable, *self.left_out]

    def backend(self) -> Backend:
        """The connections to the broker."""
        return self.wire

    def shrunk(self, finding: Finding) -> Finding:
        """By asking the broker again."""
        return self.wire.shrunk(finding)

    def shown_by(self, finding: Finding) -> ObservedProperties:
        """Nothing beyond the responses: a broker does not show its log."""
        return ObservedProperties()


def over_wire(plan: Plan, options: argparse.Namespace) -> Plan:
    """The plan with what a wire allows. Raises BadUse, NoBroker for an address that is none."""
    refuse_unfit(options, ACTORS, LEFT_ALONE if plan.system == "wire" else ALL_FAULTS)
    if plan.system == "wire":
        address_of(options.system)
    return replace(plan, on=ON, actors=ACTORS, faults=options.faults or FAULTS)


def refuse_unfit(options: argparse.Namespace, actors: str, faults: Sequence[str]) -> None:
    """Raises BadUse for what a wire does not allow."""
    for name, given, only in (
        ("--codec", options.on, (ON,)),
        ("--actors", options.actors, (actors,)),
        ("--faults", options.faults, faults),
        ("--master", options.master, ()),
        ("--remote", options.remote, ()),
    ):
        if given is not None and given not in only:
            valid = f"valid: {' or '.join(only)}" if only else "leave it out"
            raise BadUse(f"invalid {name} {given!r} for a broker over its wire; {valid}")


@contextmanager
def broker_of(plan: Plan, options: argparse.Namespace) -> Iterator[Broker]:
    """The broker that is asked for, as long as this runs. Raises NoBroker, BackendFailed."""
    if plan.system == "wire":
        yield running(options.system)
        return
    variant = configuration(traces_plan(plan)).variant
    release = options.kafka or variant.release
    with started(release, variant.level, options.nodes or 1) as broker:
        yield broker
