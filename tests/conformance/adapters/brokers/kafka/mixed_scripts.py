"""Scripts of groups whose members use both protocols, classic and KIP-848's."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from impl import ApiKey, ErrorCode
from impl.protocol.consumer_protocol import decode_assignment, read_version
from impl.protocol.errors import DecodeError
from impl.protocol.fields import topic_rows
from impl.protocol.state_records import encode_record
from tests.conformance.adapters.brokers.kafka.group_scripts import Values
from tests.conformance.adapters.brokers.kafka.test_consumer_groups import ConsumerScript

OWN_ID = re.compile(r"(?=.*[A-Z0-9])[A-Za-z0-9_-]{22}")
"""A member id that a coordinator of consumer groups makes."""

LIMIT_S = 30
PATIENT = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
"""No timer comes due, unless a script says so."""

NEXT_TO_LAST, LAST = "~1", "~2"
"""Behind all ids that a coordinator makes: `range` gives to members in the order of their ids."""

Owned = dict[str, tuple[int, ...]]
NOTHING: Owned = {}


class MixedScript(ConsumerScript):
    """Members that send JoinGroup and SyncGroup, and members that send heartbeats of KIP-848."""

    def name(self, topic: str) -> str:
        return f"mixed-{super().name(topic)}"

    def real_epoch(self, epoch: int) -> int:
        """A group that has been a classic one goes on with its generation."""
        return epoch

    def plain(self, value: Any) -> Any:
        """Without ids that differ; assignments in order."""
        if isinstance(value, str) and OWN_ID.fullmatch(value):
            return self.ids.setdefault(value, f"member {len(self.ids)}")
        if isinstance(value, str) and " " in value:
            for known, label in self.ids.items():
                value = value.replace(known, label)
            return value
        if isinstance(value, dict):
            value = {name: _read(name, each) for name, each in value.items()}
        return super().plain(value)

    def note(self, what: str, answer: Values) -> Values:
        return super().note(self.plain(what), answer)

    # ---- members of the classic protocol

    def subscription(self, topics: str, owned: Owned, version: int) -> bytes:
        rows = topic_rows(((self.name(t), i) for t, found in owned.items() for i in found), "topic")
        body = {"topics": [self.name(topic) for topic in topics], "owned_partitions": rows}
        return encode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", version, body)

    def send_come(
        self,
        name: str,
        member_id: str = "",
        *,
        topics: str = "t",
        owned: Owned = NOTHING,
        layout: int = 1,
        version: int = 9,
        **more: Any,
    ) -> None:
        """JoinGroup, with topics of one letter."""
        protocols = [{"name": "range", "metadata": self.subscription(topics, owned, layout)}]
        self.send_join(name, member_id, version, **{"protocols": protocols} | PATIENT | more)

    def enter(self, name: str, *topics: str, version: int = 1, **more: Any) -> Values:
        more = {"rebalance_timeout_ms": PATIENT["rebalance_timeout_ms"]} | more
        return super().enter(name, *topics, version=version, **more)

    def come(self, name: str, member_id: str = "", **more: Any) -> Values:
        self.send_come(name, member_id, **more)
        return self.receive(name)

    def get(self, name: str, joined: Values, version: int = 5, **more: Any) -> Values:
        """SyncGroup; a leader assigns all of `t` to itself, and nothing to others."""
        places = topic_rows(((self.name("t"), i) for i in range(4)), "topic")
        body = {"assigned_partitions": places}
        mine = encode_record("CONSUMER_PROTOCOL_ASSIGNMENT", 1, body)
        nothing = encode_record("CONSUMER_PROTOCOL_ASSIGNMENT", 1, {"assigned_partitions": []})
        rows = [
            {
                "member_id": row["member_id"],
                "assignment": mine if row["member_id"] == joined["member_id"] else nothing,
            }
            for row in joined["members"]
        ]
        return self.sync(name, joined, version, **{"assignments": rows} | more)

    def found(self, name: str, **more: Any) -> Values:
        """The first member of a classic group, which has all of `t`."""
        member_id = "" if "group_instance_id" in more else self.come(name, **more)["member_id"]
        joined = self.come(name, member_id, **more)
        instance_id = {"group_instance_id": more.get("group_instance_id")}
        self.get(name, joined, **instance_id)
        return joined

    def begin_mixed(self) -> tuple[Values, Values]:
        """One member of each protocol, with two partitions each: what they were answered last."""
        old = self.found("old")
        new = self.enter("new", "t", server_assignor="range")
        self.come("old", old["member_id"], owned={"t": (0, 1, 2, 3)})
        old = self.come("old", old["member_id"], owned={"t": (0, 1)})
        self.get("old", old)
        return old, self.live("new", new["member_epoch"])

    def until(self, is_true: Callable[[], Any]) -> None:
        """Ask again and again, for as long as no timer of these scripts lasts."""
        end_s = monotonic() + LIMIT_S
        while not is_true():
            assert monotonic() < end_s, "it does not come true"

    def await_members(self, count: int) -> None:
        """Until time has taken members away."""
        body = {"group_ids": [self.group_id], "include_authorized_operations": False}
        ask = self.connection("admin").ask

        def is_smaller() -> bool:
            [group] = ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body)["groups"]
            return group["error_code"] != ErrorCode.NONE or len(group["members"]) == count

        self.until(is_smaller)

    def await_rebalance(self, joined: Values) -> None:
        """Until a member is asked to join again, or is not known any more."""
        ask, body = self.connection("admin").ask, self.beat(joined)
        self.until(lambda: ask(ApiKey.HEARTBEAT, 4, body)["error_code"])

    def await_committed(self) -> None:
        """Until the markers of a transaction are written."""
        topics = [{"name": self.name("t"), "partition_indexes": [0]}]
        body = self.group | {"topics": topics, "require_stable": True}
        ask = self.connection("admin").ask

        def is_stable() -> bool:
            [row] = ask(ApiKey.OFFSET_FETCH, 7, body)["topics"]
            return row["partitions"][0]["error_code"] == ErrorCode.NONE

        self.until(is_stable)

    def see(self) -> None:
        """The group, as all that describe groups show it."""
        self.look()
        self.describe()
        self.list()


def _read(name: str, value: Any) -> Any:
    """An assignment in the order of its partitions."""
    if name not in ("assignment", "member_assignment") or not isinstance(value, bytes) or not value:
        return value
    with suppress(DecodeError):
        places, user_data = decode_assignment(value)
        return [read_version(value), sorted(places), user_data]
    return value


# ---- a classic group becomes a consumer group


def upgrade(s: MixedScript) -> None:
    old = s.found("old")
    s.see()
    new = s.enter("new", "t")
    s.see()
    s.list(types_filter=["consumer"])
    s.heartbeat("old", old)
    s.get("old", old)
    s.live("new", new["member_epoch"])
    old = s.come("old", old["member_id"], owned={"t": (0, 1, 2, 3)})
    s.look()
    s.get("old", old)
    s.heartbeat("old", old)
    s.live("new", new["member_epoch"])
    old = s.come("old", old["member_id"], owned={"t": (0, 1)})
    s.heartbeat("old", old)
    s.get("old", old)
    s.look()
    new = s.live("new", new["member_epoch"])
    s.live("new", new["member_epoch"], topic_partitions=s.places(t=(2, 3)))
    s.heartbeat("old", old)
    s.see()
    s.live("new", -1)
    s.see()
    s.heartbeat("old", old)
    old = s.come("old", old["member_id"])
    s.get("old", old)
    s.see()
    s.leave("old", (old["member_id"], None))
    s.see()
    s.enter("new", "t")
    s.see()


def upgrade_while_members_wait(s: MixedScript) -> None:
    """In SyncGroup, then in JoinGroup; one has its id alone."""
    i = {"group_instance_id": "i"}
    one = s.found("one", **i)
    two = s.come("two")["member_id"]
    s.send_come("two", two)
    s.await_rebalance(one)
    one = s.come("one", one["member_id"], **i)
    joined = s.receive("two")
    s.send_sync("two", joined)
    pending = s.come("three")["member_id"]
    s.enter("new", "t", server_assignor="range")
    s.receive("two")
    s.look()
    s.heartbeat("one", one, **i)
    s.get("one", one, **i)
    s.heartbeat("two", joined)
    s.get("two", joined)
    s.come("three", pending)
    s.leave("one", (one["member_id"], "i"), (two, None), (pending, None))
    s.look()


def upgrade_while_members_join(s: MixedScript) -> None:
    one = s.found("one", group_instance_id="i")
    two = s.come("two")["member_id"]
    s.send_come("two", two)
    s.await_rebalance(one)
    s.enter("new", "t", server_assignor="range")
    s.receive("two")
    s.look()
    s.leave("one", (one["member_id"], "i"))
    s.come("two", two)
    s.look()


def refused_upgrades(s: MixedScript) -> None:
    """What is no group of consumers, what cannot be read, what would be lost."""
    s.come("new", protocol_type="connect", group_instance_id="i")
    s.enter("new", "t")
    s.leave("new", ("", "i"))
    joined = s.come("new", group_instance_id="i")
    body = {"assigned_partitions": [], "user_data": b"u"}
    for assignment in (b"\0\0\0", encode_record("CONSUMER_PROTOCOL_ASSIGNMENT", 1, body)):
        rows = [{"member_id": joined["member_id"], "assignment": assignment}]
        s.get("new", joined, group_instance_id="i", assignments=rows)
        s.enter("new", "t")
        joined = s.come("new", joined["member_id"], group_instance_id="i")
    s.see()
    s.get("new", joined, group_instance_id="i")
    s.enter("new", "t")
    s.look()


# ---- members of both kinds


def classic_members_join(s: MixedScript) -> None:
    new = s.enter(LAST, "t", server_assignor="range")
    old = s.come("old")
    s.come("old", old["member_id"], topics="", owned={"t": (3,)}, layout=3)
    s.heartbeat("old", s.come("old", old["member_id"], layout=0))
    old = s.come("old", old["member_id"], topics="tu", layout=7)
    s.get("old", old, 4)
    s.live(LAST, new["member_epoch"])
    new = s.live(LAST, new["member_epoch"], topic_partitions=s.places(t=(0, 1)))
    s.heartbeat("old", old)
    old = s.come("old", old["member_id"], topics="tu")
    s.get("old", old)
    s.heartbeat("old", old)
    s.come("named", NEXT_TO_LAST, version=3)
    s.look()
    s.heartbeat("old", old)
    s.leave("old", (NEXT_TO_LAST, None))
    s.heartbeat("old", old)
    s.look()
    s.live(LAST, new["member_epoch"])
    s.heartbeat("old", old)
    s.look()


def refusals(s: MixedScript) -> None:
    old, _ = s.begin_mixed()
    nobody = old | {"member_id": "nobody"}
    new = old | {"member_id": "new"}
    for wrong in (nobody, new, old | {"generation_id": 1}, old | {"generation_id": 9}):
        s.heartbeat("old", wrong)
        s.get("old", wrong)
        s.heartbeat("old", wrong, group_instance_id="i")
        s.get("old", wrong, group_instance_id="i")
    s.get("old", old, protocol_type="connect")
    s.get("old", old, protocol_name="other")
    s.get("old", old, 4, protocol_name=None, protocol_type=None)
    s.get("old", old, protocol_name=None)
    s.come("old", protocol_type="connect")
    s.come("old", protocols=[])
    s.come("old", protocols=[{"name": "other", "metadata": b""}])
    s.come("old", protocols=[{"name": "range", "metadata": b""}], version=3)
    s.come("old", session_timeout_ms=1)
    s.come("old", "nobody", group_instance_id="i")
    s.leave("old", ("nobody", None), ("", "i"), ("new", "i"), (old["member_id"], "i"))
    s.leave("old", ("nobody", None), version=2)
    s.live("nobody", 2)
    s.live(old["member_id"], 7)
    s.look()


def members_change_their_protocol(s: MixedScript) -> None:
    """With the same member id; the last one makes the group a classic one only by leaving."""
    old, new = s.begin_mixed()
    s.enter(old["member_id"], "t")
    s.look()
    s.heartbeat("old", old)
    s.come("new", "new", owned={"t": (2, 3)})
    s.look()
    s.live("new", new["member_epoch"])
    s.come("old", old["member_id"], owned={"t": (0, 1)})
    s.see()
    s.come("three", "three")
    s.look()
    s.leave("three", ("three", None))
    s.see()


def members_leave(s: MixedScript) -> None:
    """By LeaveGroup those of the other protocol, too."""
    old, _ = s.begin_mixed()
    s.come("static", group_instance_id="s")
    s.enter("other", "t", instance_id="o")
    s.leave("old", ("new", None), ("", "o"), ("new", None))
    s.see()
    s.heartbeat("old", old)
    s.leave("old", ("", "s"), version=3)
    s.see()


# ---- a consumer group becomes a classic group


def downgrade_by_time(s: MixedScript) -> None:
    """The last one that is no classic member does not revoke in time."""
    new = s.enter("new", "t", rebalance_timeout_ms=500)
    old = s.come("old", "old", version=3, layout=2)
    s.get("old", old)
    s.live("new", new["member_epoch"])
    s.await_rebalance(old)
    s.see()
    s.heartbeat("old", old)
    joined = s.come("old", "old")
    s.get("old", joined)
    s.see()


def downgrade_with_two(s: MixedScript) -> None:
    """What they are to have is what they are assigned; one does not come back."""
    s.enter("new", "t", "u", server_assignor="range", instance_id="n")
    for name in ("a", "b"):
        s.get(name, s.come(name, name, version=3, topics="tu", group_instance_id=None))
    s.look()
    s.live("new", -1, instance_id="n")
    s.see()
    for name in ("a", "b"):
        s.heartbeat(name, {"generation_id": 4, "member_id": name})
        s.heartbeat(name, {"generation_id": 5, "member_id": name})
    s.send_come("a", "a", topics="tu")
    s.leave("b", ("b", None))
    s.get("a", s.receive("a"))
    s.see()


def fenced_classic_members(s: MixedScript) -> None:
    """They do not ask for their assignment, do not join again, or do not send heartbeats."""
    s.enter("new", "t")
    s.come("old", "old", version=3, rebalance_timeout_ms=500)
    s.await_members(1)
    s.look()
    old = s.come("old", "old", version=3, rebalance_timeout_ms=2_000, owned={})
    s.get("old", old)
    s.enter("other", "t")
    s.heartbeat("old", old)
    s.await_members(2)
    s.look()
    s.live("other", -1)
    old = s.come("old", "old", version=3, session_timeout_ms=2_000)
    s.get("old", old)
    s.await_members(1)
    s.look()


# ---- static members


def static_members_change_their_protocol(s: MixedScript) -> None:
    i = {"group_instance_id": "i"}
    old = s.found("old", **i)
    new = s.enter("new", "t", instance_id="i")
    s.see()
    s.heartbeat("old", old, **i)
    s.heartbeat("old", old)
    s.get("old", old, **i)
    s.commit_as(old["member_id"], old["generation_id"])
    s.live("new", new["member_epoch"], instance_id="i", topic_partitions=s.places(t=(0, 1, 2, 3)))
    s.enter("again", "t", instance_id="i")
    back = s.come("old", **i)
    s.see()
    s.live("new", new["member_epoch"], instance_id="i")
    s.get("old", back, **i)
    s.heartbeat("old", back, **i)
    s.see()
    s.enter("last", "t", instance_id="i")
    s.see()


def a_static_member_joins_with_other_topics(s: MixedScript) -> None:
    """The group that it makes a classic one rebalances at once."""
    i = {"group_instance_id": "i"}
    s.enter("new", "t", instance_id="i")
    old = s.come("old", topics="tu", **i)
    s.see()
    s.get("old", old, **i)
    s.heartbeat("old", old, **i)
    old = s.come("old", old["member_id"], topics="tu", **i)
    s.get("old", old, **i)
    s.see()


def a_static_member_is_not_the_last_one(s: MixedScript) -> None:
    i = {"group_instance_id": "i"}
    s.enter("other", "t")
    new = s.enter("new", "t", instance_id="i")
    s.look()
    old = s.come("old", **i)
    s.look()
    s.get("old", old, **i)
    s.heartbeat("old", old, **i)
    s.live("new", new["member_epoch"], instance_id="i")
    s.live("other", 2, topic_partitions=s.places(t=(0, 1)))
    s.heartbeat("old", old, **i)
    again = s.come("old", old["member_id"], **i)
    s.get("old", again, **i)
    third = s.come("old", **i)
    s.heartbeat("old", again, **i)
    s.get("old", third, **i)
    s.look()
    s.live("other", -1)
    s.see()


def a_static_member_is_away(s: MixedScript) -> None:
    """One of the other protocol takes the place that it has left."""
    i = {"group_instance_id": "i"}
    s.get("old", s.found("old"))
    new = s.enter("new", "t", instance_id="i")
    s.live("new", -2, instance_id="i")
    s.look()
    joined = s.come("static", **i)
    s.see()
    s.get("static", joined, **i)
    s.live("new", new["member_epoch"], instance_id="i")


# ---- offsets


def offsets(s: MixedScript) -> None:
    old, new = s.begin_mixed()
    epoch, me = old["generation_id"], old["member_id"]
    for version in (8, 9):
        for told in (epoch, epoch - 1, epoch + 1, 0, -1):
            s.commit_as(me, told, 0, version=version)
            s.commit_as(me, told, 3, version=version)
            s.commit_as("new", told, 3, version=version)
    s.commit_as("nobody", epoch)
    s.commit_as("", -1)
    for name in (me, "new", None, "nobody"):
        for told in (epoch, epoch - 1, -1):
            s.fetch_as(name, told)
    s.delete_offsets()
    s.delete()
    s.live("new", -1)
    s.commit_as(me, epoch, 0)
    s.commit_as("new", new["member_epoch"], 0)
    s.fetch_as(None, -1)
    old = s.come("old", me)
    s.commit_as(me, old["generation_id"], 1)
    s.get("old", old)
    s.commit_as(me, old["generation_id"], 1)
    s.commit_as(me, epoch, 1)
    s.enter("new", "t")
    s.commit_as(me, old["generation_id"], 2)
    s.commit_as("new", old["generation_id"] + 1, 2)
    s.fetch_as(None, -1)


def offsets_in_transactions(s: MixedScript) -> None:
    s.begin_transaction()
    old, _ = s.begin_mixed()
    epoch, me = old["generation_id"], old["member_id"]
    for told in (epoch, epoch - 1, epoch + 1, 0, -1):
        for name in (me, "new", "nobody", ""):
            s.commit_in_transaction(name, told, 0)
            s.commit_in_transaction(name, told, 3, version=3)
    s.commit_in_transaction(me, epoch, group_instance_id="i")
    s.live("new", -1)
    s.commit_in_transaction(me, epoch, 1)
    s.commit_in_transaction(me, epoch + 1, 1)
    s.commit_in_transaction("new", epoch, 1)
    s.enter("new", "t")
    s.commit_in_transaction(me, epoch, 2)
    s.end_transaction()
    s.await_committed()
    s.fetch_as(None, -1)


def regular_expressions(s: MixedScript) -> None:
    """A classic member takes the place of one that reads an expression."""
    pattern = s.name("[tu]")
    i = {"instance_id": "i"}
    new = s.enter("new", subscribed_topic_regex=pattern, **i)
    new = s.await_assignment("new", new, **i)
    s.enter("other", "t", server_assignor="range")
    s.live("new", new["member_epoch"], instance_id="i", topic_partitions=[])
    s.look()
    old = s.come("old", topics="u", group_instance_id="i")
    s.look()
    s.get("old", old, group_instance_id="i")
    s.heartbeat("old", old, group_instance_id="i")
    s.look()


def policies(s: MixedScript) -> None:
    """What `group.consumer.migration.policy` is about: each step is another for one of them."""
    old = s.found("old")
    s.enter("new", "t")
    s.see()
    s.leave("old", (old["member_id"], None))
    s.live("new", -1)
    s.enter("new", "t")
    old = s.come("old", "old", version=3)
    s.see()
    s.live("new", -1)
    s.see()
    s.heartbeat("old", old)
    s.leave("old", ("old", None))
    s.enter("new", "t", instance_id="i")
    s.come("old", group_instance_id="i")
    s.see()


MIXED_SCRIPTS = [
    upgrade,
    upgrade_while_members_wait,
    upgrade_while_members_join,
    refused_upgrades,
    classic_members_join,
    refusals,
    members_change_their_protocol,
    members_leave,
    downgrade_by_time,
    downgrade_with_two,
    fenced_classic_members,
    static_members_change_their_protocol,
    a_static_member_joins_with_other_topics,
    a_static_member_is_not_the_last_one,
    a_static_member_is_away,
    offsets,
    offsets_in_transactions,
    regular_expressions,
    policies,
]
