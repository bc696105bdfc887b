"""One instance and the leader of a partition, V1 or V2: that no record is stored twice, and what an
answer without error is worth.

Theory of operation. The coordinator is not here: what it answers may be anything. A batch of the
instance keeps, from its first sending on, the pair and the sequence that it then had (`batch_id`,
`batch_epoch`, `batch_sequence`), and may arrive at any time and any number of times; so no record
is stored twice, whatever is late. That an answer without error means that the record is stored
needs more: a sequence that was given back is another record's next. So there, a batch arrives only
while its sender waits for its answer, and is refused only if it is not in the log
(`batches_on_time`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from model.transactions.client_state import ClientState as Client
from model.transactions.client_state import Membership, Write
from proofs.lift.dag import FALSE, TRUE, Node, conjunction, const, eq, ite
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.acknowledgements import holds, is_own_record, is_placed, remembers
from proofs.prove.transactions.client import N, has_begun, one_of, own_pair, state_of, there
from proofs.prove.transactions.coordinator import PLACE
from proofs.prove.transactions.instances import (
    ME,
    NUMBER,
    TRANSACTION,
    Instances,
    InstanceState,
    T,
    is_instance,
    is_of_group,
    present,
)
from proofs.prove.transactions.partition import I, in_log, is_data, log
from proofs.prove.transactions.state import (
    HERE,
    NONE,
    PARTITIONS,
    both_are,
    extend,
    pair,
    with_ghosts,
)
from proofs.prove.transactions.steps import is_batch, merged
from proofs.prove.unknowns import Predicate, function, never, truth

ONE = const(1)
BATCH = ("batch_id", "batch_epoch", "batch_sequence")


@dataclass(frozen=True, slots=True)
class RecordsState(InstanceState):
    """A state in which each batch of the instance is known by its transaction and number."""

    batch_id: Predicate
    batch_epoch: Predicate
    batch_sequence: Predicate
    acked: Predicate


class Records(Instances):
    """The steps of one instance and one leader."""

    before: RecordsState

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        batch = {name: function(name) for name in BATCH}
        self.before = extend(
            RecordsState, self.before, **batch, acked=function("acked", is_bool=True)
        )

    def initial(self) -> RecordsState:
        """Nobody has begun."""
        batch = {name: never(NONE) for name in BATCH}
        return extend(RecordsState, super().initial(), **batch, acked=never(FALSE))

    def named(self, name: str) -> ProofStep:
        """A step by its name."""
        return SENDERS[name](self) if name in SENDERS else super().named(name)

    def ask_coordinator(
        self, name: str, sends: str, hears: str, *, adds: bool = False
    ) -> ProofStep:
        """A request to the coordinator, and any answer that one may give, or none. Only who is
        asked whether a partition is in a transaction answers TRANSACTION_ABORTABLE."""
        evaluator, rules = self.evaluator(), self.model.client
        asked = evaluator.call(getattr(rules, sends), [self.k, self.before.client])
        answer = self.unknowns.record(self.model.messages.Answer, "answer")
        partitions = [asked.sends.slots[0].partitions] if adds else []
        sent = asked.actor
        told = evaluator.call(getattr(rules, hears), [self.k, sent, *partitions, answer])
        client = merged(evaluator, truth("heard"), told, sent)
        after = with_ghosts(self.before, client=client)
        aborts = int(self.model.messages.Error.TRANSACTION_ABORTABLE)
        possible: Formula = ((), ~answer.error.eq(aborts))
        new = (self.is_new(after),) if self.is_on_time else ()
        return self.make_step(name, evaluator, after, is_instance(), possible, *new)

    @property
    def is_on_time(self) -> bool:
        """Nothing is late, nothing that is stored is refused, and pairs are kept."""
        return "my_late_batch" not in self.of.steps

    def is_new(self, after: RecordsState) -> Formula:
        """A pair that the instance is told, under which it counts anew, has no record here."""
        stored, told = log(self.before, I), own_pair(after)
        counts = [there(state, HERE).next_sequence for state in (self.before, after)]
        same = both_are(told, own_pair(self.before)) & eq(*counts)
        written = both_are((stored.producer_id, stored.producer_epoch), told)
        some = in_log(self.before, I) & is_data(stored) & written
        return (I,), same | ~some

    def arrives(self, name: str, sends: str, hears: str, rule: str) -> ProofStep:
        """A batch of the instance is sent, first or again; the leader takes it, or it is refused
        unread; and its answer is heard, or not."""
        rules, evaluator = self.model.client, self.evaluator()
        asked = evaluator.call(getattr(rules, sends), [self.k, self.before.client, ME, HERE])
        request, sent = asked.sends.slots[0], asked.actor
        batch = request.batch
        taken = evaluator.call(
            getattr(self.model.leader, rule), [self.k, self.before.leader, batch]
        )
        refusal = self.unknowns.record(self.model.messages.ProduceAnswer, "refusal")
        reads = truth("reads")
        leader = merged(evaluator, reads, taken.actor, self.before.leader)
        answer = merged(evaluator, reads, taken.sends.slots[0], refusal)
        told = evaluator.call(getattr(rules, hears), [self.k, sent, HERE, answer])
        client = merged(evaluator, truth("heard"), told, sent)
        good = truth("heard") & answer.error.eq(0)
        key, was = (present(self.before), batch.number), self.before.acked
        after = with_ghosts(
            self.also_named(batch),
            client=client,
            leader=leader,
            acked=lambda t, n: was(t, n) | good & both_are((t, n), key),
        )
        state = self.kept(after, batch, is_mine=True)
        given = [is_instance(), is_batch(batch)]
        given.append(((), ~refusal.error.eq(0)))
        if self.is_on_time:
            given.append(self.refused_is_absent(batch, answer))
        return self.make_step(name, evaluator, state, *given)

    def is_sent(self, name: str, sends: str) -> ProofStep:
        """A batch of the instance is given up on its way."""
        evaluator = self.evaluator()
        rule = getattr(self.model.client, sends)
        asked = evaluator.call(rule, [self.k, self.before.client, ME, HERE])
        named = self.also_named(asked.sends.slots[0].batch)
        after = with_ghosts(named, client=asked.actor)
        return self.make_step(name, evaluator, after, is_instance())

    def refused_is_absent(self, batch: Rec, answer: Rec) -> Formula:
        """A batch that is refused is not in the log."""
        stored, named = log(self.before, I), batch
        same = (
            in_log(self.before, I)
            & is_data(stored)
            & both_are((stored.producer_id, stored.producer_epoch), pair(named))
            & stored.sequence.eq(named.base_sequence)
        )
        return (I,), answer.error.eq(0) | ~same

    def also_named(self, batch: Rec) -> RecordsState:
        """A batch has its pair and its sequence from its first sending on."""
        before, named = self.before, batch
        key = (present(before), named.number)
        new = ~before.sent_batch(*key)
        values = (*pair(named), named.base_sequence)

        def put(old: Predicate, value: Node) -> Predicate:
            return lambda t, n: ite(new & both_are((t, n), key), value, old(t, n))

        olds = (getattr(before, name) for name in BATCH)
        changed = {n: put(o, v) for n, o, v in zip(BATCH, olds, values, strict=True)}
        was_sent = before.sent_batch
        return with_ghosts(
            before, sent_batch=lambda t, n: was_sent(t, n) | both_are((t, n), key), **changed
        )

    def deliver_late(self, name: str, rule: str, place: Node) -> ProofStep:
        """A batch that the instance has sent arrives, and nobody waits for its answer."""
        evaluator, batch = self.evaluator(), self.batch()
        mine = {
            "producer_id": self.before.batch_id(TRANSACTION, NUMBER),
            "producer_epoch": self.before.batch_epoch(TRANSACTION, NUMBER),
            "base_sequence": self.before.batch_sequence(TRANSACTION, NUMBER),
            "instance": ME,
            "transaction": TRANSACTION,
            "number": NUMBER,
        }
        batch = batch.changed(**mine)
        step = evaluator.call(getattr(self.model.leader, rule), [self.k, self.before.leader, batch])
        after = self.kept(with_ghosts(self.before, leader=step.actor), batch, is_mine=True)
        sent: Formula = ((), self.before.sent_batch(TRANSACTION, NUMBER))
        given = (is_instance(), is_batch(batch), sent, ((), place))
        return self.make_step(name, evaluator, after, *given)

    def others_batch(self, name: str, rule: str, place: Node) -> ProofStep:
        """A batch of another instance arrives; where nothing is late, under another pair."""
        evaluator, batch = self.evaluator(), self.batch()
        step = evaluator.call(getattr(self.model.leader, rule), [self.k, self.before.leader, batch])
        after = self.kept(with_ghosts(self.before, leader=step.actor), batch, is_mine=False)
        kept = ~both_are(pair(batch), own_pair(self.before))
        other = ~batch.instance.eq(ME) & (kept if self.is_on_time else TRUE) & place
        return self.make_step(name, evaluator, after, is_instance(), is_batch(batch), ((), other))


GROUP, PLAIN = is_of_group(), ~is_of_group()

SENDERS: dict[str, Callable[[Records], ProofStep]] = {
    "i_begin": lambda s: s.ask_coordinator("i_begin", "ask_producer_id", "on_producer_id"),
    "i_add": lambda s: s.ask_coordinator(
        "i_add", "add_partitions", "on_partitions_added", adds=True
    ),
    "i_add_offsets": lambda s: s.ask_coordinator(
        "i_add_offsets", "add_offsets", "on_partitions_added", adds=True
    ),
    "i_end": lambda s: s.ask_coordinator("i_end", "end_transaction", "on_ended"),
    "my_batch": lambda s: s.arrives("my_batch", "produce", "on_produced", "on_produce"),
    "my_offsets": lambda s: s.arrives(
        "my_offsets", "commit_offsets", "on_offsets_committed", "on_offset_commit"
    ),
    "batch_is_sent": lambda s: s.is_sent("batch_is_sent", "produce"),
    "offsets_are_sent": lambda s: s.is_sent("offsets_are_sent", "commit_offsets"),
    "my_late_batch": lambda s: s.deliver_late("my_late_batch", "on_produce", PLAIN),
    "my_late_offsets": lambda s: s.deliver_late("my_late_offsets", "on_offset_commit", GROUP),
    "their_batch": lambda s: s.others_batch("their_batch", "on_produce", PLAIN),
    "their_offsets": lambda s: s.others_batch("their_offsets", "on_offset_commit", GROUP),
}


# Clauses


def client_has_batches(s: InstanceState) -> Formula:
    """Where there is a batch, its partition is in the transaction, or will be; it is there once
    the batch is sent, and then the transaction is started. Between transactions there is none."""
    c, at = s.client, there(s, PLACE)
    idle = one_of(state_of(s), (Client.UNINITIALIZED, Client.INITIALIZING, Client.READY))
    waits = ~at.write.eq(Write.NONE)
    sent, inside = at.write.eq(Write.SENT), at.membership.eq(Membership.IN)
    rests = ~waits & at.membership.eq(0)
    rows = (
        idle.implies(rests),
        waits.implies(~at.membership.eq(0)),
        sent.implies(inside),
        (inside & has_begun(s)).implies(c.is_started),
        one_of(at.write, (Write.NONE, Write.QUEUED, Write.SENT)),
        at.written >= 0,
        idle.implies(at.written.eq(0)),
        (has_begun(s) & waits).implies(at.written > 0),
    )
    counted = (c.begun >= 0) & has_begun(s).implies(c.begun > 0)
    lives = idle | has_begun(s)
    here = (PLACE >= 0) & (PLACE < PARTITIONS)
    return (PLACE,), counted & (lives & here).implies(conjunction(rows))


def batches_keep_their_names(s: RecordsState) -> Formula:
    """A batch that was sent has the pair and the sequence that it had first; one that is queued was
    not sent yet."""
    at, now = there(s, HERE), present(s)
    last = at.written - 1
    numbered = ite(is_of_group(), 0, at.next_sequence - 1)
    its = (s.batch_id(now, last), s.batch_epoch(now, last))
    same = (
        s.sent_batch(now, last)
        & both_are(its, own_pair(s))
        & s.batch_sequence(now, last).eq(numbered)
    )
    earlier = ite(at.write.eq(Write.QUEUED), last > N, last >= N)
    mine = T.eq(now) & has_begun(s)
    sent = (now >= T) & (N >= 0) & mine.implies(earlier)
    waits = has_begun(s) & at.write.eq(Write.SENT)
    return (T, N), waits.implies(same) & s.sent_batch(T, N).implies(sent)


def log_has_names(s: RecordsState) -> Formula:
    """A record of the instance is one that it has sent, as it was."""
    stored = log(s, I)
    key = (stored.transaction, stored.number)
    named = (
        s.sent_batch(*key)
        & s.batch_id(*key).eq(stored.producer_id)
        & s.batch_epoch(*key).eq(stored.producer_epoch)
        & s.batch_sequence(*key).eq(stored.sequence)
    )
    return (I,), (in_log(s, I) & is_own_record(s, stored)).implies(named)


def own_sequences_are_counted(s: RecordsState) -> Formula:
    """Under the pair that the instance holds, the log has no sequence but those that it has given;
    the last of them is that of the batch which waits for its answer."""
    stored, at = log(s, I), there(s, HERE)
    written = both_are((stored.producer_id, stored.producer_epoch), own_pair(s))
    ours = in_log(s, I) & is_data(stored) & written & PLAIN
    last = stored.sequence.eq(at.next_sequence - 1)
    waits = has_begun(s) & at.write.eq(Write.SENT) & last
    key = (stored.transaction, stored.number)
    it = is_own_record(s, stored) & both_are(key, (present(s), at.written - 1))
    given = stored.sequence < at.next_sequence
    return (I,), ours.implies(given & waits.implies(it))


def is_known(s: RecordsState) -> tuple[Node, Node]:
    """Whether a leader remembers a batch of the sequence that the instance sends now; and that."""
    at = there(s, HERE)
    queued = at.write.eq(Write.QUEUED)
    sequence = ite(queued, at.next_sequence, at.next_sequence - 1)
    of_partition = ~at.write.eq(Write.NONE) & PLAIN
    return of_partition & remembers(s, sequence), sequence


def known_batch_is_there(s: RecordsState) -> Formula:
    """Then one of that sequence is in the log."""
    remembered, sequence = is_known(s)
    return (), remembered.implies(is_placed(s, sequence))


def known_batch_is_it(s: RecordsState) -> Formula:
    """And it is the batch that the instance sends again."""
    remembered, _ = is_known(s)
    at = there(s, HERE)
    it = holds(s, present(s), at.written - 1)
    return (), remembered.implies(at.write.eq(Write.SENT) & it)


def acked_is_stored(s: RecordsState) -> Formula:
    """A record that was answered without error is in the log."""
    return (T, N), s.acked(T, N).implies(holds(s, T, N))
