"""Consumer groups (KIP-848): our broker answers each step of these scripts as one of 4.3.1 does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl import ApiKey
from tests.conformance.adapters.brokers.kafka.group_scripts import Script, Values, check_answers

pytestmark = pytest.mark.kafka

NOBODY = "nobody"
ALL = (0, 1, 2, 3)


class ConsumerScript(Script):
    """Members of a consumer group; topic `t` has four partitions, `u` two."""

    def create_topics(self) -> None:
        self.prefix = self.group_id.rpartition(" ")[2]
        self.topic_ids: dict[bytes, str] = {}
        self.create("t", 4)
        self.create("u", 2)

    def create(self, name: str, partitions: int) -> None:
        row = {"name": self.name(name), "num_partitions": partitions, "replication_factor": 1}
        answer = self.connection("admin").ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})
        self.topic_ids[answer["topics"][0]["topic_id"]] = name
        asked = {"topics": [{"name": row["name"]}], "allow_auto_topic_creation": False}
        admin = self.connection("admin")
        while admin.ask(ApiKey.METADATA, 9, asked)["topics"][0]["error_code"]:
            pass

    def await_topics(self) -> None:
        """The coordinator has heard of the topics, too."""
        probe = {"group_id": f"probe of {self.prefix}", "topic_partitions": []}
        probe |= {"subscribed_topic_names": [self.name("t"), self.name("u")]}
        probe |= {"rebalance_timeout_ms": 9_000}
        while True:
            answer = self.send_live("admin", 0, 1, probe)
            self.send_live("admin", -1, 1, {"group_id": probe["group_id"]})
            if answer["assignment"] and len(answer["assignment"]["topic_partitions"]) == 2:
                return

    def name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def plain(self, value: Any) -> Any:
        if isinstance(value, bytes) and value in self.topic_ids:
            return self.topic_ids[value]
        if isinstance(value, str) and " " in value:
            return value
        return super().plain(value)

    def places(self, **partitions: tuple[int, ...]) -> list[Values]:
        ids = {name: topic_id for topic_id, name in self.topic_ids.items()}
        return [{"topic_id": ids[t], "partitions": list(found)} for t, found in partitions.items()]

    def real_epoch(self, epoch: int) -> int:
        """Scripts count epochs from a group's first assignment on, which has epoch 2 since 4.3."""
        return epoch + 1 if epoch > 0 else epoch

    # ---- requests

    def send_live(self, name: str, epoch: int, version: int, more: Values) -> Values:
        body = {"group_id": self.group_id, "member_id": name, "member_epoch": epoch} | more
        answer: Values = self.connection(name).ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, body)
        return answer

    def live(self, name: str, epoch: int, version: int = 1, **more: Any) -> Values:
        return self.note(name, self.send_live(name, self.real_epoch(epoch), version, more))

    def enter(self, name: str, *topics: str, version: int = 1, **more: Any) -> Values:
        """Join, with topics or what `more` says."""
        names = [self.name(topic) for topic in topics]
        first = {"rebalance_timeout_ms": 9_000, "topic_partitions": []}
        if names:
            first["subscribed_topic_names"] = names
        return self.live(name, 0, version, **first | more)

    def await_assignment(self, name: str, answer: Values, **more: Any) -> Values:
        """The next answer with an assignment: what comes before depends on time."""
        while True:
            answer = self.send_live(name, answer["member_epoch"], 1, more)
            if answer["error_code"] or answer["assignment"] is not None:
                return self.note(name, answer)

    def look(self) -> None:
        body = {"group_ids": [self.group_id], "include_authorized_operations": False}
        self.ask("admin", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body)

    def commit_as(self, name: str, epoch: int, *partitions: int, version: int = 9) -> None:
        who = {
            "member_id": name,
            "generation_id_or_member_epoch": self.real_epoch(epoch),
            "group_instance_id": None,
        }
        topics = [{"name": self.name("t"), "partitions": committed(partitions or (0,))}]
        self.ask("admin", ApiKey.OFFSET_COMMIT, version, self.group | who | {"topics": topics})

    def begin_transaction(self) -> None:
        body = {"transactional_id": self.group_id, "transaction_timeout_ms": 60_000}
        admin = self.connection("admin")
        admin.ask(ApiKey.FIND_COORDINATOR, 3, {"key": self.group_id, "key_type": 1})
        while (answer := admin.ask(ApiKey.INIT_PRODUCER_ID, 4, body))["error_code"]:
            pass
        who = ("producer_id", "producer_epoch")
        self.producer = {"transactional_id": self.group_id} | {name: answer[name] for name in who}

    def commit_in_transaction(
        self, name: str, epoch: int, *partitions: int, version: int = 5, **more: Any
    ) -> None:
        topics = [{"name": self.name("t"), "partitions": committed(partitions or (0,))}]
        who = {
            "member_id": name,
            "generation_id": self.real_epoch(epoch),
            "group_instance_id": None,
        }
        body = self.group | self.producer | who | {"topics": topics} | more
        self.ask("admin", ApiKey.TXN_OFFSET_COMMIT, version, body)

    def end_transaction(self) -> None:
        self.ask("admin", ApiKey.END_TXN, 4, self.producer | {"committed": True})

    @property
    def group(self) -> Values:
        return {"group_id": self.group_id}

    def fetch_as(self, name: str | None, epoch: int) -> None:
        topics = [{"name": self.name("t"), "partition_indexes": [0, 1]}]
        who = {"member_id": name, "member_epoch": self.real_epoch(epoch), "topics": topics}
        body = {"groups": [self.group | who], "require_stable": False}
        self.ask("admin", ApiKey.OFFSET_FETCH, 9, body)

    def delete_offsets(self) -> None:
        rows = [{"name": self.name(t), "partitions": [{"partition_index": 0}]} for t in ("t", "u")]
        self.ask("admin", ApiKey.OFFSET_DELETE, 0, self.group | {"topics": rows})


def committed(partitions: Iterable[int]) -> list[Values]:
    return [
        {"partition_index": index, "committed_offset": 3, "committed_metadata": ""}
        for index in partitions
    ]


def members_come_and_go(s: ConsumerScript) -> None:
    s.look()
    s.enter("one", "t")
    s.look()
    s.live("one", 1)
    s.live("one", 1, topic_partitions=s.places(t=ALL))
    s.enter("two", "t")
    s.look()
    s.list()
    s.list(types_filter=["Consumer"], states_filter=["reconciling"])
    s.list(types_filter=["classic"])
    s.describe()
    s.describe(5)
    s.live("one", 1)
    s.look()
    s.live("one", 1, topic_partitions=s.places(t=ALL))
    s.live("two", 2)
    s.live("one", 1, topic_partitions=s.places(t=(0, 1)))
    s.look()
    s.live("two", 2)
    s.live("two", 2, topic_partitions=s.places(t=(2, 3)))
    s.look()
    s.live("two", -1)
    s.look()
    s.live("one", 2)
    s.live("two", 2)
    s.live("one", 3, rebalance_timeout_ms=8_000, topic_partitions=s.places(t=(0, 1)))
    s.live("one", -1)
    s.look()
    s.delete()
    s.look()


def three_members(s: ConsumerScript) -> None:
    """Epochs pass while one of them does not revoke."""
    s.enter("one", "t", "u", server_assignor="range", instance_id="1")
    s.enter("two", "t", "u", instance_id="2")
    s.live("one", 1, instance_id="1")
    s.enter("three", "t", instance_id="3")
    s.look()
    s.live("two", 2, instance_id="2")
    s.live("one", 1, topic_partitions=s.places(t=(0, 1), u=(0,)), instance_id="1")
    s.look()
    s.live("two", 3, instance_id="2")
    s.live("three", 3, instance_id="3")
    s.live("one", 3, topic_partitions=s.places(t=(0, 1), u=(0,)), instance_id="1")
    s.look()


def wrong_requests(s: ConsumerScript) -> None:
    for epoch in (-1, -2, 1):
        s.live("one", epoch, instance_id="i")
    s.live("", 0)
    s.live("", 0, 0)
    s.live("", 1, 0)
    s.live("", -1, 0)
    s.live("one", -2)
    s.live("one", -3)
    s.enter("one", "t", group_id="")
    s.enter("one", "t", instance_id="")
    s.enter("one", "t", rack_id="")
    s.enter("one", "t", rebalance_timeout_ms=-1)
    s.enter("one", "t", topic_partitions=None)
    s.enter("one", "t", topic_partitions=s.places(t=(0,)))
    s.enter("one")
    s.enter("one", "t", server_assignor="other")
    s.look()


def wrong_epochs(s: ConsumerScript) -> None:
    s.enter("one", "t")
    s.live("one", 7)
    s.live(NOBODY, 1)
    s.live(NOBODY, -1)
    s.enter("two", "t")
    s.live("one", 1)
    s.live("one", 1, topic_partitions=s.places(t=(0, 1)))
    s.live("one", 1)
    s.live("one", 1, topic_partitions=s.places(t=ALL))
    s.live("one", 1, topic_partitions=s.places(t=(0,)))
    s.live("two", 1)
    s.enter("two", "t")
    s.look()
    s.live("one", 2, subscribed_topic_names=[s.name("t"), s.name("u"), s.name("nowhere")])
    s.look()
    s.live("one", 3, subscribed_topic_names=[s.name("u")], topic_partitions=s.places(t=(0, 1)))
    s.look()
    s.enter("one", "t", rack_id="r")
    s.look()


def static_members(s: ConsumerScript) -> None:
    s.enter("one", "t", instance_id="i")
    s.enter("again", "t", instance_id="i")
    s.live("one", 1, instance_id="j")
    s.live("other", 1, instance_id="i")
    s.live("one", 1, instance_id="i")
    s.enter("two", "t", instance_id="k")
    s.live("one", -2, instance_id="i")
    s.look()
    s.live("one", 1, instance_id="i")
    s.enter("again", "t", instance_id="i")
    s.look()
    s.live("one", 2, instance_id="i")
    s.live("again", 2, instance_id="i", topic_partitions=s.places(t=(0, 1)))
    s.live("two", 2, instance_id="k")
    s.look()
    s.live("one", -1, instance_id="i")
    s.live("again", -1, instance_id="i")
    s.look()


def offsets(s: ConsumerScript) -> None:
    s.commit_as("one", 1)
    s.enter("one", "t")
    s.commit_as("one", 1, version=8)
    s.commit_as("one", 1, 0, 1)
    s.commit_as("one", 2)
    s.commit_as("one", 0)
    s.commit_as("one", -1)
    s.commit_as("", -1)
    s.commit_as(NOBODY, 1)
    s.fetch_as("one", 1)
    s.fetch_as("one", 2)
    s.fetch_as("one", 0)
    s.fetch_as(NOBODY, 1)
    s.fetch_as(None, -1)
    s.fetch_as(None, 1)
    s.delete()
    s.delete_offsets()
    s.enter("two", "t")
    s.live("one", 1)
    s.commit_as("one", 1, 3)
    s.live("one", 1, topic_partitions=s.places(t=(0, 1)))
    s.live("two", 2)
    s.commit_as("one", 1, 0)
    s.commit_as("one", 1, 3)
    s.commit_as("one", 1, 0, 3)
    s.commit_as("two", 1, 3)
    s.live("one", -1)
    s.live("two", -1)
    s.commit_as("one", 2)
    s.commit_as("", -1, 2)
    s.fetch_as(None, -1)
    s.delete_offsets()
    s.delete()
    s.fetch_as(None, -1)


def offsets_in_transactions(s: ConsumerScript) -> None:
    s.begin_transaction()
    s.commit_in_transaction("one", 1)
    s.enter("one", "t")
    for name, epoch in [("one", 1), ("one", 2), ("one", 0), ("one", -1), ("one", -2)]:
        s.commit_in_transaction(name, epoch)
    for epoch in (-1, 0, 1):
        s.commit_in_transaction("", epoch)
        s.commit_in_transaction(NOBODY, epoch)
        s.commit_in_transaction("", epoch, group_instance_id="i")
    s.commit_in_transaction("one", 1, group_instance_id="i")
    for version in (3, 4):
        s.commit_in_transaction("one", 1, version=version)
        s.commit_in_transaction("one", 7, version=version)
        s.commit_in_transaction(NOBODY, 1, version=version)
    s.commit_in_transaction("", -1, version=2)
    s.fetch_as("one", 1)
    s.enter("two", "t")
    s.live("one", 1)
    s.commit_in_transaction("one", 1, 3)
    s.live("one", 1, topic_partitions=s.places(t=(0, 1)))
    s.live("two", 2)
    s.commit_in_transaction("one", 2, 0)
    s.commit_in_transaction("one", 2, 3)
    s.commit_in_transaction("one", 1, 0)
    s.commit_in_transaction("one", 1, 3)
    s.commit_in_transaction("one", 1, 0, 3)
    s.commit_in_transaction("two", 1, 3)
    s.live("one", -1)
    s.commit_in_transaction("one", 2, 0)
    s.live("two", -1)
    s.commit_in_transaction("two", 2, 3)
    s.commit_in_transaction("", 0)
    s.commit_in_transaction("", -1)
    s.commit_in_transaction(NOBODY, -1)
    s.end_transaction()


def static_members_in_transactions(s: ConsumerScript) -> None:
    s.begin_transaction()
    s.enter("one", "t", instance_id="i")
    for instance_id in (None, "i", "j"):
        s.commit_in_transaction("one", 1, group_instance_id=instance_id)
        s.commit_in_transaction("other", 1, group_instance_id=instance_id)
        s.commit_in_transaction("", 1, group_instance_id=instance_id)
    s.live("one", -2, instance_id="i")
    s.look()
    for epoch in (-2, -1, 0, 1):
        s.commit_in_transaction("one", epoch, group_instance_id="i")
    s.enter("again", "t", instance_id="i")
    s.commit_in_transaction("one", 1, group_instance_id="i")
    s.commit_in_transaction("again", 1, group_instance_id="i")
    s.end_transaction()


def topics_change(s: ConsumerScript) -> None:
    answer = s.enter("one", "u", "v")
    s.look()
    s.create("v", 1)
    answer = s.await_assignment("one", answer)
    row = {"name": s.name("u"), "count": 3, "assignments": None}
    s.connection("admin").ask(
        ApiKey.CREATE_PARTITIONS, 3, {"topics": [row], "timeout_ms": 9_000, "validate_only": False}
    )
    s.await_assignment("one", answer)
    s.look()


def regular_expressions(s: ConsumerScript) -> None:
    pattern = s.name("[tv]")
    s.await_assignment("one", s.enter("one", subscribed_topic_regex=pattern))
    s.look()
    s.enter("two", subscribed_topic_regex=pattern)
    s.look()
    s.live("two", 3, subscribed_topic_regex="", subscribed_topic_names=[s.name("u")])
    s.live("one", 2)
    s.look()
    s.live("two", -1)
    s.live("one", -1)
    s.look()


SCRIPTS = [
    members_come_and_go,
    three_members,
    wrong_requests,
    wrong_epochs,
    static_members,
    offsets,
    offsets_in_transactions,
    static_members_in_transactions,
    topics_change,
    regular_expressions,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_each_step_is_answered_as_by_kafka(
    script: Callable[[ConsumerScript], None], broker: KafkaBroker
) -> None:
    check_answers(script, ConsumerScript, broker.connect)
