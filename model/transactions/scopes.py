"""Named scopes, and the world that they begin in."""

from __future__ import annotations

from dataclasses import dataclass

from model.language import Map
from model.transactions.client import Client, ClientPartition, Membership, Outcome, Write
from model.transactions.client import State as ClientState
from model.transactions.coordinator import NO_ANSWER, NOBODY, Coordinator, absent, nothing_known
from model.transactions.leader import UNKNOWN_PRODUCER, Leader
from model.transactions.messages import NO_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from model.transactions.setting import Budgets, Layout, Setting, Variant
from model.transactions.world import Reign, Spent, World


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is explored, and why this much."""

    name: str
    why: str
    layout: Layout
    budgets: Budgets

    def setting(self, variant: Variant) -> Setting:
        """This scope of that Kafka."""
        return Setting(variant=variant, layout=self.layout, budgets=self.budgets)


SCOPES: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        Scope(
            "transactions-tiny",
            "one instance, one transaction, two partitions",
            Layout(instances=1, transactions=1, max_begun=1, log=3, max_epoch=3),
            Budgets(begun=1, delays=0, unheard=1),
        ),
        Scope(
            "transactions-default",
            "one instance, two transactions, a request that is late",
            Layout(instances=1, transactions=2, log=5, max_epoch=4),
            Budgets(),
        ),
        Scope(
            "transactions-small",
            "two instances, two transactions, one late request, one lost answer, one failover,"
            " one time-out, another transaction",
            Layout(
                log=7,
                max_epoch=6,
                max_moves=1,
                max_timeouts=1,
                others=True,
                max_others=1,
            ),
            Budgets(moves=1, timeouts=1, others=1),
        ),
    )
}


def initial(k: Setting) -> World:
    """Nobody has begun, and nobody knows the transactional id."""
    layout = k.layout
    there = ClientPartition(
        membership=Membership.OUT,
        write=Write.NONE,
        next_sequence=0,
        written=0,
        acked=Map.filled(layout.transactions, 0),
    )
    client = Client(
        state=ClientState.UNINITIALIZED,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        begun=0,
        is_started=False,
        must_bump=False,
        partitions=Map.filled(layout.partitions, there),
        outcomes=Map.filled(layout.transactions, Outcome.OPEN),
    )
    return World(
        clients=Map.filled(layout.instances, client),
        coordinator=Coordinator(
            known=nothing_known(k),
            log=absent(k),
            is_appending=False,
            image=nothing_known(k),
            requester=NOBODY,
            answer=NO_ANSWER,
            is_stopped=False,
            coordinator_epoch=0,
            given_producer_ids=0,
        ),
        leaders=Map.filled(
            layout.partitions,
            Leader(
                log=(),
                producers=Map.filled(layout.producer_ids, UNKNOWN_PRODUCER),
                other_first_offset=NO_OFFSET,
            ),
        ),
        late=(),
        late_markers=(),
        read_to=Map.filled(layout.partitions, 0),
        reign=Reign(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, Map.filled(layout.partitions, 0)),
        spent=Spent(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    )
