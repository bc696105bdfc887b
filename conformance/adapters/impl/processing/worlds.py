"""The part of the model's processing world that is compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from conformance.adapters.impl.processing.shapes import INPUT, UNSTABLE
from conformance.generate.models import model_of_configuration
from conformance.judging.system import View
from conformance.judging.world_lockstep import WorldTables

NO_OFFSET: Final = -1


def tables_of(k: Any) -> WorldTables:
    """The tables of a configuration."""
    return WorldTables(k, model_of_configuration(k), view_of, errors_of)


def errors_of(rule: str, world: Any, choices: Sequence[int]) -> Iterator[str]:
    """The errors with which the group answers a commit of offsets: a member that is refused
    rejoins."""
    if rule == "offset_is_committed":
        is_refused = world.members[choices[0]].phase.name == "UP"
        yield "ILLEGAL_GENERATION" if is_refused else "NONE"


def view_of(world: Any) -> View:
    """A world of the model, shaped as WORLD. It has no identities, because the model has none."""
    group, store = world.group, world.store
    rows = len(INPUT)
    waits = any(offset != NO_OFFSET for offset in group.pending.values())
    return (
        tuple((m.phase.name, m.position) for m in world.members.values()),
        None,
        (group.committed,) * rows,
        UNSTABLE if waits else group.committed,
        tuple(() if o == NO_OFFSET else (o,) * rows for o in group.pending.values()),
        tuple((s.input_offset, s.member, s.fate.name) for s in store.output),
        tuple(progress.name for progress in store.progress.values()),
        read_committed(store),
    )


def read_committed(store: Any) -> View:
    """The records that a reader of committed records gets: those before the first record whose
    transaction has no marker yet. A transaction has one record, the last of its member."""
    last = {slot.member: i for i, slot in enumerate(store.output)}
    open_ones = [i for m, i in last.items() if store.progress[m].name != "NONE"]
    visible = store.output[: min(open_ones, default=len(store.output))]
    return tuple((s.input_offset, s.member) for s in visible if s.fate.name == "COMMITTED")
