"""`patch`: makes a patch file from a diff of the model, for every verb with `--patch`.

The file is a JSON list of `[file, before, after]`, one for each hunk: consecutive lines of a file
of the model, and the lines that replace them. `docs/reference/patches.md` describes all forms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from proofs.lift.patch import Patch, apply_to_text, parse_diff
from proofs.lift.source import check_file, model_folder, patches_by_composition
from proofs.run import HOLDS, BadUse
from proofs.run.files import write_whole
from proofs.say import say

STANDARD_INPUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "diff",
        nargs="?",
        metavar="DIFF",
        help="a unified diff of model/, or - for standard input (default: `git diff` of the model)",
    )
    parser.add_argument(
        "--out",
        dest="file",
        type=Path,
        default=Path("change.patch.json"),
        metavar="FILE",
        help="the patch file (default: %(default)s)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Check the diff, and write it. Raises BadUse, PatchError."""
    patches = parse_diff(read_diff(arguments.diff))
    for patch in patches:
        check_file(patch.function)
    is_there = is_applied(patches)
    if not is_there:
        homes = patches_by_composition(patches)
        say(f"fits the model; changes {', '.join(homes)}")
    rows = [[patch.function, patch.before, patch.after] for patch in patches]
    write_whole(arguments.file, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    if is_there:
        say("the model has this change already: take it back (`git stash`) before you use the file")
    say(f"kafka-eos try --patch {arguments.file}")
    return HOLDS


def read_diff(name: str | None) -> str:
    """Return the text of a diff. Raises BadUse, OSError."""
    if name == STANDARD_INPUT:
        return sys.stdin.read()
    if name is not None:
        return Path(name).read_text(encoding="utf-8")
    folder = model_folder()
    command = ["git", "-C", str(folder.parent), "diff", "--no-color", "--relative", "HEAD", "--"]
    done = subprocess.run([*command, folder.name], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout:
        raise BadUse(f"no change of {folder} that git knows of: name a DIFF, or - to read one")
    return done.stdout


def is_applied(patches: Sequence[Patch]) -> bool:
    """Whether the model's text already has the patches applied. Raises PatchError."""
    texts = {patch.function: file_text(patch.function) for patch in patches}
    return all(
        fits(Patch(p.function, p.after, p.before), texts[p.function])
        and not fits(p, texts[p.function])
        for p in patches
    )


def file_text(name: str) -> str:
    """Return the text of a file of the model."""
    return (model_folder().parent / name).read_text(encoding="utf-8")


def fits(patch: Patch, text: str) -> bool:
    """Whether the lines to replace are found exactly once."""
    try:
        apply_to_text(patch, text)
    except ValueError:
        return False
    return True
