"""The systems that `run` can judge: a new one is a row of `SYSTEMS`.

A system's function takes the plan and the parsed arguments of `run`. It writes the report and
returns the exit code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final, cast

from conformance.adapters.impl.impl_rules import OWN_RULES, SERVED_RULES
from conformance.judging.plan import Plan
from proofs.run import one_of

Runner = Callable[[Plan, argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class SystemKind:
    """A system, and the function that judges it: `module:function`, imported when it is called.

    `rules` are the rules of the variant in which the system differs from Kafka on purpose, for each
    model that has them.
    """

    summary: str
    runner: str
    rules: Mapping[str, str] = field(default_factory=dict)

    def run(self, plan: Plan, options: argparse.Namespace) -> int:
        """Judge the system. Raises what its runner raises."""
        module, _, function = self.runner.partition(":")
        return cast(Runner, getattr(import_module(module), function))(plan, options)


SYSTEMS: Final[dict[str, SystemKind]] = {
    "impl": SystemKind(
        "the implementation of this repository, in process",
        "conformance.verbs.in_process:run",
        rules=OWN_RULES,
    ),
    "nodes": SystemKind(
        "its broker without sockets, by whole requests: --nodes 1 or 3",
        "conformance.verbs.at_nodes:run",
        rules=OWN_RULES,
    ),
    "serve": SystemKind(
        "its broker as it is served: a process, sockets, files; --nodes 1 or 3",
        "conformance.verbs.at_served:run",
        rules=SERVED_RULES,
    ),
    "kafka": SystemKind("Apache Kafka: --kafka RELEASE", "conformance.verbs.at_brokers:run"),
    "wire": SystemKind("the broker at wire://HOST:PORT", "conformance.verbs.at_brokers:run"),
    "client": SystemKind(
        "a producer behind a proxy: --client java:RELEASE or --client CMD",
        "conformance.adapters.clients.runs:run",
    ),
}


def system_of(text: str) -> tuple[str, SystemKind]:
    """The system that `NAME` or `NAME://ADDRESS` names. Raises BadUse."""
    name = one_of("--system", text.partition("://")[0], SYSTEMS)
    return name, SYSTEMS[name]
