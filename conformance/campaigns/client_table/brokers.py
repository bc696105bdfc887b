"""The two brokers of the table: the same listeners, users and ACLs, on free ports.

A client that connects without SASL may do everything. ALICE may do everything with topics, groups
and transactional ids whose names begin with OPEN, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from conformance.adapters.brokers.kafka.admin import check_error
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.adapters.brokers.kafka.recipe import HOST, BrokerNode, Ensemble
from impl import (
    AclBinding,
    AclOperation,
    ApiKey,
    Broker,
    PatternType,
    ResourceType,
    Security,
)
from impl.broker.embedded import EMBEDDED
from impl.security.certificates import certificates_of_process
from impl.security.mechanisms import ScramMechanism
from impl.security.scram import salt_password
from impl.security.tls import Tls

OURS: Final = "impl"
ALICE: Final = "alice"
PASSWORD: Final = "alice-secret"
ANYBODY: Final = "User:ANONYMOUS"
OPEN: Final = "open-"
SECURED: Final = "SASL_SSL"
MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
ITERATIONS: Final = 4_096
SCRAM_NUMBERS: Final = {ScramMechanism.SCRAM_SHA_256: 1, ScramMechanism.SCRAM_SHA_512: 2}
"""The numbers of AlterUserScramCredentials."""

ALLOWED: Final = tuple(
    AclBinding(kind, OPEN, f"User:{ALICE}", AclOperation.ALL, pattern_type=PatternType.PREFIXED)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
)

_LOGIN: Final = "org.apache.kafka.common.security"
_SCRAM_LOGIN: Final = f"{_LOGIN}.scram.ScramLoginModule required;"
_PLAIN_LOGIN: Final = f'{_LOGIN}.plain.PlainLoginModule required user_{ALICE}="{PASSWORD}";'
_LISTENER: Final = f"listener.name.{SECURED.lower()}"


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """A running broker: HOST:PORT of its listener without security, and of the listener with TLS
    and SASL; and the file of the authority that signed its certificate."""

    version: str
    plaintext: str
    secured: str
    ca_file: str

    def connect(self) -> BrokerConnection:
        """A connection that may do everything. Raises ConnectionLost."""
        host, _, port = self.plaintext.rpartition(":")
        return BrokerConnection(host, int(port))


@contextmanager
def open_broker(name: str) -> Iterator[SecuredBroker]:
    """OURS, or a release of Kafka. Raises KafkaError, JavaError, OSError."""
    with _our_broker() if name == OURS else _kafka(name) as broker:
        yield broker


@contextmanager
def _our_broker() -> Iterator[SecuredBroker]:
    security = Security(
        listeners=("PLAINTEXT", SECURED),
        users={ALICE: PASSWORD},
        acls=ALLOWED,
        super_users=(ANYBODY,),
    )
    config = replace(EMBEDDED, auto_create_topics=False)
    with Broker(config=config, security=security) as broker:
        plaintext, secured = map(broker.bootstrap_servers_of, broker.listeners)
        yield SecuredBroker("this project's broker", plaintext, secured, broker.tls.ca_file)


@contextmanager
def _kafka(release: str) -> Iterator[SecuredBroker]:
    tls = certificates_of_process()
    port, controller, secured = free_ports(3)
    node = BrokerNode(1, port, controller)
    with TemporaryDirectory(prefix="kafka-eos-") as folder:
        properties = _properties(node, secured, tls, Path(folder))
        with KafkaBroker(release, properties=properties, ensemble=Ensemble((node,))):
            plaintext, others = f"{HOST}:{port}", f"{HOST}:{secured}"
            broker = SecuredBroker(f"Kafka {release}", plaintext, others, tls.ca_file)
            _admit_alice(broker)
            yield broker


def _properties(node: BrokerNode, secured: int, tls: Tls, folder: Path) -> dict[str, str]:
    """The properties with which Kafka is set up as `_our_broker` is."""
    files = (tls.key_file, tls.cert_file, tls.ca_file)
    keys = folder / "broker.pem"
    keys.write_text("".join(Path(file).read_text() for file in files))
    listeners = f"PLAINTEXT://{HOST}:{node.port},{SECURED}://{HOST}:{secured}"
    return {
        "listeners": f"{listeners},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        f"{SECURED}:{SECURED}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "sasl.enabled.mechanisms": MECHANISMS,
        f"{_LISTENER}.plain.sasl.jaas.config": _PLAIN_LOGIN,
        f"{_LISTENER}.scram-sha-256.sasl.jaas.config": _SCRAM_LOGIN,
        f"{_LISTENER}.scram-sha-512.sasl.jaas.config": _SCRAM_LOGIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ANYBODY,
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }


def _admit_alice(broker: SecuredBroker) -> None:
    """Set ALICE's SCRAM passwords and her permissions. Raises KafkaError."""
    acls = [
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl in ALLOWED
    ]
    bodies = [(ApiKey.CREATE_ACLS, 3, {"creations": acls})]
    for mechanism, number in SCRAM_NUMBERS.items():  # a request may name a user only once
        credential = {
            "name": ALICE,
            "mechanism": number,
            "iterations": ITERATIONS,
            "salt": b"salt",
            "salted_password": salt_password(mechanism, PASSWORD, b"salt", ITERATIONS),
        }
        body = {"deletions": [], "upsertions": [credential]}
        bodies.append((ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, body))
    with broker.connect() as connection:
        for api_key, version, body in bodies:
            for result in connection.ask(api_key, version, body)["results"]:
                check_error(result["error_code"], api_key.name)
