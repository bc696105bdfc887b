"""A coordinator that loads its log: what it remembers, and what it completes."""

from __future__ import annotations

from dataclasses import replace

from conformance.transactions.facts.exhaustion import LAST, exhausted
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.wire import Producer

COMMIT, ABORT = True, False
TIMEOUT_MS = 1_500


@experiment("v1", restarts=True)
def loading_v1(lab: Lab) -> None:
    """Ids of V1 requests in each state, over a restart."""
    c = lab.v1
    states = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit")
    producers = {state: lab.in_state(state, c) for state in states}
    late = lab.in_state("Ongoing", c, timeout_ms=TIMEOUT_MS)
    lab.ground.restart()
    for state, producer in producers.items():
        lab.rename()
        ended = state.replace("Prepare", "Complete")
        lab.fact(f"{state}, then", f"{ended} P:1", lab.settled(producer))
    for state, believed in (("Empty", 0), ("CompleteCommit", 0)):
        lab.rename()
        lab.names.producer(producers[state].producer_id)
        observed = _init(lab, producers[state], believed)
        lab.fact(f"{state}, InitProducerId, the last epoch", "PRODUCER_FENCED", observed)
    lab.rename()
    observed = lab.ask(c.end_txn(producers["CompleteCommit"], COMMIT))
    lab.fact("CompleteCommit, EndTxn(commit) again", "NONE", observed)
    observed = lab.ask(c.end_txn(producers["PrepareCommit"], COMMIT))
    lab.fact("PrepareCommit, EndTxn(commit) again", "NONE", observed)
    observed = lab.ask(c.end_txn(producers["Ongoing"], COMMIT))
    lab.fact("Ongoing, EndTxn(commit)", "NONE", observed)
    lab.rename()
    lab.await_state(late, "CompleteAbort")
    lab.fact("Ongoing, timed out meanwhile", "CompleteAbort P:2", lab.state(late))


@experiment("v2", restarts=True)
def loading_v2(lab: Lab) -> None:
    """Ids of V2 requests in each state, over a restart; the retries that come after it."""
    c = lab.v2
    states = ("Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
    producers = {state: lab.in_state(state, c) for state in states}
    lab.ground.restart()
    for state, producer in producers.items():
        lab.rename()
        ended = state.replace("Prepare", "Complete")
        epoch = 1 if state == "Ongoing" else 2
        lab.fact(f"{state}, then", f"{ended} P:{epoch}", lab.settled(producer))
    for state in ("PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"):
        lab.rename()
        before = replace(producers[state], producer_epoch=1)
        committed = state.endswith("Commit")
        observed = lab.ask(c.end_txn(before, committed))
        lab.fact(f"{state}, EndTxn again", "NONE P:2", observed)
        observed = _init(lab, before, 1)
        lab.fact(f"{state}, InitProducerId, the epoch before", "PRODUCER_FENCED", observed)
    lab.rename()
    observed = lab.ask(c.end_txn(producers["Ongoing"], COMMIT))
    lab.fact("Ongoing, EndTxn(commit)", "NONE P:2", observed)


@experiment("v2", restarts=True)
def loading_exhausted_v2(lab: Lab) -> None:
    """The producer id that follows: chosen before the restart, or in use already."""
    c = lab.v2
    held, ended = exhausted(lab, c, 2)
    [first, second] = lab.ground.topic(2)
    lab.hold(held, first)
    lab.open(c, held, first)
    lab.mark_log()
    lab.rename()
    lab.names.producer(held.producer_id)
    lab.fact("held, EndTxn(commit)", "NONE Q:0", lab.ask(c.end_txn(held, COMMIT)))
    lab.fact("held, before", f"PrepareCommit P:{LAST + 1}", lab.state(held))
    lab.open(c, ended, second)
    lab.end(c, ended, COMMIT)
    lab.ground.restart()
    # Before 4.3 the log does not say which producer id follows (KAFKA-20310).
    logged = bool(lab.since({"0": "", "4.3": "yes"}))
    now = "Q:0" if logged else f"P:{LAST + 1}"
    lab.fact("held, then", f"CompleteCommit {now}", lab.settled(held))
    log = f"PrepareCommit P:{LAST + 1}, CompleteCommit {now}"
    lab.fact("held, the log", log, lab.log(held))
    lab.fact("held, EndTxn(commit) again", f"NONE {now}", lab.ask(c.end_txn(held, COMMIT)))
    observed = lab.retry(c.init_producer_id(held.transactional_id))
    lab.fact("held, InitProducerId", "NONE Q:1" if logged else "NONE R:0", observed)
    lab.rename()
    lab.names.producer(ended.producer_id)
    lab.fact("ended, then", "CompleteCommit Q:0", lab.settled(ended))
    expected = "NONE Q:0" if logged else "INVALID_PRODUCER_ID_MAPPING"
    lab.fact("ended, EndTxn(commit) again", expected, lab.ask(c.end_txn(ended, COMMIT)))


def _init(lab: Lab, producer: Producer, believed: int) -> str:
    call = lab.v1.init_producer_id(producer.transactional_id, (producer.producer_id, believed))
    return lab.ask(call)
