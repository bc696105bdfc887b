"""A small model that has no meaning, and every construct that the language allows."""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType

from proofs.lift.source import Model, functions_of

WORLD = '''
"""Rows of cards."""
from dataclasses import replace
from enum import IntEnum
from typing import Annotated
from model import language as words
from model.language import *
from toy.configuration import Configuration

DEALER = Thread("dealer", ())
Place = Annotated[int, Index("places")]
Number = Annotated[int, Range(0, "top")]

class Colour(IntEnum):
    """What a card looks like."""
    RED = 0
    BLACK = 1

@record
class Card:
    colour: Colour
    number: Number

Row = Annotated[tuple[Card, ...], AtMost("row")]

@record
class World:
    rows: Map[Place, Row]
    seen: Set[Number]
    moves: Annotated[int, Range(0, "moves")]

JOKER = Card(Colour.BLACK, 0)
LONGEST = 2

def Len(row: Row) -> int:
    """A name that TLA+ has."""
    return len(row)

def world(k: Configuration, row: Row, card: Card) -> Row:
    """A name that every exported module has, of a step for fold."""
    return (*row, card) if card.colour != Colour.RED or len(row) == 0 else row

def reds(k: Configuration, row: Row) -> int:
    layout = k.bounds
    return sum(c.number for c in row if c.colour == Colour.RED) % layout.top

def extremes(row: Row) -> int:
    return max(c.number for c in row) - min(c.number for c in row) - -1

def shifted(k: Configuration, row: Row) -> Row:
    moved = tuple(replace(c, number=c.number * i % (1 + 1)) for i, c in enumerate(row) if i != 0)
    return (*row[:1], *moved)

def extended(k: Configuration, row: Row, card: Card) -> Row:
    """Asks for more on one path than on the other."""
    require(len(row) < k.bounds.row)
    if card.colour == Colour.BLACK:
        number = card.number
        require(number > 0)
        first = replace(card, number=number - 1)
        return (first, *row)
    elif card.number == 0:
        return row
    else:
        within_scope(reds(k, row) == 0)
    return (*row, card)

def kept(k: Configuration, row: Row) -> Row:
    return row[-k.budgets.keep:]

def stepped(k: Configuration, w: World) -> Step[World, Card]:
    require(w.moves < k.budgets.moves)
    return Step(replace(w, moves=w.moves + 1), tuple(r[-1] for r in w.rows.values() if len(r) > 0))

@event(DEALER)
def deal(k: Configuration, w: World, place: Place, colour: Colour, number: Number) -> World:
    step = stepped(k, w)
    card = Card(colour=colour, number=number)
    row = extended(k, w.rows[place], card)
    seen = w.seen.plus(number) if number not in w.seen else w.seen.union(span(0, number))
    return replace(step.actor, rows=w.rows.put(place, row), seen=seen)

@event(DEALER)
def tidy(k: Configuration, w: World) -> World:
    """Can always happen."""
    event = Map(tuple(shifted(k, row) if i == 0 else row for i, row in w.rows.items()))
    return replace(w, rows=words.map_values(k, kept, event))

@event(DEALER)
def gather(k: Configuration, w: World, times: Annotated[int, Range(-1, 1)]) -> World:
    if times == 1:
        require(any(Len(row) > 1 for row in w.rows.values()))
        rows = tuple(fold(k, world, row, row[LONGEST:])[: k.bounds.row] for row in w.rows.values())
        return replace(w, rows=Map(rows))
    elif times == 0:
        require(not w.seen.is_empty())
        return replace(w, seen=EMPTY_SET, rows=Map.filled(k.bounds.places, ()))
    else:
        step = stepped(k, w)
        require(0 < len(step.sends) <= LONGEST)
        last = step.sends[-1]
        require(step.sends[len(step.sends) - 1] == last and last != JOKER)
        rows = tuple((last,) if number in w.seen else () for number in range(k.bounds.places))
        return replace(step.actor, rows=Map(rows))
'''

GUARANTEES = '''
"""What is true of rows."""
from dataclasses import dataclass
from model.language import require
from toy.configuration import Configuration
from toy.world import Colour, Row, World, extremes

@dataclass(frozen=True)
class Guarantee:
    name: str
    check: object
    guaranteed: object

def spread(k: Configuration, w: World) -> bool:
    return all(extremes(row) <= k.bounds.top + 1 for row in w.rows.values() if len(row) > 0)

def both(k: Configuration, w: World) -> bool:
    """Calls another guarantee; all numbers of a row's inner cards were seen, or are 0."""
    return spread(k, w) and all(
        all(i == 0 or c.number in w.seen or c.number < 2 for i, c in enumerate(row))
        for place, row in w.rows.items()
    )

def no_three(k: Configuration, w: World) -> bool:
    return not any(any(c.colour == Colour.BLACK for c in row[2:]) for row in w.rows.values())

GUARANTEES = (
    Guarantee("spread", spread, lambda k: True),
    Guarantee("all_of_it", both, lambda k: True),
    Guarantee("no_three", no_three, lambda k: k.bounds.row < 3),
)
'''

SCOPES = """
from model.language import Map, Set
from toy.configuration import Configuration
from toy.world import JOKER, World

def initial(k: Configuration) -> World:
    return World(Map(tuple((JOKER,) * i for i in range(k.bounds.places))), Set(), 0)
"""


@dataclass(frozen=True)
class Bounds:
    places: int = 2
    top: int = 2
    row: int = 3
    moves: int = 9


@dataclass(frozen=True)
class Budgets:
    moves: int = 3
    keep: int = 2


@dataclass(frozen=True)
class Variant:
    name: str = "toy"


@dataclass(frozen=True)
class Configuration:
    variant: Variant = field(default_factory=Variant)
    bounds: Bounds = field(default_factory=Bounds)
    budgets: Budgets = field(default_factory=Budgets)


@contextmanager
def toy_model(before: str = "", after: str = "") -> Iterator[Model]:
    """The toy, whose modules can be imported as long as it is used; `before` reads `after`."""
    assert not before or (WORLD + GUARANTEES).count(before) == 1
    texts = {"configuration": "", "messages": "", "world": WORLD, "guarantees": GUARANTEES}
    texts["scopes"] = SCOPES
    if before:
        texts = {name: text.replace(before, after) for name, text in texts.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    package, modules = ModuleType("toy"), {name: ModuleType(f"toy.{name}") for name in trees}
    modules["configuration"].__dict__.update(Configuration=Configuration)
    loaded = {module.__name__: module for module in (package, *modules.values())}
    sys.modules |= loaded
    try:
        for name, tree in trees.items():
            setattr(package, name, modules[name])
            exec(compile(tree, name, "exec"), modules[name].__dict__)
        files = {name: f"toy/{name}.py" for name in modules}
        yield Model("toy", modules, trees, functions_of(trees), files, ())
    finally:
        for name in loaded:
            del sys.modules[name]
