"""The table of suites, and where each stands on this machine once it was fetched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "suites.toml"


class SuiteUnavailable(Exception):
    """A suite cannot be fetched or built here; the message says why."""


@dataclass(frozen=True)
class Suite:
    """A row of `suites.toml`."""

    name: str
    about: str
    source: Mapping[str, str]
    command: tuple[str, ...]
    form: str
    folder: str = "."
    build: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    serve: tuple[str, ...] | None = None
    served: Mapping[str, Any] | None = None
    beside: Mapping[str, str] | None = None
    skips: str = ""
    """Why tests of it may be skipped that no row of `outcomes.toml` names."""


def read_suites() -> dict[str, Suite]:
    """All suites by name."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: _suite(name, row) for name, row in rows.items()}


def _suite(name: str, row: Mapping[str, Any]) -> Suite:
    lists = {key: tuple(row[key]) for key in ("command", "build", "serve") if key in row}
    return Suite(name=name, **{**row, **lists})


def fetch(suite: Suite, work: Path) -> Path:
    """Copy the suite's text to a folder below `work`, once. Raises SuiteUnavailable.

    A suite that no registry carries whole is a checkout that stands there already.
    """
    folder = work / suite.name
    if suite.source["kind"] == "checkout" and not (folder / suite.source["tests"]).exists():
        raise SuiteUnavailable(f"no registry has its tests; put a checkout of it at {folder}")
    if not folder.exists():
        arriving = work / f"{suite.name}.arriving"
        shutil.rmtree(arriving, ignore_errors=True)
        arriving.mkdir(parents=True)
        _FETCHERS[suite.source["kind"]](suite.source, arriving)
        arriving.rename(folder)
    return folder


def _fetch_go(source: Mapping[str, str], folder: Path) -> None:
    found = _run(["go", "mod", "download", "-json", f"{source['module']}@{source['version']}"])
    shutil.copytree(json.loads(found)["Dir"], folder, dirs_exist_ok=True)
    _run(["chmod", "-R", "u+w", str(folder)])


def _fetch_pypi(source: Mapping[str, str], folder: Path) -> None:
    name = f"{source['name']}=={source['version']}"
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    _run([*download, "-d", str(folder), name])
    (archive,) = folder.glob("*.tar.gz")
    _run(["tar", "xzf", str(archive), "--strip-components=1", "-C", str(folder)])
    archive.unlink()


def _fetch_debian(source: Mapping[str, str], folder: Path) -> None:
    lists = folder.parent / "debian"
    (lists / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (lists / "source.sources").write_text(_source_lines(), encoding="utf-8")
    apt = [
        "apt-get",
        *("-o", "Dir::Etc::SourceList=/dev/null"),
        *("-o", f"Dir::Etc::SourceParts={lists}"),
        *("-o", f"Dir::State::Lists={lists / 'lists'}"),
    ]
    _run([*apt, "-qq", "update"])
    _run([*apt, "-qq", "source", source["name"]], folder)
    (tree,) = (path for path in folder.iterdir() if path.is_dir())
    for path in tree.iterdir():
        shutil.move(path, folder / path.name)


def _source_lines() -> str:
    """The machine's own Debian mirrors, asked for sources."""
    declared = Path("/etc/apt/sources.list.d/debian.sources")
    if not declared.exists():
        raise SuiteUnavailable(f"{declared} does not exist: this suite needs Debian")
    return declared.read_text(encoding="utf-8").replace("Types: deb\n", "Types: deb-src\n")


def _run(command: list[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SuiteUnavailable(f"{command[0]} is not installed") from error
    if done.returncode:
        raise SuiteUnavailable(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return done.stdout


_FETCHERS: Mapping[str, Callable[[Mapping[str, str], Path], None]] = {
    "go": _fetch_go,
    "pypi": _fetch_pypi,
    "debian": _fetch_debian,
}
