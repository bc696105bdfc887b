"""The threads of a scope, among which PCT decides who moves next.

A thread is an actor, a channel that keeps its messages in order, or one fault: each event declares
its thread. A fault has a thread of its own, so that a lost answer or an early restart of a leader
is as likely as a late one, or as none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from model.language import Thread, declaration_of
from proofs.lift.source import Model
from proofs.trace.format import Instance

Numbered = tuple[str, tuple[int | None, ...]]
"""The name of a thread, and its number among those of that name; None if the choice does not say.
"""

LOST_ANSWERS: Final = Thread("lost answers", ("instance", "partition"))
"""Events of other threads whose answer the network loses."""


def thread_of(model: Model, instance: Instance) -> Numbered:
    """The thread that a rule instance belongs to."""
    rule, values = instance
    choice = dict(values)
    declared = declaration_of(model.rules[rule]).thread
    thread = LOST_ANSWERS if choice.get("heard") == 0 else declared
    return thread.name, tuple(choice.get(name) for name in thread.by)


def threads_of(model: Model, instances: Iterable[Instance]) -> list[int]:
    """The thread of each instance as a number, in the order in which they first appear."""
    numbers: dict[Numbered, int] = {}
    return [numbers.setdefault(thread_of(model, i), len(numbers)) for i in instances]
