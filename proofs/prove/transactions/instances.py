"""One instance of the application beside the coordinator and a leader: what it sends, and hears.

Theory of operation. ME is any instance; it does what the text of the client says. All others may
do anything, but that nobody uses a pair (producer id, epoch) which only somebody else was told:
`holds_pair` are the pairs that ME has heard of, `others_hold` those that were told to any other.
What ME has sent may arrive at any time and any number of times, with nobody to hear the answer. Of
its transactions the ghosts know the pair under which each has sent (`its_pair`), which
ends were asked for (`sent_end`), which batches were sent to the partition here (`sent_batch`) and
where a copy of each stands (`copy_at`); of the leader, where the batch of a sequence stands
(`placed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proofs.lift.dag import FALSE, TRUE, ZERO, Node, conjunction, const, ite
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.client import present
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.rules import SIZES
from proofs.prove.transactions.state import (
    HERE,
    ME,
    NOBODY,
    NONE,
    NOTHING,
    PARTITIONS,
    Ghosts,
    choose,
    pair,
)
from proofs.prove.transactions.steps import (
    STEPS,
    Transactions,
    is_batch,
    is_request,
    is_success,
    merged,
)
from proofs.prove.unknowns import number, truth

TRANSACTION, NUMBER, PLACE = number("transaction"), number("number"), number("place")
"""What a step chooses."""


GHOSTS = Ghosts(
    {
        "holds_pair": ("p", "e"),
        "others_hold": ("p", "e"),
        "sent_end": ("t", "outcome"),
        "sent_batch": ("t", "number"),
    },
    {"its_pair": NOBODY, "copy_at": NOTHING, "placed": NOTHING},
    {},
)
"""The ghosts of an instance."""


OF_GROUP = SIZES["Bounds", "offsets"] & HERE.eq(SIZES["Bounds", "last_partition"])
"""The partition here holds the group's offsets: a batch there has no sequence."""


class Instances(Transactions):
    """The steps of `Transactions` with one instance, and its own."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        client = self.unknowns.record(model.client.Client, "w.clients", (ME,))
        self.before = self.before.changed(client=client, **GHOSTS.unknown())

    def initial(self) -> Any:
        """Nobody has begun."""
        client = self.world.clients.at(ME)
        return super().initial().changed(client=client, **GHOSTS.first())

    def named(self, name: str) -> ProofStep:
        """A step by its name: one of the instance's own, or of the others'."""
        return OWN[name](self) if name in OWN else self.others(name)

    def others(self, name: str) -> ProofStep:
        """A step in which the instance has no part: it is not who asks."""
        step = STEPS[name](self)
        another: Formula = ((), ~number("requester").eq(ME))
        return replace(step, assumed=(is_instance(), another, *step.assumed))

    # The application, and what is given up on its way

    def act_alone(
        self, name: str, rule: str, *arguments: Node, sends: str = "", given: Node = TRUE
    ) -> ProofStep:
        """The instance does something that nobody else hears of: it `sends` what may arrive."""
        evaluator = self.evaluator()
        function = getattr(self.model.client, rule)
        found = evaluator.call(function, [self.k, self.before.client, *arguments])
        client = found.fields.get("actor", found)
        after = self.with_client(client)
        if sends:
            after = self.also_sent(after, sends, found.sends.slots[0])
        return self.make_step(name, evaluator, after, is_instance(), ((), given))

    def with_client(self, client: Rec, state: Any | None = None) -> Any:
        """The instance after a step. A transaction has its pair once it is started."""
        state = state or self.before
        before = self.before.client
        begins = client.is_started & ~before.is_started
        mine = present(self.before)
        told, old = pair(before), state.its_pair
        return state.changed(
            client=client, its_pair=lambda t: choose(begins & t.eq(mine), told, old(t))
        )

    def also_sent(self, state: Any, kind: str, request: Rec) -> Any:
        """A request is on its way: the end of the present transaction, or a batch for here."""
        mine = present(self.before)
        if kind == "end":
            commits = ite(request.committed, 1, 0)
            return state.changed(sent_end=state.sent_end.plus((mine, commits)))
        return state.changed(sent_batch=state.sent_batch.plus((mine, request.batch.number)))

    def elsewhere(self, name: str, sends: str, hears: str) -> ProofStep:
        """A batch for another partition, and any answer, or none."""
        evaluator, rules = self.evaluator(), self.model.client
        asked = evaluator.call(getattr(rules, sends), [self.k, self.before.client, ME, PLACE]).actor
        answer = self.unknowns.record(self.model.messages.ProduceAnswer, "answer")
        told = evaluator.call(getattr(rules, hears), [self.k, asked, PLACE, answer])
        client = merged(evaluator, truth("heard"), told, asked)
        there: Formula = ((), ~PLACE.eq(HERE))
        return self.make_step(name, evaluator, self.with_client(client), is_instance(), there)

    # The coordinator

    def begins(self) -> ProofStep:
        """InitProducerId of the instance, and the answer if it comes at once."""
        rules, client = self.model, self.before.client
        asking = self.evaluator()
        request = asking.call(rules.client.ask_producer_id, [self.k, client]).sends
        return self.answer_at_once(
            "i_begin",
            asking,
            (rules.coordinator.on_init_producer_id, "init", request.slots[0]),
            rules.client.on_producer_id,
            self.before,
        )

    def ends(self) -> ProofStep:
        """EndTxn of the instance, and the answer if it comes at once."""
        rules, client = self.model, self.before.client
        asking = self.evaluator()
        request = asking.call(rules.client.end_transaction, [self.k, client]).sends
        return self.answer_at_once(
            "i_end",
            asking,
            (rules.end_txn.on_end_txn, "end", request.slots[0]),
            rules.client.on_ended,
            self.also_sent(self.before, "end", request.slots[0]),
        )

    def answer_at_once(
        self,
        name: str,
        asking: UnboundedEvaluator,
        asked: tuple[Callable[..., Any], str, Rec],
        hears: Callable[..., Any],
        sent: Any,
    ) -> ProofStep:
        """The coordinator answers the instance, or begins an append for it."""
        function, kind, request = asked
        evaluator, moved, sends = self.handle_request(function, kind, request, ME)
        evaluator.after(asking)
        answer = sends.slots[0]
        told = evaluator.call(hears, [self.k, self.before.client, answer])
        heard = (sends.length > 0) & truth("heard")
        client = merged(evaluator, heard, told, self.before.client)
        state = moved.changed(sent_end=sent.sent_end)
        after = self.with_client(client, state)
        after = self.grant_pair(after, heard & is_success(answer), answer, "holds_pair")
        return self.make_step(name, evaluator, after, is_instance())

    def grant_pair(self, state: Any, heard: Node, answer: Rec, whose: str) -> Any:
        """A pair that was told belongs to whom it was told to."""
        return state.changed(**{whose: getattr(state, whose).plus(pair(answer), heard)})

    def deliver_late_end(self) -> ProofStep:
        """EndTxn of the instance arrives, and nobody waits for its answer."""
        commits = const(1), ZERO
        committed = truth("committed")
        outcome = ite(committed, *commits)
        request = self.request()
        its_id, its_epoch = self.before.its_pair(TRANSACTION)
        mine = {"producer_id": its_id, "producer_epoch": its_epoch, "committed": committed}
        request = request.changed(**mine)
        function = self.model.end_txn.on_end_txn
        evaluator, after, _ = self.handle_request(function, "end", request, const(NONE))
        sent: Formula = ((), self.before.sent_end(TRANSACTION, outcome))
        return self.make_step("my_late_end", evaluator, after, is_instance(), sent)

    def deliver_from_others(self, name: str, function: Callable[..., Any], kind: str) -> ProofStep:
        """A request of another instance, or one for which nobody waits: its pair was told to
        another; or it shows none, and wants its first."""
        request = self.request()
        evaluator, after, sends = self.handle_request(function, kind, request, number("requester"))
        answer = sends.slots[0]
        heard = (sends.length > 0) & is_success(answer)
        shown = self.before.others_hold(*pair(request))
        if kind == "init":
            shown = shown | request.producer_id.eq(NONE)
        other: Formula = ((), shown & ~number("requester").eq(ME))
        after = self.grant_pair(after, heard, answer, "others_hold")
        return self.make_step(
            name, evaluator, after, is_instance(), is_request(request, kind), other
        )

    def append_succeeds(self) -> ProofStep:
        """What is on its way is in the log, and whoever waits is told."""
        answer = self.before.coordinator.answer
        step = self.append_is_heard(super().append_succeeds(), answer)
        requester = self.before.coordinator.requester
        good, waits = is_success(answer), requester.eq(ME)
        others = ~waits & ~requester.eq(NONE)
        after = self.grant_pair(step.after, good & waits, answer, "holds_pair")
        after = self.grant_pair(after, good & others, answer, "others_hold")
        return replace(step, after=after)

    def append_fails(self, name: str, in_log: Node) -> ProofStep:
        """An append is reported as failed, to whoever waits."""
        rules = self.model
        error = rules.messages.Error.COORDINATOR_NOT_AVAILABLE
        answer = self.evaluator().call(rules.messages.failed, [const(int(error))])
        return self.append_is_heard(super().append_fails(name, in_log), answer)

    def append_is_heard(self, step: ProofStep, answer: Rec) -> ProofStep:
        """The instance hears of an append, if it is the one that waits."""
        evaluator = self.evaluator()
        hears, coordinator = self.model.world.heard_after_append, self.before.coordinator
        told = evaluator.call(hears, [self.k, coordinator, self.before.client, answer])
        waits = coordinator.requester.eq(ME)
        client = merged(evaluator, waits, told, self.before.client)
        given = (is_instance(), *step.assumed, *evaluator.choices)
        after, taken = self.with_client(client, step.after), (*step.taken, *evaluator.taken)
        return replace(step, after=after, assumed=given, taken=taken)

    # Batches

    def batch_arrives_here(self, name: str, sends: str, hears: str) -> ProofStep:
        """A batch of the instance for the partition here, and its answer, heard or not."""
        rules = self.model.client
        asking = self.evaluator()
        asked = asking.call(getattr(rules, sends), [self.k, self.before.client, ME, HERE])
        request, sender = asked.sends.slots[0], asked.actor
        evaluator, moved, answer = self.deliver_batch(request.batch)
        evaluator.after(asking)
        told = evaluator.call(getattr(rules, hears), [self.k, sender, HERE, answer])
        client = merged(evaluator, truth("heard"), told, sender)
        after = self.with_client(client, self.also_sent(moved, "batch", request))
        return self.make_step(
            name,
            evaluator,
            self.kept(after, request.batch, is_mine=True),
            is_instance(),
            is_batch(request.batch),
        )

    def kept(self, state: Any, batch: Rec, *, is_mine: bool) -> Any:
        """Where a batch stands, if it is new in the log."""
        end = self.before.leader.log.length
        grew = end < state.leader.log.length
        named = batch
        mine = (named.transaction, named.number)
        key = (*pair(named), named.base_sequence)
        held, placed = state.copy_at, state.placed

        def is_it(asked: tuple[Node, ...], one: tuple[Any, ...]) -> Node:
            same = (a.eq(b) for a, b in zip(asked, one, strict=True))
            return conjunction((grew, *same))

        after = state.changed(
            placed=lambda p, e, s: ite(is_it((p, e, s), key), end, placed(p, e, s))
        )
        if not is_mine:
            return after
        return after.changed(copy_at=lambda t, n: ite(is_it((t, n), mine), end, held(t, n)))

    def deliver_late_batch(self) -> ProofStep:
        """A batch of the instance arrives, and nobody waits for its answer."""
        its_id, its_epoch = self.before.its_pair(TRANSACTION)
        batch = self.batch()
        mine = {
            "producer_id": its_id,
            "producer_epoch": its_epoch,
            "base_sequence": ite(OF_GROUP, 0, NUMBER),
            "instance": ME,
            "transaction": TRANSACTION,
            "number": NUMBER,
        }
        batch = batch.changed(**mine)
        evaluator, after, _ = self.deliver_batch(batch)
        sent: Formula = ((), self.before.sent_batch(TRANSACTION, NUMBER))
        after = self.kept(after, batch, is_mine=True)
        return self.make_step(
            "my_late_batch", evaluator, after, is_instance(), is_batch(batch), sent
        )

    def their_batch(self) -> ProofStep:
        """A batch of another instance arrives here."""
        batch = self.batch()
        evaluator, after, _ = self.deliver_batch(batch)
        others: Formula = ((), self.before.others_hold(*pair(batch)) & ~batch.instance.eq(ME))
        after = self.kept(after, batch, is_mine=False)
        return self.make_step(
            "their_batch", evaluator, after, is_instance(), is_batch(batch), others
        )


def is_instance() -> Formula:
    """Instances, partitions and what is asked for are counted from 0."""
    inside = (PLACE >= 0) & (PLACE < PARTITIONS)
    return (), (ME >= 0) & inside


OWN: dict[str, Callable[[Instances], ProofStep]] = {
    "i_begin": Instances.begins,
    "i_end": Instances.ends,
    "my_late_end": Instances.deliver_late_end,
    "append_succeeds": Instances.append_succeeds,
    "append_fails": lambda s: s.append_fails("append_fails", FALSE),
    "append_seems_to_fail": lambda s: s.append_fails("append_seems_to_fail", TRUE),
    "my_batch": lambda s: s.batch_arrives_here("my_batch", "produce", "on_produced"),
    "my_offsets": lambda s: s.batch_arrives_here(
        "my_offsets", "commit_offsets", "on_offsets_committed"
    ),
    "my_late_batch": Instances.deliver_late_batch,
    "their_batch": Instances.their_batch,
    "my_batch_elsewhere": lambda s: s.elsewhere("my_batch_elsewhere", "produce", "on_produced"),
    "my_offsets_elsewhere": lambda s: s.elsewhere(
        "my_offsets_elsewhere", "commit_offsets", "on_offsets_committed"
    ),
    "init": lambda s: s.deliver_from_others(
        "init", s.model.coordinator.on_init_producer_id, "init"
    ),
    "end": lambda s: s.deliver_from_others("end", s.model.end_txn.on_end_txn, "end"),
    "init_transactions": lambda s: s.act_alone("init_transactions", "init_transactions"),
    "begin_transaction": lambda s: s.act_alone("begin_transaction", "begin_transaction"),
    "send": lambda s: s.act_alone("send", "send", PLACE),
    "commit_transaction": lambda s: s.act_alone("commit_transaction", "commit_transaction"),
    "abort_transaction": lambda s: s.act_alone("abort_transaction", "abort_transaction"),
    "give_up": lambda s: s.act_alone("give_up", "give_up", PLACE, truth("waits")),
    "add_partitions": lambda s: s.act_alone("add_partitions", "add_partitions"),
    "add_offsets": lambda s: s.act_alone("add_offsets", "add_offsets"),
    "lose_coordinator": lambda s: s.act_alone("lose_coordinator", "lose_coordinator"),
    "lose_leader": lambda s: s.act_alone("lose_leader", "lose_leader", PLACE),
    "end_is_sent": lambda s: s.act_alone("end_is_sent", "end_transaction", sends="end"),
    "batch_is_sent": lambda s: s.act_alone("batch_is_sent", "produce", ME, HERE, sends="batch"),
    "offsets_are_sent": lambda s: s.act_alone(
        "offsets_are_sent", "commit_offsets", ME, HERE, sends="batch"
    ),
}
"""The steps in which the instance has a part, or which say whose a request is."""
