"""Members that replace each other in a group, crash, pause and come back; every event of
processing.

Each rule is one event. It moves the members, the group and the output by their own rules.
"""

from __future__ import annotations

from dataclasses import replace

from model.faults import spend
from model.language import Incident, Map, Thread, event, record, require, within_scope
from model.processing import group as group_rules
from model.processing import member as member_rules
from model.processing import store as store_rules
from model.processing.configuration import Configuration, TransactionalIds
from model.processing.faults import Faults
from model.processing.group import Group
from model.processing.member import DOWN, MemberState, Phase, is_transactional
from model.processing.messages import Error, Fate, InputOffset, Member
from model.processing.store import Progress, Store, decided_fate


@record
class World:
    """The state of all actors. `furthest` is the furthest offset that the group ever had; no actor
    reads it."""

    members: Map[Member, MemberState]
    group: Group
    store: Store
    furthest: InputOffset
    faults: Faults


def with_member(w: World, member: Member, state: MemberState) -> World:
    """The world with one member replaced."""
    return replace(w, members=w.members.put(member, state))


def with_group(w: World, group: Group) -> World:
    """The world with another state of the group."""
    further = group.committed > w.furthest
    return replace(w, group=group, furthest=group.committed if further else w.furthest)


def with_store(w: World, store: Store) -> World:
    """The world with other transactions."""
    return replace(w, store=store)


def decided(k: Configuration, w: World, member: Member, fate: Fate) -> World:
    """The world after the decision on the member's transaction."""
    return with_store(w, store_rules.decide(k, w.store, member, fate))


# Threads of several events

MEMBER = Thread("member", ("member",))
GROUP = Thread("group", ("member",))


# When an event is an incident


def is_not_first(w: World) -> bool:
    """Whether the group has had a member before."""
    return w.group.generation > 0


def was_replaced(w: World, member: Member) -> bool:
    """Whether the group has begun another generation since the member joined."""
    return w.members[member].generation != w.group.generation


# Members


@event(MEMBER)
def member_starts(k: Configuration, w: World, member: Member) -> World:
    """A process starts; if it has an id of its own, InitProducerId has nothing to abort."""
    require(w.members[member].phase == Phase.DOWN)
    if k.variant.transactional_ids == TransactionalIds.OF_MEMBER:
        require(w.store.progress[member] == Progress.NONE)
    return with_member(w, member, member_rules.start(k, w.members[member]))


@event(MEMBER)
def start_aborts(k: Configuration, w: World, member: Member) -> World:
    """A process that starts sends InitProducerId, which aborts the member's open transaction."""
    require(w.members[member].phase == Phase.DOWN)
    require(k.variant.transactional_ids == TransactionalIds.OF_MEMBER)
    return decided(k, w, member, Fate.ABORTED)


@event(GROUP, Incident("rebalance", is_not_first))
def member_joins(k: Configuration, w: World, member: Member) -> World:
    """A member joins, and the group begins a generation in which the partition belongs to it."""
    within_scope(w.group.generation < k.bounds.max_generation)
    group = group_rules.begin_generation(k, w.group)
    joined = member_rules.join(k, w.members[member], group.generation)
    return with_member(with_group(w, group), member, joined)


@event(MEMBER, Incident("fenced_by_id"))
def owner_fences(k: Configuration, w: World, member: Member, other: Member) -> World:
    """The partition's new owner sends InitProducerId for the partition's id, which aborts the
    transaction that is open under it: another member's, or the owner's own from before a crash."""
    require(w.members[member].phase == Phase.ASSIGNED)
    require(k.variant.transactional_ids == TransactionalIds.OF_PARTITION)
    fenced = replace(w.members[other], is_fenced=other != member)
    return with_member(decided(k, w, other, Fate.ABORTED), other, fenced)


def with_the_id(w: World, owner: Member, ready: MemberState) -> Map[Member, MemberState]:
    """The members, after the owner has taken the partition's id: all others are fenced."""
    return Map(
        tuple(
            replace(ready, is_fenced=False) if m == owner else replace(state, is_fenced=True)
            for m, state in w.members.items()
        )
    )


@event(MEMBER)
def offset_is_fetched(k: Configuration, w: World, member: Member) -> World:
    """A member sends OffsetFetch; if the partition has a transactional id, it first takes the
    id."""
    of_partition = k.variant.transactional_ids == TransactionalIds.OF_PARTITION
    offset = group_rules.fetched_offset(k, w.group)
    ready = member_rules.on_offset_fetched(k, w.members[member], offset)
    if not (is_transactional(k) and of_partition):
        return with_member(w, member, ready)
    require(all(s == Progress.NONE for s in w.store.progress.values()))
    return replace(w, members=with_the_id(w, member, ready))


@event(MEMBER)
def record_is_produced(k: Configuration, w: World, member: Member) -> World:
    """A member sends Produce with its output for one record."""
    state = w.members[member]
    require(not state.is_fenced)
    within_scope(len(w.store.output) < k.bounds.output)
    produced = with_member(w, member, member_rules.produce(k, state))
    if is_transactional(k):
        return with_store(
            produced, store_rules.write_in_transaction(k, w.store, member, state.position)
        )
    return with_store(produced, store_rules.write(k, w.store, member, state.position))


@event(MEMBER, Incident("fenced_by_group", was_replaced))
def offset_is_committed(k: Configuration, w: World, member: Member) -> World:
    """A member sends TxnOffsetCommit, or OffsetCommit outside of transactions. After an error the
    application aborts."""
    state = w.members[member]
    require(not state.is_fenced)
    offset = member_rules.next_offset(k, state)
    step = (
        group_rules.on_txn_offset_commit(k, w.group, member, state.generation, offset)
        if is_transactional(k)
        else group_rules.on_offset_commit(k, w.group, state.generation, offset)
    )
    told = member_rules.on_offset_committed(k, state, step.sends[0])
    after = with_member(with_group(w, step.actor), member, told)
    if step.sends[0] != Error.NONE and is_transactional(k):
        return decided(k, after, member, Fate.ABORTED)
    return after


@event(MEMBER)
def transaction_is_committed(k: Configuration, w: World, member: Member) -> World:
    """A member sends EndTxn to commit its transaction."""
    state = w.members[member]
    require(not state.is_fenced)
    done = with_member(w, member, member_rules.commit(k, state))
    return decided(k, done, member, Fate.COMMITTED)


@event(MEMBER)
def member_is_told(k: Configuration, w: World, member: Member) -> World:
    """A fenced member gets PRODUCER_FENCED to whatever it sends, and its process ends."""
    require(w.members[member].is_fenced)
    require(w.members[member].phase != Phase.DOWN)
    return with_member(w, member, DOWN)


@event(Thread("crashes", ("member",)), Incident("crash"))
def member_crashes(k: Configuration, w: World, member: Member) -> World:
    """A member's process ends, between any two steps."""
    require(w.members[member].phase != Phase.DOWN)
    return with_member(spend(k, w, Faults(crashes=1)), member, DOWN)


# Transactions


@event(Thread("transaction timeouts", ("member",)), Incident("transaction_timeout"))
def transaction_times_out(k: Configuration, w: World, member: Member) -> World:
    """A transaction has lasted too long: the coordinator aborts it and fences the member."""
    counted = spend(k, w, Faults(timeouts=1))
    state = w.members[member]
    fenced = replace(state, is_fenced=state.phase != Phase.DOWN)
    return decided(k, with_member(counted, member, fenced), member, Fate.ABORTED)


@event(GROUP)
def group_gets_marker(k: Configuration, w: World, member: Member) -> World:
    """The marker of a decided transaction reaches the group's offsets, as the last partition."""
    completed = store_rules.complete(k, w.store, member)
    fate = decided_fate(w.store.progress[member])
    return with_store(with_group(w, group_rules.on_marker(k, w.group, member, fate)), completed)
