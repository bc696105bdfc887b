"""The conditions under which an event of transactions is an incident, as coverage counts it."""

from __future__ import annotations

from model.language import Incident, Wire
from model.transactions.configuration import Configuration
from model.transactions.messages import Flag, Instance


def is_not_first(instance: Instance) -> bool:
    """Whether another instance came before."""
    return instance > 0


def loses_answer_at_once(k: Configuration, heard: Flag) -> bool:
    """Whether the answer is lost at once. An answer that waits for an append is lost only if its
    requester leaves."""
    return heard == 0 and not k.bounds.appends


def loses_answer(heard: Flag) -> bool:
    """Whether the answer is lost."""
    return heard == 0


LOST_ANSWER = Incident("lost_answer", loses_answer, wire=Wire.CONNECTIONS)
LOST_ANSWER_AT_ONCE = Incident("lost_answer", loses_answer_at_once, wire=Wire.CONNECTIONS)
LOST_MARKER_ANSWER = Incident("lost_marker_answer", loses_answer, wire=Wire.BROKER_CONNECTIONS)


def is_not_in_log(in_log: Flag) -> bool:
    """Whether the append has failed."""
    return in_log == 0


def is_in_log(in_log: Flag) -> bool:
    """Whether the append is in the log although it was reported as failed."""
    return in_log == 1
