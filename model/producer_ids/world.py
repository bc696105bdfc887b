"""Brokers, the one store of blocks, and producers that ask the least loaded broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.language import Map, Range, Set, record, require, rule, within_scope
from model.producer_ids import manager as broker_rules
from model.producer_ids import store as store_rules
from model.producer_ids.configuration import Configuration, Form
from model.producer_ids.manager import NEW, Asking, Manager
from model.producer_ids.messages import NO_BLOCK, Broker, Load, ProducerId
from model.producer_ids.store import Store


@record
class Spent:
    """How often each event that a budget limits has happened."""

    asked: Annotated[int, Range(0, "max_asked")]
    lost: Annotated[int, Range(0, "max_lost")]
    restarts: Annotated[int, Range(0, "max_restarts")]


@record
class World:
    """All of it. `waiting` counts the requests that each broker has not answered; `given` has the
    ids that producers got, `repeated` whether any of them was given before."""

    store: Store
    managers: Map[Broker, Manager]
    waiting: Map[Broker, Load]
    given: Set[ProducerId]
    repeated: bool
    spent: Spent


def moved(w: World, broker: Broker, manager: Manager) -> World:
    """The world with one broker replaced."""
    return replace(w, managers=w.managers.put(broker, manager))


# Producers


@rule
def producer_asks(k: Configuration, w: World, broker: Broker) -> World:
    """InitProducerId goes to the broker with the fewest requests. NetworkClient.leastLoadedNode."""
    require(all(w.waiting[broker] <= load for load in w.waiting.values()))
    within_scope(sum(load for load in w.waiting.values()) < k.bounds.producers)
    within_scope(w.spent.asked < k.budgets.asked)
    spent = replace(w.spent, asked=w.spent.asked + 1)
    return replace(w, waiting=w.waiting.put(broker, w.waiting[broker] + 1), spent=spent)


def answered(w: World, broker: Broker) -> World:
    """One request less."""
    return replace(w, waiting=w.waiting.put(broker, w.waiting[broker] - 1))


@rule
def producer_id_is_given(k: Configuration, w: World, broker: Broker) -> World:
    """A producer gets its id; whether the answer arrives matters to nobody else."""
    require(w.waiting[broker] > 0)
    producer_id = broker_rules.next_id(k, w.managers[broker])
    manager = broker_rules.give_id(k, w.managers[broker])
    return replace(
        moved(answered(w, broker), broker, manager),
        given=w.given.plus(producer_id),
        repeated=w.repeated or producer_id in w.given,
    )


@rule
def producer_id_is_refused(k: Configuration, w: World, broker: Broker) -> World:
    """The broker has none: the producer will ask again."""
    require(w.waiting[broker] > 0)
    return moved(answered(w, broker), broker, broker_rules.refuse_id(k, w.managers[broker]))


# Brokers


@rule
def block_is_wanted(k: Configuration, w: World, broker: Broker) -> World:
    """A broker needs a block: because it has just begun, or because someone asks."""
    manager = w.managers[broker]
    require(manager.block == NO_BLOCK or w.waiting[broker] > 0)
    return moved(w, broker, broker_rules.want_block(k, manager))


@rule
def block_turns_over(k: Configuration, w: World, broker: Broker) -> World:
    """The next block comes into use."""
    return moved(w, broker, broker_rules.turn_over(k, w.managers[broker]))


@rule
def broker_restarts(k: Configuration, w: World, broker: Broker) -> World:
    """What is left of its blocks is burnt, and whoever waited hears nothing."""
    within_scope(w.spent.restarts < k.budgets.restarts)
    spent = replace(w.spent, restarts=w.spent.restarts + 1)
    fresh = moved(replace(w, spent=spent), broker, NEW)
    return replace(fresh, waiting=w.waiting.put(broker, 0))


@rule
def block_is_read(k: Configuration, w: World, broker: Broker) -> World:
    """A broker reads the latest block."""
    require(k.variant.form != Form.CONTROLLER)
    return moved(w, broker, broker_rules.read_latest(k, w.managers[broker], w.store, broker))


@rule
def block_is_written(k: Configuration, w: World, broker: Broker) -> World:
    """A broker writes the next block, and hears whether it did."""
    manager = w.managers[broker]
    require(k.variant.form != Form.CONTROLLER)
    require(manager.asking == Asking.READ)
    block = manager.read_block + 1
    step = store_rules.on_write(k, w.store, broker, block, manager.read_version)
    told = broker_rules.on_written(k, manager, step.sends[0])
    return moved(replace(w, store=step.actor), broker, told)


@rule
def block_is_written_unheard(k: Configuration, w: World, broker: Broker) -> World:
    """A broker writes the next block, and the answer is lost."""
    manager = w.managers[broker]
    require(k.variant.form != Form.CONTROLLER)
    require(manager.asking == Asking.READ)
    within_scope(w.spent.lost < k.budgets.lost)
    spent = replace(w.spent, lost=w.spent.lost + 1)
    block = manager.read_block + 1
    step = store_rules.on_write(k, w.store, broker, block, manager.read_version)
    told = broker_rules.on_lost_answer(k, manager)
    return moved(replace(w, store=step.actor, spent=spent), broker, told)


@rule
def block_is_allocated(k: Configuration, w: World, broker: Broker) -> World:
    """The controller answers a broker with the next block."""
    manager = w.managers[broker]
    require(k.variant.form == Form.CONTROLLER)
    require(manager.asking == Asking.WANTED)
    step = store_rules.on_allocate(k, w.store, broker)
    told = broker_rules.on_allocated(k, manager, step.sends[0])
    return moved(replace(w, store=step.actor), broker, told)


@rule
def block_is_allocated_unheard(k: Configuration, w: World, broker: Broker) -> World:
    """The controller's answer is lost; the broker asks again."""
    require(k.variant.form == Form.CONTROLLER)
    require(w.managers[broker].asking == Asking.WANTED)
    within_scope(w.spent.lost < k.budgets.lost)
    spent = replace(w.spent, lost=w.spent.lost + 1)
    return replace(w, store=store_rules.on_allocate(k, w.store, broker).actor, spent=spent)
