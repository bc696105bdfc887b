"""Get the jars of a release, once, through Maven; find Java and say what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from conformance.kafka.cache import cache_folder, make_once
from conformance.kafka.errors import FetchFailed, MissingTool
from conformance.kafka.releases import Release

OLDEST_JAVA: Final = 17
MAVEN_TIMEOUT_S: Final = 900

_POM: Final = """<project><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>jars</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
{dependencies}
</dependencies></project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def say(line: str) -> None:
    """Print one line of progress to standard error."""
    print(f"kafka: {line}", file=sys.stderr, flush=True)


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else of the path. Raises MissingTool, also when too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if not found:
        raise MissingTool(_missing("Java", "openjdk-17-jdk-headless", "openjdk"))
    if java_major(Path(found)) < OLDEST_JAVA:
        raise MissingTool(
            f"{found} is too old. " + _missing("Java", "openjdk-17-jdk-headless", "openjdk")
        )
    return Path(found)


@cache
def java_version(java: Path) -> str:
    """Return the version that `java` reports, like 17.0.15."""
    result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "([^"]+)"', result.stderr)
    return match.group(1) if match else "0"


def java_major(java: Path) -> int:
    """Return 17 for 17.0.15, and 1 for the 1.8 of old."""
    return int(re.split(r"\D", java_version(java))[0])


def find_maven() -> Path:
    """Return `mvn`. Raises MissingTool."""
    found = shutil.which("mvn")
    if not found:
        raise MissingTool(_missing("Maven", "maven", "maven"))
    return Path(found)


def fetch(release: Release, report: Callable[[str], None] = say) -> tuple[Path, ...]:
    """Return the jars of `release`, sorted; the first time they come through Maven.

    Raises MissingTool, or FetchFailed with what Maven printed.
    """

    def download(draft: Path) -> None:
        report(f"getting the jars of Kafka {release.name} (about 45 MB, once)")
        download_jars(release.artifacts, draft)
        report(f"Kafka {release.name}: {len(list(draft.glob('*.jar')))} jars")

    return tuple(sorted(make_once(release_folder(release) / "lib", download).glob("*.jar")))


def release_folder(release: Release) -> Path:
    """Return the folder in the cache that holds what belongs to `release`."""
    return cache_folder() / "kafka" / release.name


def download_jars(artifacts: Sequence[str], folder: Path) -> None:
    """Put `artifacts` (group:artifact:version) and what they need at run time into `folder`.

    Raises MissingTool, or FetchFailed with what Maven printed.
    """
    maven = find_maven()
    pom = folder / "pom.xml"
    pom.write_text(pom_of(artifacts))
    goals = ("dependency:copy-dependencies", "-DincludeScope=runtime")
    command: list[str | Path] = [
        maven,
        "-B",
        "-q",
        "-ntp",
        "-f",
        pom,
        *goals,
        f"-DoutputDirectory={folder}",
    ]
    try:
        result = subprocess.run(
            command,
            env={**os.environ, "JAVA_HOME": str(find_java().resolve().parent.parent)},
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(f"Maven was not done after {MAVEN_TIMEOUT_S} s") from error
    pom.unlink()
    if result.returncode != 0 or not any(folder.glob("*.jar")):
        raise FetchFailed(f"Maven could not get {', '.join(artifacts)}:\n{result.stdout[-2000:]}")


def pom_of(artifacts: Sequence[str]) -> str:
    """Return a Maven project that depends on `artifacts` and holds nothing else."""
    lines = (_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
    return _POM.format(dependencies="\n".join(lines))


def _missing(tool: str, debian: str, brew: str) -> str:
    return (
        f"{tool} is missing: a real Kafka broker needs Java {OLDEST_JAVA} or newer, and Maven to "
        f"get its jars. Type: sudo apt-get install {debian} (Debian), brew install {brew} (macOS)"
    )
