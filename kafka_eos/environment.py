"""What is looked at before any work: our own packages, and the places that answers go to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES: Final = ("model", "proofs", "impl", "conformance")

INSTALLED: Final = __file__.rpartition("kafka_eos")[0]
"""The folder that holds our packages, with a separator at its end."""

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
    own = f"{INSTALLED}{name}"
    if own in places or resolved(own) in map(resolved, places):
        return None
    found = places[0] if places else spec.origin if spec else "nothing"
    return f"{found} hides kafka-eos's own package {name!r} ({resolved(own)})"


def resolved(place: str) -> Path:
    """A folder of `sys.path`, where the working directory may be empty."""
    from pathlib import Path  # most folders are spelled as ours is

    return Path(place).resolve()


def unwritable_path(options: argparse.Namespace) -> str | None:
    """Why one of the places that answers go to cannot be written; None if all can."""
    return next(problems_of(options), None)


def problems_of(options: argparse.Namespace) -> Iterator[str]:
    """What is wrong with the paths that are given."""
    for name in (*FILES, *FOLDERS):
        given = getattr(options, name, None)
        if given is not None and (problem := problem_of(given, is_folder=name in FOLDERS)):
            yield f"--{name.replace('_', '-')} {given}: {problem}"


def problem_of(place: Any, *, is_folder: bool) -> str | None:
    """Why a file or a folder cannot be written there; None if it can, or if it is a URI."""
    from pathlib import Path  # few verbs are given a place

    if not isinstance(place, Path):
        return None
    if place.exists() and place.is_dir() != is_folder:
        kind, other = ("a folder", "file") if is_folder else ("a file", "folder")
        return f"there is a {other} of this name; name {kind}"
    nearest = next(p for p in (place.absolute(), *place.absolute().parents) if p.exists())
    if nearest.is_file() and nearest != place.absolute():
        return f"{nearest} is a file, no folder"
    if not os.access(nearest, os.W_OK) or is_virtual(nearest):
        return f"{nearest} cannot be written"
    return None


def is_virtual(folder: Path) -> bool:
    """Whether a folder is the kernel's own, where not even root may create files."""
    return folder.parts[:2] in (("/", "proc"), ("/", "sys"))
