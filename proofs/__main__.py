"""`python -m proofs VERB`: the model checked, from the command line."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from proofs.explore.result import LimitReached
from proofs.explore.scope import EnginesDisagree
from proofs.verbs import BAD_USE, NOT_DECIDED, VERBS


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs; the rest of the line is the verb's own."""
    verbs = "\n".join(f"  {name:<9} {summary}" for name, (_, summary) in VERBS.items())
    top = argparse.ArgumentParser(
        prog="python -m proofs",
        description=f"The model checked.\n\n{verbs}\n\nVERB --help explains a verb.",
        epilog="exit codes: 0 holds, 1 violated, 2 bad use or bad input, 3 not decided",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("verb", choices=VERBS, metavar="VERB")
    top.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return top


def call(verb: str, argv: Sequence[str]) -> int:
    """Run one verb with its own arguments."""
    module = import_module(VERBS[verb][0])
    own = argparse.ArgumentParser(prog=f"kafka-eos {verb}", description=VERBS[verb][1])
    module.add_arguments(own)
    code: int = module.run(own.parse_args(argv))
    return code


def is_for_people(error: Exception) -> bool:
    """Whether one of our modules named this error about what it was given."""
    named_here = type(error).__module__.partition(".")[0] in ("proofs", "model")
    return named_here and not isinstance(error, EnginesDisagree)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; `argv` defaults to the process's own arguments.

    Raises ModuleNotFoundError where a package is missing: the console script names its extra.
    """
    try:
        asked = parser().parse_args(argv)
        return call(asked.verb, asked.arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD_USE
    except ModuleNotFoundError:
        raise
    except KeyboardInterrupt:
        return ended("stopped", NOT_DECIDED)
    except LimitReached as limit:
        return ended(str(limit), NOT_DECIDED)
    except Exception as error:
        if is_for_people(error) or isinstance(error, OSError):
            return ended(str(error), BAD_USE)
        # Python's own exit code for a defect of ours, 1, would read as "violated".
        traceback.print_exc()
        return NOT_DECIDED


def ended(why: str, code: int) -> int:
    """Say why there is no answer."""
    print(f"proofs: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModuleNotFoundError as missing:
        sys.exit(ended(f"{missing}; type: pip install 'kafka-eos[proofs]'", BAD_USE))
