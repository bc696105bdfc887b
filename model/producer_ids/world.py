"""Brokers, the store of blocks, and producers that ask the least loaded broker.

Each rule is one event: it moves an actor by the actor's own rule, or carries a message. A producer
is only a request that waits at a broker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.faults import spend
from model.language import Incident, Map, Range, Set, Thread, event, record, require, within_scope
from model.producer_ids import manager as broker_rules
from model.producer_ids import store as store_rules
from model.producer_ids.configuration import Configuration, Form
from model.producer_ids.faults import Faults
from model.producer_ids.manager import NEW, Asking, Manager
from model.producer_ids.messages import NO_BLOCK, Broker, Load, ProducerId
from model.producer_ids.store import Store


@record
class World:
    """The state of all actors. `waiting` counts the requests that each broker has not answered.
    `given` holds the ids that producers got; `repeated` says whether any id was given twice."""

    store: Store
    managers: Map[Broker, Manager]
    waiting: Map[Broker, Load]
    given: Set[ProducerId]
    repeated: bool
    asked: Annotated[int, Range(0, "asked")]
    faults: Faults


def moved(w: World, broker: Broker, manager: Manager) -> World:
    """The world with one broker replaced."""
    return replace(w, managers=w.managers.put(broker, manager))


# Threads of several events

BROKER = Thread("broker", ("broker",))
LOST_ANSWERS = Thread("lost answers", ("broker",))


# When an event is an incident


def has_block(w: World, broker: Broker) -> bool:
    """Whether the broker has a block in use."""
    return w.managers[broker].block >= 0


def has_last_block(k: Configuration, w: World) -> bool:
    """Whether the last block is taken."""
    return w.store.block == k.bounds.last_block


def was_overtaken(w: World, broker: Broker) -> bool:
    """Whether another broker has written a block since this one read."""
    return w.store.version != w.managers[broker].read_version


# Producers


@event(Thread("producers", ("broker",)))
def producer_asks(k: Configuration, w: World, broker: Broker) -> World:
    """InitProducerId goes to the broker with the fewest requests. NetworkClient.leastLoadedNode."""
    require(all(w.waiting[broker] <= load for load in w.waiting.values()))
    within_scope(sum(load for load in w.waiting.values()) < k.bounds.producers)
    within_scope(w.asked < k.budgets.asked)
    waiting = w.waiting.put(broker, w.waiting[broker] + 1)
    return replace(w, waiting=waiting, asked=w.asked + 1)


def answered(w: World, broker: Broker) -> World:
    """The world with one request fewer waiting at the broker."""
    return replace(w, waiting=w.waiting.put(broker, w.waiting[broker] - 1))


@event(BROKER)
def producer_id_is_given(k: Configuration, w: World, broker: Broker) -> World:
    """A broker gives a producer id; it does not matter whether the answer arrives."""
    require(w.waiting[broker] > 0)
    producer_id = broker_rules.next_id(k, w.managers[broker])
    manager = broker_rules.give_id(k, w.managers[broker])
    return replace(
        moved(answered(w, broker), broker, manager),
        given=w.given.plus(producer_id),
        repeated=w.repeated or producer_id in w.given,
    )


@event(BROKER)
def producer_id_is_refused(k: Configuration, w: World, broker: Broker) -> World:
    """A broker has no id left, and refuses; the producer will ask again."""
    require(w.waiting[broker] > 0)
    return moved(answered(w, broker), broker, broker_rules.refuse_id(k, w.managers[broker]))


# Brokers


@event(BROKER)
def block_is_wanted(k: Configuration, w: World, broker: Broker) -> World:
    """A broker needs a block, because it has just started or a producer asks for an id."""
    manager = w.managers[broker]
    require(manager.block == NO_BLOCK or w.waiting[broker] > 0)
    return moved(w, broker, broker_rules.want_block(k, manager))


@event(BROKER)
def block_turns_over(k: Configuration, w: World, broker: Broker) -> World:
    """A broker begins to use its next block."""
    return moved(w, broker, broker_rules.turn_over(k, w.managers[broker]))


@event(Thread("restarts", ("broker",)), Incident("burnt_block", has_block))
def broker_restarts(k: Configuration, w: World, broker: Broker) -> World:
    """A broker restarts: the rest of its blocks is burnt, and waiting producers get no answer."""
    fresh = moved(spend(k, w, Faults(restarts=1)), broker, NEW)
    return replace(fresh, waiting=w.waiting.put(broker, 0))


@event(BROKER, Incident("exhausted_blocks", has_last_block))
def block_is_read(k: Configuration, w: World, broker: Broker) -> World:
    """A broker reads the latest block."""
    require(k.variant.form != Form.CONTROLLER)
    return moved(w, broker, broker_rules.read_latest(k, w.managers[broker], w.store, broker))


@event(BROKER, Incident("lost_race", was_overtaken))
def block_is_written(k: Configuration, w: World, broker: Broker) -> World:
    """A broker writes the next block, and learns whether the write was done."""
    manager = w.managers[broker]
    require(k.variant.form != Form.CONTROLLER)
    require(manager.asking == Asking.READ)
    block = manager.read_block + 1
    step = store_rules.on_write(k, w.store, broker, block, manager.read_version)
    told = broker_rules.on_written(k, manager, step.sends[0])
    return moved(replace(w, store=step.actor), broker, told)


@event(LOST_ANSWERS, Incident("lost_block_answer"))
def block_is_written_unheard(k: Configuration, w: World, broker: Broker) -> World:
    """A broker writes the next block, and the answer is lost."""
    manager = w.managers[broker]
    require(k.variant.form != Form.CONTROLLER)
    require(manager.asking == Asking.READ)
    counted = spend(k, w, Faults(lost=1))
    block = manager.read_block + 1
    step = store_rules.on_write(k, w.store, broker, block, manager.read_version)
    told = broker_rules.on_lost_answer(k, manager)
    return moved(replace(counted, store=step.actor), broker, told)


@event(BROKER, Incident("exhausted_blocks", has_last_block))
def block_is_allocated(k: Configuration, w: World, broker: Broker) -> World:
    """The controller answers a broker with the next block."""
    manager = w.managers[broker]
    require(k.variant.form == Form.CONTROLLER)
    require(manager.asking == Asking.WANTED)
    step = store_rules.on_allocate(k, w.store, broker)
    told = broker_rules.on_allocated(k, manager, step.sends[0])
    return moved(replace(w, store=step.actor), broker, told)


@event(LOST_ANSWERS, Incident("lost_block_answer"))
def block_is_allocated_unheard(k: Configuration, w: World, broker: Broker) -> World:
    """The controller allocates a block, and its answer is lost; the broker asks again."""
    require(k.variant.form == Form.CONTROLLER)
    require(w.managers[broker].asking == Asking.WANTED)
    counted = spend(k, w, Faults(lost=1))
    return replace(counted, store=store_rules.on_allocate(k, w.store, broker).actor)
