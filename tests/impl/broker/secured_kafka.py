"""A real Kafka with users and an authorizer.

`python -m tests.impl.broker.secured_kafka` records what it answers to principals, and during SASL.
"""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path
from typing import Any

from conformance.adapters.brokers.kafka.administration import await_applied
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.recipe import BrokerNode, Ensemble
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey
from tests.impl.broker.sasl_scripts import SCRIPTS, play
from tests.impl.broker.security_recording import ADMIN, CLOSED, LENIENT, REQUESTS, USERS, record

RECORDED = Path(__file__).with_name("recorded_security")
PASSWORD = "secret"
PATIENT = (
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
"""What a real broker applies some time after its answer."""
NOT_YET = (14, 15, 16)
"""The errors of coordinators that are not there yet."""


class Connections:
    """A connection for each principal, opened again when the broker closes it."""

    def __init__(self, plaintext: int, sasl: int) -> None:
        self._ports = (plaintext, sasl)
        self._open: dict[str, socket.socket] = {}

    def ask(self, user: str, api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
        """The answer, once coordinators are there; what it changes is applied then."""
        while is_early(answer := self._ask(user, api_key, version, body)):
            pass
        if api_key in PATIENT:
            self.await_applied()
        return answer

    def _ask(self, user: str, api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
        if user not in self._open:
            self._open[user] = self._connect(user)
        try:
            return exchange(self._open[user], api_key, version, body)
        except OSError:
            del self._open[user]
            return CLOSED

    def await_applied(self) -> None:
        """Wait until the broker goes by all that was changed."""
        await_applied(partial(self.ask, ADMIN))

    def _connect(self, user: str) -> socket.socket:
        if user == ADMIN:
            return socket.create_connection(("127.0.0.1", self._ports[0]), timeout=10)
        connection = socket.create_connection(("127.0.0.1", self._ports[1]), timeout=10)
        exchange(connection, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        token = f"\0{user}\0{PASSWORD}".encode()
        exchange(connection, ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": token})
        return connection


def exchange(connection: socket.socket, api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
    connection.sendall(frame(encode_request(api_key, version, 7, "c", body)))
    return decode_response(api_key, version, receive(connection))[1]


def receive(connection: socket.socket) -> bytes:
    buffer = bytearray()
    while True:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        buffer += data
        for payload in take_frames(buffer):
            return payload


def is_early(answer: Any) -> bool:
    """Whether a coordinator is not there yet."""
    text = json.dumps(answer, default=repr)
    return any(f'"error_code": {code}' in text for code in NOT_YET)


def secure_broker(**more: str) -> tuple[KafkaBroker, int, int]:
    """A broker that is not started, and the ports of its listeners without and with SASL."""
    port, controller, sasl = free_ports(3)
    passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    login = "org.apache.kafka.common.security"
    scram_login = f"{login}.scram.ScramLoginModule required;"
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login}.plain.PlainLoginModule"
        f" required {passwords};",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": scram_login,
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram_login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "producer.id.expiration.check.interval.ms": "600000",  # the records are old
        **more,
    }
    node = BrokerNode(1, port, controller)
    return KafkaBroker(properties=properties, ensemble=Ensemble((node,))), port, sasl


def main() -> None:
    broker, port, sasl = secure_broker()
    with broker:
        rows = recorded_of(Connections(port, sasl), REQUESTS)
        played = [play(("127.0.0.1", sasl), steps) for steps in SCRIPTS]
    broker, port, sasl = secure_broker(**{"allow.everyone.if.no.acl.found": "true"})
    with broker:
        write("lenient-4.3.1.json", recorded_of(Connections(port, sasl), LENIENT))
    write("kafka-4.3.1.json", rows)
    write("sasl-4.3.1.json", played)


def recorded_of(connections: Connections, requests: Any) -> list[Any]:
    """What a broker answers that has just started."""
    connections.await_applied()
    return list(record(connections.ask, requests))


def write(name: str, rows: list[Any]) -> None:
    text = ",\n".join(json.dumps(row) for row in rows)
    (RECORDED / name).write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
