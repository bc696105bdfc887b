"""The steps of one instance and the leader of a partition, V1 or V2.

Theory of operation. The coordinator is not here: what it answers may be anything. A batch of the
instance keeps, from its first sending on, the pair and the sequence that it then had (`batch_pair`,
`batch_sequence`), and may arrive at any time and any number of times; so no record
is stored twice, whatever is late. That an answer without error means that the record is stored
needs more: a sequence that was given back is another record's next. So there, a batch arrives only
while its sender waits for its answer, and is refused only if it is not in the log
(`batches_on_time`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofs.lift.dag import TRUE, Node, ite
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.client import own_pair, present
from proofs.prove.transactions.instances import (
    NUMBER,
    OF_GROUP,
    TRANSACTION,
    Instances,
    is_instance,
)
from proofs.prove.transactions.records import pair_is_new, refused_is_absent
from proofs.prove.transactions.state import (
    HERE,
    ME,
    NOBODY,
    NOTHING,
    Ghosts,
    both_are,
    choose,
    pair,
)
from proofs.prove.transactions.steps import is_batch, merged
from proofs.prove.unknowns import truth

GHOSTS = Ghosts({"acked": ("t", "number")}, {"batch_pair": NOBODY, "batch_sequence": NOTHING}, {})


class Records(Instances):
    """The steps of one instance and one leader."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        self.before = self.before.changed(**GHOSTS.unknown())

    def initial(self) -> Any:
        """Nobody has begun."""
        return super().initial().changed(**GHOSTS.first())

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
        after = self.before.changed(client=client)
        aborts = int(self.model.messages.Error.TRANSACTION_ABORTABLE)
        possible: Formula = ((), ~answer.error.eq(aborts))
        new = (self.lifter.formula(pair_is_new, self.before, after),) if self.is_on_time else ()
        return self.make_step(name, evaluator, after, is_instance(), possible, *new)

    @property
    def is_on_time(self) -> bool:
        """Nothing is late, nothing that is stored is refused, and pairs are kept."""
        return "my_late_batch" not in self.of.steps

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
        key = (present(self.before), batch.number)
        after = self.also_named(batch).changed(
            client=client,
            leader=leader,
            acked=self.before.acked.plus(key, good),
        )
        state = self.kept(after, batch, is_mine=True)
        given = [is_instance(), is_batch(batch)]
        given.append(((), ~refusal.error.eq(0)))
        if self.is_on_time:
            given.append(self.lifter.formula(refused_is_absent, self.before, batch, answer))
        return self.make_step(name, evaluator, state, *given)

    def is_sent(self, name: str, sends: str) -> ProofStep:
        """A batch of the instance is given up on its way."""
        evaluator = self.evaluator()
        rule = getattr(self.model.client, sends)
        asked = evaluator.call(rule, [self.k, self.before.client, ME, HERE])
        named = self.also_named(asked.sends.slots[0].batch)
        after = named.changed(client=asked.actor)
        return self.make_step(name, evaluator, after, is_instance())

    def also_named(self, batch: Rec) -> Any:
        """A batch has its pair and its sequence from its first sending on."""
        before, named = self.before, batch
        key = (present(before), named.number)
        new = ~before.sent_batch(*key)
        its_pair, its_sequence = before.batch_pair, before.batch_sequence

        def is_it(t: Node, n: Node) -> Any:
            return new & both_are((t, n), key)

        return before.changed(
            sent_batch=before.sent_batch.plus(key),
            batch_pair=lambda t, n: choose(is_it(t, n), pair(named), its_pair(t, n)),
            batch_sequence=lambda t, n: ite(is_it(t, n), named.base_sequence, its_sequence(t, n)),
        )

    def deliver_late(self, name: str, rule: str, place: Node) -> ProofStep:
        """A batch that the instance has sent arrives, and nobody waits for its answer."""
        evaluator, batch = self.evaluator(), self.batch()
        its_id, its_epoch = self.before.batch_pair(TRANSACTION, NUMBER)
        mine = {
            "producer_id": its_id,
            "producer_epoch": its_epoch,
            "base_sequence": self.before.batch_sequence(TRANSACTION, NUMBER),
            "instance": ME,
            "transaction": TRANSACTION,
            "number": NUMBER,
        }
        batch = batch.changed(**mine)
        step = evaluator.call(getattr(self.model.leader, rule), [self.k, self.before.leader, batch])
        after = self.kept(self.before.changed(leader=step.actor), batch, is_mine=True)
        sent: Formula = ((), self.before.sent_batch(TRANSACTION, NUMBER))
        given = (is_instance(), is_batch(batch), sent, ((), place))
        return self.make_step(name, evaluator, after, *given)

    def others_batch(self, name: str, rule: str, place: Node) -> ProofStep:
        """A batch of another instance arrives; where nothing is late, under another pair."""
        evaluator, batch = self.evaluator(), self.batch()
        step = evaluator.call(getattr(self.model.leader, rule), [self.k, self.before.leader, batch])
        after = self.kept(self.before.changed(leader=step.actor), batch, is_mine=False)
        kept = ~both_are(pair(batch), own_pair(self.before))
        other = ~batch.instance.eq(ME) & (kept if self.is_on_time else TRUE) & place
        return self.make_step(name, evaluator, after, is_instance(), is_batch(batch), ((), other))


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
    "my_late_batch": lambda s: s.deliver_late("my_late_batch", "on_produce", ~OF_GROUP),
    "my_late_offsets": lambda s: s.deliver_late("my_late_offsets", "on_offset_commit", OF_GROUP),
    "their_batch": lambda s: s.others_batch("their_batch", "on_produce", ~OF_GROUP),
    "their_offsets": lambda s: s.others_batch("their_offsets", "on_offset_commit", OF_GROUP),
}
