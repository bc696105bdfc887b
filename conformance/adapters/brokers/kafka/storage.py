"""A formatted data folder: made once for each (release, level, node id), and copied for each
broker."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.errors import FormatFailed
from conformance.adapters.brokers.kafka.fetch import fetch, release_folder
from conformance.adapters.brokers.kafka.recipe import (
    BrokerNode,
    Ensemble,
    java_command,
    properties_text,
    server_properties,
)
from conformance.adapters.brokers.kafka.releases import Release
from proofs.cache import make_once
from proofs.java import find_java

CLUSTER_ID: Final = base64.urlsafe_b64encode(b"kafka-eos-judge!").rstrip(b"=").decode()
FORMAT_TIMEOUT_S: Final = 60


def copy_formatted(release: Release, level: int, node_id: int, data: Path) -> None:
    """Make `data`, which must not exist, a freshly formatted folder; for ZooKeeper, an empty one.

    Raises FormatFailed, and what `fetch` raises.
    """
    if release.has_zookeeper:
        data.mkdir()
        return
    fetch(release)
    name = f"level-{level}-node-{node_id}"
    made = make_once(
        release_folder(release) / "formatted" / name,
        lambda draft: _format(release, level, node_id, draft),
    )
    shutil.copytree(made, data)


def _format(release: Release, level: int, node_id: int, draft: Path) -> None:
    """Run the storage tool; it does not store the ports."""
    node = BrokerNode(node_id, port=1, controller_port=2)
    data = draft / "data"
    properties = server_properties(release, level, node, Ensemble((node,)), data, {})
    file = draft / "server.properties"
    file.write_text(properties_text(properties))
    arguments = ["format", "-t", CLUSTER_ID, "-c", str(file)]
    if release.levels:
        arguments += ["--feature", f"transaction.version={level}"]
    command = java_command(find_java(), fetch(release), (), "kafka.tools.StorageTool", *arguments)
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False
    )
    if result.returncode != 0:
        raise FormatFailed(f"Kafka {release.name}: {result.stdout}{result.stderr}"[-2000:])
    file.unlink()
    for path in data.iterdir():
        path.rename(draft / path.name)
    data.rmdir()
