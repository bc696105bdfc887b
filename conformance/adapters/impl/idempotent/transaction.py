"""`impl`'s transactional producer in scopes of the idempotent one: with a transaction open, several
of its batches are in flight in a partition.

1. The transaction begins before the scope, and never ends. The judge checks how its batches are
   sent, numbered, split and retried.
2. A batch that fails for good fails its transaction, and the sequences of later batches move up:
   the model says so under `recovery=reset_2_3`. Batches that were sent by then still go on.
3. Steps that only a producer without transactions takes end the comparison: new records after a
   failure, and another producer id after a lost sequence.

Theory of operation: the producer speaks V2, so that it asks the coordinator only for a producer id,
and this module answers. Leaders append under a guard, as if each batch had been verified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.adapters.impl.idempotent.client import ImplClient, UnexpectedEffects, only_request
from conformance.adapters.impl.idempotent.messages import AnswerPayload, Shared
from conformance.judging.system import EndOfComparison, NotApplicable, Reaction
from impl import ErrorCode, ProducerConfig
from impl.producer.core import IdempotentProducerCore
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import NEWEST, RequestVersions
from impl.protocol.record_batch import NO_PRODUCER_ID, TRANSACTIONAL, read_header
from model.idempotent.configuration import Configuration, Idempotence, Recovery

TRANSACTIONAL_ID = "x"
COORDINATOR = 1000


class ImplTransactionClient(ImplClient):
    """A `TransactionalProducerCore` with an open transaction. Raises NotApplicable."""

    def __init__(self, shared: Shared, producer: int) -> None:
        refuse(shared.k)
        super().__init__(shared, producer)

    def _configured(self, config: ProducerConfig) -> ProducerConfig:
        """The same configuration, with transactions."""
        return replace(
            config, transactional_id=TRANSACTIONAL_ID, transaction_requests="v2", retry_backoff_ms=1
        )

    def _new_core(self) -> IdempotentProducerCore:
        """A core that is not initialized: it has no producer id."""
        core = TransactionalProducerCore(self._config, versions=RequestVersions(dict(NEWEST)))
        core.update_nodes([COORDINATOR])
        return core

    def receive_producer_id(self, producer_id: int) -> Reaction:
        """`initialize`, with answers to all of its requests, and `begin`."""
        core: Any = self._core
        started = core.initialize()
        row = {"key": TRANSACTIONAL_ID, "node_id": COORDINATOR, "host": "h", "port": 1}
        self._answer({"coordinators": [row | {"error_code": ErrorCode.NONE}]})
        self._answer(
            {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}
        )
        started.acknowledge()
        core.begin()
        return self.view(), ()

    def _answer(self, body: dict[str, Any]) -> None:
        """One `poll`, and the answer to its request."""
        asked = only_request(self._core.poll(self._clock.now_ms))
        correlation_id, _ = self._codec.request(asked)
        answer = self._codec.response(asked.api_version, asked.api_key, correlation_id, body)
        self._core.receive(answer.correlation_id, answer.body, self._clock.now_ms)

    def _ask_new_producers(self) -> None:
        """Nothing: scopes of transactions test this."""

    def send_new(self, partition: int, record_count: int) -> Reaction:
        """As for a producer without transactions, unless the transaction has failed. Raises
        EndOfComparison."""
        if self._core._manager.last_error is not None:
            raise EndOfComparison
        return super().send_new(partition, record_count)

    def on_answer(self, partition: int, answer: AnswerPayload, overdue: int) -> Reaction:
        """The same, unless a sequence is lost, upon which the model gives its producer id back.
        Raises EndOfComparison."""
        reaction = super().on_answer(partition, answer, overdue)
        error = self._core._manager.last_error
        if error is not None and error.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise EndOfComparison(lambda view: view[0] == NO_PRODUCER_ID)
        return reaction

    def _sends(self, partition: int) -> Reaction:
        """Send a batch of the transaction. Raises UnexpectedEffects."""
        reaction = super()._sends(partition)
        body = reaction[1][0][1].body
        records = body["topics"][0]["partitions"][0]["records"]
        if not read_header(records).attributes & TRANSACTIONAL:
            raise UnexpectedEffects("a batch of a transaction does not say so")
        if body["transactional_id"] != TRANSACTIONAL_ID:
            raise UnexpectedEffects(f"a transaction of {body['transactional_id']}")
        return reaction


def refuse(k: Configuration) -> None:
    """Raises NotApplicable for a configuration that asks for what no transactional producer
    does."""
    bounds, variant = k.bounds, k.variant
    if variant.idempotence != Idempotence.ENABLED or variant.recovery != Recovery.RESET_2_3:
        raise NotApplicable("a transaction fails as under recovery=reset_2_3; name that variant")
    if bounds.epochs_end or not bounds.begun or bounds.producers > 1 or bounds.wraps:
        raise NotApplicable("a transaction is open from the beginning, in its first epoch")
    if bounds.faults.timeouts or k.budgets.timeouts:
        raise NotApplicable("a batch of a transaction that is given up has no sequence to resolve")
    if k.budgets.refusals and bounds.max_message:
        raise NotApplicable(
            "a leader expects the first sequence of a transaction that it has refused before;"
            " add /refusals=0 to the scope"
        )
