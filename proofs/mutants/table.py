"""The named mutants: defects that shipped, each as a patch of the model or as a variant of it."""

from __future__ import annotations

from dataclasses import dataclass

from proofs.lift.text import Patch

BASE = "4.3.1/level=2/requests=v2"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect, where it shows, and what it breaks.

    `kind` is "mutant" (a patch) or "variant" (what some release does). `twin` is the variant that
    must be clean in the same scope: of a mutant its own variant without the patches, of a variant
    the one with the better rule.
    """

    name: str
    kind: str
    reference: str
    mechanism: str
    scope: str
    variant: str
    property: str
    twin: str
    patches: tuple[Patch, ...] = ()


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="any_first_sequence",
        kind="variant",
        reference="KAFKA-14359",
        mechanism="no producer state: any first sequence is accepted, so batch 2 overtakes batch 1",
        scope="idempotent-tiny/restarts=0",
        variant=BASE,
        property="order_kept",
        twin=f"{BASE}/first_sequence=strict",
    ),
    Mutant(
        name="window_of_one_after_restart",
        kind="variant",
        reference="KAFKA-9199, AutoMQ #437",
        mechanism="a snapshot keeps one batch, so the retry of the second last is no duplicate",
        scope="idempotent-restart",
        variant=BASE,
        property="acked_once",
        twin=f"{BASE}/restart_window=full",
    ),
    Mutant(
        name="sequence_wraps_negative",
        kind="mutant",
        reference="KAFKA-7692, KAFKA-7693",
        mechanism="after the last sequence the leader expects the least negative one, never 0",
        scope="idempotent-wrap",
        variant=BASE,
        property="no_false_error",
        twin=BASE,
        patches=(
            Patch(
                "leader.in_sequence",
                "following == 0 and last == k.layout.max_sequence",
                "following == -k.layout.max_sequence - 1 and last == k.layout.max_sequence",
            ),
        ),
    ),
    Mutant(
        name="out_of_order_for_duplicate",
        kind="mutant",
        reference="Redpanda #3039",
        mechanism="a duplicate is answered out of order; the client bumps and writes it again",
        scope="idempotent-tiny/refusals=0/restarts=0",
        variant=BASE,
        property="acked_once",
        twin=BASE,
        patches=(
            Patch(
                "leader.on_produce",
                "answer(batch, Error.NONE, first_offset, required_offset)",
                "answer(batch, Error.OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_OFFSET, 0)",
            ),
        ),
    ),
    Mutant(
        name="reassign_in_heap_order",
        kind="mutant",
        reference="KAFKA-8483",
        mechanism="a bump numbers batches in the order of a heap's array, 0, 2, 1",
        scope="idempotent-default/refusals=0",
        variant=f"{BASE}/first_sequence=strict",
        property="order_kept",
        twin=f"{BASE}/first_sequence=strict",
        patches=(
            Patch(
                "client.rewritten",
                "renumbered(k, entry.in_flight, epoch)",
                "renumbered(k, (*entry.in_flight[:1], *entry.in_flight[2:],"
                " *entry.in_flight[1:][:1]), epoch)",
            ),
        ),
    ),
)
