"""Classic groups: our broker answers each step of these scripts as a real one of 4.3.1 does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conformance.kafka.broker import KafkaBroker
from conformance.kafka.connection import BrokerConnection
from impl import ApiKey, ErrorCode, NodeConfig, Server
from impl.coordinator.group_messages import GroupConfig

pytestmark = pytest.mark.kafka

Values = dict[str, Any]


class Script:
    """Requests of several members; what they are answered, with ids as they came up."""

    def __init__(self, connect: Callable[[], BrokerConnection], group_id: str) -> None:
        self.connect = connect
        self.group_id = group_id
        self.connections: dict[str, BrokerConnection] = {}
        self.seen: list[Any] = []
        self.ids: dict[str, str] = {}

    def connection(self, name: str) -> BrokerConnection:
        if name not in self.connections:
            self.connections[name] = self.connect()
        return self.connections[name]

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    def note(self, what: str, answer: Values) -> Values:
        self.seen.append((what, self.plain(answer)))
        return answer

    def plain(self, value: Any) -> Any:
        """Without member ids and hosts, which differ."""
        if isinstance(value, dict):
            left_out = ("client_host", "throttle_time_ms", "authorized_operations")
            return {k: self.plain(v) for k, v in value.items() if k not in left_out}
        if isinstance(value, list):
            return sorted(map(self.plain, value), key=repr)
        if isinstance(value, str) and len(value) > 36:
            return self.ids.setdefault(value, f"member {len(self.ids)}")
        return value

    # ---- requests

    def send_join(self, name: str, member_id: str = "", version: int = 9, **more: Any) -> None:
        body = {
            "group_id": self.group_id,
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 3_000,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}],
        }
        self.connection(name).send(ApiKey.JOIN_GROUP, version, body | more)

    def receive(self, name: str) -> Values:
        return self.note(name, self.connection(name).receive().body)

    def join(self, name: str, member_id: str = "", version: int = 9, **more: Any) -> Values:
        self.send_join(name, member_id, version, **more)
        return self.receive(name)

    def join_twice(self, name: str, **more: Any) -> Values:
        return self.join(name, self.join(name, **more)["member_id"], **more)

    def send_sync(self, name: str, joined: Values, version: int = 5, **more: Any) -> None:
        body = {
            "group_id": self.group_id,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": row["member_id"], "assignment": row["metadata"] + b"!"}
                for row in joined["members"]
            ],
        }
        self.connection(name).send(ApiKey.SYNC_GROUP, version, body | more)

    def sync(self, name: str, joined: Values, version: int = 5, **more: Any) -> Values:
        self.send_sync(name, joined, version, **more)
        return self.receive(name)

    def heartbeat(self, name: str, joined: Values, version: int = 4, **more: Any) -> None:
        self.ask(name, ApiKey.HEARTBEAT, version, self.beat(joined) | more)

    def beat(self, joined: Values) -> Values:
        return {
            "group_id": self.group_id,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "group_instance_id": None,
        }

    def await_rebalance(self, joined: Values) -> None:
        """What was sent on another connection has arrived once members are asked to join again."""
        connection, rebalances = self.connection("admin"), ErrorCode.REBALANCE_IN_PROGRESS
        while connection.ask(ApiKey.HEARTBEAT, 4, self.beat(joined))["error_code"] != rebalances:
            pass

    def leave(self, name: str, *members: tuple[str, str | None], version: int = 5) -> None:
        rows = [{"member_id": m, "group_instance_id": i, "reason": None} for m, i in members]
        body = {"group_id": self.group_id, "member_id": members[0][0], "members": rows}
        self.ask(name, ApiKey.LEAVE_GROUP, version, body)

    def commit(self, name: str, joined: Values, version: int = 9, **more: Any) -> None:
        rows = [{"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}]
        body = {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": joined["generation_id"],
            "member_id": joined["member_id"],
            "group_instance_id": None,
            "topics": [{"name": "t", "partitions": rows}],
        }
        self.ask(name, ApiKey.OFFSET_COMMIT, version, body | more)

    def describe(self, version: int = 6) -> None:
        body = {"groups": [self.group_id], "include_authorized_operations": False}
        self.ask("admin", ApiKey.DESCRIBE_GROUPS, version, body)

    def list(self, **filters: list[str]) -> None:
        body = {"states_filter": [], "types_filter": []} | filters
        answer = self.connection("admin").ask(ApiKey.LIST_GROUPS, 5, body)
        answer["groups"] = [row for row in answer["groups"] if row["group_id"] == self.group_id]
        self.note("list", answer)

    def delete(self) -> None:
        self.ask("admin", ApiKey.DELETE_GROUPS, 2, {"groups_names": [self.group_id]})

    def delete_offsets(self) -> None:
        topics = [
            {"name": name, "partitions": [{"partition_index": i} for i in (0, 7)]}
            for name in ("t", "other", "nowhere")
        ]
        self.ask("admin", ApiKey.OFFSET_DELETE, 0, {"group_id": self.group_id, "topics": topics})

    def ask(self, name: str, api_key: ApiKey, version: int, body: Values) -> Values:
        return self.note(name, self.connection(name).ask(api_key, version, body))


def two_members(s: Script) -> tuple[Values, Values]:
    one = s.join_twice("one")
    s.sync("one", one)
    two_id = s.join("two")["member_id"]
    s.send_join("two", two_id)
    s.await_rebalance(one)
    again = s.join("one", one["member_id"])
    two = s.receive("two")
    s.send_sync("two", two)
    s.sync("one", again)
    s.receive("two")
    return again, two


def members_come_and_go(s: Script) -> None:
    s.describe()
    one, two = two_members(s)
    s.describe()
    s.list()
    s.list(states_filter=["stable"])
    s.list(states_filter=["Empty"])
    s.list(types_filter=["Consumer"])
    s.commit("one", one)
    s.delete()
    s.delete_offsets()
    s.leave("two", (two["member_id"], None), ("nobody", None))
    s.heartbeat("one", one)
    s.commit("one", one)
    s.leave("one", (one["member_id"], None), version=2)
    s.heartbeat("one", one)
    s.commit("one", one)
    s.describe(5)
    s.list(states_filter=["EMPTY"])
    s.delete_offsets()
    s.delete()
    s.delete()
    s.describe(5)


def refusals(s: Script) -> None:
    s.join("one", session_timeout_ms=1)
    s.join("one", "nobody")
    s.join("one", protocols=[])
    s.join("one", protocol_type="")
    s.join("one", group_id="")
    nobody = {"generation_id": 1, "member_id": "nobody", "members": []}
    s.heartbeat("one", nobody)
    s.sync("one", nobody)
    s.leave("one", ("nobody", None))
    s.leave("one", ("nobody", None), version=2)
    s.commit("one", nobody)
    s.delete()
    s.delete_offsets()
    one = s.join_twice("one")
    s.sync("one", one, generation_id=7)
    s.sync("one", one, protocol_name="other")
    s.sync("one", one, protocol_name=None)
    s.sync("one", one, member_id="nobody")
    s.sync("one", one, group_instance_id="i")
    s.sync("one", one)
    s.sync("one", one)
    s.heartbeat("one", one, generation_id=7)
    s.heartbeat("one", one, group_instance_id="i")
    s.commit("one", one, generation_id_or_member_epoch=7)
    s.commit("one", one, member_id="nobody")
    s.commit("one", one, generation_id_or_member_epoch=-1, member_id="")
    s.join("two", protocols=[{"name": "other", "metadata": b""}])
    s.join("two", protocol_type="connect")
    s.leave("one", (one["member_id"], None))


def static_members(s: Script) -> None:
    one = s.join("one", group_instance_id="i")
    s.sync("one", one, group_instance_id="i")
    for version in (9, 8, 5):
        again = s.join("two", "", version, group_instance_id="i")
        s.sync("two", again, 3, group_instance_id="i")
        s.heartbeat("one", one, group_instance_id="i")
        s.heartbeat("two", again, group_instance_id="i")
    s.describe()
    s.join("two", one["member_id"], group_instance_id="i")
    s.leave("two", (one["member_id"], "i"))
    s.leave("two", ("", "j"), ("", None), ("", "i"))
    s.describe()


def old_clients(s: Script) -> None:
    one = s.join("one", "", 3)
    s.sync("one", one, 2)
    s.heartbeat("one", one, 0)
    s.describe(0)
    s.send_join("two", "", 2)
    s.await_rebalance(one)
    s.join("one", one["member_id"], 3)
    two = s.receive("two")
    s.leave("two", (two["member_id"], None), version=0)
    s.heartbeat("one", one, 1)


SCRIPTS = [members_come_and_go, refusals, static_members, old_clients]


@contextmanager
def ours() -> Iterator[int]:
    """Our server in a thread of its own; its port."""
    started, ends = threading.Event(), threading.Event()
    ports = []

    async def serve() -> None:
        groups = GroupConfig(initial_rebalance_delay_ms=0)
        async with Server(NodeConfig(host="127.0.0.1", port=0, groups=groups)) as server:
            ports.append(server.port)
            started.set()
            await asyncio.to_thread(ends.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    yield ports[0]
    ends.set()
    thread.join()


def play(script: Callable[[Script], None], connect: Callable[[], BrokerConnection]) -> list[Any]:
    played = Script(connect, f"group of {script.__name__}")
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "other")
    ]
    played.connection("admin").ask(ApiKey.CREATE_TOPICS, 5, {"topics": topics})
    find = {"key": played.group_id, "key_type": 0}
    while played.connection("admin").ask(ApiKey.FIND_COORDINATOR, 3, find)["error_code"]:
        pass
    busy = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    body = {"groups": [played.group_id]}
    while (
        played.connection("admin").ask(ApiKey.DESCRIBE_GROUPS, 0, body)["groups"][0]["error_code"]
        in busy
    ):
        pass
    try:
        script(played)
    finally:
        played.close()
    return played.seen


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_each_step_is_answered_as_by_kafka(
    script: Callable[[Script], None], broker: KafkaBroker
) -> None:
    theirs = play(script, broker.connect)
    with ours() as port:
        answered = play(script, lambda: BrokerConnection("127.0.0.1", port))
    for number, (wanted, found) in enumerate(zip(theirs, answered, strict=True)):
        assert found == wanted, number
