"""Why random mutants that conformance does not find need not be found: what a reader says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

REASONS: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("survivors.toml").read_text(encoding="utf-8")
)
"""By a mutant's name."""
