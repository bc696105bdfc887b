"""The small text files of a log directory: checkpoints, and what a directory or folder belongs to.

Two rules:

1. The text is Kafka's, so that brokers and their tools read it, and the other way round.
2. A file is read completely or not at all (`CorruptCheckpoint`).

Sources: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`,
`PartitionMetadataFile`, `MetaProperties`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

VERSION: Final = 0
_ID_BYTES: Final = 16


class CorruptCheckpoint(ValueError):
    """A file that no broker writes: restore it, or delete it, and all logs are recovered."""


class PartitionName(NamedTuple):
    """A partition; its folder is named like it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA: Final = PartitionName("__cluster_metadata", 0)
"""What a cluster keeps besides records: its folder is the storage's, and no topic has its name."""


def _encode_rows(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode()


def _decode_rows(data: bytes, columns: int) -> list[list[str]]:
    try:
        version, count, *rows = data.decode().splitlines()
        if int(version) == VERSION and int(count) == len(rows):
            split = [row.split() for row in rows]
            if all(len(row) == columns for row in split):
                return split
    except ValueError:
        pass
    raise CorruptCheckpoint(f"a checkpoint of {columns} columns begins {data[:40]!r}")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CorruptCheckpoint(f"a checkpoint has {text[:40]!r} for a number") from error


def encode_offsets(offsets: Mapping[PartitionName, int]) -> bytes:
    """A checkpoint with an offset for each partition."""
    return _encode_rows(f"{name.topic} {name.partition} {at}" for name, at in offsets.items())


def decode_offsets(data: bytes) -> dict[PartitionName, int]:
    """The offsets of a checkpoint; an empty file, as a new broker leaves it, has none.

    Raises `CorruptCheckpoint`. `CheckpointFile.CheckpointReadBuffer.read`.
    """
    rows = _decode_rows(data, 3) if data else []
    return {PartitionName(topic, _number(index)): _number(at) for topic, index, at in rows}


def encode_epochs(epochs: Mapping[int, int]) -> bytes:
    """The leader epochs of a log, each with its first offset."""
    return _encode_rows(f"{epoch} {start}" for epoch, start in epochs.items())


def decode_epochs(data: bytes) -> dict[int, int]:
    """The first offset of each leader epoch. Raises `CorruptCheckpoint`."""
    return {_number(epoch): _number(start) for epoch, start in _decode_rows(data, 2)}


def format_id(raw: bytes) -> str:
    """A topic's or directory's id as text. `Uuid.toString`."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_id(text: str) -> bytes:
    """An id's 16 bytes. Raises `CorruptCheckpoint`."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except ValueError:
        raw = b""
    if len(raw) != _ID_BYTES:
        raise CorruptCheckpoint(f"an id of {_ID_BYTES} bytes is not {text!r}")
    return raw


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """The `partition.metadata` file."""
    return f"version: {VERSION}\ntopic_id: {format_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic id of a `partition.metadata` file. Raises `CorruptCheckpoint`."""
    fields = dict(line.partition(": ")[::2] for line in data.decode(errors="replace").splitlines())
    if fields.get("version") != str(VERSION):
        raise CorruptCheckpoint(f"partition.metadata begins {data[:40]!r}")
    return parse_id(fields.get("topic_id", ""))


def check_properties(properties: Mapping[str, str]) -> int | None:
    """The node id of `meta.properties`, None if version 0 has none. Raises `CorruptCheckpoint`.

    `MetaProperties.Builder`, `MetaPropertiesEnsemble.verify`.
    """
    version = properties.get("version", "0")
    if version not in ("0", "1"):
        raise CorruptCheckpoint(f"the version is {version!r}, not 0 or 1")
    if not properties.get("cluster.id"):
        what = "has no value" if "cluster.id" in properties else "is not there"
        raise CorruptCheckpoint(
            f"cluster.id {what}: write the id that the cluster's other brokers have,"
            " or any 22 characters of an id if there are none"
        )
    if "directory.id" in properties:
        parse_id(properties["directory.id"])
    text = properties.get("broker.id" if version == "0" else "node.id")
    if text is None and version == "0":
        return None
    if text is None or not text.isdecimal():
        raise CorruptCheckpoint(f"the id of the node is {text!r}")
    return int(text)
