"""Folders on this machine, or at a URI that Arrow knows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from proofs.run import BadUse


def find_folder(option: str, uri: str) -> tuple[fs.FileSystem, str]:
    """The file system and the folder of a path or a URI, as in `s3://BUCKET/FOLDER`. Local files
    are memory-mapped, not read. Raises BadUse."""
    if "://" not in uri:
        return fs.LocalFileSystem(use_mmap=True), str(Path(uri).resolve())
    try:
        files, folder = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        raise BadUse(f"{option} {uri}: {error}") from error
    return files, folder.rstrip("/")
