"""Finds Java and Maven, says what is missing, and fetches jars once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

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


class JavaError(Exception):
    """The base of errors of Java and Maven."""

    exit_code = 2


class MissingTool(JavaError):
    """Java or Maven is not installed, or Java is too old; the message says how to install it."""


class FetchFailed(JavaError):
    """Maven did not fetch the jars; the message quotes its output."""


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else of the path. Raises MissingTool, also if Java is too
    old."""
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
    """Return the major version: 17 for 17.0.15, and 1 for an old version such as 1.8."""
    return int(re.split(r"\D", java_version(java))[0])


def find_maven() -> Path:
    """Return `mvn`. Raises MissingTool."""
    found = shutil.which("mvn")
    if not found:
        raise MissingTool(_missing("Maven", "maven", "maven"))
    return Path(found)


def download_jars(artifacts: Sequence[str], folder: Path) -> None:
    """Put `artifacts` (group:artifact:version) and their run-time dependencies into `folder`.

    Raises MissingTool, or FetchFailed with the output of Maven.
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
    """Return a Maven project that depends on `artifacts` and contains nothing else."""
    lines = (_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
    return _POM.format(dependencies="\n".join(lines))


def _missing(tool: str, debian: str, brew: str) -> str:
    return (
        f"{tool} is missing: Kafka and TLC need Java {OLDEST_JAVA} or newer, and Maven to get "
        f"their jars. Type: sudo apt-get install {debian} (Debian), brew install {brew} (macOS)"
    )
