"""The console script `kafka-eos`: a table of verbs; a room is imported when its verb is called.

`kafka-eos VERB ...` calls the parser that `python -m proofs VERB` or `python -m conformance VERB`
calls. Exit codes: 0 holds, 1 violated, 2 bad use or bad input, 3 not decided.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Final, NamedTuple, cast

EXIT_HOLDS: Final = 0
EXIT_BAD_USE: Final = 2
EXIT_NOT_DECIDED: Final = 3

ROOMS: Final = ("proofs", "conformance")


class Verb(NamedTuple):
    """Where a verb lives and what it answers, in one line."""

    room: str
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "run": Verb("conformance", "does a broker or a client behave as the model of its release?"),
    "replay": Verb("conformance", "play a trace on the model, on impl or on brokers"),
    "explain": Verb("conformance", "a trace as text or as a page with pictures"),
    "delayed-end-txn": Verb("conformance", "does a late EndTxn end the next transaction on Kafka?"),
    "stale-coordinator": Verb(
        "conformance", "does a leader on Kafka believe one that coordinates no more?"
    ),
    "consume-transform-produce": Verb(
        "conformance", "clients that crash at every step of it on Kafka: exactly once?"
    ),
    "releases": Verb("conformance", "`run` at all releases and levels, one after the other"),
    "facts": Verb("conformance", "small experiments with transactions on a real broker"),
    "explore": Verb("proofs", "every reachable state of a scope; shortest counterexamples"),
    "prove": Verb("proofs", "the theorems, obligation by obligation"),
    "mutants": Verb("proofs", "each planted defect of the model is found"),
    "coverage": Verb("proofs", "which rules, branches and event pairs the scopes reach"),
    "live": Verb("proofs", "what always happens in the end, and under which fairness"),
    "refine": Verb("proofs", "the protocol implements the abstract specification"),
    "guarantees": Verb("proofs", "which guarantees hold for a release and its settings"),
    "pages": Verb("proofs", "a page for each guarantee and non-guarantee, with what shows it"),
    "witness": Verb("proofs", "the shortest trace to a rule, a branch or an error code"),
    "export": Verb("proofs", "TLA+, SMT-LIB and graphs"),
}

# Which extra brings a third-party module; the first one counts where the room's own does not.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "cramjam": ("compression",),
    "cvc5": ("proofs",),
    "kazoo": ("zookeeper",),
    "networkx": ("proofs", "conformance"),
    "numpy": ("proofs", "conformance"),
    "pandas": ("conformance",),
    "pyarrow": ("conformance",),
    "pyspark": ("conformance",),
    "rich": ("proofs", "conformance"),
    "scipy": ("proofs", "conformance"),
    "z3": ("proofs",),
    "ziglang": ("compiler",),
}


def usage() -> str:
    """Return the help text, made from the table of verbs."""
    lines = [f"  {name:<28}{verb.summary}" for name, verb in VERBS.items()]
    lines.append(f"  {'list':<28}scopes, variants, theorems, mutants, guarantees and systems")
    verbs = "\n".join(lines)
    return (
        f"usage: kafka-eos [ROOM] VERB ...\n\n{verbs}\n\n"
        "ROOM is proofs or conformance; without it the verb's own is taken.\n"
        "`kafka-eos conformance mutants` plants the defects in impl instead of the model.\n"
        "`kafka-eos VERB --help` explains a verb, `kafka-eos --version` prints the version."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; `argv` defaults to the process's own arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    match arguments:
        case ["-h" | "--help", *_]:
            print(usage())
            return EXIT_HOLDS
        case ["--version", *_]:
            print(f"kafka-eos {version('kafka-eos')}")
            return EXIT_HOLDS
        case ["list", *rest]:
            return max(call_room(room, ["list", *rest]) for room in ROOMS)
        case [room, *rest] if room in ROOMS:
            return call_room(room, rest)
        case [name, *rest] if name in VERBS:
            return call_room(VERBS[name].room, [name, *rest])
        case [name, *_]:
            return refuse(f"no verb {name!r}\n\n{usage()}")
        case _:
            return refuse(usage())


def call_room(room: str, arguments: Sequence[str]) -> int:
    """Import `room` and hand it `arguments`; a missing extra is named and exits 2.

    Raises ModuleNotFoundError for a module that no extra brings: that is a defect of ours.
    """
    try:
        run = cast(Callable[[Sequence[str]], int], import_module(f"{room}.__main__").main)
        return run(arguments)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        extra = room if room in EXTRAS[missing] else EXTRAS[missing][0]
        return refuse(f"{missing} is not installed. Type: pip install 'kafka-eos[{extra}]'")
    except KeyboardInterrupt:
        print("kafka-eos: stopped", file=sys.stderr)
        return EXIT_NOT_DECIDED


def refuse(message: str) -> int:
    """Print `message` as an error and return the exit code of bad use."""
    print(f"kafka-eos: {message}", file=sys.stderr)
    return EXIT_BAD_USE


if __name__ == "__main__":
    sys.exit(main())
