"""Free loopback ports for servers that may be restarted on them."""

from __future__ import annotations

import socket
from random import SystemRandom
from typing import Final

# Below the range from which systems take ports for outgoing connections: such a connection could
# otherwise occupy the port of a broker that is being restarted.
PORTS: Final = range(20_000, 32_000)
ATTEMPTS: Final = 1_000


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of 127.0.0.1 on which no process listens now.

    Raises OSError if that many cannot be found.
    """
    random = SystemRandom()
    found: set[int] = set()
    for _ in range(ATTEMPTS):
        if len(found) == count:
            return list(found)
        port = random.choice(PORTS)
        if _is_free(port):
            found.add(port)
    raise OSError(f"no {count} free ports of 127.0.0.1 among {PORTS.start}-{PORTS.stop - 1}")


def free_ports_in_a_row(count: int) -> int:
    """The first of `count` adjacent ports of 127.0.0.1 on which no process listens now.

    Raises OSError if no such ports are found.
    """
    for _ in range(ATTEMPTS):
        [first] = free_ports(1)
        if all(map(_is_free, range(first, first + count))):
            return first
    raise OSError(f"no {count} free ports of 127.0.0.1 in a row")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
