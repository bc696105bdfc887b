"""kfake, franz-go's cluster in memory: built from its registry, as `go.mod` pins it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from proofs.cache import cache_folder, make_once

KFAKE_FOLDER: Final = Path(__file__).with_name("kfake")
END_TIMEOUT_S: Final = 10.0


class BrokerMissing(RuntimeError):
    """A broker that is not available here; the message says what to type."""


class ChildBroker(NamedTuple):
    """A process that listens."""

    address: tuple[str, int]
    pid: int


@contextmanager
def child_broker(
    command: Sequence[str | Path], folder: Path | None = None
) -> Iterator[ChildBroker]:
    """Run a command that prints its address, and that ends when its input is closed. Raises
    BrokerMissing."""
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().strip().rpartition(":")
            if not port:
                raise BrokerMissing(f"{command[0]} ended with exit code {process.wait()}")
            yield ChildBroker((host, int(port)), process.pid)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(END_TIMEOUT_S)
        finally:
            process.kill()


def kfake_binary() -> Path:
    """kfake's program. Raises BrokerMissing."""
    return go_binary(KFAKE_FOLDER, "kfake")


def go_binary(folder: Path, name: str) -> Path:
    """Build a Go program, once for each text of its source. Raises BrokerMissing."""
    texts = [(folder / file).read_bytes() for file in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    built = make_once(cache_folder() / name / digest, lambda draft: _build(folder, draft / name))
    return built / name


def kfake_version() -> str:
    """The version in `go.mod`: for a module without releases, its date and commit."""
    found = re.search(r"pkg/kfake (\S+)", (KFAKE_FOLDER / "go.mod").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def _build(folder: Path, program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise BrokerMissing("Go is not installed. Type: apt-get install golang (1.26 or newer)")
    command = [go, "build", "-C", str(folder), "-o", str(program), "."]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        raise BrokerMissing(f"Go does not build {program.name}: {said.stderr.strip()}")
