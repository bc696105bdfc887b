"""The observer, scripts and probes, without a broker."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.exchange import Session, TraceEnd
from conformance.adapters.brokers.idempotent import observer as wire_observer
from conformance.adapters.brokers.idempotent import testbed_of_leaders
from conformance.adapters.brokers.idempotent.deliveries import (
    CannotPlay,
    Delivery,
    LeaderScriptWriter,
)
from conformance.adapters.brokers.idempotent.leader_probes import PROBES, heard_producers, stored
from conformance.adapters.brokers.idempotent.leader_session import leader_session
from conformance.adapters.brokers.idempotent.observer import (
    ObservedAnswer,
    Observer,
    ProducerState,
    Undecided,
    producer_state,
)
from conformance.judging.judge import NotAllowed
from conformance.judging.plan import Plan, PreparedPlan, configuration, prepare, scope_text
from model.idempotent.configuration import Configuration
from model.idempotent.leader import expire_producer, restart
from model.idempotent.messages import Batch, Error
from model.idempotent.scopes import begun_leader
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of

LAST = 2**31 - 1


def a_configuration(scope: str = "idempotent-default") -> Configuration:
    k: Configuration = configuration_of(load_model("idempotent"), scope, "4.3.1")
    return k


def batch(sequence: int, count: int = 1, epoch: int = 0) -> Batch:
    return Batch(0, epoch, sequence, count, 0, sequence)


def after(observer: Observer, *batches: Batch) -> wire_observer.LeaderSet:
    states = observer.empty
    for one in batches:
        ((_, states),) = observer.allowed(states, one).items()
    return states


# Sets of states


def test_a_deterministic_leader_is_one_state():
    observer = Observer(a_configuration())
    states = after(observer, batch(0), batch(1))
    assert observer.allowed(states, batch(0)) == {ObservedAnswer(Error.NONE, 0, 0): states}
    assert observer.allowed(states, batch(0)) is observer.allowed(states, batch(0))


def test_an_answer_tells_states_apart():
    """One has restarted and remembers the last batch only. Both know the newest sequence."""
    observer = Observer(a_configuration())
    (one,) = after(observer, batch(0), batch(1)).leaders
    other = restart(observer.k, one)
    both = observer.of([one, other])
    assert observer.of([other, one]) is both
    assert observer.that(both, lambda leader: producer_state(leader, 0) == (0, 1)) is both
    assert observer.that(both, lambda leader: producer_state(leader, 0) == (0, 0)) is None
    allowed = observer.allowed(both, batch(0))
    assert {answer: states.leaders for answer, states in allowed.items()} == {
        ObservedAnswer(Error.NONE, 0, 0): (one,),
        ObservedAnswer(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0): (other,),
    }
    ((answer, states),) = observer.allowed(both, batch(1)).items()
    assert (answer, states) == (ObservedAnswer(Error.NONE, 1, 0), both)


def test_too_many_states_are_undecided(monkeypatch):
    observer = Observer(a_configuration())
    one, other = (after(observer, batch(first)).leaders[0] for first in (0, 7))
    monkeypatch.setattr(wire_observer, "MAX_STATES", 1)
    with pytest.raises(Undecided, match="2 states"):
        observer.of([one, other])


def test_a_full_memory_begins_again(monkeypatch):
    monkeypatch.setattr(wire_observer, "MAX_SETS", 3)
    observer = Observer(a_configuration())
    batches = [batch(sequence) for sequence in range(20)]
    states = after(observer, *batches)
    assert producer_state(states.leaders[0], 0) == ProducerState(0, 19)
    assert after(observer, *batches).leaders == states.leaders


def test_an_unknown_producer_has_no_state():
    assert producer_state(Observer(a_configuration()).empty.leaders[0], 0) == ProducerState(-1, -1)


# Scripts


def writer_of(k: Configuration) -> LeaderScriptWriter:
    return LeaderScriptWriter(k, Observer(k))


def prepared_for(tmp_path: Path, scope: str) -> PreparedPlan:
    plan = Plan(faults="connections", scope=scope, traces=200)
    return prepare(plan, tmp_path)


@pytest.mark.parametrize("scope", ["idempotent-default", "idempotent-partitions"])
def test_a_script_has_what_the_leaders_of_the_model_receive(tmp_path, scope):
    """Played into fresh leaders, it gives the logs that the trace gives."""
    prepared = prepared_for(tmp_path, scope)
    k = configuration(prepared.plan)
    observer, writer, stepper = Observer(k), writer_of(k), Stepper(load_model("idempotent"), k)
    for number in range(prepared.count):
        steps = prepared.trace(number)
        world = stepper.initial()
        for instance in steps:
            world = stepper.apply(*instance, world)
        states = [observer.empty] * k.bounds.partitions
        for one in writer.script(steps).heard:
            assert isinstance(one, Delivery)
            at = one.partition
            states[at] = observer.allowed(states[at], one.batch)[one.answer]
        # The sequences of these scopes are the wire's own: nothing has to be mapped.
        assert [s.leaders[0] for s in states] == list(world.leaders.values())


def test_a_scope_near_the_wrap_begins_with_a_batch_there(tmp_path):
    prepared = prepared_for(tmp_path, "idempotent-wrap")
    k = configuration(prepared.plan)
    observer, writer = Observer(k), writer_of(k)
    sequences = set()
    for number in range(prepared.count):
        begun, *rest = writer.script(prepared.trace(number)).heard
        first = LAST - (k.bounds.max_sequence - k.bounds.first_sequence)
        assert begun == (0, 0, Batch(0, 0, first, 1, 0, 0), ObservedAnswer(Error.NONE, 0, 0), 1)
        sequences |= {delivery.batch.base_sequence for delivery in rest}
        states = after(observer, begun.batch)
        assert states.leaders == (begun_leader(observer.k),)
    assert {LAST, 0, 1} & sequences
    assert all(sequence < 16 or sequence > first for sequence in sequences)


def test_a_refused_request_does_not_reach_the_leader():
    k = a_configuration()
    one = (("producer", 0), ("partition", 0))
    sent = ("client_sends", one)
    refused = (sent, ("request_is_refused", one), ("answer_arrives", one))
    again = (("client_retries", one), ("request_arrives", one))
    writer = writer_of(k)
    assert writer.script(refused).heard == ()
    (delivery,) = writer.script(refused + again).heard
    assert (delivery.step, delivery.batch) == (5, batch(0))
    assert writer.script(refused + again).instance(5) == again[1]


def test_what_cannot_be_played_is_refused():
    with pytest.raises(CannotPlay, match="choose a scope with one"):
        writer_of(a_configuration("idempotent-failover"))
    writer = writer_of(a_configuration())
    with pytest.raises(CannotPlay, match="leader_restarts needs a broker that is stopped"):
        writer.script((("leader_restarts", (("partition", 0),)),))
    with pytest.raises(NotAllowed):
        writer.script((("request_arrives", (("producer", 0), ("partition", 0))),))


def test_the_scope_over_a_wire_keeps_refusals():
    plan = Plan(faults="connections")
    assert scope_text(plan) == "idempotent-default/restarts=0"
    nothing = replace(plan, faults="none")
    assert scope_text(nothing).endswith("/breaks=0/refusals=0/restarts=0")


# Probes


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 1), (2,) * 7])
def test_probes_end_with_each_answer_once_at_least(sizes):
    """Whatever is stored: six batches of the epoch, then the next epoch and its zombies."""
    observer = Observer(a_configuration())
    states, sequence = observer.empty, 0
    for size in sizes:
        ((_, states),) = observer.allowed(states, batch(sequence, size)).items()
        sequence += size
    answers: dict[str, list[int]] = {}
    for name, probe in PROBES.items():
        leader = states.leaders[0]
        for one in probe(observer.k, leader, 0):
            ((answer, states),) = observer.allowed(states, one).items()
            answers.setdefault(name, []).append(answer.error)
    fine, out_of_order, old = 0, 45, 47
    kept = min(len(sizes), 5)
    assert answers["again"][-kept:] == [fine] * kept
    assert answers["gap"] == answers["overlap"] == [out_of_order]
    assert set(answers["next"]) == {fine}
    assert answers["window"] == [out_of_order, *[fine] * 5]
    assert answers["epoch_begins"] == [out_of_order, fine]
    assert answers["old_epoch"] == [old, old]
    assert answers["new_epoch"] == [fine]
    of_old_epoch = [b for b in stored(states.leaders[0], 0) if b.producer_epoch == 0]
    assert len(of_old_epoch) == max(6, len(sizes) + 1)


def test_who_was_never_heard_is_not_probed_and_who_is_forgotten_is():
    observer = Observer(a_configuration())
    assert heard_producers(observer.k, observer.empty.leaders[0]) == []
    (known,) = after(observer, batch(9)).leaders
    forgotten = expire_producer(observer.k, known, 0)
    assert heard_producers(observer.k, known) == heard_producers(observer.k, forgotten) == [0]


# Undecided


def test_a_session_with_too_many_states_is_undecided(monkeypatch):
    k = a_configuration()
    one = (("producer", 0), ("partition", 0))
    script = writer_of(k).script((("client_sends", one), ("request_arrives", one)))
    observer = Observer(k)
    monkeypatch.setattr(wire_observer, "MAX_STATES", 0)
    with pytest.raises(StopIteration) as ended:
        next(leader_session(observer, script, Mock(), describes=True))
    assert ended.value.value == TraceEnd(is_undecided=True)


def test_undecided_traces_are_counted_apart(serve, tmp_path, monkeypatch):
    def undecided(*_: object, **__: object) -> Session:
        yield from ()
        return TraceEnd(is_undecided=True)

    monkeypatch.setattr(testbed_of_leaders, "leader_session", undecided)
    out = tmp_path / "out"
    assert main(["run", "--system", serve().url, "--traces", "5", "--out", str(out)]) == 3
    report = json.loads((out / "report.json").read_text())
    assert (report["undecided"], report["traces"], report["verdict"]) == (5, 0, "undecided")
