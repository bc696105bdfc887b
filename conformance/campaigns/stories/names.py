"""Answers as texts that do not depend on the run: producer ids are named in order of appearance."""

from __future__ import annotations

from typing import Final

from conformance.adapters.brokers.reading import ObservedTransaction
from conformance.adapters.brokers.wire import Coordinator, Identified, PerPartition, Produced
from impl.protocol.errors import ErrorCode

LETTERS: Final = "PQRSTUVWXYZ"
"""The first producer id is P, the next Q."""


class ProducerNames:
    """Names for producer ids, in the order in which they first appear."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def producer(self, producer_id: int) -> str:
        """`P`, `Q`, ...; `-` for none."""
        if producer_id < 0:
            return "-"
        if producer_id not in self._known:
            turn, letter = divmod(len(self._known), len(LETTERS))
            self._known[producer_id] = LETTERS[letter] + (str(turn) if turn else "")
        return self._known[producer_id]

    def identity(self, producer_id: int, producer_epoch: int) -> str:
        """`P:3`."""
        return f"{self.producer(producer_id)}:{producer_epoch}"

    def answer(self, answer: object) -> str:
        """The name of an error, with the identity in the answer, if any."""
        match answer:
            case ErrorCode():
                return answer.name
            case Identified(error, producer_id, producer_epoch) if producer_id >= 0:
                return f"{error.name} {self.identity(producer_id, producer_epoch)}"
            case PerPartition(ErrorCode.NONE, partitions):
                errors = [error.name for _, error in sorted(partitions.items())]
                return " ".join(errors if len(set(errors)) > 1 else errors[:1])
            case Identified(error) | Produced(error) | PerPartition(error) | Coordinator(error):
                return error.name
        raise TypeError(f"no name for {answer!r}")

    def state(self, seen: ObservedTransaction) -> str:
        """`Ongoing P:3`, or the error for an id that does not exist."""
        if seen.error is not ErrorCode.NONE:
            return seen.error.name
        return f"{seen.state} {self.identity(seen.producer_id, seen.producer_epoch)}"
