"""The front door: names, documentation, and what it may import."""

import inspect
import subprocess
import sys

import impl

CORES = {"IdempotentProducerCore", "Node", "PartitionLeader", "TransactionCoordinator"}
WITH_ASYNCIO = {"Consumer", "Producer", "Server"}


def test_the_public_names_are_there_and_documented() -> None:
    values = {name: getattr(impl, name) for name in dir(impl)}
    public = {n: v for n, v in values.items() if n[0] != "_" and not inspect.ismodule(v)}
    assert public.keys() > CORES | WITH_ASYNCIO | {"encode_batch", "encode_request", "frame"}
    assert [n for n, value in public.items() if not (value.__doc__ or n.isupper())] == []


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import impl, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    command = [sys.executable, "-c", code]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    unwanted = {"asyncio", "socket", "model", "proofs", "conformance", "numpy", "kio", "kafka"}
    assert not loaded & unwanted
