"""A broker that starts imports what it needs for its first answer, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import NamedTuple

import pytest

from impl.broker import apis
from impl.protocol.messages import encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey

NEEDED = {
    "impl": "addresses clock form settings suggestions",
    "impl.broker": "api_versions apis client_quotas cluster config connection_limits"
    " embedded embedded_arguments event_loop handler injected_faults listeners monotonic_time node"
    " outputs plain_errors producer_ids releases replicas resource_configs serve served_connection"
    " server services setting_changes timeline topic_refused topics",
    "impl.coordinator": "config group_config placement",
    "impl.log": "checkpoint_files disk",
    "impl.partition": "log_config rules",
    "impl.protocol": "codegen compression errors fields message_form messages primitives schemas"
    " schemas_admin schemas_cluster schemas_consumer_groups schemas_data schemas_groups"
    " schemas_metadata schemas_security schemas_transactions",
    "impl.security": "access config mechanisms session tls",
    "kafka_eos": "command_line environment verbs",
}
"""The modules behind the first answer, by package. One more is a few milliseconds more for all who
start a broker: is it wanted before the first request that needs it?"""

DEAR = {
    *("decimal", "difflib", "hashlib", "ipaddress", "json", "pathlib", "platform", "secrets"),
    *("shutil", "tempfile", "urllib.parse"),
}
"""Of Python's own, what takes milliseconds, and neither asyncio nor argparse imports."""

PROGRAM = """
import sys
present = set(sys.modules)  # an installation may import some as Python starts, an editable one does

import gc, os, signal, socket, threading
from kafka_eos.command_line import main

def collections():
    return sum(each["collections"] for each in gc.get_stats())

def ask():
    address = sys.stdin.readline().split()[-1].rsplit(":", 1)
    with socket.create_connection((address[0], int(address[1]))) as connection:
        connection.sendall(bytes.fromhex(sys.argv[1]))
        assert connection.recv(4)
        print(collections() - before, *sorted(sys.modules.keys() - present), file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)

before = collections()
threading.Thread(target=ask).start()
main(["serve", "--listen", "127.0.0.1:0"])
"""


class Start(NamedTuple):
    """What a start took: collections of garbage, and imported modules."""

    collections: int
    modules: frozenset[str]


@pytest.fixture(scope="module")
def start() -> Start:
    """A served broker that has answered ApiVersions."""
    request = frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "test", {}))
    command = [sys.executable, "-c", PROGRAM, request.hex()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(process.stdout.readline())
        process.stdin.close()
        said = process.stderr.read()
        assert process.wait() == 0, said
    count, *modules = said.split()
    return Start(int(count), frozenset(modules))


@pytest.fixture(scope="module")
def loaded(start: Start) -> frozenset[str]:
    """The modules that it has imported."""
    return start.modules


def test_the_first_answer_needs_these_modules_alone(loaded: frozenset[str]) -> None:
    packages = {name.partition(".")[0] for name in loaded}
    assert not packages & {"model", "proofs", "conformance", "google_crc32c"}
    needed = {f"{package}.{name}" for package, names in NEEDED.items() for name in names.split()}
    ours = {name for name in loaded if name.partition(".")[0] in ("impl", "kafka_eos")}
    assert ours - needed - NEEDED.keys() == set()
    assert needed - ours == set(), "not needed any more: take it out of the table"


def test_the_first_answer_does_not_wait_for_the_collector(start: Start) -> None:
    """Imports are not collected: 32 collections. What is made later may be worth one, or two."""
    assert start.collections <= 2


def test_the_first_answer_needs_nothing_dear_of_python(loaded: frozenset[str]) -> None:
    assert not loaded & DEAR


@pytest.mark.parametrize("module", apis.MODULES)
def test_each_module_handles_the_apis_that_the_table_says(module: str) -> None:
    handlers = import_module(f"impl.broker.{module}").HANDLERS
    assert handlers.keys() == set(apis.MODULES[module])


def test_an_api_has_one_module() -> None:
    assert len(apis.SERVED_APIS) == sum(map(len, apis.MODULES.values()))
