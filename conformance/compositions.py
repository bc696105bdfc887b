"""The compositions that systems are judged against: each has scopes, actors, guarantees of its own.

A scope belongs to one of them, and so does a configuration: `judged_composition`,
`composition_of_configuration`. What follows from that is a field of `JudgedComposition`; a
composition that is judged anew is a row here, and a judge of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from proofs.lift.source import Model, composition_of, load_model


@dataclass(frozen=True, slots=True)
class JudgedComposition:
    """A composition, and how systems are judged against it.

    `judge` and `tables` are `module:function`, imported when they are called: a judge is made of
    tables, a system's name, its actors and the form of its messages. `actors` are the choices,
    `antecedents` names the witness that a guarantee's "if" happened; `only_with` is the part of a
    scope without which a guarantee says nothing. `over_wire` makes the target of a run at brokers.
    """

    name: str
    actors: tuple[str, ...]
    antecedents: Mapping[str, str]
    only_with: Mapping[str, str]
    tables: str
    judge: str
    observed_world: str
    over_wire: str

    @property
    def model(self) -> Model:
        """Its text, one copy a process: configurations and states are of its classes."""
        return _model(self.name)

    def called(self, place: str) -> Callable[..., Any]:
        """The function that `module:function` names."""
        module, _, function = place.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


@functools.cache
def _model(name: str) -> Model:
    return load_model(name)


SERVER_ACTORS: Final = "coordinator,leader"
"""A server that is both, and sends its markers by itself: traces take them at once."""

IDEMPOTENT: Final = JudgedComposition(
    name="idempotent",
    actors=("client,leader", "leader", "leader,transaction"),
    antecedents={
        "at_most_once": "duplicate_on_its_way",
        "acked_is_stored": "something_acknowledged",
        "no_gap": "batch_behind_another",
        "no_gap_behind_first": "batch_behind_another",
        "order_kept": "batch_behind_another",
        "acked_once": "something_acknowledged",
        "no_false_error": "batch_behind_another",
        "bumps_have_causes": "batch_behind_another",
        "acked_is_replicated": "something_acknowledged",
        "ids_come_first": "something_acknowledged",
        "sequences_follow": "batch_behind_another",
        "requests_are_awaited": "something_acknowledged",
        "errors_wait_for_nothing": "something_acknowledged",
        "late_errors_are_stored": "something_acknowledged",
        "sequences_have_ids": "something_acknowledged",
        "last_acked_is_the_latest": "something_acknowledged",
        "unknown_is_unresolved": "something_failed",
        "nothing_fails": "something_acknowledged",
        "high_watermark_sound": "something_acknowledged",
        "remembers_the_newest": "batch_behind_another",
    },
    only_with={},
    tables="conformance.tables:Tables",
    judge="conformance.judge:judge_of_system",
    observed_world="conformance.guaranteed:observed_world",
    over_wire="conformance.verbs.over_wire:leaders_target",
)

TRANSACTIONS: Final = JudgedComposition(
    name="transactions",
    actors=("client,coordinator,leader", SERVER_ACTORS),
    antecedents={
        "no_aborted_read": "something_aborted",
        "no_lost_write": "something_committed",
        "all_or_none": "something_committed",
        "acked_once": "something_committed",
        "no_gap": "something_committed",
        "order_kept": "something_committed",
        "offsets_with_outcome": "something_committed",
        "one_outcome": "something_committed",
        "no_write_outside": "something_committed",
        "fenced": "zombie_died",
        "epochs_unique": "zombie_died",
        "no_false_fencing": "something_committed",
        "stuck_only_while_aborting": "something_aborted",
        "untroubled_commits": "something_committed",
        "markers_are_taken": "something_committed",
        "last_epoch_is_nobodys": "something_aborted",
        "leaders_know_their_logs": "something_committed",
        "records_are_where_sent": "something_committed",
        "coordinator_epochs_rise": "something_committed",
        "newer_coordinators_fence": "something_committed",
        "coordinator_knows_its_log": "something_committed",
        "nothing_joins_prepared": "something_committed",
        "epochs_have_causes": "something_committed",
        "last_stable_offset_sound": "something_committed",
        "last_stable_offset_waits_for_others": "other_is_open",
        "no_dirty_read": "something_committed",
    },
    only_with={"offsets_with_outcome": "offsets"},
    tables="conformance.systems.transactions.tables:tables_of",
    judge="conformance.systems.transactions.judge:judge_of_system",
    observed_world="conformance.systems.transactions.judge:observed_world",
    over_wire="conformance.transactions.judging:servers_target",
)

PROCESSING: Final = JudgedComposition(
    name="processing",
    actors=("group,member",),
    antecedents={
        "output_produced_once": "a_replaced_member_works",
        "nothing_is_skipped": "an_offset_is_awaited",
        "offsets_never_go_back": "an_offset_is_awaited",
        "output_in_order": "two_have_shared",
    },
    only_with={},
    tables="conformance.systems.processing.worlds:tables_of",
    judge="conformance.systems.processing.world_judge:judge_of_system",
    observed_world="conformance.systems.processing.world_judge:observed_world",
    over_wire="conformance.verbs.over_wire:in_process_alone",
)

PRODUCER_IDS: Final = JudgedComposition(
    name="producer_ids",
    actors=("broker,controller",),
    antecedents={
        "producer_ids_unique": "a_block_is_used_up",
        "blocks_have_one_owner": "a_block_is_used_up",
        "no_block_wasted": "all_is_given",
    },
    only_with={},
    tables="conformance.systems.producer_blocks:tables_of",
    judge="conformance.systems.producer_blocks:judge_of_system",
    observed_world="conformance.systems.producer_blocks:observed_world",
    over_wire="conformance.verbs.over_wire:in_process_alone",
)

JUDGED_COMPOSITIONS: Final[Mapping[str, JudgedComposition]] = {
    c.name: c for c in (IDEMPOTENT, TRANSACTIONS, PROCESSING, PRODUCER_IDS)
}


def judged_composition(scope: str) -> JudgedComposition:
    """Whose scope it is; that of an unknown one is the first."""
    return JUDGED_COMPOSITIONS[composition_of(scope)]


def composition_of_configuration(k: Any) -> JudgedComposition:
    """Whose configuration it is."""
    parts = type(k.bounds).__module__.split(".")
    return JUDGED_COMPOSITIONS[parts[1]]
