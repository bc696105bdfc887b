"""The errors of real brokers."""

from __future__ import annotations


class KafkaError(Exception):
    """The base of all errors here."""

    exit_code = 3


class UnknownRelease(KafkaError):
    """The table has no such release, or no such level of it."""

    exit_code = 2


class FormatFailed(KafkaError):
    """Kafka's storage tool refused; the message quotes its output."""


class BrokerFailed(KafkaError):
    """A broker ended or did not answer in time; the message quotes its log and gives the log's
    path."""


class WireError(KafkaError):
    """The connection to a broker failed."""


class ConnectionLost(WireError):
    """The broker was never reached, closed or reset the connection, or stopped taking requests."""


class AnswerTimeout(WireError):
    """A request was not answered in time. Its answer may still come: `receive` again, or abort."""


class UnexpectedAnswer(WireError):
    """A correlation id out of order, or a response without a request. The caller must abort the
    connection."""


class TooManyInFlight(KafkaError):
    """More unanswered requests than the limit; receive some answers first."""


class RequestRefused(KafkaError):
    """An error code that is final, or that did not go away in time."""
