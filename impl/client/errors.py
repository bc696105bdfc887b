"""The errors that the producer and the consumer share."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from enum import Enum
from typing import Any

from impl.suggestions import explain_unknown


class Advice(Enum):
    """What to do after an error. KIP-1050 groups errors in the same way."""

    RETRY = "retry"  # nothing was written: the same call may succeed later
    ABORT = "abort"  # this record (or call) failed, the client continues
    GIVE_UP = "give up"  # the client cannot continue: close it


class ClientError(Exception):
    """Any error of a client. `advice` says what to do next.

    Attributes: `legal_calls` of a transactional producer after it. Other clients may call anything,
    unless the advice is GIVE_UP.
    """

    advice = Advice.GIVE_UP
    legal_calls: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes: `Exception` would call the class with only the message."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__


class ProducerError(ClientError):
    """Any error of the producer."""


class ConsumerError(ClientError):
    """Any error of the consumer."""


class InvalidArgumentError(ProducerError, ConsumerError, ValueError):
    """An invalid argument; nothing has changed. `IllegalArgumentException`.

    Attributes: `argument`, its name.
    """

    advice = Advice.ABORT

    def __init__(self, argument: str, may_be: str, is_now: object) -> None:
        super().__init__(f"{argument} {may_be}, is {reprlib.repr(is_now)}")
        self.argument = argument


class UnknownSettingError(ProducerError, ConsumerError, TypeError):
    """A client has no setting of this name; the message names the one that was probably meant.

    Attributes: `setting`, the unknown name.
    """

    advice = Advice.ABORT

    def __init__(self, client: str, setting: str, known: Iterable[str]) -> None:
        where = f"help({client}) lists all"
        super().__init__(explain_unknown(f"setting of {client}", setting, known, where=where))
        self.setting = setting


class IllegalStateError(ProducerError, ConsumerError):
    """The call is not legal now, and nothing has changed. `IllegalStateException`.

    The message says what to do first; a producer's error also lists its `legal_calls`.
    """

    advice = Advice.ABORT

    def __init__(self, message: str, legal_calls: tuple[str, ...] = ()) -> None:
        legal = f"; legal now: {', '.join(legal_calls)}" if legal_calls else ""
        super().__init__(message + legal)
        self.legal_calls = legal_calls


class KafkaTimeoutError(ProducerError, ConsumerError):
    """A call took too long: it may be repeated. `TimeoutException`.

    A producer's record was not queued; any other call of a producer continues: repeat it to get its
    result.
    """

    advice = Advice.RETRY


class UnknownTopicOrPartitionError(KafkaTimeoutError):
    """The cluster had no such topic or partition for the whole time that a call waited for it.

    Source: `UnknownTopicOrPartitionException`, the cause of the `TimeoutException`.
    """


class CommitFailedError(ConsumerError):
    """The group has given the partitions to others meanwhile: their records are read again there.

    Nothing was committed; the next call for records joins the group again. A transaction whose
    offsets they are can only be aborted. `CommitFailedException`, KIP-447.
    """

    advice = Advice.ABORT
