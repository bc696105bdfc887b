"""Copies of impl with a bug in them, and the processes that hunt the bug."""

from __future__ import annotations

import ast
import functools
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from conformance.campaigns.mutants import Mutant
from conformance.judging.backend import BackendFailed
from conformance.judging.signatures import Finding
from proofs.lift.patch import Patch, apply, find_scope
from proofs.run.files import REPOSITORY

HUNT_TIMEOUT_S: Final = 600.0
"""A bug may make impl loop for ever."""


class HuntFailed(BackendFailed):
    """The process ended without an answer; the message has its last output."""


def write_patched(mutant: Mutant, root: Path) -> None:
    """Write a copy of impl with the bug below `root`. Raises PatchError.

    Compiled modules of impl are copied, too, except for the files that have the bug.
    """
    source = REPOSITORY / "impl"
    shutil.copytree(source, root / "impl")
    for path, text in patch_files(mutant.patches, source):
        changed = root / "impl" / path
        changed.write_text(text, encoding="utf-8")
        Path(cache_from_source(str(changed))).unlink(missing_ok=True)


def patch_files(patches: Sequence[Patch], package: Path) -> Iterator[tuple[Path, str]]:
    """The files of a package that the patches change, with their changed text. Raises
    PatchError."""
    trees = dict(trees_of(package))
    for name in {find_scope(patch.function, trees)[0] for patch in patches}:
        trees[name] = pickle.loads(pickle.dumps(trees[name]))  # deepcopy takes twice as long
    for name in {apply(patch, trees) for patch in patches}:
        yield path_of(name, package), f"{ast.unparse(trees[name])}\n"


@functools.cache
def trees_of(package: Path) -> Mapping[str, ast.Module]:
    """The modules of a package, by dotted name including the package's."""
    files = {
        path.relative_to(package.parent).with_suffix(""): path for path in package.rglob("*.py")
    }
    return {
        ".".join(short.parts).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
        for short, path in files.items()
    }


def path_of(name: str, package: Path) -> Path:
    """The file of a module, below the package."""
    path = Path(*name.split(".")[1:])
    return path / "__init__.py" if (package / path).is_dir() else path.with_suffix(".py")


def hunt(mutant: Mutant, prepared: Path) -> Finding | None:
    """The shortest trace that shows the bug, if there is one. Raises PatchError, HuntFailed."""
    with tempfile.TemporaryDirectory(prefix="kafka-eos-mutant-") as folder:
        root = Path(folder).resolve()
        write_patched(mutant, root)
        return hunt_in_process(mutant.name, root, prepared)


def hunt_unpatched(prepared: Path) -> Finding | None:
    """The difference that the unchanged impl shows on the same traces: none. Raises HuntFailed."""
    return hunt_in_process("impl as it is", REPOSITORY, prepared)


def hunt_in_process(what: str, root: Path, prepared: Path) -> Finding | None:
    """The finding of a fresh process with the impl below `root`. Raises HuntFailed."""
    # -P: modules in the current folder must not come before the copy.
    command = [
        sys.executable,
        "-P",
        "-m",
        "conformance.campaigns.mutants.hunt",
        str(prepared),
        str(root),
    ]
    path = os.pathsep.join((str(root), str(REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HUNT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HuntFailed(f"{what}: no end after {HUNT_TIMEOUT_S:.0f} s") from error
    if ended.returncode != 0:
        raise HuntFailed(f"{what}: {ended.stderr.strip()}")
    finding: Finding | None = json.loads(ended.stdout)
    return finding
