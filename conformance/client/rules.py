"""The model's rules of a client, as the judge asks them: what is not enabled gives nothing.

A batch whose delivery time-out has passed is not sent again after an error, and what is sent again
stands behind what was sent meanwhile when batches expire. Where the model does not have these
choices, they give nothing either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, Final, ParamSpec, TypeVar

from model import answers, recovery
from model.client import Client, InFlightBatch
from model.language import Disabled
from model.messages import ProduceResponse
from model.setting import Setting

Given = ParamSpec("Given")
T = TypeVar("T")

ANSWER: Final[Callable[..., Client]] = answers.on_answer
DISCONNECT: Final[Callable[..., Client]] = answers.on_disconnect
EXPIRE: Final[Callable[..., Client]] = recovery.expire_batch
KNOWS_TIME: Final = "overdue" in signature(ANSWER).parameters
KNOWS_ORDER: Final = "position" in signature(EXPIRE).parameters


def attempted(rule: Callable[Given, T], *arguments: Given.args, **named: Given.kwargs) -> T | None:
    """What a rule gives, or None where it is not enabled."""
    try:
        return rule(*arguments, **named)
    except Disabled:
        return None


def on_answer(
    k: Setting, client: Client, partition: int, answer: ProduceResponse, may_be_late: bool
) -> Iterator[Client]:
    """The client after an answer; its batch's time may be up."""
    choices: list[tuple[Any, ...]] = [(0,), (1,)][: 1 + may_be_late] if KNOWS_TIME else [()]
    for choice in choices:
        yield ANSWER(k, client, partition, answer, *choice)


def on_disconnect(k: Setting, client: Client, partition: int, late: int) -> Iterator[Client]:
    """The client without its connection; the time of its first `late` batches may be up."""
    choices: list[tuple[Any, ...]] = [(n,) for n in range(late + 1)] if KNOWS_TIME else [()]
    for choice in choices:
        yield DISCONNECT(k, client, partition, *choice)


def expire_batch(
    k: Setting, client: Client, partition: int
) -> Iterator[tuple[InFlightBatch, Client]]:
    """Each batch that may expire next, and the client without it."""
    for position, old in enumerate(recovery.overdue(k, client.partitions[partition])):
        choice = (position,) if KNOWS_ORDER else ()
        expired = attempted(EXPIRE, k, client, partition, *choice)
        if expired is not None:
            yield old, expired
