"""Jars of Kafka and ZooKeeper for tests, through Maven, fetched once for all."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path


class Unavailable(Exception):
    """Java, Maven or the jars cannot be had here."""


def _pom(coordinates: Mapping[str, str]) -> str:
    rows = "".join(
        f"<dependency><groupId>{name.split(':')[0]}</groupId>"
        f"<artifactId>{name.split(':')[1]}</artifactId><version>{version}</version></dependency>"
        for name, version in coordinates.items()
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
        "<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{rows}</dependencies></project>"
    )


def jars(folder_name: str, coordinates: Mapping[str, str]) -> Path:
    """The folder with these jars and all that they need. Raises `Unavailable`."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "kafka-eos" / folder_name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        pom = Path(name, "pom.xml")
        pom.write_text(_pom(coordinates))
        fetched = Path(name, "jars")
        command = ["mvn", "-B", "-q", "-ntp", "-f", str(pom), "dependency:copy-dependencies"]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
        done = subprocess.run(command + options, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"Maven: {done.stdout[-300:]}")
        if not folder.is_dir():
            fetched.rename(folder)
    return folder
