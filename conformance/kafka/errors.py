"""What can go wrong with a real broker, by name."""

from __future__ import annotations


class KafkaError(Exception):
    """The base of all errors here."""

    exit_code = 3


class UnknownRelease(KafkaError):
    """No such release, or no such level of it, in the table."""

    exit_code = 2


class FormatFailed(KafkaError):
    """Kafka's storage tool refused; the message quotes what it printed."""


class BrokerFailed(KafkaError):
    """A broker ended or did not answer in time; the message quotes its log and says where it is."""


class WireError(KafkaError):
    """Something between a connection and its broker."""


class ConnectionLost(WireError):
    """Never reached, closed or reset by the broker, or it stopped taking requests."""


class AnswerTimeout(WireError):
    """A request was not answered in time. Its answer may still come: `receive` again, or abort."""


class UnexpectedAnswer(WireError):
    """A correlation id out of order, or an answer that nobody asked for. Abort the connection."""


class TooManyInFlight(KafkaError):
    """More unanswered requests than the limit; receive some answers first."""


class RequestRefused(KafkaError):
    """An error code that a helper cannot go on with, or one that did not go away in time."""
