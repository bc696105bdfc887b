"""Whose a connection is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection that does not authenticate."""


@dataclass(slots=True)
class ClientSession:
    """Whose requests a connection carries, on which listener; `host` as `format_host` writes it."""

    principal: str = ANONYMOUS
    host: str = "127.0.0.1"
    listener: str = ""
    is_broker: bool = False

    @property
    def client_host(self) -> str:
        """As members of groups have it: `InetAddress.toString` of an address without a name."""
        return f"/{self.host}"


def format_host(address: Sequence[Any]) -> str:
    """The host of a socket's address as Java writes it: IPv6 without "::", a zone by its number.

    `InetAddress.getHostAddress`.
    """
    host, *rest = address
    if len(rest) < 3:  # an address of IPv4, which Java writes the same, or no address
        return str(host)
    from ipaddress import IPv6Address

    ip = IPv6Address(host.partition("%")[0])
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    groups = ":".join(f"{int(group, 16):x}" for group in ip.exploded.split(":"))
    zone = rest[2]
    return f"{groups}%{zone}" if zone else groups
