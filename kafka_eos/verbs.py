"""The table of verbs: what each one answers, and the module that implements it.

A verb's module, or an object in it, has `add_arguments(parser)` and `execute(options)`, which
returns the exit code. It is imported when the verb is called; reading this table imports nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ROOMS: Final = ("proofs", "conformance", "impl")


class Verb(NamedTuple):
    """A row."""

    name: str
    module: str
    summary: str

    @property
    def room(self) -> str:
        """The package that implements the verb."""
        return self.module.partition(".")[0]


VERBS: Final = (
    Verb(
        "run",
        "conformance.verbs.run",
        "Judge a broker or a client against the model of its release, trace by trace.",
    ),
    Verb(
        "replay",
        "conformance.verbs.replay",
        "Play a trace on the model, on impl or on a broker, up to the first difference.",
    ),
    Verb(
        "explain",
        "conformance.verbs.explain",
        "Show a trace as a story, or as a page with pictures.",
    ),
    Verb(
        "releases",
        "conformance.verbs.releases",
        "Run `run` for each release and level of Kafka, and tabulate the results.",
    ),
    Verb(
        "matrix",
        "conformance.verbs.matrix",
        "Judge brokers, levels and clients, cell by cell, with a page for each cause.",
    ),
    Verb(
        "client-table",
        "conformance.verbs.client_table",
        "Run clients of other hands at Kafka and at this project's broker, feature by feature.",
    ),
    Verb(
        "known-defects",
        "conformance.verbs.known_defects",
        "Show defects of old brokers and clients, and that the next releases do not have them.",
    ),
    Verb(
        "distinguish",
        "conformance.verbs.distinguish",
        "Tell which rules of a release a run can tell from those of others, and by which trace.",
    ),
    Verb(
        "delayed-end-txn",
        "conformance.verbs.experiments:DELAYED_END_TXN",
        "Check on Kafka whether a delayed EndTxn ends the next transaction (KAFKA-17754).",
    ),
    Verb(
        "stale-coordinator",
        "conformance.verbs.experiments:STALE_COORDINATOR",
        "Check on Kafka whether a leader verifies transactions with a deposed coordinator.",
    ),
    Verb(
        "consume-transform-produce",
        "conformance.verbs.exactly_once",
        "Crash a client at every step of consume-transform-produce on Kafka: exactly once?",
    ),
    Verb(
        "experiments",
        "conformance.verbs.experiments",
        "Play stories of transactions on a broker and compare with what is expected.",
    ),
    Verb(
        "audit",
        "conformance.verbs.audit",
        "Audit what was written to real topics: gaps, duplicates, torn and hanging transactions.",
    ),
    Verb(
        "jobs",
        "conformance.verbs.jobs",
        "Do many commands at a time, on Spark or processes, such as one for each mutant.",
    ),
    Verb(
        "serve",
        "impl.broker.serve",
        "Serve a Kafka broker for any client, in memory or in files, until it is interrupted.",
    ),
    Verb(
        "explore",
        "conformance.verbs.explore",
        "Explore every reachable state of a scope, also on Spark; write shortest counterexamples.",
    ),
    Verb(
        "explore",
        "proofs.verbs.explore",
        "Explore every reachable state of a scope; write shortest counterexamples.",
    ),
    Verb(
        "try",
        "proofs.verbs.trial",
        "Say what a change of the protocol breaks first, where, and what it leaves as it is.",
    ),
    Verb(
        "patch",
        "proofs.verbs.patch",
        "Write a patch file from a diff of the model, and check that it fits.",
    ),
    Verb(
        "prove",
        "proofs.verbs.prove",
        "Prove the theorems, obligation by obligation, with two solvers.",
    ),
    Verb(
        "mutants",
        "proofs.verbs.mutants",
        "Plant defects in the model; the explorer must find each of them.",
    ),
    Verb(
        "mutants",
        "conformance.verbs.mutants",
        "Plant bugs in a copy of impl; the judge must find each of them.",
    ),
    Verb(
        "coverage",
        "proofs.verbs.coverage",
        "Report which rules, branches and pairs of events the scopes reach.",
    ),
    Verb(
        "coverage",
        "conformance.verbs.impl_coverage",
        "Report which statements of impl's protocol no scope executes, and why none needs to.",
    ),
    Verb(
        "liveness",
        "proofs.verbs.liveness",
        "Check what eventually happens, and under which fairness; write fair lassos.",
    ),
    Verb(
        "refine",
        "proofs.verbs.refine",
        "Check that every step refines the abstract specification.",
    ),
    Verb(
        "guarantees",
        "proofs.verbs.guarantees",
        "Report which guarantees hold for a release and its configuration.",
    ),
    Verb(
        "docs",
        "proofs.verbs.docs",
        "Write a page for each guarantee and non-guarantee, with its evidence.",
    ),
    Verb(
        "witness",
        "proofs.verbs.witness",
        "Find a shortest trace to a witness, a rule, a branch, an error code or a pair of events.",
    ),
    Verb("export", "proofs.verbs.export", "Write a scope as TLA+, SMT-LIB or a graph."),
    Verb(
        "list",
        "conformance.verbs.listing",
        "List the names that verbs take: scopes, variants, guarantees, systems, ...",
    ),
    Verb(
        "list",
        "proofs.verbs.listing",
        "List scopes, variants, engines, guarantees, mutants and theorems.",
    ),
)
"""A name that stands twice is one verb in each room; the first row is the one without a room."""

# Which extra brings a third-party module; the last one counts where the room's own does not.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "cramjam": ("compression",),
    "cvc5": ("proofs",),
    "kazoo": ("zookeeper",),
    "networkx": ("proofs", "judge"),
    "numpy": ("proofs", "judge"),
    "pandas": ("conformance",),
    "py4j": ("conformance",),
    "pyarrow": ("conformance",),
    "pyspark": ("conformance",),
    "rich": ("proofs", "judge"),
    "scipy": ("proofs", "judge"),
    "z3": ("proofs",),
    "ziglang": ("compiler",),
}


def verbs_of(room: str | None) -> tuple[Verb, ...]:
    """The rows of a room; without one, of both."""
    return tuple(verb for verb in VERBS if room in (None, verb.room))


def find_verb(name: str, room: str | None = None) -> Verb | None:
    """The first row with this name, None if there is none."""
    return next((verb for verb in verbs_of(room) if name == verb.name), None)
