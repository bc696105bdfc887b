"""What a process that does nothing but serve changes of itself."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # another process

COUNT_FAULTS = """
import asyncio, resource
from impl.broker.event_loop import run

async def answer() -> None:
    for _ in range(10):
        answers = [bytes(50_000) + b"." for _ in range(400)]
        del answers
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

{run}(answer())
"""


def count_page_faults(run: str) -> int:
    """Of a process that makes and frees ten times 20 MB of answers, 4,900 pages.

    So much does not fit into what importing has freed: the heap grows and shrinks.
    """
    command = [sys.executable, "-c", COUNT_FAULTS.format(run=run)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_freed_memory_is_not_given_back_to_the_system() -> None:
    assert count_page_faults("asyncio.run") - count_page_faults("run") > 20_000
