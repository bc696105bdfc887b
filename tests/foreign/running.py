"""Runs one suite: its broker, what it needs beside that, its command, and the outcomes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.foreign.outcomes import READERS, Outcomes
from tests.foreign.served import serve_instead
from tests.foreign.suites import Suite, SuiteUnavailable, fetch

REPOSITORY = Path(__file__).parents[2]
KAFKA_EOS = Path(sys.executable).with_name("kafka-eos")
BUILT = ".built"


def run_suite(suite: Suite, work: Path) -> Outcomes:
    """The outcomes of all tests of a suite. Raises SuiteUnavailable."""
    folder = fetch(suite, work)
    if suite.served:
        serve_instead(folder, suite.served)
    if suite.build and not (folder / BUILT).exists():
        run_to_end(suite.build, folder, {}, work / f"{suite.name}.build.log")
        (folder / BUILT).touch()
    with contextlib.ExitStack() as stack:
        seeds = stack.enter_context(served_broker(suite.serve)) if suite.serve else ""
        if suite.beside:
            stack.enter_context(toxiproxy(suite.beside, work))
        report, log = work / f"{suite.name}.report", work / f"{suite.name}.log"
        report.unlink(missing_ok=True)
        names = {
            "seeds": seeds,
            "port": seeds.partition(",")[0].rpartition(":")[2],
            "work": str(folder),
            "report": str(report),
            "python": sys.executable,
            "kafka_eos": str(KAFKA_EOS),
        }
        environment = {key: value.format(**names) for key, value in suite.environment.items()}
        command = [fill(word, names) for word in suite.command]
        run_to_end(command, folder / suite.folder, environment, log)
    told = log if suite.form == "go" else report
    if not told.exists():
        raise SuiteUnavailable(f"{suite.name} left no report; its output is in {log}")
    return READERS[suite.form](told.read_text(encoding="utf-8", errors="replace"))


def fill(word: str, names: Mapping[str, str]) -> str:
    """The word with `{name}` filled in; other braces stay as they are."""
    for name, value in names.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def run_to_end(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> None:
    """Run a command, its output in `log`; nothing that it started outlives it."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def served_broker(arguments: Sequence[str]) -> Iterator[str]:
    """`kafka-eos serve` with these arguments; gives its addresses, separated by commas."""
    where = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
    process = subprocess.Popen(
        [KAFKA_EOS, "serve", *where, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SuiteUnavailable(f"kafka-eos serve {' '.join(arguments)} did not start")
        yield line.split()[2]
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def toxiproxy(row: Mapping[str, str], work: Path) -> Iterator[None]:
    """toxiproxy with a proxy for each node; `proxies` is LISTEN=UPSTREAM of the first of five."""
    program = work / "toxiproxy"
    if not program.exists():
        path = f"{row['module']}/{row['program']}@{row['version']}"
        built = subprocess.run(
            ["go", "install", path], env=os.environ | {"GOBIN": str(work)}, check=False
        )
        if built.returncode:
            raise SuiteUnavailable(f"go install {path} failed")
        (work / "server").rename(program)
    with (work / "toxiproxy.log").open("wb") as log:
        process = subprocess.Popen([program], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(8474)
        listen, upstream = (address.rpartition(":") for address in row["proxies"].split("="))
        for node in range(5):
            name = f"kafka{node + 1}"
            ends = (f"{host}:{int(port) + node}" for host, _, port in (listen, upstream))
            add_proxy(name, *ends)
        yield
    finally:
        process.kill()
        process.wait()


def add_proxy(name: str, listen: str, upstream: str) -> None:
    """Declare a proxy at toxiproxy's own HTTP interface."""
    body = f'{{"name": "{name}", "listen": "{listen}", "upstream": "{upstream}", "enabled": true}}'
    urllib.request.urlopen("http://127.0.0.1:8474/proxies", body.encode()).close()


def wait_for_port(port: int, seconds: float = 20) -> None:
    """Wait until something listens. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens at port {port} after {seconds} s")
