"""The Java client as an oracle: its message schemas, and its codec as a process.

The jars come from Maven into the user's cache, once. Without Java or Maven, or where Maven reaches
nothing, the tests that ask for them are skipped and say what is missing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
from base64 import b64decode, b64encode
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile
from zlib import crc32

import pytest

NEWEST = "4.3.1"
BEFORE_REMOVALS = "3.9.2"
"""The last release with the versions that 4.0 removed."""

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>oracle</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
<version>{release}</version></dependency>
<dependency><groupId>com.fasterxml.jackson.core</groupId><artifactId>jackson-databind</artifactId>
<version>2.19.0</version></dependency>
</dependencies></project>
"""
_SECONDS = 120


@cache
def jars(release: str) -> Path:
    """The folder with the jars of kafka-clients `release`; skips the test where there are none."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cached / "kafka-eos" / "kafka-codec" / release
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven is not installed: apt-get install maven")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        pom = Path(made) / "pom.xml"
        pom.write_text(_POM.format(release=release))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]
        command = [maven, "-B", "-q", "-ntp", "-f", str(pom), *goal]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            pytest.skip(f"Maven does not reach kafka-clients {release}: {done.stdout[:200]}")
        if not folder.is_dir():  # another worker may have been faster
            (Path(made) / "jars").rename(folder)
    return folder


@cache
def schemas(release: str) -> dict[tuple[int, str], dict[str, Any]]:
    """`(api_key, "request" | "response")` to the jar's own schema of it."""
    found = {}
    with ZipFile(jars(release) / f"kafka-clients-{release}.jar") as jar:
        for name in jar.namelist():
            if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name):
                text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE)
                schema = json.loads(text)
                found[schema["apiKey"], schema["type"]] = schema
    return found


def _java(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install openjdk-17-jdk-headless")
    return found


def _compiled(program: str, release: str) -> str:
    """The class path of a program beside this file, compiled against a release's jars once."""
    source = Path(__file__).with_name(f"{program}.java")
    classes = jars(release) / f"classes-{crc32(source.read_bytes()):08x}"
    path = f"{jars(release)}/*"
    if not (classes / f"{program}.class").exists():
        command = [_java("javac"), "-d", str(classes), "-cp", path, str(source)]
        subprocess.run(command, timeout=_SECONDS, check=True)
    return f"{classes}{os.pathsep}{path}"


class _Codec:
    """A Java program, running. Every answer is a dict; `error` in it is Java's exception."""

    def __init__(self, program: str, release: str) -> None:
        flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
        self._process = subprocess.Popen(
            [_java("java"), *flags, "-cp", _compiled(program, release), program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def close(self) -> None:
        """End the process."""
        self._process.communicate(struct.pack(">i", 0))

    def _ask(self, command: bytes, argument: bytes) -> dict[str, Any]:
        sender, receiver = self._process.stdin, self._process.stdout
        assert sender is not None
        assert receiver is not None
        try:
            sender.write(struct.pack(">i", 1 + len(argument)) + command + argument)
            sender.flush()
            (size,) = struct.unpack(">i", receiver.read(4))
        except (BrokenPipeError, struct.error):
            raise AssertionError(self._process.communicate()[1].decode()) from None
        answer: dict[str, Any] = json.loads(receiver.read(size))
        return answer


class KafkaMessages(_Codec):
    """`KafkaMessages.java`."""

    def __init__(self, release: str) -> None:
        super().__init__("KafkaMessages", release)

    def request(self, payload: bytes) -> dict[str, Any]:
        """A request, read and written again: correlation_id, client_id, body, written, unread."""
        return self._ask(b"q", payload)

    def response(self, api_key: int, api_version: int, payload: bytes) -> dict[str, Any]:
        """A response, as `request`."""
        return self._ask(b"p", struct.pack(">hh", api_key, api_version) + payload)

    def refusal(self, error: int, payload: bytes) -> bytes | None:
        """The response with which Kafka refuses a request as a whole; None where it has none."""
        found = self._ask(b"e", struct.pack(">h", error) + payload)
        assert "error" not in found, found
        return b64decode(found["written"]) if "written" in found else None


class KafkaBatches(_Codec):
    """`KafkaBatches.java`."""

    def __init__(self) -> None:
        super().__init__("KafkaBatches", NEWEST)

    def read(self, batches: bytes) -> dict[str, Any]:
        """`batches`: the fields and records of each."""
        return self._ask(b"r", batches)

    def write(self, batch: dict[str, Any]) -> dict[str, Any]:
        """`written`: the bytes of a batch by Java's `MemoryRecordsBuilder`."""
        return self._ask(b"w", json.dumps(batch, default=as_base64).encode())


def as_base64(raw: bytes) -> str:
    """Bytes as JSON has them."""
    return b64encode(raw).decode()
