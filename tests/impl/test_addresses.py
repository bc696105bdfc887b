"""Addresses in the forms that people write, and those that are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl import Broker, Consumer, Producer
from impl.addresses import InvalidAddress, InvalidBootstrapServers, parse_address, parse_addresses

SCHEMES = ["", "PLAINTEXT://", "SASL_SSL://", "BROKER://", "plaintext://", "my-listener.1://"]
HOSTS = {"broker.example": "broker.example", "10.0.0.1": "10.0.0.1", "[::1]": "::1"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SCHEMES),
            st.sampled_from(sorted(HOSTS)),
            st.integers(1, 65_535) | st.none(),
            st.sampled_from(["", " ", "\t", "\n"]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from(["", " "]), max_size=3),
    st.booleans(),
)
def test_every_form_of_java_and_librdkafka_is_taken(
    servers: list[tuple[str, str, int | None, str]], empty: list[str], is_a_list: bool
) -> None:
    texts = [
        f"{space}{scheme}{host}{'' if port is None else f':{port}'}{space}"
        for scheme, host, port, space in servers
    ]
    given = [*empty, *texts, *empty]
    expected = [(HOSTS[host], port or 9092) for _, host, port, _ in servers]
    assert parse_addresses(given if is_a_list else ",".join(given)) == expected


def test_a_zone_of_ipv6_is_part_of_the_host() -> None:
    assert parse_addresses("SSL://[fe80::1%eth0]:9093") == [("fe80::1%eth0", 9093)]


@pytest.mark.parametrize(
    "servers",
    [
        *["", " ", ":", "h:", "h:x", "h:-1", "h:0", "h:65536", "a:1:2", "a b:1", ","],
        *["://h:1", "1://h:1", "PLAINTEXT://", "PLAINTEXT:h:1", "PLAINTEXT://h:1/", "[h:1", "[]:1"],
        *["PLAINTEXT://SSL://h:1", "::1", "::1:9092", "[a,b]:1"],
        *[[], None, 5, ["a:1", 3], [""], b"h:1"],
    ],
)
def test_servers_that_are_none_are_named(servers: Any) -> None:
    with pytest.raises(InvalidBootstrapServers, match=r"^bootstrap_servers: .*; give host:port"):
        parse_addresses(servers)


def test_ipv6_without_brackets_is_told_how_to_be_written() -> None:
    with pytest.raises(InvalidBootstrapServers, match=r"in brackets, \[2001:db8::7\];"):
        parse_addresses("PLAINTEXT://2001:db8::7")


def test_an_address_by_itself_has_a_port() -> None:
    assert parse_address("h:0", least_port=0) == ("h", 0)
    with pytest.raises(InvalidAddress, match="'h' is not host:port: it has no port"):
        parse_address("h")


@pytest.mark.slow  # sockets
async def test_clients_take_what_testcontainers_give() -> None:
    async with Broker(topics={"t": 1}) as kafka:
        servers = f"PLAINTEXT://{kafka.bootstrap_servers},"
        async with (
            Producer(servers) as producer,
            Consumer("t", bootstrap_servers=["", servers], auto_offset_reset="earliest") as reader,
        ):
            await producer.send_and_wait("t", b"v")
            assert (await reader.getone()).value == b"v"
