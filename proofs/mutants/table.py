"""The named mutants: defects that shipped, and choices of the design undone, each as a patch of
the model, as a variant of it, or as a scope."""

from __future__ import annotations

from proofs.lift.patch import Patch
from proofs.mutants.row import BASE, Mutant, mutant
from proofs.mutants.transactional import TRANSACTIONAL

STRICT = f"{BASE}/first_sequence=strict"


def misused(
    name: str, reference: str, mechanism: str, scope: str, breaks: str, twin_scope: str
) -> Mutant:
    """A scope that lets happen what should not; its twin does not."""
    return Mutant(name, "variant", reference, mechanism, scope, BASE, breaks, BASE, (), twin_scope)


RELEASED: tuple[Mutant, ...] = (
    Mutant(
        name="any_first_sequence",
        kind="variant",
        reference="KAFKA-14359",
        mechanism="no producer state: any first sequence is accepted, so batch 2 overtakes batch 1",
        scope="idempotent-tiny/restarts=0",
        variant=BASE,
        property="order_kept",
        twin=STRICT,
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
        name="head_truncation_drops_state",
        kind="variant",
        reference="KAFKA-7190, KAFKA-7298",
        mechanism="the last batch of a producer is deleted, and its state with it",
        scope="idempotent-deletion/restarts=0/crashes=0",
        variant=f"{BASE}/first_sequence=unknown_producer_id/head_truncation=evicts",
        property="no_false_error",
        twin=f"{BASE}/first_sequence=unknown_producer_id",
    ),
    Mutant(
        name="failure_of_old_id_closes_gap",
        kind="variant",
        reference="KAFKA-8484",
        mechanism="a batch of the id that was given back fails, and the next id's next two batches"
        " have one sequence: the second counts as stored",
        scope="idempotent-five-forgotten",
        variant="2.0.0",
        property="acked_is_stored",
        twin="2.0.0/recovery=reset_2_3",
    ),
    misused(
        "expired_state_readmits",
        "KIP-854, AutoMQ #1377",
        "producer state expires, and a very late retry is taken for a first batch",
        "idempotent-expiry",
        "acked_once",
        "idempotent-expiry/expiries=0",
    ),
)
"""What some release does; the twin has the better rule, or is without the event."""

SHIPPED: tuple[Mutant, ...] = (
    mutant(
        "sequence_wraps_negative",
        "KAFKA-7692, KAFKA-7693",
        "after the last sequence the leader expects the least negative one, never 0",
        "idempotent-wrap",
        "no_false_error",
        Patch(
            "leader.in_sequence",
            "following == 0 and last == k.bounds.max_sequence",
            "following == -k.bounds.max_sequence - 1 and last == k.bounds.max_sequence",
        ),
        on=f"{BASE}/sequence_order=wraps",
    ),
    mutant(
        "out_of_order_for_duplicate",
        "Redpanda #3039",
        "a duplicate is answered out of order; the client bumps and writes it again",
        "idempotent-tiny/refusals=0/restarts=0",
        "acked_once",
        Patch(
            "leader.on_produce",
            "success(k, leader, batch, known.last_offset - known.offset_delta)",
            "refusal(leader, batch, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)",
        ),
    ),
    mutant(
        "snapshot_not_forced",
        "KAFKA-9892",
        "a snapshot is believed that never reached the disk: what it covered is forgotten",
        "idempotent-crash",
        "at_most_once",
        Patch(
            "leader.recover",
            "map_values(k, snapshot, fold(k, replayed, before, nobody(k)))",
            "nobody(k)",
        ),
    ),
    mutant(
        "same_producer_id_twice",
        "KAFKA-15552, KAFKA-20031",
        "a block is written without asking for the version that was read: two brokers have it",
        "producer-ids",
        "producer_ids_unique",
        Patch("store.on_write", "store.version != expected_version", "store.version < 0"),
        Patch("store.on_write", "store.version + 1", "min(store.version + 1, k.bounds.blocks)"),
        on="3.9.2-zookeeper",
    ),
    mutant(
        "reassign_in_heap_order",
        "KAFKA-8483",
        "a bump numbers batches in the order of a heap's array, 0, 2, 1",
        "idempotent-default/refusals=0",
        "order_kept",
        Patch(
            "recovery.rewritten",
            "renumbered(k, entry.in_flight, producer_id, epoch)",
            "renumbered(k, (*entry.in_flight[:1], *entry.in_flight[2:],"
            " *entry.in_flight[1:][:1]), producer_id, epoch)",
        ),
        on=STRICT,
    ),
    mutant(
        "other_partitions_keep_sequences",
        "KAFKA-12152",
        "after a bump, partitions with nothing in flight go on with their old sequences",
        "idempotent-partitions/refusals=0",
        "bumps_have_causes",
        Patch("client.numbered", "0", "entry.next_sequence"),
        Patch("client.numbered", "NO_SEQUENCE", "entry.last_acked_sequence"),
    ),
    mutant(
        "counter_reset_on_metadata_loss",
        "librdkafka 1.9.0 change log",
        "a partition that is lost and found again begins at sequence 0",
        "idempotent-default/refusals=0/restarts=0",
        "acked_is_stored",
        Patch(
            "responses.on_disconnect",
            "replace(told.partitions[partition], given_up=())",
            "replace(told.partitions[partition], given_up=(), next_sequence=0)",
        ),
    ),
    mutant(
        "sequence_reused_after_unknown_outcome",
        "franz-go #1217",
        "a batch of unknown outcome is dropped, and its sequence given to the next record",
        "idempotent-timeout/refusals=0",
        "acked_is_stored",
        Patch(
            "recovery.expire_batch",
            "failed(k, entry, old[0])",
            "replace(failed(k, entry, old[0]), next_sequence=old[0].batch.base_sequence)",
        ),
        Patch(
            "recovery.expire_batch",
            "max(entry.unresolved_sequence, end) if old[0].attempts > 0"
            " else entry.unresolved_sequence",
            "NO_SEQUENCE",
        ),
    ),
    mutant(
        "sequence_used_by_unsent_record",
        "sarama #1661",
        "a record that was never sent uses up a sequence",
        "idempotent-tiny/refusals=0/restarts=0",
        "no_false_error",
        Patch(
            "responses.on_disconnect",
            "replace(told.partitions[partition], given_up=())",
            "replace(told.partitions[partition], given_up=(),"
            " next_sequence=increment_sequence(k, told.partitions[partition].next_sequence, 1))",
        ),
    ),
    mutant(
        "buffer_reused_in_flight",
        "KAFKA-19012",
        "a batch that was given up is still on its way when its buffer gets other records",
        "idempotent-timeout/refusals=0",
        "at_most_once",
        Patch(
            "world.sent",
            "w.links[producer][partition]",
            "replace(w.links[producer][partition], requests=tuple("
            "replace(r, batch=replace(r.batch, first_record=step.sends[0].batch.first_record))"
            " if any(g.batch.first_record == r.batch.first_record"
            " for g in w.clients[producer].partitions[partition].given_up) else r"
            " for r in w.links[producer][partition].requests))",
        ),
    ),
)
"""Defects that shipped, in Kafka or beside it."""

UNDONE: tuple[Mutant, ...] = (
    misused(
        "window_smaller_than_in_flight",
        "Kafka's choice of five",
        "more batches are in flight than the leader remembers",
        "idempotent-six-in-flight",
        "no_false_error",
        "idempotent-five-in-flight",
    ),
    misused(
        "one_producer_id_for_two",
        "KIP-98",
        "two producers have one producer id: one's batch is taken for the other's duplicate",
        "idempotent-shared-id",
        "acked_is_stored",
        "idempotent-producers",
    ),
    mutant(
        "one_sequence_for_all_producers",
        "KIP-98",
        "a partition keeps one sequence, whoever writes",
        "idempotent-producers",
        "acked_is_stored",
        Patch("leader.on_produce", "leader.producers[batch.producer_id]", "leader.producers[0]"),
        Patch(
            "leader.replayed",
            "producers.put(producer_id, remember(k, producers[producer_id], stored))",
            "producers.put(0, remember(k, producers[0], stored))",
        ),
    ),
    mutant(
        "one_sequence_for_all_partitions",
        "KIP-98",
        "a producer counts its records, wherever they go: each partition sees gaps",
        "idempotent-partitions/breaks=0/refusals=0/restarts=0",
        "no_false_error",
        Patch(
            "client.new_batch",
            "entry.next_sequence",
            "sum(e.next_sequence for e in client.partitions.values())",
        ),
    ),
    mutant(
        "any_later_sequence",
        "KIP-98",
        "a leader takes any sequence above the last",
        "idempotent-default/restarts=0",
        "no_gap",
        Patch(
            "leader.in_sequence",
            "following == last + 1",
            "following > last",
        ),
        on=STRICT,
    ),
    mutant(
        "gap_dropped_silently",
        "KIP-98",
        "a batch that does not come next is dropped, and its producer told that all is well",
        "idempotent-tiny/restarts=0",
        "acked_is_stored",
        Patch(
            "leader.on_produce",
            "refusal(leader, batch, error)",
            "success(k, leader, batch, 0) if error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER"
            " else refusal(leader, batch, error)",
        ),
        on=STRICT,
    ),
    mutant(
        "older_epoch_begins_again",
        "KIP-98",
        "a batch of an older epoch is let in if it begins at 0",
        "idempotent-default",
        "at_most_once",
        Patch(
            "leader.check_producer_epoch",
            "batch.producer_epoch < entry.producer_epoch",
            "batch.producer_epoch < entry.producer_epoch and batch.base_sequence != 0",
        ),
    ),
)
"""Choices of the design, each undone."""

RESETS: tuple[Mutant, ...] = (
    mutant(
        "producer_id_given_again",
        "KIP-98",
        "the id that was given back is given again: its sequences begin at 0, and are remembered",
        "idempotent-forgotten",
        "acked_is_stored",
        Patch(
            "world.client_receives_producer_id",
            "recovery_rules.receive_producer_id(k, client, w.given_producer_ids)",
            "recovery_rules.receive_producer_id(k, client, 0)",
        ),
        on="2.4.1",
    ),
    mutant(
        "old_id_is_retried",
        "KAFKA-5494",
        "a batch of the id that was given back is sent again, as if it had the new id's sequences",
        "idempotent-forgotten",
        "acked_is_stored",
        Patch("responses.retry", "resets and not is_mine(client, answered.batch)", "False"),
        on="2.4.1",
    ),
    mutant(
        "old_batch_under_new_id",
        "KIP-98",
        "what waits when the id is given back goes out under the next one, its sequence as it was",
        "idempotent-partitions/refusals=0",
        "acked_once",
        Patch(
            "client.send_again",
            "ready[0].batch",
            "replace(ready[0].batch, producer_id=client.producer_id)",
        ),
        on="2.0.0",
    ),
)
"""The recoveries before KIP-360, each with something left out of them."""

BELIEVED: tuple[Mutant, ...] = (
    mutant(
        "resend_of_what_failed",
        "KIP-98",
        "what was reported as failed is stored all the same; its application sends it again, and"
        " its sequences are new ones",
        "idempotent-timeout/refusals=0/breaks=0/timeouts=1/records=2",
        "acked_once",
        Patch(
            "recovery.expire_batch",
            "failed(k, entry, old[0])",
            "replace(failed(k, entry, old[0]), records_sent=old[0].batch.first_record)",
        ),
    ),
)
"""What applications do, and no producer makes good: each a patch of the application's part."""

MUTANTS: tuple[Mutant, ...] = (*RELEASED, *SHIPPED, *UNDONE, *RESETS, *BELIEVED, *TRANSACTIONAL)
