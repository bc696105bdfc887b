"""Copies of impl with a bug in them, and the processes that hunt it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from conformance.backends import REPOSITORY, BackendFailed
from conformance.code import package_folder
from conformance.mutants import Mutant
from conformance.mutants.patches import apply
from conformance.plan import Finding

PATIENCE_SECONDS: Final = 600.0
"""A bug may make impl loop for ever."""


class HuntFailed(BackendFailed):
    """The process ended without an answer; the message has its last words."""


def plant(mutant: Mutant, root: Path) -> None:
    """Put a copy of impl with the bug below `root`. Raises PatchError."""
    source = package_folder("impl", (REPOSITORY,))
    shutil.copytree(source, root / "impl", ignore=shutil.ignore_patterns("__pycache__"))
    apply(mutant.patch, root)


def hunt(mutant: Mutant, prepared: Path) -> Finding | None:
    """The shortest trace that shows the bug, if there is one. Raises PatchError, HuntFailed."""
    with tempfile.TemporaryDirectory(prefix="kafka-eos-mutant-") as folder:
        root = Path(folder).resolve()
        plant(mutant, root)
        return hunted(mutant.name, root, prepared)


def hunt_unpatched(prepared: Path) -> Finding | None:
    """What impl as it is shows in the same traces: nothing. Raises HuntFailed."""
    source = package_folder("impl", (REPOSITORY,))
    return hunted("impl as it is", source.parent, prepared)


def hunted(what: str, root: Path, prepared: Path) -> Finding | None:
    """What a fresh process with the impl below `root` finds. Raises HuntFailed."""
    # -P: what stands in the current folder must not come before the copy.
    command = [sys.executable, "-P", "-m", "conformance.mutants.hunt", str(prepared), str(root)]
    path = os.pathsep.join((str(root), str(REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HuntFailed(f"{what}: no end after {PATIENCE_SECONDS:.0f} s") from error
    if ended.returncode != 0:
        raise HuntFailed(f"{what}: {ended.stderr.strip()}")
    finding: Finding | None = json.loads(ended.stdout)
    return finding
