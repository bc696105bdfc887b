"""Fetches a client of a release from its registry, once, and returns the command for a program of
it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from conformance.adapters.clients.processes import JVM_OPTIONS, client_jars
from proofs.cache import cache_folder, make_once
from proofs.java import FetchFailed, MissingTool, find_java
from proofs.run import BadUse

INSTALL_TIMEOUT_S: Final = 600
JAVA: Final = "java"

GO: Final = "go"
CONFLUENT_GO: Final = "github.com/confluentinc/confluent-kafka-go"

Command = list[str]


class Product(NamedTuple):
    """A client: the name of the sources that use it, the program that runs them (GO: the sources
    are compiled), the Debian packages that it needs, and the commands that install a release into a
    folder that has the source."""

    source: str
    runtime: str
    package: str
    install: Install


Install = Callable[[str, Path], Sequence[Command]]


def _npm(name: str, *more: str) -> Install:
    options = ["--no-audit", "--no-fund", "--ignore-scripts"]
    return lambda release, folder: [
        ["npm", "install", *options, "--prefix", str(folder), f"{name}@{release}", *more]
    ]


def _pip(name: str) -> Install:
    """`name` may end with extras, as `kafka-python[lz4]`."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    return lambda release, folder: [[*pip, "--target", str(folder), f"{name}=={release}"]]


def _go(package: str, source: str) -> Install:
    return lambda release, folder: [
        ["go", "mod", "init", "application"],
        ["go", "get", f"{package}@v{release}"],
        ["go", "get", "."],  # other packages that the program imports
        ["go", "build", "-o", source.removesuffix(".go"), source],
    ]


def _debian(program: str) -> Install:
    """A package for all users: it is installed by hand, and only its version is read."""
    return lambda release, folder: [[program, "-V"]]


KCAT: Final = "kcat"
KAFKAJS_CODECS: Final = ("kafkajs-snappy@1.1.0", "lz4-napi@2.10.0", "zstd-codec@0.1.5")
"""Without these it has only gzip; they need no compiler."""
PRODUCTS: Final = {
    "confluent-kafka-go": Product(
        "confluent.go", GO, "golang", _go(f"{CONFLUENT_GO}/kafka", "confluent.go")
    ),
    "franz-go": Product(
        "franz.go", GO, "golang", _go("github.com/twmb/franz-go/pkg/kgo", "franz.go")
    ),
    "sarama": Product("sarama.go", GO, "golang", _go("github.com/Shopify/sarama", "sarama.go")),
    "ibm-sarama": Product(
        "ibm_sarama.go", GO, "golang", _go("github.com/IBM/sarama", "ibm_sarama.go")
    ),
    "kafkajs": Product("kafkajs.js", "node", "nodejs npm", _npm("kafkajs", *KAFKAJS_CODECS)),
    "confluent-kafka": Product(
        "confluent.py", sys.executable, "python3-pip", _pip("confluent-kafka")
    ),
    "kafka-python": Product(
        "kafka_python.py", sys.executable, "python3-pip", _pip("kafka-python[lz4,snappy,zstd]")
    ),
    "aiokafka": Product(
        "asyncio_kafka.py", sys.executable, "python3-pip", _pip("aiokafka[lz4,snappy,zstd]")
    ),
    KCAT: Product("kcat.py", sys.executable, KCAT, _debian(KCAT)),
}
"""The products by their names in registries."""
JAVA_SOURCE: Final = "Application.java"


def products_of(programs: Path) -> list[str]:
    """The products for which a folder has a program."""
    return [name for name, product in PRODUCTS.items() if (programs / product.source).exists()]


def program_command(client: str, programs: Path) -> Command:
    """The command that starts a program, from a folder, for a client: `RELEASE` of Apache Kafka's,
    or `PRODUCT:RELEASE`.

    Raises BadUse, MissingTool, FetchFailed.
    """
    name, _, release = client.rpartition(":")
    if name in ("", JAVA):
        jars = client_jars(release) / "*"
        return [str(find_java()), *JVM_OPTIONS, "-cp", str(jars), str(programs / JAVA_SOURCE)]
    there_are = products_of(programs)
    if name not in there_are:
        raise BadUse(f"invalid client {client!r}; valid: RELEASE, {', '.join(there_are)} :RELEASE")
    product = PRODUCTS[name]
    source = _installed(name, product, release, programs) / product.source
    if product.runtime == GO:
        return [str(source.with_suffix(""))]
    return [product.runtime, str(source)]


def _installed(name: str, product: Product, release: str, programs: Path) -> Path:
    """The folder with the program and everything that it needs. Raises MissingTool, FetchFailed."""
    source = programs / product.source
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
