"""Client core and leader cores over connections that break: what was promised is in the log.

The network is a list of `Wire`s, one a node: requests and answers in order within one connection;
when it breaks, answers are lost and requests on their way arrive later, once, or never.
"""

from collections import deque
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from impl.partition.log_config import LogConfig
from impl.producer import Disconnect
from impl.protocol.errors import ErrorCode
from tests.impl.producer.driver import Driver, Wire, batches_of, refusal

pytestmark = pytest.mark.slow  # thousands of generated steps

NODES = (1, 2)
PARTITIONS = (0, 1)
MOST_POLLS = 400


class Cluster(Driver):
    """A client and the wires to its nodes; a request to a node that does not lead is refused."""

    def __init__(self, **config):
        self.leader_of = {("t", partition): 1 for partition in PARTITIONS}
        super().__init__(self.leader_of, **config)
        self.wires = {node: Wire() for node in NODES}
        self.sent = {partition: [] for partition in PARTITIONS}
        self.refusals = deque()

    def produce(self, partition, count):
        for _ in range(count):
            handle = self.append(partition=partition)
            self.sent[partition].append((b"r%d" % (self.appended - 1), handle))

    def turn(self):
        """One poll; its requests go onto the wires."""
        for effect in self.poll():
            if isinstance(effect, Disconnect):
                self.wires[effect.node_id].break_off()
            else:
                self.wires[effect.node_id].forward.append(effect)

    def arrive(self, request):
        """A request reaches its node: what it answers."""
        wrong_node = [tp for tp in batches_of(request) if self.leader_of[tp] != request.node_id]
        if wrong_node:
            return refusal(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        error = self.refusals.popleft() if self.refusals else ErrorCode.NONE
        if error is ErrorCode.NONE:
            return self.deliver(request)
        if error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self.deliver(request)
        return refusal(request, error)

    def deliver_next(self, node):
        wire = self.wires[node]
        if wire.forward:
            request = wire.forward.popleft()
            wire.backward.append((request, self.arrive(request)))

    def answer_next(self, node):
        wire = self.wires[node]
        if wire.backward:
            self.receive(*wire.backward.popleft())

    def deliver_late(self, node):
        """The oldest request of a broken connection arrives; its answer is lost."""
        wire = self.wires[node]
        if wire.late:
            self.arrive(wire.late.popleft())

    def break_off(self, node):
        self.wires[node].break_off()
        self.lose(node)

    def move(self, partition, node):
        """The old leader's machine stops: its connection ends with its leadership."""
        self.break_off(self.leader_of["t", partition])
        self.leader_of["t", partition] = node
        self.core.update_metadata(self.leader_of)

    def settle(self):
        """No more faults: until every record has an outcome."""
        for _ in range(MOST_POLLS):
            self.turn()
            for node in NODES:
                self.deliver_next(node)
                self.answer_next(node)
            if all(handle.done for sent in self.sent.values() for _, handle in sent):
                return
            self.now_ms += 50
        raise AssertionError("records without an outcome")


class Machine(RuleBasedStateMachine):
    """The rules of the network; what must hold is in the subclasses."""

    config: ClassVar[dict[str, int]]

    def __init__(self):
        super().__init__()
        # The leader must know the producer: it takes any first sequence of one that it does not.
        self.cluster = Cluster(**self.config)
        for partition in PARTITIONS:
            self.cluster.produce(partition, 1)
        self.cluster.settle()

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def append_and_poll(self, partition, count):
        self.cluster.produce(partition, count)
        self.cluster.turn()

    @rule()
    def poll(self):
        self.cluster.turn()

    @rule(ms=st.sampled_from((1, 100, 250, 1000)))
    def wait(self, ms):
        self.cluster.now_ms += ms
        self.cluster.turn()

    @rule(node=st.sampled_from(NODES))
    def deliver(self, node):
        self.cluster.deliver_next(node)

    @rule(node=st.sampled_from(NODES))
    def answer(self, node):
        self.cluster.answer_next(node)

    @rule(node=st.sampled_from(NODES))
    def break_off(self, node):
        self.cluster.break_off(node)

    @rule(node=st.sampled_from(NODES))
    def deliver_late(self, node):
        self.cluster.deliver_late(node)

    @precondition(lambda self: not self.cluster.refusals)
    @rule(
        error=st.sampled_from(
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        )
    )
    def refuse_next(self, error):
        self.cluster.refusals.append(error)

    @rule(partition=st.sampled_from(PARTITIONS), node=st.sampled_from(NODES))
    def move(self, partition, node):
        self.cluster.move(partition, node)


class ExactlyOnce(Machine):
    """Without expiry every record is acknowledged, once in the log, in the order of append."""

    config: ClassVar = {"request_timeout_ms": 2**30, "delivery_timeout_ms": 2**31 - 1}
    most_in_flight: ClassVar = 5

    @invariant()
    def in_flight_batches_form_one_chain_up_to_the_next_sequence(self):
        for partition in PARTITIONS:
            state = self.cluster.state(partition)
            following = state.last_acked_sequence + 1
            for batch in state.in_flight:
                assert batch.base_sequence == following
                following += batch.record_count
            assert following == state.next_sequence

    @invariant()
    def never_more_outstanding_than_a_leader_remembers(self):
        for partition in PARTITIONS:
            in_flight = self.cluster.state(partition).in_flight
            assert sum(batch.outstanding for batch in in_flight) <= 5
            assert len(in_flight) <= self.most_in_flight

    def teardown(self):
        self.cluster.settle()
        assert self.cluster.core.producer_epoch == 0
        for partition, sent in self.cluster.sent.items():
            assert [handle.error for _, handle in sent] == [None] * len(sent)
            assert [handle.offset for _, handle in sent] == list(range(len(sent)))
            assert self.cluster.log(partition) == [value for value, _ in sent]


class ExactlyOnceInSmallBatches(ExactlyOnce):
    """The leaders take two records at most, so that batches of three are split twice."""

    most_in_flight: ClassVar = 10

    def __init__(self):
        super().__init__()
        for leader in self.cluster.leaders.values():
            leader.log.config = LogConfig(max_message_bytes=85)


class HonestUnderExpiry(Machine):
    """With expiry records may be lost or doubled, but nothing false is ever reported."""

    config: ClassVar = {"request_timeout_ms": 600, "delivery_timeout_ms": 1_200}

    @invariant()
    def in_flight_batches_are_in_sequence_order_at_one_epoch(self):
        for partition in PARTITIONS:
            state = self.cluster.state(partition)
            bases = [batch.base_sequence for batch in state.in_flight]
            assert bases == sorted(set(bases))
            assert {b.producer_epoch for b in state.in_flight} <= {state.producer_epoch}

    def teardown(self):
        self.cluster.settle()
        for partition, sent in self.cluster.sent.items():
            log = self.cluster.log(partition)
            for value, handle in sent:
                if handle.error is None:
                    assert log[handle.offset] == value
                elif not handle.error.may_be_written:
                    assert value not in log


FEW = settings(
    max_examples=200, stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow]
)
TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = FEW
TestExactlyOnceInSmallBatches = ExactlyOnceInSmallBatches.TestCase
TestExactlyOnceInSmallBatches.settings = settings(FEW, max_examples=60)
TestHonestUnderExpiry = HonestUnderExpiry.TestCase
TestHonestUnderExpiry.settings = FEW
