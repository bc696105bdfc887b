"""`run --system kafka` in scopes of transactions: a broker of the release, and its traces."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from conformance.homes import SERVED
from conformance.kafka.errors import KafkaError
from conformance.plan import Finding, Plan, Prepared, setting
from conformance.promised import Seen
from conformance.report import Check
from conformance.systems.transactions_wire import TransactionsBackend
from conformance.systems.transactions_wire_script import refuse
from conformance.systems.wire_brokers import NoBroker
from conformance.transactions.breaches import write_breaches
from conformance.transactions.ground import Ground
from conformance.verbs import BadUse
from conformance.verbs.course import AtWork, Subject
from conformance.verbs.over_wire import FAULTS, LEFT_ALONE, ON, refuse_unfit
from proofs.java import JavaError

NOT_BROUGHT_ABOUT: Final = {
    "timeouts": "transaction_times_out",
    "moves": "coordinator_moves",
    "marker_losses": "marker_is_written, unheard",
    "marker_delays": "marker_is_delayed",
    "forgotten": "transactional_id_is_forgotten",
}
"""What the harness does to no broker, by budget."""


def subject_of(plan: Plan, options: argparse.Namespace) -> Subject:
    """The coordinator and leaders of one broker. Raises BadUse, NotApplicable."""
    refuse_unfit(options, SERVED, LEFT_ALONE)
    if plan.system == "wire" or options.nodes not in (None, 1):
        raise BadUse("scopes of transactions are judged at one broker that is started here: kafka")
    plan = replace(plan, on=ON, actors=SERVED, faults=options.faults or FAULTS)
    refuse(setting(plan))
    left_out = [
        f"{name}: nobody brings {rule} about at these brokers"
        for name, rule in budgets_left_out(plan)
    ]

    @contextmanager
    def opens(prepared: Prepared, log: Path) -> Iterator[AtWork]:
        with started(options.kafka, prepared) as backend:
            yield Served(backend, left_out)
        # Promises that are not given: what broke them, though the broker is as its model says.
        write_breaches(prepared, backend.agreed, log.parent / "promises", plan.system)

    traces = replace(plan, system="impl", scope=scope_played(plan))
    more = {"address": options.system, "kafka": options.kafka, "nodes": options.nodes}
    return Subject(plan, traces, opens, more)


def scope_played(plan: Plan) -> str:
    """The scope without the budgets of what is not brought about: far fewer states."""
    return "/".join((plan.scope, *(f"{name}=0" for name, _ in budgets_left_out(plan))))


def budgets_left_out(plan: Plan) -> list[tuple[str, str]]:
    """What the scope has of what is not brought about: budgets and their rules."""
    budgets = setting(plan).budgets
    return [(name, rule) for name, rule in NOT_BROUGHT_ABOUT.items() if getattr(budgets, name) > 0]


@contextmanager
def started(kafka: str | None, prepared: Prepared) -> Iterator[TransactionsBackend]:
    """A broker of the plan's release and level, and who judges it. Raises NoBroker."""
    variant = setting(prepared.plan).variant
    try:
        with Ground(kafka or variant.release, level=variant.level) as ground:
            yield TransactionsBackend(prepared, ground)
    except (KafkaError, JavaError) as error:
        raise NoBroker(str(error)) from error


@dataclass(frozen=True, slots=True)
class Served:
    """A broker whose coordinator and leaders are judged together."""

    judges: TransactionsBackend
    not_applicable: Sequence[str]
    least_ranges: int = 1

    def checks(self) -> dict[str, Check]:
        """All is in the traces."""
        return {}

    def backend(self) -> TransactionsBackend:
        """Who judges."""
        return self.judges

    def shrunk(self, finding: Finding) -> Finding:
        """By asking the broker again."""
        return self.judges.shrunk(finding)

    def shown_by(self, finding: Finding) -> Seen:
        """Nothing more than was seen on the way."""
        return Seen()
