"""Get a client of a release from its registry, once, and say how to start an application of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from conformance.client.processes import JVM_OPTIONS, client_jars
from proofs.cache import cache_folder, make_once
from proofs.java import FetchFailed, MissingTool, find_java
from proofs.run import BadUse

FOLDER: Final = Path(__file__).parent
JAVA_PROGRAM: Final = FOLDER.with_name("Application.java")
INSTALL_TIMEOUT_S: Final = 600
JAVA: Final = "java"

GO: Final = "go"
CONFLUENT_GO: Final = "github.com/confluentinc/confluent-kafka-go"

Command = list[str]


class Product(NamedTuple):
    """A client: the source of its application, the program that runs it (GO: none, it is compiled),
    the Debian packages that it needs, and the commands that put a release into a folder that has
    the source."""

    source: str
    runtime: str
    package: str
    install: Callable[[str, Path], Sequence[Command]]


def _npm(name: str) -> Callable[[str, Path], Sequence[Command]]:
    options = ["--no-audit", "--no-fund", "--ignore-scripts"]
    return lambda release, folder: [
        ["npm", "install", *options, "--prefix", str(folder), f"{name}@{release}"]
    ]


def _pip(name: str) -> Callable[[str, Path], Sequence[Command]]:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    return lambda release, folder: [[*pip, "--target", str(folder), f"{name}=={release}"]]


def _go(package: str, source: str) -> Callable[[str, Path], Sequence[Command]]:
    return lambda release, folder: [
        ["go", "mod", "init", "application"],
        ["go", "get", f"{package}@v{release}"],
        ["go", "build", "-o", source.removesuffix(".go"), source],
    ]


PRODUCTS: Final = {
    "confluent-kafka-go": Product(
        "confluent.go", GO, "golang", _go(f"{CONFLUENT_GO}/kafka", "confluent.go")
    ),
    "franz-go": Product(
        "franz.go", GO, "golang", _go("github.com/twmb/franz-go/pkg/kgo", "franz.go")
    ),
    "sarama": Product("sarama.go", GO, "golang", _go("github.com/Shopify/sarama", "sarama.go")),
    "kafkajs": Product("kafkajs.js", "node", "nodejs npm", _npm("kafkajs")),
    "confluent-kafka": Product(
        "confluent.py", sys.executable, "python3-pip", _pip("confluent-kafka")
    ),
}
"""By the names of their registries."""


def application_command(client: str) -> Command:
    """How to start an application of `RELEASE` of Apache Kafka's client, or `PRODUCT:RELEASE`.

    Raises BadUse, MissingTool, FetchFailed.
    """
    name, _, release = client.rpartition(":")
    if name in ("", JAVA):
        jars = client_jars(release) / "*"
        return [str(find_java()), *JVM_OPTIONS, "-cp", str(jars), str(JAVA_PROGRAM)]
    if name not in PRODUCTS:
        raise BadUse(f"invalid client {client!r}; valid: RELEASE, {', '.join(PRODUCTS)} :RELEASE")
    product = PRODUCTS[name]
    source = _installed(name, product, release) / product.source
    if product.runtime == GO:
        return [str(source.with_suffix(""))]
    return [product.runtime, str(source)]


def _installed(name: str, product: Product, release: str) -> Path:
    """The folder with the application and all that it needs. Raises MissingTool, FetchFailed."""
    source = FOLDER / product.source
    digest = sha256(source.read_bytes()).hexdigest()[:8]

    def make(draft: Path) -> None:
        shutil.copy(source, draft)
        for command in product.install(release, draft):
            if shutil.which(command[0]) is None:
                raise MissingTool(f"{name} needs {command[0]}: apt-get install {product.package}")
            _execute(command, draft)

    return make_once(cache_folder() / "clients" / name / f"{release}-{digest}", make)


def _execute(command: Command, folder: Path) -> None:
    run = partial(subprocess.run, cwd=folder, capture_output=True, text=True, check=False)
    try:
        said = run(command, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(f"not done after {INSTALL_TIMEOUT_S} s: {' '.join(command)}") from error
    if said.returncode:
        raise FetchFailed(f"{' '.join(command)}: {said.stderr.strip()[-2000:]}")
