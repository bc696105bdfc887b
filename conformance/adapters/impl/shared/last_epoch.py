"""Moves Kafka's last epoch as near as a scope has it.

A producer id has 32768 epochs, and no short trace reaches the last. While an actor of `impl` moves
in a scope whose epochs end, `impl` uses the scope's number for the last epoch. All of `impl`'s
handling of the last epoch then applies to that number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any, Final

from impl.coordinator import end_txn, metadata
from impl.partition import transactions
from impl.producer import sequence_manager

NAMES: Final[tuple[tuple[ModuleType, str], ...]] = (
    (metadata, "LAST_EPOCH"),
    (end_txn, "LAST_EPOCH"),
    (transactions, "LAST_EPOCH"),
    (sequence_manager, "LAST_EPOCH"),
)
"""The modules and names that hold the number."""


@contextmanager
def last_epoch(number: int) -> Iterator[None]:
    """Within this context, the last epoch is this one."""
    before = [getattr(module, name) for module, name in NAMES]
    for module, name in NAMES:
        setattr(module, name, number)
    try:
        yield
    finally:
        for (module, name), value in zip(NAMES, before, strict=True):
            setattr(module, name, value)


def present_last_epoch() -> int:
    """The last epoch that `impl` uses now."""
    module, name = NAMES[0]
    number: int = getattr(module, name)
    return number


def last_epoch_of(bounds: Any) -> AbstractContextManager[None]:
    """Within this context, the last epoch is that of the scope, if its epochs end."""
    return last_epoch(bounds.max_epoch) if bounds.epochs_end else nullcontext()
