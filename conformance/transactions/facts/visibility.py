"""What readers see: the last stable offset and the aborted list, with two producers."""

from __future__ import annotations

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.reading import Isolation, committed_values, fetch
from conformance.transactions.wire import Conversation, Producer

COMMIT, ABORT = True, False


@experiment("v1")
def visibility_v1(lab: Lab) -> None:
    """V1 requests."""
    _visibility(lab, lab.v1)


@experiment("v2")
def visibility_v2(lab: Lab) -> None:
    """V2 requests."""
    _visibility(lab, lab.v2)


def _visibility(lab: Lab, c: Conversation) -> None:
    """P begins first and ends last; Q is aborted in between; a plain write comes last."""
    first, second, plain = lab.begin(c), lab.begin(c), lab.begin(c)
    [at] = lab.ground.topic()
    lab.open(c, first, at)
    lab.open(c, second, at)
    lab.ask_leader(at, c.produce(plain, at, 0, "plain", is_transactional=False))
    lab.fact("both open", "end 0, aborted nothing, reads nothing", readers(lab, at))
    lab.end(c, second, ABORT)
    lab.fact("the second aborted", "end 0, aborted nothing, reads nothing", readers(lab, at))
    lab.end(c, first, COMMIT)
    expected = "end 5, aborted Q from 1, reads value plain"
    lab.fact("the first committed", expected, readers(lab, at))
    third = lab.begin(c)
    lab.open(c, third, at)
    expected = "end 5, aborted Q from 1, reads value plain"
    lab.fact("another one open", expected, readers(lab, at))
    _end_of_open(lab, c, third, at)


def _end_of_open(lab: Lab, c: Conversation, third: Producer, at: TopicPartition) -> None:
    lab.end(c, third, ABORT)
    name = lab.names.producer(third.producer_id)
    expected = f"end 7, aborted Q from 1 {name} from 5, reads value plain"
    lab.fact("and aborted", expected, readers(lab, at))
    lab.fact(
        "read from offset 4 on", f"end 7, aborted {name} from 5, reads nothing", readers(lab, at, 4)
    )


def readers(lab: Lab, at: TopicPartition, offset: int = 0) -> str:
    """`end 5, aborted Q from 1, reads value plain`: a read_committed fetch from `offset` on."""
    seen = lab.ground.leader(at).ask(fetch(at, offset, Isolation.READ_COMMITTED))
    aborted = [f"{lab.names.producer(who)} from {first}" for who, first in sorted(seen.aborted)]
    values = " ".join(committed_values(seen)) or "nothing"
    return (
        f"end {seen.last_stable_offset}, aborted {' '.join(aborted) or 'nothing'}, reads {values}"
    )
