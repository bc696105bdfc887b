"""Traces whose transaction nothing ends: they come last, together, and their ids are buried."""

import re
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.adapters.brokers.exchange import Ask, BrokerFault, TraceEnd, Wait
from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.scheduler import Scheduler
from conformance.adapters.brokers.transactions import testbed_of_servers
from conformance.adapters.brokers.transactions.testbed_of_servers import ServersTestbed
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import (
    Ending,
    ScriptedRequest,
    ServerState,
    TransactionScript,
    TransactionScriptWriter,
)
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.generate.broker_graph import TIMES_OUT
from conformance.judging.compositions import SERVER_ACTORS
from conformance.judging.plan import Plan, configuration
from proofs.trace.format import Instance

pytestmark = pytest.mark.fast

# Which are stuck


def steps(*rows: tuple[str, dict[str, int]]) -> list[Instance]:
    return [(rule, tuple(choice.items())) for rule, choice in rows]


ME = {"instance": 0}
HEARD = {**ME, "heard": 1}
HERE = {**ME, "partition": 0}
BEGINS = steps(("instance_begins", ME), ("producer_id_is_asked", HEARD))
WRITES = steps(
    ("transaction_begins", ME),
    ("record_is_sent", HERE),
    ("batch_is_produced", {**HERE, "heard": 1}),
)
COMMITS = steps(("commit_is_asked", ME), ("transaction_is_ended", HEARD))
ABORTS = steps(("abort_is_asked", ME), ("transaction_is_ended", HEARD))
EXPIRES = steps((TIMES_OUT, {}))
TO_THE_LAST = [*BEGINS, *WRITES, *COMMITS, *WRITES, *EXPIRES, *ABORTS]


@pytest.mark.parametrize(
    ("release", "played", "is_stuck"),
    [
        ("4.2.1", [*TO_THE_LAST, *WRITES], True),
        ("4.2.1", TO_THE_LAST, False),
        ("4.2.1", [*BEGINS, *WRITES], False),
        ("4.3.1", [*TO_THE_LAST, *WRITES], False),
    ],
)
def test_what_nothing_ends_is_known_ahead(
    release: str, played: Sequence[Instance], is_stuck: bool
) -> None:
    """Before 4.3 also where a probe alone comes to the last epoch."""
    variant = f"{release}/level=2/requests=v2"
    plan = Plan(scope="transactions-exhausted", variant=variant, actors=SERVER_ACTORS)
    k = configuration(plan)
    k = replace(k, bounds=replace(k.bounds, transactions=3))  # as many as these traces begin
    script = TransactionScriptWriter(tables_of(with_room(k))).script(played)
    assert set(played) <= set(script.steps)
    assert script.is_stuck == is_stuck


# When they are played


class Broker:
    """The servers, and the ids that are exhausted there. `happened`, in order:
    a trace Times out, is Stuck with a short time-out, or with a Long one; ids are Buried."""

    shows_producers = True

    def __init__(self) -> None:
        self.happened = ""

    def topic(self, partitions: int = 1, *, on: int | None = None) -> list[TopicPartition]:
        return [("topic", index) for index in range(partitions)]

    def connect(self) -> "Wire":
        return Wire(self)

    def coordinator_epoch(self, transactional_id: str) -> int:
        return 0

    def take(self) -> str:
        return "exhausted"

    def bury(self) -> None:
        self.happened += "B"


ANYTHING = ScriptedRequest(None, (), is_late=False)


class Wire:
    """A connection. The broker closes all when ids are buried."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._burials = broker.happened.count("B")

    def send(self, call: Any) -> None:
        assert self._burials == self._broker.happened.count("B"), "a connection that is closed"

    def receive(self) -> None:
        """Nothing is said."""

    def close(self) -> None:
        """Nothing is left open."""


SLOW, ENDS_BEFORE = 3, 4
"""How long a trace takes to its time-out: these two do not come to it, the slow one at first."""

FIRST_S = testbed_of_servers.TRANSACTION_S


class Pretended:
    """A trace that asks anything. Of those that time out some are too slow the first time, and some
    end before."""

    def __init__(self, script: TransactionScript, ground: Any, broker: Any, **given: Any) -> None:
        self.script = script
        self.broker = broker
        self.is_first = given["times"].transaction_s == FIRST_S

    def run(self) -> Generator[list[Ask | Wait | BrokerFault], Any, TraceEnd]:
        question: Any = None
        yield [Ask(question)]
        if self.script.times_out:
            for _ in range(self.script.seen):
                yield [Wait(time.monotonic())]
            if self.is_first and self.script.seen == SLOW:
                return TraceEnd(is_undecided=True)
            if self.script.seen == ENDS_BEFORE:
                return TraceEnd()
            self.broker.happened += "T"
            if self.script.faults:
                yield [BrokerFault(TIMES_OUT)]
        if self.script.is_stuck:
            self.broker.happened += "S" if self.script.times_out else "L"
        yield [Ask(question)]
        return TraceEnd()


TRACES = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, ENDS_BEFORE)), max_size=12)
"""Whether each is stuck and times out, and how long it takes."""


def script_of(is_stuck: bool, times_out: bool, takes: int) -> TransactionScript:
    """A trace as the harness sees it; `seen` is of no other use here."""
    state = "Ongoing" if is_stuck else "CompleteAbort"
    shown = ServerState((state, 0, 3, None), ())
    ending = Ending(("probe_next_transaction", ()), ANYTHING, shown)
    return TransactionScript(
        tuple(EXPIRES) if times_out else (), (), ServerState(None, ()), (ending,), takes
    )


def played(traces: Sequence[tuple[bool, bool, int]]) -> tuple[Broker, list[tuple[int, TraceEnd]]]:
    """The broker, and how the traces ended."""
    broker = Broker()
    k = SimpleNamespace(bounds=SimpleNamespace(offsets=0, partitions=1, max_epoch=3))
    servers: Any = broker
    plays = Scheduler(ServersTestbed(servers, servers, k, ids=servers))
    scripts = [script_of(*trace) for trace in traces]
    return broker, [ended for ended in plays.run(enumerate(scripts)) if ended is not None]


@given(traces=TRACES)
def test_who_is_stuck_keeps_nobody_from_a_time_out(traces: list[tuple[bool, bool, int]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ServersTestbed, "session_kind", Pretended)
        patched.setattr(ServersTestbed, "asking", 3)
        patched.setattr(ServersTestbed, "most", 4)
        broker, ended = played(traces)
    assert sorted(number for number, _ in ended) == list(range(len(traces)))
    assert not any(outcome.is_undecided for _, outcome in ended)
    told = broker.happened
    assert told.count("T") == sum(out and takes != ENDS_BEFORE for _, out, takes in traces)
    assert told.count("S") + told.count("L") == sum(
        stuck and not (out and takes == ENDS_BEFORE) for stuck, out, takes in traces
    )
    assert not re.search("S[^B]*T", told), "a time-out behind who is stuck"
    assert not re.search("[SL][^B]*$", told), "who is stuck stays"
