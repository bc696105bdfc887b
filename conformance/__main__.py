"""`python -m conformance VERB`: the judge's command line.

Exit codes: 0 holds, 1 violated, 2 bad use or bad input, 3 not decided.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final, cast

from conformance.backends import BackendError, BackendFailed
from conformance.verbs import EXIT_BAD_USE, EXIT_NOT_DECIDED, Verb

VERBS: Final = {
    "run": "judge a system against the model of its release",
    "releases": "judge all releases and levels, one after the other",
    "replay": "play one trace, step by step",
    "explain": "one trace as a story, and as a page with pictures",
    "mutants": "each bug planted in impl is found",
    "delayed-end-txn": "does a delayed EndTxn end the next transaction, on a real broker?",
    "stale-coordinator": "does a leader believe one that coordinates no more, on real brokers?",
    "consume-transform-produce": "clients that crash at every step: is the output exactly once?",
    "facts": "small experiments with transactions on a real broker",
    "list": "scopes, variants, systems, guarantees and planted bugs",
}

MODULES: Final = {verb: f"conformance.verbs.{verb}" for verb in VERBS} | {
    "list": "conformance.verbs.listing",
    "delayed-end-txn": "conformance.transactions.delayed_end_txn_verb",
    "stale-coordinator": "conformance.transactions.stale_coordinator_verb",
    "consume-transform-produce": "conformance.transactions.consume_transform_produce_verb",
    "facts": "conformance.transactions.facts_verb",
}


def load(name: str) -> Verb:
    """The verb's own module is imported when it is called."""
    return cast(Verb, import_module(MODULES[name]).VERB)


def parser_of(name: str, verb: Verb) -> argparse.ArgumentParser:
    """The parser of one verb."""
    parser = argparse.ArgumentParser(
        prog=f"kafka-eos {name}",
        description=verb.summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_arguments(parser)
    return parser


def usage() -> str:
    """The verbs, a line each."""
    lines = [f"  {name:<28}{summary}" for name, summary in VERBS.items()]
    return "\n".join(["usage: python -m conformance VERB ...", "", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit code."""
    match list(sys.argv[1:] if argv is None else argv):
        case ["-h" | "--help", *_]:
            print(usage())
            return 0
        case [name, *rest] if name in VERBS:
            return run_verb(name, rest)
        case [name, *_]:
            return refuse(f"no verb {name!r}\n\n{usage()}")
        case _:
            return refuse(usage())


def run_verb(name: str, arguments: Sequence[str]) -> int:
    """Parse and execute; errors become messages and exit codes.

    Raises ModuleNotFoundError where a package is missing: the console script names its extra.
    """
    verb = load(name)
    try:
        options = parser_of(name, verb).parse_args(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else EXIT_BAD_USE
    try:
        return verb.execute(options)
    except ModuleNotFoundError:
        raise
    except BackendFailed as error:
        print(f"kafka-eos {name}: {error}", file=sys.stderr)
        return EXIT_NOT_DECIDED
    except Exception as error:
        if is_for_people(error):
            return refuse(f"{name}: {error}")
        # Python's own exit code for a defect of ours, 1, would read as "violated".
        traceback.print_exc()
        return EXIT_NOT_DECIDED


def is_for_people(error: Exception) -> bool:
    """Whether one of our modules named this error about what it was given."""
    named_here = type(error).__module__.partition(".")[0] in ("conformance", "proofs", "model")
    return named_here and isinstance(error, ValueError | BackendError)


def refuse(message: str) -> int:
    """Say what was wrong; the exit code of bad use."""
    print(f"kafka-eos: {message}", file=sys.stderr)
    return EXIT_BAD_USE


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("kafka-eos: stopped", file=sys.stderr)
        sys.exit(EXIT_NOT_DECIDED)
    except ModuleNotFoundError as missing:
        print(f"kafka-eos: {missing}; type: pip install 'kafka-eos[conformance]'", file=sys.stderr)
        sys.exit(EXIT_BAD_USE)
