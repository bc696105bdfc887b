"""Our broker in a process: `python -m benchmarks.live.serve` prints its address.

It runs as `kafka-eos serve` does, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys

from impl.broker.event_loop import run
from impl.broker.server import Server


async def serve() -> None:
    async with Server() as server:
        print(f"127.0.0.1:{server.port}", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    run(serve())
