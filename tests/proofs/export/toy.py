"""A small model that has no meaning, and every construct that the language allows."""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType

from proofs.lift.text import MODULES, Model, functions_of, read

WORLD = '''
"""Rows of cards."""
from dataclasses import replace
from enum import IntEnum
from typing import Annotated
from toy import language as words
from toy.language import *
from toy.setting import Setting

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

def world(k: Setting, row: Row, card: Card) -> Row:
    """A name that every exported module has, of a step for fold."""
    return (*row, card) if card.colour != Colour.RED or len(row) == 0 else row

def reds(k: Setting, row: Row) -> int:
    layout = k.layout
    return sum(c.number for c in row if c.colour == Colour.RED) % layout.top

def extremes(row: Row) -> int:
    return max(c.number for c in row) - min(c.number for c in row) - -1

def shifted(k: Setting, row: Row) -> Row:
    moved = tuple(replace(c, number=c.number * i % (1 + 1)) for i, c in enumerate(row) if i != 0)
    return (*row[:1], *moved)

def extended(k: Setting, row: Row, card: Card) -> Row:
    """Asks for more on one path than on the other."""
    require(len(row) < k.layout.row)
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

def kept(k: Setting, row: Row) -> Row:
    return row[-k.budgets.keep:]

def stepped(k: Setting, w: World) -> Step[World, Card]:
    require(w.moves < k.budgets.moves)
    return Step(replace(w, moves=w.moves + 1), tuple(r[-1] for r in w.rows.values() if len(r) > 0))

@rule
def deal(k: Setting, w: World, place: Place, colour: Colour, number: Number) -> World:
    step = stepped(k, w)
    card = Card(colour=colour, number=number)
    row = extended(k, w.rows[place], card)
    seen = w.seen.plus(number) if number not in w.seen else w.seen.union(span(0, number))
    return replace(step.actor, rows=w.rows.put(place, row), seen=seen)

@rule
def tidy(k: Setting, w: World) -> World:
    """Can always happen."""
    event = Map(tuple(shifted(k, row) if i == 0 else row for i, row in w.rows.items()))
    return replace(w, rows=words.map_values(k, kept, event))

@rule
def gather(k: Setting, w: World, times: Annotated[int, Range(-1, 1)]) -> World:
    if times == 1:
        require(any(Len(row) > 1 for row in w.rows.values()))
        rows = tuple(fold(k, world, row, row[LONGEST:])[: k.layout.row] for row in w.rows.values())
        return replace(w, rows=Map(rows))
    elif times == 0:
        require(not w.seen.is_empty())
        return replace(w, seen=EMPTY_SET, rows=Map.filled(k.layout.places, ()))
    else:
        step = stepped(k, w)
        require(0 < len(step.sends) <= LONGEST)
        last = step.sends[-1]
        require(step.sends[len(step.sends) - 1] == last and last != JOKER)
        rows = tuple((last,) if number in w.seen else () for number in range(k.layout.places))
        return replace(step.actor, rows=Map(rows))
'''

PROMISES = '''
"""What is true of rows."""
from dataclasses import dataclass
from toy.language import require
from toy.setting import Setting
from toy.world import Colour, Row, World, extremes

@dataclass(frozen=True)
class Promise:
    name: str
    check: object
    promised: object

def spread(k: Setting, w: World) -> bool:
    return all(extremes(row) <= k.layout.top + 1 for row in w.rows.values() if len(row) > 0)

def both(k: Setting, w: World) -> bool:
    """Calls another promise; all numbers of a row's inner cards were seen, or are 0."""
    return spread(k, w) and all(
        all(i == 0 or c.number in w.seen or c.number < 2 for i, c in enumerate(row))
        for place, row in w.rows.items()
    )

def no_three(k: Setting, w: World) -> bool:
    return not any(any(c.colour == Colour.BLACK for c in row[2:]) for row in w.rows.values())

PROMISES = (
    Promise("spread", spread, lambda k: True),
    Promise("all_of_it", both, lambda k: True),
    Promise("no_three", no_three, lambda k: k.layout.row < 3),
)
'''

SCOPES = """
from toy.language import Map, Set
from toy.setting import Setting
from toy.world import JOKER, World

def initial(k: Setting) -> World:
    return World(Map(tuple((JOKER,) * i for i in range(k.layout.places))), Set(), 0)
"""


@dataclass(frozen=True)
class Layout:
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
class Setting:
    variant: Variant = field(default_factory=Variant)
    layout: Layout = field(default_factory=Layout)
    budgets: Budgets = field(default_factory=Budgets)


@contextmanager
def toy_model(before: str = "", after: str = "") -> Iterator[Model]:
    """The toy, whose modules can be imported as long as it is used; `before` reads `after`."""
    assert not before or (WORLD + PROMISES).count(before) == 1
    texts = dict.fromkeys(MODULES, "") | {"language": read("language"), "scopes": SCOPES}
    texts |= {"world": WORLD, "promises": PROMISES}
    if before:
        texts |= {name: text.replace(before, after) for name, text in texts.items()}
    modules = {"": ModuleType("toy")} | {name: ModuleType(f"toy.{name}") for name in MODULES}
    modules["setting"].__dict__.update(Setting=Setting)
    sys.modules |= {module.__name__: module for module in modules.values()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    try:
        for name in MODULES:
            vars(modules[""])[name] = modules[name]
            exec(compile(trees[name], name, "exec"), modules[name].__dict__)
        files = {name: f"toy/{name}.py" for name in MODULES}
        yield Model(modules, functions_of(trees), files, ())
    finally:
        for module in modules.values():
            del sys.modules[module.__name__]
