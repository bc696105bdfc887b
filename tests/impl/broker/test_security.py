"""TLS and SASL on sockets: this project's clients, and those of other hands."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from impl import (
    AclBinding,
    AclOperation,
    AuthenticationFailedError,
    Broker,
    Consumer,
    ErrorCode,
    Producer,
    ResourceType,
    Security,
)
from impl.broker.refusals import encode_refusal
from impl.client.network_client import NoBrokersAvailable
from impl.protocol.messages import decode_request, decode_response, encode_request
from impl.protocol.schemas import ApiKey
from impl.security.authenticator import Authenticator, SaslFailure, SaslRules
from impl.security.mechanisms import ScramMechanism as ScramDigest
from impl.security.scram import (
    InvalidScramMessage,
    ScramClient,
    answer_client_final,
    derive_credential,
    format_server_first,
    read_client_first,
    salt_password,
)
from impl.security.session import ClientSession
from impl.security.tls import format_subject
from impl.settings import InvalidSetting
from tests.impl.broker.sasl_scripts import SCRIPTS, play
from tests.impl.protocol.wire_messages import FORMS, Form, bodies, encode, name_of

with catch_warnings():  # kafka-python reads its schemas in a deprecated way
    simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

SECONDS = 10
REQUESTS = [form for form in FORMS if form[2] == "request"]
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
ALICE = {"sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """Two nodes with all four listeners."""
    listeners = ("SASL_SSL", "SASL_PLAINTEXT", "SSL", "PLAINTEXT")
    with Broker(
        nodes=2, topics={"t": 2}, security=Security(listeners=listeners, users=USERS)
    ) as broker:
        yield broker


def settings(kafka: Broker, protocol: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    """The arguments of this project's clients, which are aiokafka's."""
    found: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers_of(protocol),
        "security_protocol": protocol,
    }
    if "SSL" in protocol:
        found["ssl_context"] = kafka.tls.client_context()
    return found | (ALICE | {"sasl_mechanism": mechanism} if "SASL" in protocol else {})


def librdkafkas(kafka: Broker, protocol: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "bootstrap.servers": kafka.bootstrap_servers_of(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": kafka.tls.ca_file,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }


async def round_trip(make_producer: Any, make_consumer: Any, **arguments: Any) -> bytes:
    """A record through a group, transactionally."""
    producer = make_producer(transactional_id="x", **arguments)
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send("t", b"v")
    finally:
        await producer.stop()
    consumer = make_consumer("t", group_id="g", auto_offset_reset="earliest", **arguments)
    await consumer.start()
    try:
        async with asyncio.timeout(SECONDS):
            return (await consumer.getone()).value
    finally:
        await consumer.stop()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
async def test_this_projects_clients(kafka: Broker, protocol: str) -> None:
    found = await round_trip(Producer, Consumer, **settings(kafka, protocol, "SCRAM-SHA-256"))
    assert found == b"v"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(kafka: Broker, protocol: str, mechanism: str) -> None:
    arguments = settings(kafka, protocol, mechanism)
    assert await round_trip(AIOKafkaProducer, AIOKafkaConsumer, **arguments) == b"v"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(kafka: Broker, protocol: str, mechanism: str) -> None:
    arguments = settings(kafka, protocol, mechanism)
    with KafkaProducer(**arguments) as producer:
        producer.send("t", b"v").get(SECONDS)
    consumer = KafkaConsumer(
        "t", auto_offset_reset="earliest", consumer_timeout_ms=SECONDS * 1_000, **arguments
    )
    assert next(consumer).value
    consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(kafka: Broker, protocol: str, mechanism: str) -> None:
    errors: list[Any] = []
    producer = LibrdkafkaProducer(librdkafkas(kafka, protocol, mechanism))
    producer.produce("t", b"v", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert errors == [None]


# ---- refusals


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sasl_plain_password": "x"}, "Authentication failed: Invalid username or password"),
        ({"sasl_plain_username": "x"}, "Authentication failed: Invalid username or password"),
        (
            {"sasl_plain_password": "x", "sasl_mechanism": "SCRAM-SHA-512"},
            "due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
    ],
)
async def test_a_wrong_password_is_refused_at_once(
    kafka: Broker, changed: dict[str, str], message: str
) -> None:
    producer = Producer(**settings(kafka, "SASL_PLAINTEXT") | changed)
    with pytest.raises(AuthenticationFailedError, match=message):
        await producer.start()
    await producer.stop()


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    security = Security(
        listeners=("SASL_PLAINTEXT",), users=USERS, sasl_mechanisms=("SCRAM-SHA-512",)
    )
    async with Broker(security=security) as kafka:
        consumer = Consumer("t", **settings(kafka, "SASL_PLAINTEXT"))
        with pytest.raises(AuthenticationFailedError, match="the broker has SCRAM-SHA-512"):
            await consumer.start()
        await consumer.stop()


async def test_a_certificate_of_an_unknown_authority_is_refused(kafka: Broker) -> None:
    arguments = settings(kafka, "SSL") | {"ssl_context": ssl.create_default_context()}
    producer = Producer(**arguments)
    with pytest.raises(NoBrokersAvailable, match="certificate verify failed"):
        await producer.start()
    await producer.stop()


@pytest.mark.parametrize(
    ("mine", "listener"),
    [
        ("PLAINTEXT", "SASL_PLAINTEXT"),
        ("PLAINTEXT", "SSL"),
        ("SSL", "SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT"),
    ],
)
async def test_a_client_of_another_protocol_is_told_to_check_it(
    kafka: Broker, mine: str, listener: str
) -> None:
    address = kafka.bootstrap_servers_of(listener)
    producer = Producer(**settings(kafka, mine) | {"bootstrap_servers": address})
    question = f"is security_protocol={mine} that of the listener"
    with pytest.raises((NoBrokersAvailable, AuthenticationFailedError), match=question):
        await producer.start()
    await producer.stop()


async def test_mutual_tls_names_the_principal() -> None:
    security = Security(
        listeners=("SSL",),
        ssl_client_auth="required",
        acls=(AclBinding(ResourceType.TOPIC, "t", "User:CN=client", AclOperation.WRITE),),
    )
    async with Broker(topics={"t": 1, "other": 1}, security=security) as kafka:
        arguments = settings(kafka, "SSL")
        producer = Producer(**arguments)
        await producer.start()
        await (await producer.send("t", b"v"))
        with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
            await (await producer.send("other", b"v"))
        await producer.stop()
        nobody = kafka.tls._replace(client_cert_file=None).client_context()
        stranger = Producer(**arguments | {"ssl_context": nobody})
        with pytest.raises(NoBrokersAvailable):
            await stranger.start()
        await stranger.stop()


async def test_nodes_may_write_each_others_markers() -> None:
    """The user may not, and needs no more than a producer does."""
    acls = (
        AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.WRITE),
        AclBinding(ResourceType.TRANSACTIONAL_ID, "x", "User:alice", AclOperation.WRITE),
    )
    security = Security(listeners=("SASL_PLAINTEXT",), users=USERS, acls=acls)
    async with Broker(nodes=2, topics={"t": 2}, security=security) as kafka:
        arguments = settings(kafka, "SASL_PLAINTEXT")
        async with Producer(transactional_id="x", **arguments) as producer:
            async with producer.transaction():
                for partition in (0, 1):
                    await producer.send("t", b"v", partition=partition)
            async with asyncio.timeout(SECONDS):
                while any(kafka.log("t", index).open_transactions for index in (0, 1)):
                    await asyncio.sleep(0.01)
        assert {kafka.log("t", index).leader_id for index in (0, 1)} == {1, 2}
        assert [kafka.log("t", index).batches[-1].control for index in (0, 1)] == ["COMMIT"] * 2


def test_a_name_in_a_certificate_is_written_as_java_does() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", "Doe, Inc"),),
        (("emailAddress", "a@b"),),
        (("commonName", "#x"),),
    )
    email = "1.2.840.113549.1.9.1=#1603614062"
    assert format_subject({"subject": subject}) == f"CN=\\#x,{email},O=Doe\\, Inc,C=DE"


@pytest.mark.slow
def test_librdkafka_sets_a_password_and_is_refused_a_topic() -> None:
    topics = {"t": 1}
    security = Security(
        listeners=("SASL_PLAINTEXT",), users=USERS, acls=(), super_users=("User:alice",)
    )
    with Broker(topics=topics, security=security) as kafka:
        admin = AdminClient(librdkafkas(kafka, "SASL_PLAINTEXT"))
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8_192)
        change = UserScramCredentialUpsertion("carol", info, b"carol-secret")
        admin.alter_user_scram_credentials([change])["carol"].result(SECONDS)
        carol = {
            **librdkafkas(kafka, "SASL_PLAINTEXT", "SCRAM-SHA-512"),
            "sasl.username": "carol",
            "sasl.password": "carol-secret",
        }
        hers = AdminClient(carol)
        with pytest.raises(KafkaException, match="Authorization failed"):
            hers.create_topics([NewTopic("u", 1)])["u"].result(SECONDS)
        errors: list[Any] = []
        producer = LibrdkafkaProducer(carol)
        producer.produce("t", b"v", on_delivery=lambda error, _message: errors.append(error))
        producer.flush(SECONDS)
        assert [error.name() for error in errors] == ["TOPIC_AUTHORIZATION_FAILED"]


# ---- byte by byte

RECORDED = Path(__file__).with_name("recorded_security") / "sasl-4.3.1.json"


def test_sasl_is_answered_as_the_broker_did() -> None:
    security = Security(
        listeners=("SASL_PLAINTEXT",), users={"reader": "secret", "writer": "secret"}
    )
    with Broker(security=security) as kafka:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        for steps, wanted in zip(SCRIPTS, json.loads(RECORDED.read_text()), strict=True):
            assert json.loads(json.dumps(play((host, int(port)), steps))) == wanted, steps


class OneConnection:
    """An authenticator whose time passes by hand, logged in as alice for a minute."""

    LIFETIME_MS = 60_000

    def __init__(self) -> None:
        rules = SaslRules(("PLAIN",), USERS, {}, self.LIFETIME_MS)
        self.session = ClientSession()
        self._authenticator = Authenticator(rules, self.session, range(5), encode_refusal)
        self.now_ms = 0

    def send(self, api_key: ApiKey, version: int, **body: Any) -> Any:
        """The answer, None if the node has to give it."""
        payload = encode_request(api_key, version, 7, "c", body)
        answer = self._authenticator.receive(payload, self.now_ms)
        return None if answer is None else decode_response(api_key, version, answer)[1]

    def log_in(self, user: str, password: str) -> Any:
        assert self.send(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")["error_code"] == 0
        token = f"\0{user}\0{password}".encode()
        return self.send(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token)

    def list_groups(self) -> Any:
        return self.send(ApiKey.LIST_GROUPS, 3)


def test_an_authentication_expires() -> None:
    connection = OneConnection()
    assert connection.log_in("alice", "alice-secret")["session_lifetime_ms"] == 60_000
    connection.now_ms = 60_000
    assert connection.list_groups() is None
    connection.now_ms += 1
    with pytest.raises(SaslFailure, match="expired"):
        connection.list_groups()


def test_a_connection_authenticates_again() -> None:
    connection = OneConnection()
    connection.log_in("alice", "alice-secret")
    assert connection.send(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN") is None  # too soon
    connection.now_ms = 50_000
    assert connection.log_in("alice", "alice-secret")["session_lifetime_ms"] == 60_000
    connection.now_ms = 100_000
    assert connection.list_groups() is None


def test_a_connection_stays_with_its_principal() -> None:
    connection = OneConnection()
    connection.log_in("alice", "alice-secret")
    connection.now_ms = 2_000
    with pytest.raises(SaslFailure, match=r"from User\.alice: User\.bob"):
        connection.log_in("bob", "bob-secret")
    assert connection.session.principal == "User:alice"


def test_a_scram_client_verifies_the_broker() -> None:
    mechanism = ScramDigest.SCRAM_SHA_256
    client = ScramClient(mechanism, "a,b=c", "secret", "nonce")
    first = read_client_first(client.first())
    assert first.name == "a,b=c"
    salted = salt_password(mechanism, "secret", b"salt", 4_096)
    known = derive_credential(mechanism, b"salt", salted, 4_096)
    challenge = format_server_first(first, "server", known)
    final = client.final(challenge.encode())
    answer = answer_client_final(mechanism, known, first, challenge, final)
    assert answer is not None
    client.verify(answer)
    with pytest.raises(InvalidScramMessage, match="does not know the password"):
        client.verify(b"v=" + answer[2:4] + b"A" * (len(answer) - 5) + b"=")
    with pytest.raises(InvalidScramMessage, match="1 iterations"):
        client.final(challenge.replace("i=4096", "i=1").encode())
    with pytest.raises(InvalidScramMessage, match="another exchange"):
        client.final(challenge.replace("r=nonce", "r=other").encode())


@pytest.mark.slow
@pytest.mark.parametrize("form", REQUESTS, ids=name_of)
@hypothesis_settings(max_examples=5)
@given(data=st.data())
def test_every_request_can_be_refused(form: Form, data: st.DataObject) -> None:
    header, body = decode_request(encode(form, data.draw(bodies(form))))
    refused = encode_refusal(header, body, ErrorCode.ILLEGAL_SASL_STATE)
    assert decode_response(form[0], form[1], refused)[0]["correlation_id"] == 7


@pytest.mark.slow
async def test_a_user_has_a_password_for_each_mechanism() -> None:
    passwords = {"SCRAM-SHA-256": "short", "SCRAM-SHA-512": "long"}
    security = Security(listeners=("SASL_PLAINTEXT",), users={"alice": passwords})
    async with Broker(topics={"t": 1}, security=security) as broker:
        for mechanism in MECHANISMS:
            for password in passwords.values():
                client = Producer(
                    broker.bootstrap_servers,
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism=mechanism,
                    sasl_plain_username="alice",
                    sasl_plain_password=password,
                )
                if passwords.get(mechanism) == password:
                    async with client as producer:
                        await producer.send_and_wait("t", b"v")
                else:
                    with pytest.raises(AuthenticationFailedError):
                        await client.start()
                    await client.stop()


@pytest.mark.parametrize("password", [{}, {"GSSAPI": "x"}, {"PLAIN": ""}, "", 7])
def test_a_password_that_cannot_be_is_refused(password: Any) -> None:
    with pytest.raises(InvalidSetting, match="or to a password of each mechanism"):
        Security(users={"alice": password})


def test_serve_has_two_listeners() -> None:
    options = ["--listener", "SASL_SSL", "--listener", "PLAINTEXT", "--sasl-user", "alice:x"]
    command = [sys.executable, "-m", "kafka_eos", "serve", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline().rstrip() for _ in range(4)]
        authority = Path(lines[2].removeprefix("certificate authority, for clients: ")).read_text()
        server.terminate()
        server.communicate()  # else its last line finds nobody who reads
    assert [line.rpartition(":")[0] for line in lines[:2]] == [
        "serves SASL_SSL at 127.0.0.1",
        "serves PLAINTEXT at 127.0.0.1",
    ]
    assert authority.startswith("-----BEGIN CERTIFICATE-----")
    assert server.returncode == 0
