"""Compiles the events of a world to code over cells, from the events' own text, when a run begins.

A *cell* is a part of the world that is replaced as a whole: an actor, a queue of messages, a
counter. Each rule instance is run once on a world of symbols, for both outcomes of each condition
that it meets. The result says which actors move, with which inputs, and which cells change.

Theory of operation. A call is dropped if nothing uses its result: the text also computes what a
client makes of an answer that no client receives. Cells that only guards read are left out, since a
trace has passed its guards already. Cells that no event of the scope changes are constants. The
code of an event is made when the event is first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from types import CodeType, GenericAlias
from typing import Any, Final, NamedTuple, get_args, get_origin

from conformance.judging.lockstep.symbols import (
    Context,
    NotSymbolic,
    Symbol,
    element_hint,
    hints_of,
    is_symbolic,
    symbols_in,
)
from conformance.judging.lockstep.text import CannotSpecialize, NeverEnabled, SymbolicSource
from model.language import Map, Step
from proofs.explore.source import instances
from proofs.lift.source import Model
from proofs.trace.format import Instance

MOST_BRANCHES: Final = 64
_CELL: Final = re.compile(r"\bs\[(\d+)\]")
_CALL: Final = re.compile(r"\b[vm](\d+)\b")


class GeneratedCall(NamedTuple):
    """One statement. Its results are the variables `v` and `m`, both with its `number`."""

    number: int
    code: str


@dataclass(frozen=True, slots=True)
class Path:
    """An event, or the rest of one after a condition: the code for each cell that changes.

    `fails` says that the text raises IndexError on this path; no trace takes it.
    """

    calls: tuple[GeneratedCall, ...]
    writes: Mapping[int, str]
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """Two paths. `calls` are all calls before the condition."""

    calls: tuple[GeneratedCall, ...]
    condition: str
    holds: Path | Fork
    fails: Path | Fork


class _Undecided(BaseException):
    """A condition for which this run has no decision."""


class Cell(NamedTuple):
    """The place of a cell in the world, its type, and its initial value in the scope."""

    path: str
    hint: Any
    first: Any


def cells_of(value: Any, hint: Any, leaves: frozenset[Any], path: str = "") -> Iterator[Cell]:
    """All cells of a world; `leaves` are the record types that are cells themselves."""
    if isinstance(value, Map):
        inner = element_hint(hint)
        for key, part in value.items():
            yield from cells_of(part, inner, leaves, f"{path}[{key}]")
    elif is_dataclass(value) and type(value) not in leaves:
        for name, inner in hints_of(type(value)).items():
            yield from cells_of(getattr(value, name), inner, leaves, f"{path}.{name}")
    else:
        yield Cell(path.removeprefix("."), hint, value)


def filled(template: Any, leaves: frozenset[Any], parts: Iterator[Any]) -> Any:
    """A world shaped as `template`, with the next of `parts` in each cell."""
    if isinstance(template, Map):
        return Map(tuple(filled(part, leaves, parts) for part in template.values()))
    if is_dataclass(template) and type(template) not in leaves:
        given = {f.name: filled(getattr(template, f.name), leaves, parts) for f in fields(template)}
        kind: Any = type(template)
        return kind(**given)
    return next(parts)


def parts_of(template: Any, leaves: frozenset[Any], value: Any) -> Iterator[Any]:
    """The value that a world has in each cell of `template`."""
    if isinstance(template, Map):
        for inner, part in zip(template.values(), value.values(), strict=True):
            yield from parts_of(inner, leaves, part)
    elif is_dataclass(template) and type(template) not in leaves:
        for field in fields(template):
            inner = getattr(template, field.name)
            yield from parts_of(inner, leaves, getattr(value, field.name))
    else:
        yield value


class Events:
    """The events of one configuration.

    `cells` are the world's parts, in order; `actors` the numbers of those that are actors.
    """

    def __init__(
        self, model: Model, k: Any, world: Any, intern: Callable[[Any], Any] | None = None
    ) -> None:
        actors, messages = two_sided(model)
        self.k = k
        self._intern = intern
        self.initial = world
        self._leaves = actors | messages
        self.cells = tuple(cells_of(world, type(world), self._leaves))
        self.actors = tuple(i for i, c in enumerate(self.cells) if type(c.first) in actors)
        self._context = Context(actors, messages)
        self._calls: list[GeneratedCall] = []
        self._text = SymbolicSource(model, self)
        self._instances = tuple(
            (rule, tuple([value for _, value in choice])) for rule, choice in instances(model, k)
        )
        self._constant = self._constant_cells()
        self._paths = self._all_paths()
        self._live = self._live_cells()
        self._codes: dict[tuple[str, tuple[int, ...]], CodeType] = {}

    def world(self, parts: Sequence[Any]) -> Any:
        """The world with these parts in its cells."""
        return filled(self.initial, self._leaves, iter(parts))

    # ---- running the text

    def _constant_cells(self) -> frozenset[int]:
        """The cells that no event changes. Found by trial: a cell that an event changes is
        removed."""
        self._constant = frozenset(range(len(self.cells))).difference(self.actors)
        while changed := self._constant & {
            cell for path in self._all_paths().values() for cell in changed_by(path)
        }:
            self._constant -= changed
        return self._constant

    def _all_paths(self) -> dict[tuple[str, tuple[int, ...]], Path | Fork]:
        return {(rule, values): self._explore(rule, values, ()) for rule, values in self._instances}

    @contextmanager
    def undecided(self) -> Iterator[None]:
        """Within this context, a condition on symbols raises NotSymbolic."""

        def refuse(condition: str) -> bool:
            raise NotSymbolic(condition)

        before, self._context.decide = self._context.decide, refuse
        calls = len(self._calls)
        try:
            yield
        except NotSymbolic:
            del self._calls[calls:]
            raise
        finally:
            self._context.decide = before

    def _explore(
        self, rule: str, values: tuple[int, ...], decisions: tuple[bool, ...]
    ) -> Path | Fork:
        """The event under these decisions."""
        if len(decisions) > MOST_BRANCHES:
            raise CannotSpecialize(f"{rule} has more than {MOST_BRANCHES} conditions in a row")
        pending = list(decisions)
        undecided = ""
        decided: dict[str, bool] = {}

        def decide(condition: str) -> bool:
            nonlocal undecided
            if condition in decided:
                return decided[condition]
            if pending:
                decided[condition] = pending.pop(0)
                return decided[condition]
            undecided = condition
            raise _Undecided

        self._context.decide = decide
        self._calls = []
        context = self._context
        before = [
            c.first
            if i in self._constant
            else Symbol(context, f"s[{i}]", c.hint, cell=i if i in self.actors else None)
            for i, c in enumerate(self.cells)
        ]
        try:
            world = self._text.events[rule](self.k, self.world(before), *values)
        except _Undecided:
            calls = tuple(self._calls)
            holds, fails = (self._explore(rule, values, (*decisions, d)) for d in (True, False))
            return Fork(calls, undecided, holds, fails)
        except (IndexError, NeverEnabled):
            return Path(tuple(self._calls), {}, fails=True)
        after = parts_of(self.initial, self._leaves, world)
        writes = {
            i: context.code(part, raw=True)
            for i, (symbol, part) in enumerate(zip(before, after, strict=True))
            if part is not symbol
            and (i not in self._constant or is_symbolic(part) or part != symbol)
        }
        changed = {i: code for i, code in writes.items() if code != f"s[{i}]"}
        return Path(tuple(self._calls), changed)

    def _call(self, code: str) -> int:
        number = len(self._calls)
        self._calls.append(GeneratedCall(number, code))
        return number

    # ---- calls of events (`Interceptor`)

    def rule(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """The actor moves on both sides."""
        hints = dict(hints_of(rule))
        result = hints.pop("return")

        def moved(_: Any, actor: Any, *given: Any) -> Any:
            return self._moved(rule.__name__, actor, given, result)

        return moved

    def _moved(self, rule: str, actor: Any, given: Sequence[Any], result: Any) -> Any:
        if not isinstance(actor, Symbol) or actor.cell is None:
            raise CannotSpecialize(f"{rule} moves an actor that is in no cell")
        context, cell = self._context, actor.cell
        given = [self._at_hand(value) for value in given]
        key = "".join(f"{self._for_model(value)}, " for value in given)
        inputs = "".join(f"{self._for_system(value)}, " for value in given)
        number = self._call(f"a{cell}({actor.code}, ({rule!r}, {key}), ({inputs}))")
        after, sent = f"v{number}", f"m{number}"
        if get_origin(result) is Step:
            kind, message = get_args(result)
            sends: Any = Symbol(context, sent, GenericAlias(tuple, (message, ...)))
            if message not in context.messages:
                sends = (self._answer(sent, message),)
            return Step(Symbol(context, after, kind, cell=cell), sends)
        if result in context.actors:
            return Symbol(context, after, result, cell=cell)
        return self._answer(sent, result)

    def _answer(self, sent: str, hint: Any) -> Symbol:
        """The one message with which an actor answers."""
        return Symbol(self._context, f"{sent}[0][0].value", hint, item=f"{sent}[0]")

    def _at_hand(self, value: Any) -> Any:
        """An input. A message is assigned to a name, as both of its sides are needed."""
        if not isinstance(value, Symbol) or value.hint not in self._context.messages:
            return value
        number = self._call(f"{value.code}, None")
        return Symbol(self._context, f"v{number}", value.hint)

    def _for_model(self, value: Any) -> str:
        """An input in the form that the tables take: messages are those of the tables."""
        if isinstance(value, Symbol) and value.hint in self._context.messages:
            return f"{value.code}[0]"
        return self._context.code(value)

    def _for_system(self, value: Any) -> str:
        """An input in the form that the system takes: a part of a message is taken from the
        system's payload."""
        if isinstance(value, Symbol) and value.hint in self._context.messages:
            return f"{value.code}[1]"
        items = {symbol.item for symbol in symbols_in(value)} - {None}
        return f"{items.pop()}[1]" if len(items) == 1 else self._context.code(value)

    def guard(self, condition: Callable[[], Any]) -> None:
        """Replaces `require` and `within_scope`. They do nothing here, except that an event that is
        never enabled raises NeverEnabled."""
        calls = len(self._calls)
        try:
            with self.undecided():
                holds = condition()
        except (NotSymbolic, IndexError):
            return
        del self._calls[calls:]
        if holds is False:
            raise NeverEnabled

    def later(self, function: Callable[..., Any], given: tuple[Any, ...], hint: Any) -> Symbol:
        """A function of values; it is called when the code runs."""
        context = self._context
        codes = (self._as_given(value) for value in given)
        number = self._call(f"{context.constant(function)}({', '.join(codes)}), None")
        return Symbol(context, f"v{number}", hint)

    def _as_given(self, value: Any) -> str:
        """An argument: actors as the model's states, messages with both of their sides."""
        is_actor = isinstance(value, Symbol) and value.hint in self._context.actors
        return self._context.code(value, raw=not is_actor)

    def replace(self, value: Any, **changes: Any) -> Any:
        """A record with other fields; replacing fields of a symbol gives a record of symbols. A
        message under way keeps the system's payload."""
        if isinstance(value, tuple) and self._intern is not None:
            message, payload = value
            return self._intern(replace(message.value, **changes)), payload
        if not isinstance(value, Symbol):
            return replace(value, **changes)
        kind = value.hint
        if kind in self._leaves or not hasattr(kind, "__dataclass_fields__"):
            raise NotSymbolic(value.code)
        kept = {name: getattr(value, name) for name in hints_of(kind)}
        return kind(**kept | changes)

    def length(self, value: Any) -> Any:
        """`len`."""
        if isinstance(value, Symbol):
            return Symbol(self._context, f"len({value.value})")
        return len(value)

    def join(self, *parts: Any) -> Any:
        """`(*a, *b)`."""
        if not any(isinstance(part, Symbol) for part in parts):
            return tuple(element for part in parts for element in part)
        codes = (self._context.code(part, raw=True) for part in parts)
        return Symbol(self._context, f"({' + '.join(codes)})")

    def numbered(self, value: Any) -> Any:
        """`enumerate`."""
        if isinstance(value, Symbol):
            return Symbol(self._context, f"enumerate({value.code})")
        return enumerate(value)

    # ---- code

    def _live_cells(self) -> frozenset[int]:
        """The cells that calls and conditions read, and the cells from which these are computed."""
        live: set[int] = set(self.actors)
        while more := {c for path in self._paths.values() for c in read_by(path, live)} - live:
            live |= more
        return frozenset(live)

    def code(self, rule: str, values: tuple[int, ...]) -> str:
        """The source of the function `event` for a rule instance: its cells are `s`, its actors
        `a0`, `a1`, ..."""
        body = list(lines_of(self._paths[rule, values], self._live, frozenset()))
        return "\n".join(("def event(s=s):", *(f"    {line}" for line in body or ["pass"])))

    def _compiled(self, rule: str, values: tuple[int, ...]) -> CodeType:
        code = self._codes.get((rule, values))
        if code is None:
            code = compile(self.code(rule, values), f"<{rule}>", "exec")
            self._codes[rule, values] = code
        return code

    def bound(
        self, instance: Instance, cells: list[Any], actors: Mapping[int, Callable[..., Any]]
    ) -> Callable[[], None]:
        """A rule instance as a function on these cells; `actors` has the mover of each actor's
        cell."""
        rule, choice = instance
        space: dict[str, Any] = {
            **self._context.constants,
            **{f"a{cell}": moves for cell, moves in actors.items()},
            "s": cells,
        }
        exec(self._compiled(rule, tuple([value for _, value in choice])), space)
        event: Callable[[], None] = space["event"]
        return event


def two_sided(model: Model) -> tuple[frozenset[Any], frozenset[Any]]:
    """(actors, messages): the record types of the model for which a system has a side of its
    own."""
    actors, messages = set(), set()
    for rule in model.actor_rules.values():
        _, actor, *given = hints_of(rule).values()
        actors.add(actor)
        result = given.pop()
        if get_origin(result) is Step and is_dataclass(get_args(result)[1]):
            messages.add(get_args(result)[1])
    return frozenset(actors), frozenset(messages)


def cells_in(code: str) -> set[int]:
    """The cells that code reads."""
    return {int(number) for number in _CELL.findall(code)}


def needed(codes: Sequence[str], calls: Sequence[GeneratedCall]) -> tuple[GeneratedCall, ...]:
    """The calls whose results these codes use, directly or through other calls, in their order."""
    wanted = {int(number) for code in codes for number in _CALL.findall(code)}
    for call in reversed(calls):
        if call.number in wanted:
            wanted |= {int(number) for number in _CALL.findall(call.code)}
    return tuple(call for call in calls if call.number in wanted)


def changed_by(path: Path | Fork) -> set[int]:
    """The cells that a path changes in any of its branches."""
    if isinstance(path, Fork):
        return changed_by(path.holds) | changed_by(path.fails)
    return set(path.writes)


def written(path: Path, live: frozenset[int] | set[int]) -> dict[int, str]:
    """The code that a path assigns to live cells."""
    return {cell: code for cell, code in path.writes.items() if cell in live}


def read_by(path: Path | Fork, live: set[int]) -> set[int]:
    """The cells that a path reads to act, or to compute cells that are `live`."""
    if isinstance(path, Fork):
        codes = [path.condition]
        inner = read_by(path.holds, live) | read_by(path.fails, live)
    else:
        codes, inner = list(written(path, live).values()), set()
    calls = needed(codes, path.calls)
    return inner.union(*(cells_in(code) for code in (*codes, *(call.code for call in calls))))


def lines_of(path: Path | Fork, live: frozenset[int], done: frozenset[int]) -> Iterator[str]:
    """The statements of a path; the calls in `done` are made already."""
    if isinstance(path, Fork):
        if not matters(path, live):
            path = first_path(path)
        else:
            calls = needed([path.condition], path.calls)
            yield from (line_of(call) for call in calls if call.number not in done)
            done |= {call.number for call in calls}
            yield f"if {path.condition}:"
            yield from (f"    {line}" for line in [*lines_of(path.holds, live, done), "pass"])
            yield "else:"
            yield from (f"    {line}" for line in [*lines_of(path.fails, live, done), "pass"])
            return
    if path.fails:
        yield "raise IndexError"
        return
    writes = written(path, live)
    calls = needed(list(writes.values()), path.calls)
    yield from (line_of(call) for call in calls if call.number not in done)
    if writes:
        yield f"{', '.join(f's[{i}]' for i in writes)} = {', '.join(writes.values())}"


def matters(fork: Fork, live: frozenset[int]) -> bool:
    """Whether the two paths differ in a live cell."""
    empty: frozenset[int] = frozenset()
    return list(lines_of(fork.holds, live, empty)) != list(lines_of(fork.fails, live, empty))


def first_path(path: Path | Fork) -> Path:
    """The first of several paths that do the same."""
    while isinstance(path, Fork):
        path = path.holds
    return path


def line_of(call: GeneratedCall) -> str:
    """A call as a statement."""
    return f"v{call.number}, m{call.number} = {call.code}"
