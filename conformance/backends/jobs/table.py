"""The table of jobs: each is a command of `kafka-eos`, made from templates and values of names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from string import Formatter
from typing import Final, NamedTuple

from proofs.run import BadUse

PROGRAM: Final = "kafka-eos"

KIND_MARK: Final = "@"
"""Marks a value that stands for the names of a kind, as `list KIND` prints them."""

NamesOfKind = Callable[[str], Sequence[str]]
"""The names of a kind. Raises BadUse for an unknown one."""


class CommandJob(NamedTuple):
    """A command, as the words after `kafka-eos`."""

    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command as a user would type it."""
        return shlex.join(self.words)


def jobs_of(templates: Sequence[str], values: Mapping[str, Sequence[str]]) -> list[CommandJob]:
    """Each template with each combination of values for the names in its braces.

    Raises BadUse for a name without values, for values that no template uses, and for a job that
    occurs twice.
    """
    jobs: list[CommandJob] = []
    used: set[str] = set()
    for template in templates:
        names = names_in(template)
        if missing := [name for name in names if name not in values]:
            raise BadUse(f"{template!r} names {{{missing[0]}}}: give --each {missing[0]}=A,B")
        used.update(names)
        for combination in product(*(values[name] for name in names)):
            job = CommandJob(tuple(filled(template, dict(zip(names, combination, strict=True)))))
            if job in jobs:
                raise BadUse(f"the job {job.command!r} is there twice")
            jobs.append(job)
    if unused := [name for name in values if name not in used]:
        raise BadUse(f"no command names {{{unused[0]}}}; leave --each {unused[0]}=... out")
    if not jobs:
        raise BadUse("there is no job: give a command, as in 'explore {scope}'")
    return jobs


def names_in(template: str) -> list[str]:
    """The names in braces, in order. Raises BadUse."""
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise BadUse(f"{template!r}: {error}; write {{{{ for a brace") from error
    if invalid := [name for name in fields if not name.isidentifier()]:
        raise BadUse(
            f"{template!r}: {invalid[0]!r} is no name; write {{scope}}, and {{{{ for a brace"
        )
    return list(dict.fromkeys(fields))


def filled(template: str, values: Mapping[str, str]) -> list[str]:
    """The words of a command; a value stays one word, whatever it contains. Raises BadUse."""
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise BadUse(f"{template!r}: {error}") from error
    written = [word.format_map(values) for word in words]
    return written[1:] if written[:1] == [PROGRAM] else written


def values_of(given: Sequence[str], names_of_kind: NamesOfKind) -> dict[str, list[str]]:
    """The values of each `NAME=A,B`, of `NAME=@KIND` for all names of a kind, or of
    `NAME=@KIND:REGEX` for those that match as a whole. Raises BadUse."""
    values: dict[str, list[str]] = {}
    for text in given:
        name, equals, listed = text.partition("=")
        if not (equals and listed and name.isidentifier()) or name in values:
            raise BadUse(f"invalid --each {text!r}; write NAME=A,B or NAME=@KIND, each NAME once")
        values[name] = (
            names_that_match(listed.removeprefix(KIND_MARK), names_of_kind)
            if listed.startswith(KIND_MARK)
            else listed.split(",")
        )
    return values


def names_that_match(listed: str, names_of_kind: NamesOfKind) -> list[str]:
    """The names of `KIND` or `KIND:REGEX`. Raises BadUse."""
    kind, _, pattern = listed.partition(":")
    try:
        wanted = re.compile(pattern or ".*")
    except re.error as error:
        raise BadUse(f"invalid REGEX {pattern!r}: {error}") from error
    names = names_of_kind(kind)
    found = [name for name in dict.fromkeys(names) if wanted.fullmatch(name)]
    if not found:
        raise BadUse(f"no name of {kind} matches {pattern!r}; `kafka-eos list {kind}` lists them")
    return found
