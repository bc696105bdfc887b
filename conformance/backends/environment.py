"""Reads a worker's Python, and its versions of the packages that judging needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

NEEDED: Final = (
    "pyarrow",
    "numpy",
    "scipy",
    "networkx",
    "google_crc32c",
    "librt",
    "mypy_extensions",
)
"""The packages that ours import where traces are judged, and those that transport rows."""

Look = Callable[[], dict[str, Any]]


def environment_reader(needed: Sequence[str] = NEEDED) -> Look:
    """A function that returns host, Python and versions of packages; None for a missing package.

    The function is nested so that it is sent as code: a worker does not have our packages yet.
    """

    def look() -> dict[str, Any]:
        import platform
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec

        packages: dict[str, str | None] = dict.fromkeys(needed)
        for name in needed:
            if find_spec(name) is not None:
                try:
                    packages[name] = version(name)
                except PackageNotFoundError:  # copied to the worker without its metadata
                    packages[name] = "unknown"
        python = platform.python_version()
        return {"host": platform.node(), "python": python, "packages": packages}

    return look


def group_by_host(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The distinct environments, each with the hosts that have it."""
    groups: list[dict[str, Any]] = []
    for environment in sorted(found, key=str):
        host = environment["host"]
        rest = {name: value for name, value in environment.items() if name != "host"}
        same = next((group for group in groups if group.items() >= rest.items()), None)
        if same is None:
            groups.append({"hosts": [host], **rest})
        elif host not in same["hosts"]:
            same["hosts"].append(host)
    return groups
