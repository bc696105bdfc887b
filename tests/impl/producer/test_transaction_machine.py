"""Any calls, any answers, in any order: what always holds of a transactional producer."""

from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from impl.client.arguments import GroupMetadata, OffsetAndMetadata
from impl.producer import Disconnect, ProducerError, State
from impl.producer.transaction_manager import LEGAL_CALLS
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import batches_of, through_the_wire
from tests.impl.producer.txn_driver import TxnDriver

pytestmark = pytest.mark.slow  # thousands of generated steps

CALLS = {
    "start": lambda core: core.initialize(),
    "begin_transaction": lambda core: core.begin(),
    "commit_transaction": lambda core: core.begin_commit(),
    "abort_transaction": lambda core: core.begin_abort(),
    "send_offsets_to_transaction": lambda core: core.send_offsets(
        {("in", 0): OffsetAndMetadata(1)}, GroupMetadata("g")
    ),
}
FREQUENT = st.sampled_from([ErrorCode.NONE] * 3 + [ErrorCode.CONCURRENT_TRANSACTIONS])
ERRORS = st.one_of(FREQUENT, FREQUENT, st.sampled_from(list(ErrorCode)))


class AnyConversation(RuleBasedStateMachine):
    """The network is a list of open requests a node; every answer is well-formed."""

    level = 2

    def __init__(self):
        super().__init__()
        self.driver = TxnDriver(
            level=self.level,
            request_timeout_ms=500,
            delivery_timeout_ms=2_000,
            max_request_size=200,
        )
        self.core = self.driver.core
        self.open = {1: [], 2: []}
        self.results = []
        self.handles = []
        self.committed = []

    @rule(name=st.sampled_from(sorted(CALLS)))
    def call(self, name):
        before, legal = self.core.state, self.core.legal_calls()
        if name not in legal:
            with pytest.raises(ProducerError) as refused:
                CALLS[name](self.core)
            assert refused.value.legal_calls == self.core.legal_calls() == legal
            assert self.core.state is before
            return
        result = CALLS[name](self.core)
        if result is not None:
            self.results.append(result)

    @rule(partition=st.sampled_from((0, 1)), size=st.sampled_from((1, 1, 1, 300)))
    def append(self, partition, size):
        before, legal = self.core.state, self.core.legal_calls()
        try:
            self.handles.append(self.driver.append(b"x" * size, partition))
        except ProducerError:
            assert "send" not in legal or size == 300
            if "send" in legal:
                assert self.core.state is State.ABORTABLE_ERROR
            else:
                assert self.core.state is before

    @rule(ms=st.sampled_from((0, 20, 100, 600)))
    def poll(self, ms):
        for effect in self.driver.poll(after_ms=ms):
            if isinstance(effect, Disconnect):
                self.open[effect.node_id].clear()
                continue
            through_the_wire(effect)
            self.check(effect)
            self.open[effect.node_id].append(effect)

    def check(self, request):
        others = [open_ for node in self.open.values() for open_ in node]
        assert all(other.api_key is ApiKey.PRODUCE for other in others), "one after the other"
        if request.api_key is ApiKey.PRODUCE:
            assert set(batches_of(request)) <= self.core.partitions
            assert all(batch.is_transactional for batch in batches_of(request).values())
        if request.api_key is ApiKey.END_TXN:
            assert all(handle.done for handle in self.handles)
            if request.body["committed"]:
                assert self.core.state is State.COMMITTING_TRANSACTION

    @rule(node=st.sampled_from((1, 2)), error=ERRORS)
    def answer(self, node, error):
        if self.open[node]:
            self.driver.answer(self.open[node].pop(0), error)

    @rule(node=st.sampled_from((1, 2)))
    def break_off(self, node):
        self.open[node].clear()
        self.driver.lose(node)

    @rule(level=st.sampled_from((1, 2)))
    def announce(self, level):
        self.core.update_level(level)

    @precondition(lambda self: self.results)
    @rule()
    def hear(self):
        """The caller of the oldest call hears of its end."""
        if self.results[0].done:
            result = self.results.pop(0)
            told = nullcontext() if result.error is None else pytest.raises(type(result.error))
            with told:
                result.acknowledge()

    @invariant()
    def a_fatal_state_leaves_nothing_waiting(self):
        if self.core.state is State.FATAL_ERROR:
            assert all(result.done for result in self.results)
            assert self.core.legal_calls() == LEGAL_CALLS[State.FATAL_ERROR]

    @invariant()
    def sequences_are_in_order(self):
        for partition in (0, 1):
            state = self.core.partition_state("t", partition)
            bases = [batch.base_sequence for batch in state.in_flight]
            assert bases == sorted(set(bases))

    def teardown(self):
        """Whatever has happened, closing ends: with good answers, and by force."""
        self.core.close()
        for _ in range(60):
            self.poll(100)
            for node in self.open:
                while self.open[node]:
                    self.driver.answer(self.open[node].pop(0))
            if self.core.is_idle:
                break
        assert self.core.is_idle
        assert all(handle.done for handle in self.handles)
        self.core.abort()
        assert all(result.done for result in self.results)


class AnyConversationV1(AnyConversation):
    """In requests V1."""

    level = 1


FEW = settings(
    max_examples=40, stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow]
)


def test_a_commit_that_waits_is_not_sent_once_closing_aborts():
    any_ = AnyConversationV1()
    any_.call(name="begin_transaction")
    any_.append(partition=0, size=1)
    any_.call(name="commit_transaction")
    for _ in range(3):
        any_.poll(ms=600)  # the batch expires
    any_.teardown()


def test_a_call_that_failed_for_good_is_refused_like_any_other():
    any_ = AnyConversationV1()
    any_.announce(level=2)
    any_.call(name="begin_transaction")
    any_.call(name="abort_transaction")
    any_.poll(ms=0)
    any_.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, node=2)
    assert any_.core.state is State.FATAL_ERROR
    any_.call(name="abort_transaction")
    any_.teardown()


TestAnyConversation = AnyConversation.TestCase
TestAnyConversation.settings = FEW
TestAnyConversationV1 = AnyConversationV1.TestCase
TestAnyConversationV1.settings = FEW
