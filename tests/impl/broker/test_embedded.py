"""A broker in this process: for users of other clients, with and without an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from socket import create_connection
from ssl import SSLCertVerificationError

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import AdminClient

from impl import Broker, Consumer, CutFault, ErrorFault, Producer
from impl.broker.cluster import UnknownPartitionOrBroker
from impl.broker.embedded import EMBEDDED
from impl.broker.event_loop import new_event_loop
from impl.broker.faults import Fault
from impl.broker.node_settings import UnknownSetting
from impl.protocol.errors import ErrorCode
from impl.security.config import Security

pytestmark = pytest.mark.slow  # clients of others, and processes

SECONDS = 20


def listed(servers: str) -> dict[str, int]:
    topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=SECONDS).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def test_with_serves_clients_that_block_and_leaves_nothing() -> None:
    before = threading.active_count()
    with Broker(topics={"t": 3}) as kafka:
        kafka.create_topic("u", 2, retention_ms="1000")
        assert listed(kafka.bootstrap_servers) == {"t": 3, "u": 2}
        producer = LibrdkafkaProducer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce("t", b"v", partition=1)
        assert producer.flush(SECONDS) == 0
        topic = kafka.cluster.topics.get("t")
        assert topic is not None
        assert [leader.log_end_offset for leader in topic.partitions] == [0, 1, 0]
    assert threading.active_count() == before


def test_settings_have_the_names_of_kafka() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean 'group\.initial\.rebalance\.delay\.ms"):
        Broker(settings={"group.initial.rebalance.delay": "3000"})
    settings = {"group.initial.rebalance.delay.ms": "1500"}
    with Broker(topics={"t": 1}, settings=settings) as kafka:
        reader = LibrdkafkaConsumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
        reader.subscribe(["t"])
        began_s = time.monotonic()
        while not reader.assignment():
            reader.poll(0.1)
        assert time.monotonic() - began_s >= 1.5
        reader.close()


async def test_async_with_serves_on_the_same_loop() -> None:
    async with asyncio.timeout(SECONDS), Broker() as kafka:
        async with Producer(kafka.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"v")
        reading = {"auto_offset_reset": "earliest"}
        servers = kafka.bootstrap_servers
        async with Consumer("t", bootstrap_servers=servers, **reading) as consumer:
            assert (await consumer.getone()).value == b"v"


async def test_it_starts_within_milliseconds() -> None:
    async with Broker():
        began_s = time.perf_counter()
    took = []
    for _ in range(5):
        began_s = time.perf_counter()
        async with Broker() as kafka:
            port = int(kafka.bootstrap_servers.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            took.append(time.perf_counter() - began_s)
            writer.close()
    assert min(took) < 0.02


async def test_the_first_producer_of_a_node_does_not_wait() -> None:
    async with asyncio.timeout(SECONDS), Broker(nodes=2, topics={"t": 1}) as kafka:
        async with Producer(kafka.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"v")
        assert "COORDINATOR_LOAD_IN_PROGRESS" not in kafka.format_timeline()


async def test_when_a_node_stops_the_others_take_its_partitions_and_groups() -> None:
    async with asyncio.timeout(SECONDS), Broker(nodes=3, topics={"t": 3}) as kafka:
        servers = kafka.bootstrap_servers
        producer = AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        )
        await consumer.start()
        for number in range(3):
            for partition in range(3):
                await producer.send_and_wait("t", b"%d" % number, partition=partition)
            for _ in range(3):
                assert (await consumer.getone()).value == b"%d" % number
            await consumer.commit()
            if number == 0:
                await kafka.stop_node(1)
            if number == 1:
                await kafka.start_node(1)
                kafka.move_leader("t", 2, 1)
        await consumer.stop()
        await producer.stop()
        topic = kafka.cluster.topics.get("t")
        assert topic is not None
        assert topic.leader_ids[2] == 1
        with pytest.raises(UnknownPartitionOrBroker):
            kafka.move_leader("t", 7, 1)


async def test_a_node_may_stop_without_a_successor() -> None:
    async with asyncio.timeout(SECONDS), Broker(nodes=2) as kafka:
        kafka.create_topic("t")
        kafka.move_leader("t", 0, 2)
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        await admin.start()

        async def told() -> tuple[int, ...]:
            while True:  # aiokafka asks any node, also one that has stopped
                with suppress(NodeNotReadyError, KafkaConnectionError):
                    [topic] = await admin.describe_topics(["t"])
                    break
            [row] = topic["partitions"]
            return row["error_code"], row["leader"], *row["offline_replicas"]

        assert await told() == (ErrorCode.NONE, 2)
        await kafka.stop_node(2, fail_over=False)
        assert await told() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 2)
        await kafka.start_node(2)
        assert await told() == (ErrorCode.NONE, 2)
        await admin.close()
        async with Producer(kafka.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"v")
        assert kafka.log("t").leader_epoch == 3  # nobody led, then it


@pytest.mark.parametrize(
    "fault",
    [
        CutFault("JoinGroup"),
        ErrorFault("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ErrorFault("OffsetFetch", "NOT_COORDINATOR"),
        ErrorFault("Fetch", "NOT_LEADER_OR_FOLLOWER"),
    ],
    ids=str,
)
async def test_a_group_of_another_client_survives_a_fault(fault: Fault) -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"t": 1}) as kafka:
        added = kafka.faults.add(fault)
        async with Producer(kafka.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"v")
        consumer = AIOKafkaConsumer(
            "t",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        assert (await consumer.getone()).value == b"v"
        await consumer.stop()
        assert added.count == 1


# ---- the verb and the plugin


def test_serve_ends_at_an_interruption(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafka_eos", "serve", "--nodes", "2", "--topic", "t:2"]
    command += ["--listen", "127.0.0.1:0", "--no-auto-create"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        announced = process.stdout.readline()
        servers = announced.removeprefix("serves at ").split(",")
        assert len(servers) == 2
        assert listed(servers[1]) == {"t": 2}
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0


def test_an_address_of_ipv6_is_one_that_clients_take() -> None:
    with Broker(config=replace(EMBEDDED, host="::1"), topics={"t": 1}) as kafka:
        assert kafka.bootstrap_servers.startswith("[::1]:")
        assert listed(kafka.bootstrap_servers) == {"t": 1}


def test_clients_are_told_the_advertised_host() -> None:
    config = replace(EMBEDDED, host="0.0.0.0", advertised_host="localhost")
    with Broker(nodes=2, config=config, topics={"t": 2}) as kafka:
        ports = [address.rpartition(":")[2] for address in kafka.bootstrap_servers.split(",")]
        assert kafka.bootstrap_servers == ",".join(f"localhost:{port}" for port in ports)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[0]}"})
        told = admin.list_topics(timeout=SECONDS).brokers.values()
        assert {(node.host, str(node.port)) for node in told} == {("localhost", p) for p in ports}


@pytest.mark.parametrize("host", ["kafka.example.org", "192.0.2.7", "127.0.0.1"])
def test_certificates_are_valid_for_the_advertised_host(host: str) -> None:
    config = replace(EMBEDDED, advertised_host=host)
    with Broker(config=config, security=Security(listeners=("SSL",))) as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        names = (host, "localhost", "another.example.org")
        assert [is_valid_for(kafka, port, name) for name in names] == [True, True, False]


def is_valid_for(kafka: Broker, port: int, name: str) -> bool:
    with create_connection(("127.0.0.1", port)) as link:
        try:
            kafka.tls.client_context().wrap_socket(link, server_hostname=name).close()
        except SSLCertVerificationError:
            return False
    return True


def test_a_topic_that_stays_as_it_is_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(directory=tmp_path, topics={"t": 2}):
        pass
    assert not caplog.records
    with Broker(directory=tmp_path, topics={"t": 5}) as kafka:
        assert listed(kafka.bootstrap_servers) == {"t": 2}
    [line] = [each.getMessage() for each in caplog.records]
    assert line == "topic t stays with its 2 partitions, not 5: it was there before"


PLUGIN_TEST = """
import pytest
from confluent_kafka.admin import AdminClient

@pytest.mark.parametrize("number", range(3))
def test_each_has_a_clean_broker(kafka, number):
    kafka.create_topic("t")
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=9)
    assert list(topics.topics) == ["t"]

@pytest.mark.kafka_broker(nodes=2, topics={"u": 3})
def test_the_marker_gives_arguments(kafka):
    assert kafka.bootstrap_servers.count(":") == 2
    assert len(kafka.cluster.topics.get("u").partitions) == 3

"""


def run_with_plugin(folder: Path, test: str, *options: str) -> str:
    """What pytest prints about a test of somebody who has installed the plugin."""
    (folder / "test_it.py").write_text(test)
    all_options = ["-q", "-p", "no:cacheprovider", "-p", "kafka_eos.pytest_plugin", *options]
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # where it is installed, it has another name
    }
    command = [sys.executable, "-m", "pytest", "--strict-markers", *all_options, "test_it.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_the_plugin_gives_each_test_a_clean_broker(tmp_path: Path) -> None:
    printed = run_with_plugin(tmp_path, PLUGIN_TEST)
    assert "4 passed" in printed, printed


FAILING_TEST = """
from confluent_kafka.admin import AdminClient
from kafka_eos import CutFault

def test_that_fails(kafka):
    kafka.faults.add(CutFault("EndTxn"))
    AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=9)
    assert False

def test_that_passes(kafka):
    pass
"""


def test_a_failing_test_prints_its_requests_and_the_faults_without_effect(tmp_path: Path) -> None:
    printed = run_with_plugin(tmp_path, FAILING_TEST, "-rP")
    assert "1 failed, 1 passed, 1 warning" in printed, printed
    assert printed.count(" kafka requests ") == 1
    assert " rdkafka Metadata -> ok" in printed
    assert "UnusedFault: CutFault(api='EndTxn') affected no request" in printed
    strict = "error::kafka_eos.errors.UnusedFault"
    assert "1 error" in run_with_plugin(tmp_path, FAILING_TEST, "-W", strict)


MARKED_TEST = """
import pytest

@pytest.mark.kafka_broker(3)
def test_positional(kafka):
    pass

@pytest.mark.kafka_broker(node=3)
def test_misspelt(kafka):
    pass

@pytest.mark.kafka_broker(nodes=2, topics={"u": 3})
class TestClosest:
    @pytest.mark.kafka_broker(nodes=3)
    def test_method_and_class(self, kafka):
        assert kafka.nodes == (1, 2, 3)
        assert len(kafka.cluster.topics.get("u").partitions) == 3

    def test_class_alone(self, kafka):
        assert kafka.nodes == (1, 2)
"""


def test_markers_are_merged_and_wrong_arguments_refused(tmp_path: Path) -> None:
    printed = run_with_plugin(tmp_path, MARKED_TEST)
    assert "2 passed, 2 errors" in printed, printed
    assert "kafka_broker(node=...): there is no such argument; there are nodes, topics, " in printed
    assert (
        "kafka_broker(3): arguments of this marker are named, as in kafka_broker(nodes" in printed
    )


SETUP_TEST = """
import pytest
from confluent_kafka.admin import AdminClient
from kafka_eos import Broker

@pytest.fixture
def orders(kafka):
    AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=9)
    raise ValueError("no orders")

def test_whose_fixture_fails(orders):
    pass

def test_that_fails_without_a_request(kafka):
    assert False

@pytest.fixture
def left(kafka):
    yield
    AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=9)
    raise ValueError("something is left")

def test_whose_fixture_fails_at_its_end(left):
    pass

@pytest.fixture(scope="session")
def shared():
    with Broker() as broker:
        yield broker

def test_that_fails_with_a_broker_of_all_tests(shared):
    AdminClient({"bootstrap.servers": shared.bootstrap_servers}).list_topics(timeout=9)
    assert False
"""


def test_a_failing_fixture_prints_the_requests_and_no_request_prints_nothing(
    tmp_path: Path,
) -> None:
    printed = run_with_plugin(tmp_path, SETUP_TEST)
    assert "2 failed, 1 passed, 2 errors" in printed, printed
    assert printed.count(" kafka requests ") == 3
    assert " rdkafka Metadata -> ok" in printed


def test_a_clock_that_a_test_stops_does_not_stop_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As freezegun does it: what `time` says is of 2020, and stands still; librdkafka's goes on."""
    now_ms = time.time() * 1_000
    began_s = time.monotonic()
    for name in ("time", "monotonic"):
        monkeypatch.setattr(time, name, lambda: 1_577_836_800.0)
    with Broker(topics={"t": 1}) as kafka:
        producer = LibrdkafkaProducer({"bootstrap.servers": kafka.bootstrap_servers})
        told: list[object] = []
        producer.produce("t", b"value", on_delivery=lambda error, _: told.append(error))
        assert (producer.flush(20), told) == (0, [None])
        assert abs(kafka.clock() - now_ms) < 60_000
        assert len(kafka.log("t").values) == 1
    loop = new_event_loop(has_tls=True)
    assert 0 <= loop.time() - began_s < 60
    loop.close()


def test_an_event_loop_that_is_not_asyncios_is_refused() -> None:
    entering = Broker().__aenter__()
    with pytest.raises(RuntimeError, match=r"`with Broker\(\)` needs none"):
        entering.send(None)


NOT_EDITABLE = (
    "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in repr(f)]"
)
"""An editable install finds modules of ours also in another package of this name."""


@pytest.mark.parametrize("hiding", ["impl.py", "impl/__init__.py"])
def test_a_package_of_the_project_that_hides_ours_is_named(hiding: str, tmp_path: Path) -> None:
    path = tmp_path / hiding
    path.parent.mkdir(exist_ok=True)
    path.write_text(NOT_EDITABLE)
    printed = run_with_plugin(tmp_path, "def test_it(kafka):\n    pass\n")
    found = path if path.parent == tmp_path else path.parent
    assert f"{found} hides kafka-eos's own package 'impl'" in printed, printed
    assert "Rename it, or keep its folder out of sys.path" in printed
    assert "Traceback" not in printed
    assert "ModuleNotFoundError" not in printed


def test_the_plugin_imports_nothing_of_the_broker_at_load() -> None:
    code = "import sys, pytest; before = set(sys.modules); import kafka_eos.pytest_plugin; "
    code += "print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["kafka_eos", "kafka_eos.pytest_plugin"]


def test_behind_the_block_logs_can_be_read_and_nothing_can_be_changed() -> None:
    with Broker(topics={"t": 1}) as kafka:
        pass
    assert kafka.log("t").values == []
    assert kafka.format_timeline() == ""
    with pytest.raises(RuntimeError, match="which has ended"):
        kafka.create_topic("u")
    with pytest.raises(RuntimeError, match="which has not begun"):
        Broker().create_topic("u")
