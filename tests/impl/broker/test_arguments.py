"""What `Broker` and the verb `serve` refuse: with what was wrong, where, and what is legal."""

from __future__ import annotations

import pickle
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from impl import (
    AclBinding,
    AclOperation,
    Broker,
    CutFault,
    DelayFault,
    ErrorFault,
    ResourceType,
    Security,
)
from impl.broker import serve
from impl.broker.embedded import EMBEDDED
from impl.broker.faults import InvalidFault
from impl.broker.replicas import ReplicaPlacement
from impl.broker.topic_refused import TopicRefused
from impl.broker.topics import MAX_PARTITIONS
from impl.security.certificates import certificates_of_process
from impl.security.session import ClientSession
from impl.security.tls import InvalidCertificate, Tls
from impl.settings import InvalidArgument, InvalidSetting
from kafka_eos.command_line import main

ALICE = AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.WRITE)

# ---- arguments of `Broker`


@pytest.mark.parametrize(
    ("name", "value", "may_be"),
    [
        ("nodes", 0, "an integer from 1"),
        ("nodes", -1, "an integer from 1"),
        ("nodes", "3", "an integer from 1"),
        ("nodes", True, "an integer from 1"),
        ("topics", {"o": "2"}, 'numbers of partitions, such as {"orders": 4}'),
        ("topics", {"o": 0}, "each an integer from 1 to 100000"),
        ("topics", {"o": MAX_PARTITIONS + 1}, "each an integer from 1 to 100000"),
        ("topics", {7: 1}, "a mapping of topics"),
        ("topics", ["orders"], "a mapping of topics"),
        ("topics", "orders", "a mapping of topics"),
        ("settings", "a=b", 'such as {"max.connections": "100"}'),
        ("settings", {"max.connections": 100}, 'such as {"max.connections": "100"}'),
        ("security", "SSL", "a Security(...), or None"),
        ("config", {}, "a NodeConfig"),
        ("config", None, "a NodeConfig"),
        ("directory", "", "a path of a directory"),
        ("directory", 5, "a path of a directory"),
    ],
)
def test_an_argument_that_cannot_be_is_named(name: str, value: Any, may_be: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Broker(**{name: value})
    assert f"Broker({name}) must be " in str(refused.value)
    assert may_be in str(refused.value)
    assert str(refused.value).endswith(f"is {value!r}")
    assert refused.value.setting == name


def test_all_nodes_need_ports() -> None:
    listeners = Security(listeners=("PLAINTEXT", "SSL"))
    config = replace(EMBEDDED, port=65_531)
    with pytest.raises(InvalidSetting, match="at most 65530, as 6 ports from there on are needed"):
        Broker(nodes=3, config=config, security=listeners)
    assert Broker(nodes=3, config=replace(config, port=65_530), security=listeners)
    assert Broker(nodes=3, config=EMBEDDED)


@pytest.mark.parametrize("name", ["a b", "a/b", "", "..", "ü", "o" * 250])
def test_a_topic_without_a_legal_name_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    legal = "Topic name is invalid" if name else "a mapping of topics"
    with pytest.raises(ValueError, match=legal):
        Broker(directory=tmp_path / "d", topics={"orders": 1, name: 1})
    assert not (tmp_path / "d").exists()


@pytest.mark.filterwarnings("error")
def test_a_broker_that_does_not_start_gives_its_directory_back(tmp_path: Path) -> None:
    broker = Broker(directory=tmp_path, topics={"orders": 1})
    broker.cluster.topics._partitions = MAX_PARTITIONS
    with pytest.raises(TopicRefused, match="exceed the limit"), broker:
        pass
    assert broker._servers == {}
    with Broker(directory=tmp_path) as kafka:
        assert kafka.cluster.topics.get("orders") is None


def test_a_port_that_is_taken_leaves_no_other_one_taken() -> None:
    security = Security(listeners=("PLAINTEXT", "SASL_PLAINTEXT"), users={"a": "b"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = Broker(config=replace(EMBEDDED, port=port - 1), security=security)
        with pytest.raises(OSError, match="address already in use"), broker:
            pass
        with socket.create_server(("127.0.0.1", port - 1)):
            pass


MISSING = Tls("nowhere.pem", "nowhere.pem", "nowhere.pem")


def cannot_start(kind: str, directory: Path) -> None:
    """A broker whose start fails. Raises what it raises."""
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    arguments: dict[str, dict[str, Any]] = {
        "a taken port": {"config": replace(EMBEDDED, port=port)},
        "a taken port of another node": {"nodes": 2, "config": replace(EMBEDDED, port=port - 1)},
        "a host of others": {"config": replace(EMBEDDED, host="192.0.2.1")},
        "no such host": {"config": replace(EMBEDDED, host="nowhere.invalid")},
        "no certificate": {"security": Security(listeners=("SSL",), tls=MISSING)},
        "too many partitions": {"topics": {"orders": 1, "more": MAX_PARTITIONS}},
        "no setting": {"settings": {"max.connection": "1"}},
        "no topic": {"topics": {"a/b": 1}},
    }
    with taken, Broker(directory=directory, **arguments[kind]):
        pass


FAILURES = (
    "a taken port",
    "a taken port of another node",
    "a host of others",
    "no such host",
    "no certificate",
    "too many partitions",
    "no setting",
    "no topic",
)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_start_that_fails_leaves_no_new_directory(kind: str, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        cannot_start(kind, tmp_path / "new" / "directory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", FAILURES)
def test_a_start_that_fails_leaves_nothing_in_an_empty_directory(kind: str, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        cannot_start(kind, tmp_path)
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", FAILURES)
def test_a_start_that_fails_leaves_what_was_there(kind: str, tmp_path: Path) -> None:
    with Broker(directory=tmp_path, topics={"kept": 2}):
        pass
    with pytest.raises((OSError, ValueError)):
        cannot_start(kind, tmp_path)
    with Broker(directory=tmp_path) as kafka:
        assert len(kafka.cluster.topics.get("kept").partitions) == 2


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OSError, match="address already in use"):
        cannot_start("a taken port", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_serve_leaves_nothing_where_its_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "kafka_eos", "serve", "--listen", address, "--dir", "d/e"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "address already in use" in ended.stderr
    assert list(tmp_path.iterdir()) == []


# ---- its methods


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with Broker(nodes=2, topics={"orders": 1}) as broker:
        yield broker


Call = Callable[[Broker], object]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.create_topic("z", 0), "create_topic(partitions) must be an integer from 1"),
        (lambda k: k.create_topic("z", "2"), "create_topic(partitions) must be an integer from 1"),
        (lambda k: k.create_topic(5), "create_topic(name) must be text"),
        (lambda k: k.create_topic("z", retention_ms=5), 'such as retention_ms="1000", is'),
        (lambda k: k.log("orders", "0"), "log(partition) must be an integer from 0"),
        (lambda k: k.log(None), "log(topic) must be text"),
        (lambda k: k.move_leader("orders", 0, "1"), "move_leader(node_id) must be an integer"),
        (lambda k: k.clock.advance("1s"), "advance(duration_ms) must be an integer from 0 to"),
        (lambda k: k.clock.advance(-1), "advance(duration_ms) must be an integer from 0 to"),
        (lambda k: k.clock.advance(10**19), "advance(duration_ms) must be an integer from 0 to"),
        (lambda k: k.stop_node(4), "stop_node(node_id) must be a running node: 1, 2, is 4"),
        (lambda k: k.stop_node("1"), "stop_node(node_id) must be an integer"),
        (lambda k: k.stop_node(1, fail_over=0), "stop_node(fail_over) must be True or False"),
        (lambda k: k.start_node(1), "must be a node that was stopped: none (running: 1, 2), is 1"),
        (lambda k: k.start_node(7), "must be a node that was stopped: none (running: 1, 2), is 7"),
        (
            lambda k: k.bootstrap_servers_of("SSL"),
            "bootstrap_servers_of(listener) must be a listener of this broker: PLAINTEXT, is 'SSL'",
        ),
    ],
)
def test_a_call_that_cannot_be_changes_nothing(call: Call, message: str, kafka: Broker) -> None:
    before = kafka.nodes, [topic.name for topic in kafka.cluster.topics]
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        call(kafka)
    assert before == (kafka.nodes, [topic.name for topic in kafka.cluster.topics])


def test_a_node_that_was_stopped_may_start() -> None:
    with Broker(nodes=2) as kafka:
        kafka.stop_node(2)
        with pytest.raises(InvalidArgument, match=r"stopped: 2 \(running: 1\), is 1"):
            kafka.start_node(1)
        with pytest.raises(InvalidArgument, match="a running node: 1, is 2"):
            kafka.stop_node(2)
        kafka.start_node(2)
        assert kafka.nodes == (1, 2)


def test_a_node_that_leads_a_partition_may_start(tmp_path: Path) -> None:
    broker = Broker(directory=tmp_path, topics={"orders": 1})
    with broker as kafka:
        kafka.cluster.topics.replace(
            replace(  # as a larger cluster did
                kafka.cluster.topics.get("orders"), placements=(ReplicaPlacement.on([2], [2]),)
            )
        )
        kafka.start_node(2)
        assert kafka.log("orders").leader_id == 2


CALLS: dict[str, Call] = {
    "log": lambda k: k.log("orders"),
    "create_topic": lambda k: k.create_topic("z"),
    "move_leader": lambda k: k.move_leader("orders", 0, 1),
    "advance": lambda k: k.clock.advance(1),
    "stop_node": lambda k: k.stop_node(1),
    "start_node": lambda k: k.start_node(1),
    "format_timeline": lambda k: k.format_timeline(),
    "bootstrap_servers": lambda k: k.bootstrap_servers,
}


READ_BEHIND_IT = ("log", "format_timeline")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CALLS)
def test_outside_of_its_block_a_broker_says_so(name: str, ended: Broker) -> None:
    if name in READ_BEHIND_IT:
        CALLS[name](ended)
    else:
        with pytest.raises(RuntimeError, match="which has ended"):
            CALLS[name](ended)
    with pytest.raises(RuntimeError, match="which has not begun"):
        CALLS[name](Broker())


@pytest.fixture(scope="module")
def ended() -> Broker:
    with Broker(topics={"orders": 1}) as broker:
        pass
    return broker


async def test_an_async_block_ends_as_well() -> None:
    async with Broker() as kafka:
        with pytest.raises(InvalidArgument, match="a running node: 1, is 2"):
            await kafka.stop_node(2)
        with pytest.raises(RuntimeError, match="serves already"):
            await kafka.__aenter__()
    with pytest.raises(RuntimeError, match="which has ended"):
        kafka.stop_node(1)


def test_a_block_may_come_again_but_not_with_a_directory(tmp_path: Path) -> None:
    broker = Broker(topics={"orders": 1})
    for _ in range(2):
        with broker as kafka:
            assert kafka.log("orders").values == []
    stored = Broker(directory=tmp_path)
    with stored:
        pass
    with pytest.raises(RuntimeError, match="make another Broker"), stored:
        pass


# ---- faults


@pytest.mark.parametrize("fault", ["x", None, CutFault])
def test_what_is_no_fault_is_not_added(fault: Any, kafka: Broker) -> None:
    with pytest.raises(InvalidFault, match=re.escape("must be one of CutFault(...), DelayFault")):
        kafka.faults.add(fault)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DelayFault("Produce", "1s"), "DelayFault(delay_ms) must be an integer from 0 on"),
        (lambda: DelayFault("Produce", -1), "DelayFault(delay_ms) must be an integer from 0 on"),
        (lambda: CutFault("Produce", nth="1"), "CutFault(nth) must be an integer from 1 on"),
        (lambda: CutFault("Produce", times=0), "CutFault(times) must be an integer from 1 on, or"),
        (lambda: CutFault("Produce", client_id=5), "CutFault(client_id) must be text"),
        (lambda: ErrorFault("Produce", 5), "unknown error 5; "),
        (lambda: CutFault(None), "unknown api None; "),
    ],
)
def test_a_fault_has_fields_of_its_types(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidFault, match=re.escape(message)):
        make()


@pytest.mark.parametrize(("host", "lines"), [("0.0.0.0", 1), ("[::]", 1), ("127.0.0.1", 0)])
def test_an_address_that_clients_cannot_use_is_logged(
    host: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    parser = serve.argparse.ArgumentParser()
    serve.add_arguments(parser)
    serve.broker_of(parser.parse_args(["--listen", f"{host}:0", "--advertise", "there"]))
    assert not caplog.records
    serve.broker_of(parser.parse_args(["--listen", f"{host}:0"]))
    found = [each.getMessage() for each in caplog.records]
    assert [line.startswith("clients are told to connect to ") for line in found] == [True] * lines


@pytest.mark.parametrize("host", ["", "there:9092", "[::1]:9092"])
def test_what_is_advertised_has_no_port(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = serve.argparse.ArgumentParser()
    serve.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--advertise", host])
    assert f"must be a host without a port, is '{host}'" in capsys.readouterr().err


def test_an_error_of_an_argument_passes_between_processes() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Broker(nodes="3")  # type: ignore[arg-type]
    passed = pickle.loads(pickle.dumps(refused.value))
    assert (type(passed), str(passed)) == (InvalidArgument, str(refused.value))
    assert passed.setting == "nodes"


# ---- security


@pytest.mark.parametrize(
    ("name", "value", "may_be"),
    [
        ("listeners", "SSL", "a tuple of some of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("listeners", ("TLS",), "a tuple of some of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("listeners", ("SSL", "SSL"), "each once"),
        ("listeners", (), "a tuple of some of"),
        ("sasl_mechanisms", "PLAIN", "a tuple of some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("users", "ab", 'a mapping of names to passwords, such as {"alice": "secret"}'),
        ("users", {"a": 5}, 'a mapping of names to passwords, such as {"alice": "secret"}'),
        ("users", {"a": ""}, 'a mapping of names to passwords, such as {"alice": "secret"}'),
        ("tls", "cert.pem", "a Tls(...), or None"),
        ("acls", ("x",), "a tuple of AclBinding(...) with principals such as User:alice"),
        ("acls", ALICE, "a tuple of AclBinding(...)"),
        ("acls", (ALICE._replace(principal="alice"),), "principals such as User:alice"),
        ("super_users", ("admin",), 'a tuple of principals, such as ("User:admin",)'),
        ("super_users", "User:admin", 'a tuple of principals, such as ("User:admin",)'),
        ("allow_everyone_if_no_acl_found", "no", "True or False"),
    ],
)
def test_security_is_checked_where_it_is_made(name: str, value: Any, may_be: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Security(**{"acls": (), name: value})
    assert f"Security.{name} must be " in str(refused.value)
    assert may_be in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "may_be"),
    [
        ("resource_type", "topic", "one of ResourceType.TOPIC, ResourceType.GROUP, "),
        ("resource_type", 2, "one of ResourceType.TOPIC, "),
        ("resource_name", None, "text"),
        ("principal", ("alice",), "text"),
        ("operation", "write", "one of AclOperation.ALL, AclOperation.READ, AclOperation.WRITE"),
        ("permission", "ALLOW", "one of AclPermission.DENY, AclPermission.ALLOW"),
        ("pattern_type", "LITERAL", "one of PatternType.LITERAL, PatternType.PREFIXED"),
        ("host", None, "text"),
    ],
)
def test_an_acl_has_fields_of_its_types(name: str, value: Any, may_be: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^AclBinding.{name} must be {may_be}"):
        AclBinding(**{**ALICE._asdict(), name: value})
    assert AclBinding(**ALICE._asdict()) == ALICE


PARTS = {"cert_file": "CERTIFICATE", "key_file": "PRIVATE KEY", "ca_file": "CERTIFICATE"}


@pytest.mark.parametrize("place", PARTS)
def test_a_file_of_tls_that_is_none_is_named(place: str, tmp_path: Path) -> None:
    tls = Tls(*(str(tmp_path / name) for name in PARTS))
    for path, part in zip(tls, PARTS.values(), strict=False):
        Path(str(path)).write_text(f"-----BEGIN {part}-----\n")
    load = tls.client_context if place == "ca_file" else partial(tls.server_context, "none")
    wrong = Path(getattr(tls, place))
    wrong.write_text("something else")
    with pytest.raises(InvalidCertificate, match=f"^{wrong} has no {PARTS[place]} in PEM$"):
        load()
    wrong.unlink()
    with pytest.raises(FileNotFoundError) as missing:
        load()
    assert missing.value.filename == str(wrong)


def test_files_of_tls_that_do_not_fit_are_named(tmp_path: Path) -> None:
    ours = certificates_of_process()
    other = ours._replace(key_file=ours.client_key_file)
    with pytest.raises(InvalidCertificate, match=f"^{ours.cert_file} and {other.key_file} are no"):
        other.server_context("none")
    damaged = tmp_path / "ca.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    torn = ours._replace(ca_file=str(damaged))
    for load in (torn.client_context, partial(torn.server_context, "none")):
        with pytest.raises(InvalidCertificate, match=f"^{damaged} is no certificate"):
            load()


# ---- the verb `serve`


@pytest.fixture
def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What `serve` says to options that it refuses."""
    monkeypatch.setattr(serve, "collect_rarely", lambda: None)

    def run(serving: Any, **_more: Any) -> None:
        serving.close()
        raise AssertionError("it serves")

    monkeypatch.setattr(serve, "run", run)

    def say(*options: str) -> str:
        assert main(["serve", *options]) == 2
        said = capsys.readouterr().err
        assert said.startswith("kafka-eos: serve: ")
        assert said.count("\n") == 1
        return said

    return say


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--sasl-user a:b", "--sasl-user is for a listener with SASL: add --listener SASL_PLAIN"),
        ("--listener SASL_SSL", "nobody could connect: add --sasl-user NAME:PASSWORD"),
        ("--tls-cert X", "--tls-cert is for a listener with TLS: add --listener SSL or SASL_SSL"),
        ("--listener SSL --tls-key X", "--tls-key is the key of --tls-cert: add it"),
        ("--listener SSL --tls-ca X", "--tls-ca goes with --tls-cert: add it"),
        ("--tls-client-auth required", "--tls-client-auth is for a listener with TLS"),
        ("--flush-messages 1", "--flush-messages is about files: add --dir DIR"),
        ("--super-user admin", "--super-user admin is no principal: write User:admin"),
        ("--topic a --topic a:2", "--topic a is given twice"),
        ("--topic a/b", "Topic name is invalid: 'a/b'"),
        ("--nodes 3 --listen 127.0.0.1:65535", "at most 65533, as 3 ports from there on"),
        ("--config max.conections=1", "did you mean 'max.connections'?"),
        ("--config idle=1", "unknown setting 'idle'; there are connections.max.idle.ms"),
        ("--config foo=1", "unknown setting 'foo'; docs/reference/settings.md lists all"),
        ("--config retention.ms=1", "did you mean 'log.retention.ms'?"),
        ("--config compression.type=rar", "String must be one of: uncompressed, zstd"),
        ("--config log.retention.ms=x", "log.retention.ms must be an integer, is 'x'"),
        ("--config max.connections=x", "max.connections must be an integer, is 'x'"),
        ("--config num.io.threads=x", "num.io.threads must be an integer, is 'x'"),
        (
            "--config listeners=PLAINTEXT://:1",
            "is not given by name: it is that of NodeConfig(host",
        ),
        ("--config log.dirs=/tmp", "or serve --dir DIR"),
        ("--config allow.everyone.if.no.acl.found=x", "must be true or false, is 'x'"),
        ("--config super.users=admin", 'such as ("User:admin",)'),
        ("--sasl-password PLAIN:a:b", "--sasl-password is for a listener with SASL"),
        (
            "--listener SASL_SSL --sasl-password PLAIN:a:b --sasl-password PLAIN:a:c",
            "--sasl-password PLAIN:a is given twice",
        ),
    ],
)
def test_serve_refuses_what_it_would_not_do(
    options: str, message: str, refusal: Callable[..., str]
) -> None:
    assert message in refusal(*options.split())


def test_serve_takes_users_that_are_kept_or_made_by_others(tmp_path: Path) -> None:
    def problems(*options: str) -> list[str]:
        parser = serve.argparse.ArgumentParser()
        serve.add_arguments(parser)
        return list(serve.problems_of(parser.parse_args(options)))

    assert problems("--listener", "SASL_SSL", "--dir", str(tmp_path)) == []
    assert problems("--listener", "SASL_PLAINTEXT", "--listener", "PLAINTEXT") == []
    assert problems("--listener", "SASL_PLAINTEXT") != []


def broker_of(*options: str) -> Broker:
    """What `serve` would start."""
    parser = serve.argparse.ArgumentParser()
    serve.add_arguments(parser)
    return serve.broker_of(parser.parse_args(options))


def test_serve_names_each_setting_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    """One line, with the reason; a setting with an effect has none."""
    broker_of(
        *("--config", "num.io.threads=4"),
        *("--config", "replica.fetch.max.bytes=5"),
        *("--config", "num.partitions=4"),
        *("--config", "log.retention.hours=1"),
        *("--config", "super.users=User:a"),
    )
    assert [record.getMessage() for record in caplog.records] == [
        "the setting num.io.threads has no effect: one event loop serves all connections",
        "the setting replica.fetch.max.bytes has no effect: all replicas share one log, and nothing"
        " is sent between them",
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("--allow-everyone-if-no-acl-found",),
        ("--config", "allow.everyone.if.no.acl.found=true"),
        ("--super-user", "User:a", "--allow-everyone-if-no-acl-found"),
        (
            "--config",
            "allow.everyone.if.no.acl.found=true",
            "--config",
            "super.users=User:a;User:b",
        ),
    ],
)
def test_serve_may_open_what_has_no_acl(options: tuple[str, ...]) -> None:
    access = broker_of(*options).cluster.access
    session = ClientSession(principal="User:nobody")
    name, operation, kind = "orders", AclOperation.WRITE, ResourceType.TOPIC
    assert access.is_allowed(session, operation, kind, name)
    access.change_acls([ALICE])
    assert not access.is_allowed(session, operation, kind, name)
    assert access.is_allowed(ClientSession(principal="User:alice"), operation, kind, name)


def test_serve_closes_what_has_no_acl_unless_it_is_told() -> None:
    for options in (("--super-user", "User:a"), ("--config", "super.users=User:a")):
        access = broker_of(*options).cluster.access
        kind = ResourceType.TOPIC
        for principal, may in (("User:nobody", False), ("User:a", True)):
            session = ClientSession(principal=principal)
            assert access.is_allowed(session, AclOperation.WRITE, kind, "orders") == may
    assert broker_of("--config", "allow.everyone.if.no.acl.found=false").cluster.access.is_allowed(
        ClientSession(principal="User:nobody"), AclOperation.WRITE, ResourceType.TOPIC, "orders"
    )


def test_serve_takes_a_password_for_each_mechanism() -> None:
    broker = broker_of(
        *("--listener", "SASL_PLAINTEXT", "--sasl-user", "alice:every"),
        *("--sasl-password", "SCRAM-SHA-512:alice:long"),
        *("--sasl-password", "SCRAM-SHA-256:bob:short"),
    )
    security = broker._config.security
    assert security.passwords_for("PLAIN") == {"alice": "every"}
    assert security.passwords_for("SCRAM-SHA-256") == {"alice": "every", "bob": "short"}
    assert security.passwords_for("SCRAM-SHA-512") == {"alice": "long"}
    known = {(name, mechanism.title) for name, mechanism in broker.cluster.access.credentials}
    assert known == {
        ("alice", "SCRAM-SHA-256"),
        ("alice", "SCRAM-SHA-512"),
        ("bob", "SCRAM-SHA-256"),
    }
