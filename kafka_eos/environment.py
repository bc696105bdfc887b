"""What is looked at before any work: our own packages, and the places that answers go to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("model", "proofs", "impl", "conformance")

INSTALLED: Final = Path(__file__).resolve().parents[1]
"""The folder that holds our packages."""

FILES: Final = ("json", "html", "write_baseline")
FOLDERS: Final = ("out", "store")
"""Options that name what a verb writes."""


def hidden_package() -> str | None:
    """Why one of our packages cannot be imported: another folder of its name comes first, as that
    of a project which `python -m kafka_eos` was started in. None if all are ours."""
    found = next(filter(None, map(hiding_package, PACKAGES)), None)
    advice = "Start kafka-eos from another folder, and leave that one out of PYTHONPATH"
    return found and f"{found}. {advice}"


def hiding_package(name: str) -> str | None:
    """What hides one of our packages, and where that is; None if it is ours that is found."""
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if INSTALLED / name in map(resolved, places):
        return None
    found = places[0] if places else spec.origin if spec else "nothing"
    return f"{found} hides kafka-eos's own package {name!r} ({INSTALLED / name})"


def resolved(place: str) -> Path:
    """A folder of `sys.path`, where the working directory may be empty."""
    return Path(place).resolve()


def unwritable_path(options: argparse.Namespace) -> str | None:
    """Why one of the places that answers go to cannot be written; None if all can."""
    return next(problems_of(options), None)


def problems_of(options: argparse.Namespace) -> Iterator[str]:
    """What is wrong with the paths that are given."""
    for name in (*FILES, *FOLDERS):
        path = getattr(options, name, None)
        if not isinstance(path, Path):
            continue  # not given, or a URI
        is_folder, option = name in FOLDERS, f"--{name.replace('_', '-')}"
        if path.exists() and path.is_dir() != is_folder:
            kind, other = ("a folder", "file") if is_folder else ("a file", "folder")
            yield f"{option} {path}: there is a {other} of this name; name {kind}"
            continue
        nearest = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
        if nearest.is_file() and nearest != path.absolute():
            yield f"{option} {path}: {nearest} is a file, no folder"
        elif not os.access(nearest, os.W_OK) or is_virtual(nearest):
            yield f"{option} {path}: {nearest} cannot be written"


def is_virtual(folder: Path) -> bool:
    """Whether a folder is the kernel's own, where not even root may create files."""
    return folder.parts[:2] in (("/", "proc"), ("/", "sys"))
