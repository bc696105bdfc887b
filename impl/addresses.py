"""Addresses as people write them: host:port, also with the name of a listener before it.

`bootstrap_servers` may be what testcontainers, Kafka's `listeners` and Java's clients write:
PLAINTEXT://host:port. The name says nothing that `security_protocol` does not say, and is ignored,
as Java's clients do. Entries that are empty are left out.
Source: `ClientUtils.parseAndValidateAddresses`, `Utils.getHost`, `Utils.getPort` of Kafka 4.3.1;
`bootstrap.servers` of librdkafka, whose default port is 9092.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from impl.settings import MAX_PORT

Address = tuple[str, int]
"""(host, port)."""

DEFAULT_PORT: Final = 9092

_FORM: Final = (
    r"(?:[A-Za-z][\w.+-]*://)?(?:\[(?P<address>[^,\[\]\s]+)\]|(?P<host>[^:/,\[\]\s]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class InvalidAddress(ValueError):
    """A text that is no address; the message says what is wrong with it."""


class InvalidBootstrapServers(ValueError):
    """Invalid `bootstrap_servers`: give host:port, several of them with commas."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"bootstrap_servers: {problem}; give host:port, or several of them")


def parse_address(text: str, default_port: int | None = None, least_port: int = 1) -> Address:
    """The host, without brackets, and the port of one address. Raises `InvalidAddress`."""
    found = re.fullmatch(_FORM, text.strip())
    if found is None:
        raise InvalidAddress(f"{text!r} is not host:port{_hint(text.strip())}")
    port = default_port if found["port"] is None else int(found["port"])
    if port is None:
        raise InvalidAddress(f"{text!r} is not host:port: it has no port")
    if not least_port <= port <= MAX_PORT:
        raise InvalidAddress(f"{text!r} is not host:port: a port is {least_port} to {MAX_PORT}")
    return found["address"] or found["host"], port


def _hint(text: str) -> str:
    from ipaddress import IPv6Address  # most addresses have a port

    host = text.rpartition("://")[2]
    try:
        IPv6Address(host)
    except ValueError:
        return ""
    return f": an address of IPv6 stands in brackets, [{host}]"


def parse_addresses(bootstrap_servers: str | Iterable[str]) -> list[Address]:
    """All addresses of a text with commas, or of several texts; 9092 where there is no port.

    Raises `InvalidBootstrapServers`.
    """
    if not isinstance(bootstrap_servers, str | Iterable):
        raise InvalidBootstrapServers(f"{bootstrap_servers!r} is not a string")
    texts = [bootstrap_servers] if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidBootstrapServers(f"{text!r} is not a string")
    entries = [entry for text in texts for entry in text.split(",") if entry.strip()]
    if not entries:
        raise InvalidBootstrapServers("no server")
    try:
        return [parse_address(entry, DEFAULT_PORT) for entry in entries]
    except InvalidAddress as error:
        raise InvalidBootstrapServers(str(error)) from None
