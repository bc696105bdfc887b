"""Scripts of requests by members of groups, for a real broker and for ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from conformance.adapters.brokers.kafka.connection import BrokerConnection
from impl import ApiKey, ErrorCode, NodeConfig, Server
from impl.coordinator.group_config import ConsumerGroupConfig, GroupConfig

Values = dict[str, Any]

CONFIG = NodeConfig(
    host="127.0.0.1",
    port=0,
    groups=GroupConfig(initial_rebalance_delay_ms=0, min_session_timeout_ms=100),
    consumer_groups=ConsumerGroupConfig(assignment_interval_ms=0),
)
"""Of our node, as the real broker of these tests is set up."""


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
        """Without member ids, which differ."""
        if isinstance(value, dict):
            left_out = ("throttle_time_ms", "authorized_operations")
            return {k: self.plain(v) for k, v in value.items() if k not in left_out}
        if isinstance(value, list):
            return sorted(map(self.plain, value), key=repr)
        if isinstance(value, str) and len(value) > 36:
            return self.ids.setdefault(value, f"member {len(self.ids)}")
        return value

    # ---- requests

    def create_topics(self) -> None:
        topics = [
            {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "other")
        ]
        self.connection("admin").ask(ApiKey.CREATE_TOPICS, 5, {"topics": topics})

    def await_coordinator(self) -> None:
        """Until the group has a coordinator, and that has loaded its log."""
        admin, body = self.connection("admin"), {"groups": [self.group_id]}
        find = {"key": self.group_id, "key_type": 0}
        while admin.ask(ApiKey.FIND_COORDINATOR, 3, find)["error_code"]:
            pass
        busy = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        while admin.ask(ApiKey.DESCRIBE_GROUPS, 0, body)["groups"][0]["error_code"] in busy:
            pass

    def await_topics(self) -> None:
        """Until the coordinator has heard of the topics, if that matters."""

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


@contextmanager
def ours(config: NodeConfig = CONFIG) -> Iterator[int]:
    """Our server in a thread of its own; its port."""
    started, ends = threading.Event(), threading.Event()
    ports = []

    async def serve() -> None:
        async with Server(config) as server:
            ports.append(server.port)
            started.set()
            await asyncio.to_thread(ends.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield ports[0]
    finally:
        ends.set()
        thread.join()


S = TypeVar("S", bound=Script)


def play(
    script: Callable[[S], None], kind: type[S], connect: Callable[[], BrokerConnection]
) -> list[Any]:
    """What the members of a script are answered by a broker."""
    played = kind(connect, f"{kind.__name__} {script.__name__}")
    played.create_topics()
    played.await_coordinator()
    played.await_topics()
    try:
        script(played)
    finally:
        played.close()
    return played.seen


def check_answers(
    script: Callable[[S], None],
    kind: type[S],
    connect: Callable[[], BrokerConnection],
    config: NodeConfig = CONFIG,
) -> None:
    """Our broker answers each step of a script as another one does."""
    theirs = play(script, kind, connect)
    with ours(config) as port:
        answered = play(script, kind, lambda: BrokerConnection("127.0.0.1", port))
    for number, (wanted, found) in enumerate(zip(theirs, answered, strict=True)):
        assert found == wanted, number
