"""`run`: judge a system against the model of its release."""

from __future__ import annotations

import argparse

from conformance.verbs import Verb, arguments
from conformance.verbs.systems import system_of


def execute(options: argparse.Namespace) -> int:
    """Judge the system that is asked for; the exit code. Raises what its runner raises."""
    _, system = system_of(options.system)
    return system.run(arguments.plan_of(options), options)


VERB = Verb(
    "Judge a system against the model of its release, trace by trace. Writes report.json, run.json,"
    " junit.xml and a trace and a page for each divergence into --out. The same command goes on"
    " where it was stopped.",
    arguments.add_arguments,
    execute,
)
