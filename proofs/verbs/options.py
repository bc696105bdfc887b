"""Options that several verbs share, and the functions that read them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from proofs.explore.engines import ENGINES
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.patch import Patch
from proofs.lift.source import read_patches
from proofs.run.directory import Remote


def parse_positive(text: str) -> int:
    """Parse a number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def add_output(
    parser: argparse.ArgumentParser, place: Callable[[str], Path | Remote] = Path
) -> None:
    """Add --json and --out, which `place` reads."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report with its times")
    parser.add_argument(
        "--out",
        type=place,
        metavar="DIR",
        help="report.json, run.json and traces; the same command goes on there",
    )


def add_variant(parser: argparse.ArgumentParser) -> None:
    """Add --variant."""
    parser.add_argument(
        "--variant",
        default=DEFAULT_VARIANT,
        metavar="V",
        help=f"RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...] (default {DEFAULT_VARIANT})",
    )


def parse_engines(text: str) -> tuple[str, ...]:
    """Parse names of engines, with commas between them."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in ENGINES:
            valid = ", ".join(ENGINES)
            raise argparse.ArgumentTypeError(f"invalid engine {name!r}; valid: {valid}")
    return names


def add_engine(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add --engine and --workers."""
    told = f"one of {', '.join(ENGINES)} (default: {default or 'by the size of the scope'})"
    parser.add_argument("--engine", choices=ENGINES, default=default, metavar="E", help=told)
    add_workers(parser)


def add_engines(parser: argparse.ArgumentParser) -> None:
    """Add --engine for one or several engines, and --workers."""
    told = "some of c, ints, source, tlc, to be compared (default: one, by the scope's size)"
    parser.add_argument("--engine", type=parse_engines, metavar="E[,E...]", help=told)
    add_workers(parser)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add --workers."""
    parser.add_argument(
        "--workers",
        type=parse_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="threads of the C engine (default: all cores)",
    )


def add_patch(parser: argparse._ActionsContainer) -> None:
    """Add --patch."""
    parser.add_argument(
        "--patch",
        type=Path,
        metavar="FILE",
        help="a unified diff of the model, or a list of (module.function, before, after)",
    )


def patches_of(arguments: argparse.Namespace) -> tuple[Patch, ...]:
    """Return the patches that were requested. Raises PatchError."""
    return read_patches(arguments.patch) if arguments.patch else ()


def rows_of(patches: Sequence[Patch]) -> list[list[str]]:
    """Return patches as rows of a report."""
    return [[patch.function, patch.before, patch.after] for patch in patches]
