"""Serves a copy of a directory with our broker: its answers, and the files afterwards."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.campaigns.directories.client import Client
from conformance.campaigns.directories.questions import Answers, ask_all, now_ms
from impl.broker.embedded import Broker
from impl.log.disk import StorageError
from impl.security.config import Security

SECURITY: Final = Security(
    acls=(), super_users=("User:ANONYMOUS",), allow_everyone_if_no_acl_found=True
)


@dataclass(frozen=True, slots=True)
class Served:
    """Our broker's answers about a directory, or the sentence with which it refuses the directory.

    `before` and `after` are the files with their content.
    """

    before: dict[str, bytes]
    after: dict[str, bytes]
    answers: Answers = field(default_factory=dict)
    refusal: str = ""


def serve(folder: Path, copy: Path, since_ms: int | None = None) -> Served:
    """Serve a copy. `since_ms` is the broker's time, by default the present time.

    Raises what `Client` raises.
    """
    shutil.copytree(folder, copy)
    before = files_of(copy)
    since_ms = now_ms() if since_ms is None else since_ms
    try:
        with Broker(directory=copy, security=SECURITY) as broker:
            host, port = broker.bootstrap_servers.split(":")
            with BrokerConnection(host, int(port)) as connection:
                answers = ask_all(Client(connection), since_ms)
    except (ValueError, OSError, StorageError) as error:
        return Served(before, files_of(copy), refusal=f"{type(error).__name__}: {error}")
    return Served(before, files_of(copy), answers)


def files_of(folder: Path) -> dict[str, bytes]:
    """All files under a folder, with their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
