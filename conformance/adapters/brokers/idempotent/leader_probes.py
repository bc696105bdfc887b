"""Probes: requests after a trace that distinguish states which the trace's answers do not.

On short traces, a leader that remembers four batches answers like one that remembers five. So each
trace ends with the same probes of each leader, for each producer with a batch in its log:

| probe | requests | reveals |
|---|---|---|
| `again` | the last six batches of the log, unchanged | the remembered batches and their offsets |
| `gap` | the sequence after the next | whether the leader notices a gap |
| `overlap` | the last sequence and the next in one batch | whether a part is taken for the whole |
| `next` | the next sequence, until six batches of the epoch are stored | where the log ends |
| `window` | the last six batches again | how many batches are remembered |
| `epoch_begins` | the next epoch, at 1, then at 0 | where an epoch may begin |
| `old_epoch` | the previous epoch: its next sequence, then its last batch again | who is a zombie |
| `new_epoch` | the new epoch's next sequence | whether a zombie did harm |

The observer, not this module, says which answers are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from model.idempotent.configuration import Configuration
from model.idempotent.leader import Leader
from model.idempotent.messages import Batch, increment_sequence, last_sequence
from model.releases import MAX_BATCHES_TO_REMEMBER

PROBED_BATCHES: Final = MAX_BATCHES_TO_REMEMBER + 1
"""One more than a leader remembers."""

Probe = Callable[[Configuration, Leader, int], Iterator[Batch]]
"""Takes the leader's state before a probe, and returns the batches of the probe."""


def stored(leader: Leader, producer: int) -> list[Batch]:
    """The batches of a producer in the log, oldest first."""
    return [entry.batch for entry in leader.log if entry.batch.producer_id == producer]


def follower(k: Configuration, batch: Batch, skip: int = 0) -> Batch:
    """One new record with the sequence after a batch's last one, or `skip` later."""
    return Batch(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=increment_sequence(k, last_sequence(k, batch), 1 + skip),
        record_count=1,
        producer=batch.producer,
        first_record=batch.first_record + batch.record_count + skip,
    )


def again(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """The last six batches, unchanged."""
    yield from stored(leader, producer)[-PROBED_BATCHES:]


def gap(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """A batch that leaves out one sequence."""
    yield follower(k, stored(leader, producer)[-1], skip=1)


def overlap(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """A batch with one record that is stored and one that is not."""
    last = stored(leader, producer)[-1]
    first = last.first_record + last.record_count - 1
    yield replace(last, base_sequence=last_sequence(k, last), record_count=2, first_record=first)


def following(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """Batches of one record: at least one, until the epoch has six batches."""
    batches = stored(leader, producer)
    epoch = batches[-1].producer_epoch
    count = sum(batch.producer_epoch == epoch for batch in batches)
    last = batches[-1]
    for _ in range(max(PROBED_BATCHES - count, 1)):
        last = follower(k, last)
        yield last


def epoch_begins(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """The next epoch: at sequence 1, at which no epoch may begin, then at 0."""
    last = follower(k, stored(leader, producer)[-1])
    for sequence in (1, 0):
        yield replace(last, producer_epoch=last.producer_epoch + 1, base_sequence=sequence)


def old_epoch(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """The previous epoch: its next batch, and its last batch again."""
    *older, newest = stored(leader, producer)
    last = next(b for b in reversed(older) if b.producer_epoch < newest.producer_epoch)
    yield follower(k, last)
    yield last


def new_epoch(k: Configuration, leader: Leader, producer: int) -> Iterator[Batch]:
    """The next batch of the newest epoch."""
    yield follower(k, stored(leader, producer)[-1])


PROBES: Final[Mapping[str, Probe]] = {
    "again": again,
    "gap": gap,
    "overlap": overlap,
    "next": following,
    "window": again,
    "epoch_begins": epoch_begins,
    "old_epoch": old_epoch,
    "new_epoch": new_epoch,
}
"""The probes by name, in order: each begins in the state that the previous ones leave."""


def heard_producers(k: Configuration, leader: Leader) -> list[int]:
    """The producer ids with a batch in the log, whether the leader still has their state or not."""
    return [producer for producer in range(k.bounds.producer_ids) if stored(leader, producer)]
