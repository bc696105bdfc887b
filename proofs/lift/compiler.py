"""Compiles units of C to a shared object, through a cache.

A unit is compiled once for each text, set of flags and compiler. The object file is named after
their hash, so every scope that prints the same text shares it. The cache is a folder: the
environment's KAFKA_EOS_CACHE, else `kafka-eos` below XDG_CACHE_HOME, else `~/.cache/kafka-eos`. It
is pruned to CACHE_BYTES, least recently used files first. Deleting it is always safe.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from proofs.cache import cache_folder

CACHE_BYTES = 512 << 20
_FLAGS = ("-std=gnu11", "-Wall", "-fPIC", "-fvisibility=hidden", "-pthread")
_LINK_FLAGS = ("-shared", "-pthread")


class NoCompiler(RuntimeError):
    """No C compiler was found; the message says how to get one."""

    exit_code = 2


class CompilerFailed(RuntimeError):
    """The compiler refused a unit; the message has the command and what it printed."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class CompilationUnit:
    """A unit to compile: a name for messages, the text, and -O and -D flags of its own."""

    name: str
    text: str
    flags: tuple[str, ...] = ("-O1",)


@functools.cache
def compiler_command() -> tuple[str, ...]:
    """Return the first C compiler that is found: $CC, cc, gcc, clang, PyPI's ziglang. Raises
    NoCompiler."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found is not None:
            return (found,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    raise NoCompiler(
        "no C compiler: install one (Debian: apt install gcc; macOS: xcode-select --install) "
        'or `pip install "kafka-eos[compiler]"`; `--engine ints` needs none'
    )


@functools.cache
def _compiler_version(command: tuple[str, ...]) -> str:
    """Return what the compiler reports as its version, because another compiler makes other
    objects."""
    shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return f"{' '.join(command)}\n{shown.stdout}"


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _run(command: Sequence[str], text: str | None, what: str) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompilerFailed(f"{what}: {' '.join(command)}\n{done.stderr}")


def _make(target: Path, command: Sequence[str], text: str | None, what: str) -> None:
    """Run the command with `-o` a new file, then move that file to the target in one step.

    Another process may do the same at the same time; both files are right.
    """
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=target.suffix, delete=False) as file:
        made = Path(file.name)
    try:
        _run([*command, "-o", str(made)], text, what)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def _object(source: CompilationUnit, folder: Path, command: tuple[str, ...]) -> Path:
    """Return the object file of a unit, compiled if the cache does not have it."""
    flags = (*_FLAGS, *source.flags)
    name = _hashed(_compiler_version(command), " ".join(flags), source.text)
    target = folder / f"{name}.o"
    if target.exists():
        target.touch()
    else:
        _make(target, [*command, *flags, "-c", "-x", "c", "-"], source.text, source.name)
    return target


def _sized(paths: Iterable[Path]) -> Iterator[tuple[os.stat_result, Path]]:
    """Yield each file that still exists, because other processes make and move files here too."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            yield path.stat(), path


def _prune(folder: Path) -> None:
    """Delete the least recently used files, until the rest fits CACHE_BYTES."""
    files = list(_sized(path for path in folder.iterdir() if path.suffix in (".o", ".so")))
    total = sum(stat.st_size for stat, _ in files)
    for stat, path in sorted(files, key=lambda entry: entry[0].st_mtime):
        if total <= CACHE_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= stat.st_size


def build(sources: Sequence[CompilationUnit], workers: int | None = None) -> Path:
    """Return the shared object of all units. Raises NoCompiler, CompilerFailed.

    Only units that the cache lacks are compiled, `workers` at a time (all cores by default).
    """
    command = compiler_command()
    folder = cache_folder() / "compiled"
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        objects = list(pool.map(lambda source: _object(source, folder, command), sources))
    target = folder / f"{_hashed(*(path.name for path in objects))}.so"
    if target.exists():
        target.touch()
    else:
        _make(target, [*command, *_LINK_FLAGS, *map(str, objects)], None, "link")
        _prune(folder)
    return target
