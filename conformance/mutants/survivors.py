"""Why random mutants that conformance does not find need not be found: what a reader says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NO_CHANGE: Final = ("equivalent: ", "outside the protocol: ")
"""How the reasons begin of mutants that change nothing of the protocol."""
LIMIT: Final = "a limit: "
"""How those begin of mutants that do, in a way that is larger than any scope."""
REASONS: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("survivors.toml").read_text(encoding="utf-8")
)
"""By a mutant's name."""
