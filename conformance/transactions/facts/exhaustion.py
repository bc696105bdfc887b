"""The last epoch of a producer id: 32766 for clients, 32767 for the coordinator's fences."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from conformance.transactions.facts.lab import Lab, accept, eventually, experiment
from conformance.transactions.wire import Conversation, Producer

COMMIT, ABORT = True, False
LAST: Final = 32_766
IN_FLIGHT: Final = 100
WORKERS: Final = 2
TIMEOUT_MS: Final = 2_000
OTHERS: Final = 64
BUSY: Final = "CONCURRENT_TRANSACTIONS"
FENCED: Final = "PRODUCER_FENCED"

Ids = list[Producer]


def exhausted(lab: Lab, c: Conversation, count: int, timeout_ms: int = 60_000) -> Ids:
    """Fresh ids at epoch LAST, the last epoch below it. Raises RequestRefused."""
    names = [lab.ground.fresh("worn") for _ in range(count)]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda name: _worn(lab, c, name, timeout_ms), names))


def _worn(lab: Lab, c: Conversation, name: str, timeout_ms: int) -> Producer:
    node = next(n for n in lab.ground.brokers if lab.ground.wire(n) is lab.ground.coordinator())
    wire = lab.ground.connect(node)
    wire.retry(c.init_producer_id(name))
    answers = wire.pipeline([c.init_producer_id(name)] * (LAST - 1), IN_FLIGHT)
    last = answers[-1]
    call = c.init_producer_id(name, (last.producer_id, LAST - 1), timeout_ms=timeout_ms)
    answer = wire.ask(call)
    accept(answer.error, f"InitProducerId at {last}")
    assert answer.producer_epoch == LAST, answer
    return Producer(name, answer.producer_id, answer.producer_epoch)


@experiment("v1")
def exhaustion_at_rest(lab: Lab) -> None:
    """InitProducerId at the last epoch: nothing believed, the epoch, the one below it."""
    blind, knowing, late = exhausted(lab, lab.v1, 3)
    c = lab.v1
    lab.rename()
    lab.names.producer(blind.producer_id)
    observed = lab.ask(c.init_producer_id(blind.transactional_id))
    lab.fact("believing nothing", "NONE Q:0", observed)
    call = c.init_producer_id(blind.transactional_id, (blind.producer_id, LAST))
    lab.fact("believing nothing, then the old identity", "PRODUCER_FENCED", lab.ask(call))
    lab.rename()
    lab.names.producer(knowing.producer_id)
    call = c.init_producer_id(knowing.transactional_id, (knowing.producer_id, LAST))
    lab.fact("believing its epoch", "NONE Q:0", lab.ask(call))
    lab.fact("believing its epoch, then", "Empty Q:0", lab.state(knowing))
    lab.fact("believing its epoch, again", "NONE Q:0", lab.ask(call))
    observed = lab.ask(c.end_txn(knowing, COMMIT))
    lab.fact("EndTxn of the old identity", "INVALID_PRODUCER_ID_MAPPING", observed)
    lab.rename()
    lab.names.producer(late.producer_id)
    call = c.init_producer_id(late.transactional_id, (late.producer_id, LAST - 1))
    lab.fact("believing the last epoch", "UNKNOWN_SERVER_ERROR", lab.ask(call))
    lab.fact("believing the last epoch, then", f"Empty P:{LAST}", lab.state(late))


@experiment("v1")
def exhaustion_returns_v1(lab: Lab) -> None:
    """An instance that slept since the last epoch initializes again as what it was (KIP-360), while
    its successor, of the next producer id, is in a transaction.

    Up to 4.0 the coordinator keeps the previous producer id once the next one begins.
    """
    c = lab.v1
    [sleeper] = exhausted(lab, c, 1)
    lab.rename()
    lab.names.producer(sleeper.producer_id)
    told = lab.ground.coordinator().ask(c.init_producer_id(sleeper.transactional_id))
    lab.fact("its successor", "NONE Q:0", lab.names.answer(told))
    successor = Producer(sleeper.transactional_id, told.producer_id, told.producer_epoch)
    returns = c.init_producer_id(sleeper.transactional_id, (sleeper.producer_id, LAST))
    lab.fact("it returns, Empty", FENCED, lab.ask(returns))
    [partition] = lab.ground.topic()
    lab.open(c, successor, partition)
    observed = lab.ask(returns)
    lab.fact("it returns, Ongoing", lab.since({"0": BUSY, "4.1": FENCED}), observed)
    expected = lab.since({"0": "CompleteAbort Q:1", "4.1": "Ongoing Q:0"})
    lab.fact("it returns, Ongoing, the state", expected, lab.settled(successor))
    observed = lab.ask(c.end_txn(successor, COMMIT))
    lab.fact("its successor commits", lab.since({"0": FENCED, "4.1": "NONE"}), observed)


@experiment("v1")
def exhaustion_v1(lab: Lab) -> None:
    """A transaction of V1 requests at the last epoch: ended, fenced, timed out."""
    c = lab.v1
    ended, fenced, timed = exhausted(lab, c, 3, TIMEOUT_MS)
    _begin(lab, c, ended)
    lab.end(c, ended, COMMIT)
    lab.fact("committed", f"CompleteCommit P:{LAST}", lab.state(ended))
    observed = lab.ask(c.init_producer_id(ended.transactional_id))
    lab.fact("committed, then InitProducerId", "NONE Q:0", observed)
    _fence(lab, c, fenced)
    _time_out(lab, c, timed)


@experiment("v2")
def exhaustion_v2(lab: Lab) -> None:
    """A transaction of V2 requests at the last epoch: ended, fenced, timed out."""
    c = lab.v2
    ended, aborted, empty, fenced, timed = exhausted(lab, c, 5, TIMEOUT_MS)
    for producer, committed, word in ((ended, COMMIT, "commit"), (aborted, ABORT, "abort")):
        _begin(lab, c, producer)
        lab.fact(f"{word}", "NONE Q:0", lab.ask(c.end_txn(producer, committed)))
        expected = f"Complete{word.capitalize()} Q:0"
        lab.fact(f"{word}, in the end", expected, lab.settled(producer))
        prepared = f"Prepare{word.capitalize()} P:{LAST + 1}"
        lab.fact(f"{word}, the log", f"Ongoing P:{LAST}, {prepared}, {expected}", lab.log(producer))
        links = [
            "/".join(map(lab.names.producer, (r.previous_producer_id, r.next_producer_id)))
            for r in lab.records(producer)
        ]
        expected = lab.since({"0": "-/- -/- -/-", "4.3": "P/- P/Q P/-"})
        lab.fact(f"{word}, previous/next in the log", expected, " ".join(links))
        lab.fact(f"{word} again", "NONE Q:0", lab.ask(c.end_txn(producer, committed)))
        observed = lab.ask(c.end_txn(producer, not committed))
        lab.fact(f"{word}, then the other, again", "INVALID_TXN_STATE", observed)
        call = c.init_producer_id(producer.transactional_id, (producer.producer_id, LAST))
        lab.fact(f"{word}, InitProducerId, old identity", "NONE Q:0", lab.ask(call))
    lab.rename()
    lab.names.producer(empty.producer_id)
    lab.fact("empty abort", "NONE Q:0", lab.ask(c.end_txn(empty, ABORT)))
    lab.fact("empty abort, in the end", "CompleteAbort Q:0", lab.settled(empty))
    _fence(lab, c, fenced)
    _time_out(lab, c, timed)


@experiment("v2", alone=True)
def exhaustion_goes_on_v2(lab: Lab) -> None:
    """A client of V2 goes on after a time-out at the last epoch, as the answer to its EndTxn lets
    it; then others' transactions time out, or never (KAFKA-20090)."""
    c = lab.v2
    [producer] = exhausted(lab, c, 1, TIMEOUT_MS)
    _begin(lab, c, producer)
    lab.await_state(producer, "CompleteAbort")
    lab.fact("timed out", _aborted(lab).state, lab.settled(producer))
    told = lab.ground.coordinator().ask(c.end_txn(producer, ABORT))
    expected = lab.since({"0": f"NONE P:{LAST + 1}", "4.3": "NONE Q:0"})
    lab.fact("EndTxn(abort) of its client", expected, lab.names.answer(told))
    now = Producer(producer.transactional_id, told.producer_id, told.producer_epoch)
    who = lab.since({"0": f"P:{LAST + 1}", "4.3": "Q:0"})
    [partition] = lab.ground.topic()
    observed = lab.ask_leader(partition, c.produce(now, partition, 0, "next"))
    lab.fact("then Produce", "NONE", observed)
    lab.fact("then Produce, the state", f"Ongoing {who}", lab.state(now))
    refused = {"0": "UNKNOWN_SERVER_ERROR", "4.3": "NONE Q:1"}
    lab.fact("then EndTxn(commit)", lab.since(refused), lab.ask(c.end_txn(now, COMMIT)))
    ended = lab.since({"0": f"Ongoing {who}", "4.3": "CompleteCommit Q:1"})
    lab.fact("then EndTxn(commit), the state", ended, lab.settled(now))
    stuck = {"0": "UNKNOWN_SERVER_ERROR", "4.3": "NONE Q:2"}
    observed = lab.ask(c.init_producer_id(now.transactional_id))
    lab.fact("then InitProducerId", lab.since(stuck), observed)
    time.sleep(2 * TIMEOUT_MS / 1000)
    others = [lab.begin(c, timeout_ms=TIMEOUT_MS) for _ in range(OTHERS)]
    for other in others:
        lab.open(c, other, partition)
    all_end, behind = "CompleteAbort", "Ongoing, CompleteAbort"
    expected = lab.since({"0": behind, "4.3": all_end})
    observed = eventually(lambda: states(lab, others), lambda seen: seen == all_end)
    lab.fact(f"the transactions of {OTHERS} others, long after their time-outs", expected, observed)


def states(lab: Lab, producers: Ids) -> str:
    """The different states that some ids are in: who comes behind the stuck one stays as it is."""
    words = {lab.state(producer).partition(" ")[0] for producer in producers}
    return ", ".join(sorted(words, reverse=True))


def _begin(lab: Lab, c: Conversation, producer: Producer) -> None:
    lab.rename()
    lab.names.producer(producer.producer_id)
    lab.mark_log()
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)


@dataclass(frozen=True, slots=True)
class Aborted:
    """How the coordinator's own abort at LAST ends, and what InitProducerId answers then."""

    state: str
    then: str


def _aborted(lab: Lab) -> Aborted:
    """Since 4.3 an abort of level 2 takes a new producer id itself (KAFKA-20090)."""
    rotates = lab.since({"0": "", "4.3": "yes"}) and lab.ground.level == 2
    if rotates:
        return Aborted("CompleteAbort Q:0", "NONE Q:1")
    return Aborted(f"CompleteAbort P:{LAST + 1}", "NONE Q:0")


def _fence(lab: Lab, c: Conversation, producer: Producer) -> None:
    _begin(lab, c, producer)
    call = c.init_producer_id(producer.transactional_id)
    lab.fact("fenced", "CONCURRENT_TRANSACTIONS", lab.ask(call))
    _ended(lab, c, producer, "fenced")


def _time_out(lab: Lab, c: Conversation, producer: Producer) -> None:
    _begin(lab, c, producer)
    lab.await_state(producer, "CompleteAbort")
    _ended(lab, c, producer, "timed out")


def _ended(lab: Lab, c: Conversation, producer: Producer, word: str) -> None:
    expected = _aborted(lab)
    lab.fact(f"{word}, in the end", expected.state, lab.settled(producer))
    log = f"Ongoing P:{LAST}, PrepareAbort P:{LAST + 1}, {expected.state}"
    lab.fact(f"{word}, the log", log, lab.log(producer))
    observed = lab.retry(c.init_producer_id(producer.transactional_id))
    lab.fact(f"{word}, then InitProducerId", expected.then, observed)
