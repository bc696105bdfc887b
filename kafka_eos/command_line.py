"""The command line: `kafka-eos [ROOM] VERB ...`.

One parser, one table of verbs, and one place where errors, interruptions and missing extras become
exit codes: 0 holds, 1 violated, 2 bad use or bad input, 3 not decided.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Final, Protocol, cast

from kafka_eos.environment import hidden_package, unwritable_path
from kafka_eos.verbs import EXTRAS, ROOMS, Verb, find_verb, verbs_of

HOLDS: Final = 0
BAD_USE: Final = 2
NOT_DECIDED: Final = 3

LINE_WIDTH: Final = 79

EXIT_CODES: Final = "exit codes: 0 holds, 1 violated, 2 bad use or bad input, 3 not decided"


class Implementation(Protocol):
    """A verb's module, or an object in it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what the verb takes."""

    def execute(self, options: argparse.Namespace) -> int:
        """Do it; the exit code."""


def main(argv: Sequence[str] | None = None, room: str | None = None) -> int:
    """Run one verb and return its exit code.

    `argv` defaults to the process's own arguments; `room` limits the verbs to one package.
    """
    if problem := hidden_package():
        return fail(problem, BAD_USE)
    arguments = list(sys.argv[1:] if argv is None else argv)
    match arguments:
        case ["-h" | "--help", *_]:
            print(usage(room))
            return HOLDS
        case ["--version", *_]:
            from importlib.metadata import version  # as slow to import as a verb's module

            from impl.form import FORM

            print(f"kafka-eos {version('kafka-eos')} ({FORM})")
            return HOLDS
        case [name, *rest] if room is None and name in ROOMS:
            return main(rest, name)
        case [name, *rest] if verb := find_verb(name, room):
            return run_verb(verb, rest)
        case [name, *_]:
            return fail(explain_verb(name, room), BAD_USE)
        case _:
            return fail(usage(room), BAD_USE)


def explain_verb(name: str, room: str | None) -> str:
    """What to type instead of a verb that there is not."""
    from impl.suggestions import explain_unknown  # no room is imported before it is used

    valid = [verb.name for verb in verbs_of(room)]
    return explain_unknown("verb", name, valid, where="`kafka-eos --help` lists all")


def usage(room: str | None = None) -> str:
    """The help text, made from the table of verbs."""
    first = {verb.name: verb for verb in reversed(verbs_of(room))}
    rows = [f"  {v.name:<28}{v.summary}" for v in verbs_of(room) if first[v.name] is v]
    command = f"kafka-eos {room}" if room else "kafka-eos [ROOM]"
    rooms = (
        ""
        if room
        else (
            "ROOM is proofs or conformance. Both have these verbs:\n"
            "`kafka-eos conformance mutants` plants bugs in impl instead of the model,\n"
            "`kafka-eos conformance coverage` says what of impl no scope executes,\n"
            "`kafka-eos proofs list` leaves out what only systems need,\n"
            "`kafka-eos proofs explore` leaves out Spark.\n"
        )
    )
    return (
        f"usage: {command} VERB ...\n\n" + "\n".join(rows) + f"\n\n{rooms}"
        "`kafka-eos VERB --help` explains a verb, `kafka-eos --version` prints the version.\n"
        f"{EXIT_CODES}"
    )


def load(verb: Verb) -> Implementation:
    """Import the verb's module. Raises ModuleNotFoundError where an extra is missing."""
    module, _, name = verb.module.partition(":")
    found = sys.modules.get(module) or import_for_good(module)
    return cast(Implementation, getattr(found, name) if name else found)


def import_for_good(module: str) -> ModuleType:
    """Import a module that stays to the end of the process, as does all that it imports: the
    collector would look for cycles in that again and again, and find none to free."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        if collects:
            gc.enable()


class VerbArguments(argparse.ArgumentParser):
    """The parser of one verb. Its help ends with examples, which only a reader of it waits for."""

    def __init__(self, verb: Verb) -> None:
        own = find_verb(verb.name) is verb
        super().__init__(
            prog=f"kafka-eos {verb.name}" if own else f"kafka-eos {verb.room} {verb.name}",
            description=verb.summary,
            # argparse makes a formatter for each option: it is not to ask for the terminal's width
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=LINE_WIDTH),
        )
        self._verb = verb

    def format_help(self) -> str:
        """The help."""
        self.epilog = f"{examples_of(self._verb)}\n\n{EXIT_CODES}"
        return super().format_help()


def parser_of(verb: Verb) -> argparse.ArgumentParser:
    """The parser of one verb. Raises ModuleNotFoundError where an extra is missing."""
    parser = VerbArguments(verb)
    load(verb).add_arguments(parser)
    parser.set_defaults(verb=verb.name)
    return parser


def examples_of(verb: Verb) -> str:
    """The examples of a verb as its help shows them. They need the model, which may be hidden."""
    from kafka_eos.examples import EXAMPLES

    rows = [(f"  kafka-eos {words}", remark) for words, remark in EXAMPLES[verb.room, verb.name]]
    return "\n".join(["examples:", *(line for row in rows for line in example_lines(*row))])


def example_lines(command: str, remark: str) -> tuple[str, ...]:
    """An example in one line, or in two where it is long."""
    if len(command) + len(remark) + 4 > LINE_WIDTH:
        return (command, f"      # {remark}")
    return (f"{command}  # {remark}",)


def run_verb(verb: Verb, arguments: Sequence[str]) -> int:
    """Parse the arguments, execute the verb, and turn errors into messages and exit codes.

    Raises ModuleNotFoundError for a module that no extra brings: that is a defect of ours.
    """
    try:
        options = parser_of(verb).parse_args(arguments)
        if problem := unwritable_path(options):
            return fail(f"{verb.name}: {problem}", BAD_USE)
        return load(verb).execute(options)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_USE
    except KeyboardInterrupt as stop:
        return fail(str(stop) or "stopped", NOT_DECIDED)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        extra = verb.room if verb.room in EXTRAS[missing] else EXTRAS[missing][-1]
        return fail(f"{missing} is not installed. Type: pip install 'kafka-eos[{extra}]'", BAD_USE)
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            # Python's own exit code for a defect of ours, 1, would read as "violated".
            sys.excepthook(type(error), error, error.__traceback__)
            return NOT_DECIDED
        return fail(f"{verb.name}: {message_of(error)}", code)


def message_of(error: Exception) -> str:
    """What an error says, without numbers of the operating system."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def exit_code_of(error: Exception) -> int | None:
    """The exit code of an error that a user can act on; None for a defect of ours.

    A ValueError of our modules and an OSError are about what the user gave. Other errors of ours
    carry an `exit_code` if they are meant for users.
    """
    if isinstance(error, OSError):
        return BAD_USE
    if type(error).__module__.partition(".")[0] not in ("model", *ROOMS):
        return None
    default = BAD_USE if isinstance(error, ValueError) else None
    code: int | None = getattr(error, "exit_code", default)
    return code


def fail(message: str, code: int) -> int:
    """Print why there is no answer, and return the exit code."""
    print(f"kafka-eos: {message}", file=sys.stderr)
    return code
