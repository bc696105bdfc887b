"""The front door: names, documentation, and what it may import."""

import subprocess
import sys

import impl


def test_the_public_names_are_there_and_documented() -> None:
    assert sorted(impl.__all__, key=str.lower) == sorted(set(impl.__all__), key=str.lower)
    for name in impl.__all__:
        value = getattr(impl, name)
        assert value.__doc__ or name.isupper()


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import impl, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    command = [sys.executable, "-c", code]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    unwanted = {"asyncio", "socket", "model", "proofs", "conformance", "numpy", "kio", "kafka"}
    assert not loaded & unwanted
