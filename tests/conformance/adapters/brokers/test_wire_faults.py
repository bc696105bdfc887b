"""What is done to brokers while traces are on their way, and what it shows, without Java.

The broker is `impl`'s node behind a socket; stopping it is what the faults here say it is.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from conformance.adapters.brokers.idempotent import started_brokers
from conformance.adapters.brokers.idempotent.deliveries import (
    ISOLATE,
    CannotPlay,
    Delivery,
    LeaderEvent,
    LeaderScript,
    LeaderScriptWriter,
    playable,
)
from conformance.adapters.brokers.idempotent.observer import Observer
from conformance.adapters.brokers.idempotent.started_brokers import TwoReplicas, means_at_one
from conformance.adapters.brokers.idempotent.testbed_of_leaders import leaders_backend
from conformance.adapters.brokers.idempotent.wire_messages import topic_configs
from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.listening_broker import ListeningBroker, NoBroker
from conformance.generate.faults import CLIENTS, Means
from conformance.judging.backend import TraceRange
from conformance.judging.plan import Plan, configuration, prepare
from conformance.judging.rows import found_in
from conformance.verbs.over_wire import broker_of, left_out, means_of, target_at_brokers
from impl import PartitionLeader
from impl.partition.leader import DeleteOutcome
from model.idempotent.configuration import Configuration
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of

AT_ONE = means_at_one(find_release("4.3.1"))


# A broker to which something can be done


def leaders_of(fake: Any) -> Iterator[PartitionLeader]:
    for topic in fake.node.topics:
        yield from topic.partitions


def restarted(leader: PartitionLeader) -> PartitionLeader:
    """From its log, and the snapshot that is taken at the log's end."""
    return PartitionLeader.restart(
        [b"".join(batch.data for batch in leader.batches)],
        {leader.log_end_offset: leader.snapshot()},
        leader_epoch=leader.leader_epoch + 1,
        high_watermark=leader.high_watermark,
        log_start_offset=leader.log_start_offset,
        now_ms=time.time_ns() // 1_000_000,
    )


def stops(leader: PartitionLeader) -> None:
    leader.log = restarted(leader).log


def keeps_all(leader: PartitionLeader) -> None:
    """As if it had not stopped."""


def forgets_all(leader: PartitionLeader) -> None:
    leader.log.producer_states.remove_expired(2**62)


class FakeStops(ListeningBroker):
    """The broker's leaders, each changed by a fault as `how` says."""

    means = AT_ONE

    def __init__(self, fake: Any, how: dict[str, Callable[[PartitionLeader], None]]) -> None:
        super().__init__(("127.0.0.1", fake.port))
        self.fake = fake
        self.how = how
        self.done: list[str] = []

    def inject(self, fault: str) -> None:
        self.done.append(fault)
        for leader in leaders_of(self.fake):
            self.how[fault](leader)


HONEST = {"restart": stops, "recover": stops, "expire_producer": forgets_all}


def judged(fake: Any, folder: Path, scope: str, **planted: Any) -> tuple[Any, FakeStops]:
    """What some traces of the scope show, and what was done to the broker."""
    broker = FakeStops(fake, HONEST | planted)
    plan = Plan(scope=scope, traces=40)
    backend = leaders_backend(prepare(plan, folder), broker)
    with closing(backend):
        rows = [row for row in backend.judge([TraceRange(0, 20), TraceRange(20, 40)]) if row]
    return found_in(rows).summary, broker


@pytest.mark.parametrize(
    ("scope", "fault"),
    [
        ("idempotent-restart", "restart"),
        ("idempotent-deletion", "recover"),
        ("idempotent-expiry", "expire_producer"),
    ],
)
def test_traces_share_faults_and_a_broker_without_a_bug_conforms(serve, tmp_path, scope, fault):
    found, nodes = judged(serve(), tmp_path, scope)
    assert (found.traces, found.divergences) == (40, 0)
    assert fault in nodes.done
    assert len(nodes.done) < 12


@pytest.mark.parametrize(
    ("scope", "fault", "planted"),
    [
        ("idempotent-restart", "restart", keeps_all),
        ("idempotent-restart", "restart", forgets_all),
        ("idempotent-expiry", "expire_producer", keeps_all),
    ],
)
def test_a_broker_that_remembers_otherwise_is_found(serve, tmp_path, scope, fault, planted):
    found, _ = judged(serve(), tmp_path, scope, **{fault: planted})
    assert found.divergences > 0


def test_deleted_records_that_stay_are_found(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(PartitionLeader, "delete_records", lambda *_: DeleteOutcome(0, 0))
    found, _ = judged(serve(), tmp_path, "idempotent-deletion")
    assert {signature.rule for signature in found.findings} >= {"records_are_deleted"}


# Scripts


def writer_of(scope: str, means: Means) -> LeaderScriptWriter:
    k: Configuration = configuration_of(load_model("idempotent"), scope, "4.3.1")
    return LeaderScriptWriter(k, Observer(k), means)


ONE = (("producer", 0), ("partition", 0))
SENT = (("client_sends", ONE), ("request_arrives", ONE))
HERE = (("partition", 0),)


def fails_over(kept: int) -> tuple[str, tuple[tuple[str, int], ...]]:
    return "leader_fails_over", (("partition", 0), ("kept", kept))


def told(script: LeaderScript) -> list[str]:
    return [one.rule if isinstance(one, LeaderEvent) else "batch" for one in script.heard]


def test_what_the_next_leader_lacks_comes_when_its_follower_is_isolated():
    writer = writer_of("idempotent-failover", TwoReplicas.means)
    before = (("client_sends", ONE), *SENT[:1], *(("request_arrives", ONE),))
    caught_up = (("high_watermark_advances", HERE), ("answer_arrives", ONE))
    arrives = (("request_arrives", ONE),)
    both = (*before, *caught_up, *arrives)
    lost = writer.script((*both, fails_over(1)))
    assert told(lost) == ["batch", "advance_high_watermark", ISOLATE, "batch", "fail_over"]
    kept = writer.script((*both, fails_over(2)))
    assert told(kept) == ["batch", "advance_high_watermark", "batch", ISOLATE, "fail_over"]
    assert lost.faults == (ISOLATE, "fail_over")


def test_a_second_failover_and_a_stop_behind_an_expiry_are_not_played():
    one, again = ("leader_fails_over", ()), ("leader_fails_over_uncleanly", ())
    expiry, stop = ("producer_id_expires", ()), ("leader_restarts", ())
    assert playable((one, stop, again, stop)) == (one, stop)
    assert playable((stop, expiry, one, stop)) == (stop, expiry, one)
    assert playable((one, expiry)) == (one, expiry)


def test_an_error_that_comes_late_is_the_networks():
    writer = writer_of("idempotent-late-error", CLIENTS)
    steps = (SENT[0], ("request_outlives_replicas", (*ONE, ("timed_out", 1))))
    (one,) = writer.script(steps).heard
    assert isinstance(one, Delivery)
    assert one.answer.error == 0


def test_what_nobody_can_do_is_refused():
    stop = ("leader_restarts", HERE)
    with pytest.raises(CannotPlay, match="choose a scope with one partition"):
        writer_of("idempotent-partitions", AT_ONE).script((stop,))
    with pytest.raises(CannotPlay, match="step 1: leader_restarts needs a broker that is stopped"):
        writer_of("idempotent-restart", CLIENTS).script((stop,))
    with pytest.raises(CannotPlay, match="one replica; leave --nodes out"):
        writer_of("idempotent-default", TwoReplicas.means)
    with pytest.raises(CannotPlay, match="or more brokers of a release"):
        writer_of("idempotent-failover", AT_ONE)


def test_a_scope_that_begins_in_the_middle_is_not_for_leaders_that_take_0_alone():
    k: Configuration = configuration_of(load_model("idempotent"), "idempotent-wrap", "2.4.1")
    with pytest.raises(CannotPlay, match=r"a leader of 2\.4\.1 takes 0 alone"):
        LeaderScriptWriter(k, Observer(k))


def test_faults_that_a_broker_cannot_have_are_left_out_and_named():
    plan = Plan(system="kafka", faults="nodes", scope="idempotent-trouble", variant="2.8.2")
    one = argparse.Namespace(system="kafka", kafka="2.8.2", nodes=None)
    assert left_out(plan, means_of(plan, one)) == {
        "expiries": "expiries: producer_id_expires needs an expiration time that is changed while a"
        " broker runs"
    }
    target = target_at_brokers(plan, one, means_of(plan, one), Mock())
    assert target.traces.scope == "idempotent-trouble/expiries=0"
    assert left_out(replace(plan, faults="connections"), means_of(plan, one)) == {}
    newer = argparse.Namespace(kafka="3.9.2", nodes=1)
    assert left_out(plan, means_of(plan, newer)) == {}
    several = argparse.Namespace(kafka="3.9.2", nodes=3)
    assert set(left_out(plan, means_of(plan, several))) == {
        "restarts",
        "crashes",
        "expiries",
        "deletions",
    }


@pytest.mark.parametrize(
    ("faults", "session"), [("connections", "20000"), ("none", "20000"), ("nodes", None)]
)
def test_a_broker_that_nobody_kills_keeps_its_session_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, faults: str, session: str | None
):
    """With two seconds 4.1.2 was fenced under load, and 185 traces ended in NOT_LEADER."""
    cluster = Mock(**{"return_value.start.side_effect": BrokerFailed("not here")})
    monkeypatch.setattr(started_brokers, "KafkaCluster", cluster)
    plan = Plan(system="kafka", faults=faults, scope="idempotent-default")
    with pytest.raises(NoBroker), broker_of(plan, argparse.Namespace(kafka="4.1.2", nodes=None)):
        pass
    assert cluster.call_args.kwargs["properties"].get("broker.session.timeout.ms") == session


def test_a_topic_takes_no_larger_batch_than_the_scope_says():
    split: Configuration = configuration_of(load_model("idempotent"), "idempotent-split", "4.3.1")
    plan = Plan(scope="idempotent-default")
    assert list(topic_configs(split)) == ["max.message.bytes"]
    assert topic_configs(configuration(plan)) == {}
