"""Another broker takes over the coordination while the old one is frozen, and wakes up later."""

from __future__ import annotations

from typing import Final

from conformance.transactions.facts.frozen import followers, log_leader
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.facts.log_writes import REPLICATED
from conformance.transactions.wire import Conversation

COMMIT, ABORT = True, False
GIVEN_UP: Final = {**REPLICATED, "broker.session.timeout.ms": "3000"}
"""A frozen broker is given up after three seconds."""


@experiment("v1", nodes=3, properties=GIVEN_UP, alone=True)
def failover_v1(lab: Lab) -> None:
    """V1 requests; the old coordinator has a commit to read when it wakes up."""
    _failover(lab, lab.v1, 1)


@experiment("v2", nodes=3, properties=GIVEN_UP, alone=True)
def failover_v2(lab: Lab) -> None:
    """V2 requests."""
    _failover(lab, lab.v2, 2)


def _failover(lab: Lab, c: Conversation, ended: int) -> None:
    old, home = log_leader(lab), followers(lab)[0]
    held = lab.in_state("PrepareCommit", c, on=home)
    resting = lab.begin(c)
    torn = lab.begin(c)
    [partition] = lab.ground.topic(on=home)
    lab.open(c, torn, partition)
    zombie = lab.ground.connect(old)
    lab.ground.brokers[old].pause()
    try:
        zombie.send(c.end_txn(torn, COMMIT))
        lab.ground.await_takeover(old)
        lab.rename()
        lab.fact("PrepareCommit is completed", f"CompleteCommit P:{ended}", lab.settled(held))
        lab.rename()
        lab.fact("Ongoing stays", "Ongoing P:1", lab.state(torn))
        told = "NONE" if ended == 1 else "NONE P:2"
        lab.fact("EndTxn(abort) at the new one", told, lab.ask(c.end_txn(torn, ABORT)))
        lab.fact("in the end", f"CompleteAbort P:{ended}", lab.settled(torn))
        expected = f"P:{ended} last {0 if ended == 1 else -1} coordinator 1"
        lab.fact("the partition's producer", expected, lab.entry(partition, torn.producer_id))
    finally:
        lab.ground.brokers[old].resume()
    answer = lab.names.answer(zombie.receive(30_000))
    lab.fact("EndTxn(commit) at the old one", "NOT_COORDINATOR", answer)
    lab.fact("then", f"CompleteAbort P:{ended}", lab.state(torn))
    expected = f"P:1#0 P:{ended}!ABORT, stable"
    lab.fact("the partition", expected, lab.partition(partition))
    lab.rename()
    lab.names.producer(resting.producer_id)
    call = c.init_producer_id(resting.transactional_id, (resting.producer_id, 0))
    lab.fact("Empty, InitProducerId, the last epoch", "PRODUCER_FENCED", lab.ask(call))
