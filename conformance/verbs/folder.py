"""The folder of a run: which run it belongs to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from conformance.backends import REPOSITORY
from conformance.code import code_digest
from conformance.files import pretty, write_whole
from conformance.runner import refuse_other
from conformance.verbs import note

OURS: Final = ("prepared", "waves", "divergences")
"""The folders that a run makes."""


def begin(out: Path, arguments: dict[str, Any]) -> None:
    """Make the folder this run's own; what other code left there is removed.

    Raises OtherRun if it holds a run with other arguments.
    """
    path = out / "arguments.json"
    wanted = {"arguments": arguments, "code": code_digest((REPOSITORY,))}
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        refuse_other(arguments, found["arguments"], out)
        if found == wanted:
            return
        note(f"the code has changed since the run in {out}: beginning again")
    for folder in OURS:
        shutil.rmtree(out / folder, ignore_errors=True)
    write_whole(path, pretty(wanted))
