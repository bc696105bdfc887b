"""Fetches the jars of a release, once, through Maven."""

from __future__ import annotations

import sys
from pathlib import Path

from conformance.adapters.brokers.kafka.releases import Release
from proofs.cache import cache_folder, make_once
from proofs.java import download_jars


def say(line: str) -> None:
    """Print one line of progress to standard error."""
    print(f"kafka: {line}", file=sys.stderr, flush=True)


def fetch(release: Release) -> tuple[Path, ...]:
    """Return the jars of `release`, sorted; the first call fetches them through Maven.

    Raises MissingTool, or FetchFailed with Maven's output.
    """

    def download(draft: Path) -> None:
        say(f"getting the jars of Kafka {release.version} (about 45 MB, once)")
        download_jars(release.artifacts, draft)
        say(f"Kafka {release.version}: {len(list(draft.glob('*.jar')))} jars")

    lib = _folder(release.version) / "lib"  # both modes of a release have the same jars
    return tuple(sorted(make_once(lib, download).glob("*.jar")))


def release_folder(release: Release) -> Path:
    """Return the folder in the cache with the files of `release` in its mode."""
    return _folder(release.name)


def _folder(name: str) -> Path:
    return cache_folder() / "kafka" / name
