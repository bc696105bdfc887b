"""The model's actors as tables from (state, input) to (new state, messages), filled by the model.

1. States and messages are interned: each is one object, whose view is made once.
2. A row is filled by calling the actor's rule in `model`, the first time that its input meets the
   state. From then on the row is looked up.
3. Each row knows which branches of the text it took, which entries of its error tables it met, and
   which error code it answers. The text that fills rows is the model's, with a note at each
   condition. An entry is a place where the text names an error: it is met if a value equals that
   error, or if that error is the answer.

Theory of operation: the judge's hot path calls only `Tables.after`. The content of a table is a
function of the model alone, so the order in which it grew never shows in a result. A table with too
many rows is emptied; states in use stay valid, and their rows are filled again.
"""

from __future__ import annotations

import ast
import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from conformance.judging.system import View
from model.language import Disabled, Step
from proofs.lift.source import Model, modules_imported_by

MAX_ROWS = 1_000_000
EVENTS: Final = "world"
"""The module of a model that defines the events."""


class InternedMessage:
    """The model's value of a message, and its view."""

    __slots__ = ("value", "view")

    def __init__(self, value: Any, view: View) -> None:
        self.value = value
        self.view = view


class InternedState:
    """The model's value of an actor's state, its view, and the rows known so far."""

    __slots__ = ("refusals", "rows", "state", "view")

    def __init__(self, state: Any, view: View) -> None:
        self.state = state
        self.view = view
        self.rows: dict[tuple[Any, ...], MemoisedStep] = {}
        self.refusals: dict[tuple[Any, ...], bool] = {}


class MemoisedStep(NamedTuple):
    """The result of an actor's step. `seen` has a bit for each point that the row covers."""

    node: InternedState
    sent: tuple[InternedMessage, ...]
    seen: int


# Branches


class _Noter(ast.NodeTransformer):
    """Puts a note around each condition of one function, and around each error that it names.
    `places` and `entries` grow by one for each note."""

    def __init__(self, where: str, function: str, places: list[str], entries: list[str]) -> None:
        self.where = where
        self.function = function
        self.places = places
        self.entries = entries

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.If, ast.IfExp)):
            number = numbered(self.places, self._place_of(node))
            self.generic_visit(node)
            node.test = noted("_note", number, node.test)
            return node
        if error := error_compared_in(node):
            assert isinstance(node, ast.Compare)
            number = numbered(self.entries, f"{self._place_of(node)}, {error}")
            is_equal = isinstance(node.ops[0], ast.Eq)
            self.generic_visit(node.left)
            return noted("_note_equal" if is_equal else "_note_different", number, node)
        if error := error_named_by(node):
            assert isinstance(node, ast.Attribute)
            number = numbered(self.entries, f"{self._place_of(node)}, {error}")
            return noted("_note_answered", number, node)
        return self.generic_visit(node)

    def _place_of(self, node: ast.stmt | ast.expr) -> str:
        return f"{self.where}:{node.lineno}:{node.col_offset + 1}: in {self.function}"


def numbered(names: list[str], name: str) -> int:
    """Appends a name, and returns its number."""
    names.append(name)
    return len(names) - 1


def noted(function: str, number: int, value: ast.expr) -> ast.expr:
    """A call that notes a place, and returns the value."""
    call = ast.Call(ast.Name(function, ast.Load()), [ast.Constant(number), value], [])
    return ast.fix_missing_locations(ast.copy_location(call, value))


def error_named_by(node: ast.AST) -> str:
    """The error in `Error.NAME`; empty for NONE, which is no error, and for any other node."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return ""
    return node.attr if node.value.id == "Error" and node.attr != "NONE" else ""


def error_compared_in(node: ast.AST) -> str:
    """The error in `value == Error.NAME` or `!=`; empty for any other node."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return ""
    return error_named_by(node.comparators[0])


def watched_modules(model: Model, with_events: bool = False) -> tuple[str, ...]:
    """The modules whose branches count: those that define actors, and the modules that these
    import. The module of events is included if a system takes events as whole steps."""
    of_rules = {rule.__module__.rpartition(".")[2] for rule in model.actor_rules.values()}
    acting = modules_imported_by(model, of_rules)
    events = (EVENTS,) if with_events else ()
    return ("messages", *(n for n in model.modules if n in acting - {"messages"}), *events)


class WatchedRules:
    """The functions of some modules, rewritten so that each call notes the branches that it takes.

    `rules` has the rules by name, with the functions that they call, in these modules. `branches`
    names both sides of every condition, in the order of their bits, `entries` the entries of error
    tables. `taken` and `met` have the bits of what happened since `begin`.
    """

    def __init__(self, model: Model, modules: Sequence[str]) -> None:
        self.taken = self.met = 0
        places: list[str] = []
        self.entries: list[str] = []
        watched: dict[Any, Any] = {}
        spaces: dict[ModuleType, dict[str, Any]] = {}
        for name in modules:
            space = self._module(model, name, places, watched)
            spaces[watched.setdefault(model.modules[name], ModuleType(name))] = space
        for module, space in spaces.items():
            for name, value in space.items():
                if isinstance(value, (FunctionType, ModuleType)) and value in watched:
                    space[name] = watched[value]
            vars(module).update(space)
        functions = {f.__name__: f for f in watched if isinstance(f, FunctionType)}
        rules = {**functions, **model.actor_rules, **model.rules}
        self.rules = {name: watched[rule] for name, rule in rules.items() if rule in watched}
        self.branches = tuple(f"{p}, {side}" for p in places for side in ("taken", "skipped"))

    def _module(
        self,
        model: Model,
        name: str,
        places: list[str],
        watched: dict[Any, Any],
    ) -> dict[str, Any]:
        """The module's functions with notes; returns the namespace that they run in."""
        module = model.modules[name]
        notes = (self._note, self._note_equal, self._note_different, self._note_answered)
        space = {**vars(module), **{note.__name__: note for note in notes}}
        for (owner, function), tree in model.functions.items():
            if owner == name:
                noted = copy.deepcopy(tree)
                noted.decorator_list = []
                _Noter(model.files[name], function, places, self.entries).visit(noted)
                code = compile(ast.Module([noted], []), model.files[name], "exec")
                exec(code, space)
                watched[getattr(module, function)] = space[function]
        return space

    def begin(self) -> None:
        """Clear the notes."""
        self.taken = self.met = 0

    def _note(self, place: int, condition: bool) -> bool:
        self.taken |= 1 << (2 * place + (not condition))
        return condition

    def _note_equal(self, entry: int, is_equal: bool) -> bool:
        self.met |= is_equal << entry
        return is_equal

    def _note_different(self, entry: int, is_different: bool) -> bool:
        self.met |= (not is_different) << entry
        return is_different

    def _note_answered(self, entry: int, error: Any) -> Any:
        self.met |= 1 << entry
        return error


# Tables


class CoveredPoints(NamedTuple):
    """The points of the model's text that rows cover, by name."""

    branches: frozenset[str]
    error_codes: frozenset[str]
    table_entries: frozenset[str]


class ModelTables:
    """A model in one configuration. `points` names the points that its rows can cover, in the order
    of their bits: branches, error codes, entries of error tables."""

    def __init__(self, k: Any, model: Model, modules: Sequence[str]) -> None:
        self.k = k
        self.model = model
        self._watched = WatchedRules(model, modules)
        self.branches = self._watched.branches
        self.error_codes = tuple(error.name for error in getattr(model.messages, "Error", ()))
        self.table_entries = tuple(self._watched.entries)

    @property
    def all_points(self) -> CoveredPoints:
        """All points that rows can cover."""
        kinds = (self.branches, self.error_codes, self.table_entries)
        return CoveredPoints(*map(frozenset, kinds))

    def points(self, seen: int) -> CoveredPoints:
        """The points whose bits are set."""
        kinds = (self.branches, self.error_codes, self.table_entries)
        bits = iter(bin(seen)[:1:-1].ljust(sum(map(len, kinds)), "0"))
        return CoveredPoints(
            *(frozenset([name for name in names if next(bits) == "1"]) for names in kinds)
        )

    def _noted(self, errors: Iterable[str]) -> int:
        """The bits of the notes of watched rules, and of the answered error codes."""
        first = len(self.branches)
        answered = sum(1 << first + self.error_codes.index(name) for name in set(errors))
        met = self._watched.met << first + len(self.error_codes)
        return self._watched.taken | answered | met


class ActorTables(ModelTables, ABC):
    """The tables of one configuration's actors."""

    def __init__(self, k: Any, model: Model) -> None:
        super().__init__(k, model, watched_modules(model))
        self._nodes: dict[Any, InternedState] = {}
        self._messages: dict[Any, InternedMessage] = {}
        self._rows = 0

    @abstractmethod
    def state_view(self, state: Any) -> View:
        """The view of an actor's state."""

    @abstractmethod
    def message_view(self, value: Any) -> View:
        """The view of a message."""

    @abstractmethod
    def errors_in(self, sends: Sequence[Any]) -> Iterator[str]:
        """The names of the error codes in these messages."""

    def after(self, node: InternedState, rule: str, *inputs: Any) -> MemoisedStep:
        """The actor's step; an input is a plain value or an `InternedMessage`.

        Raises the model's `Disabled` if the actor's own rule refuses.
        """
        key = (rule, *inputs)
        row = node.rows.get(key)
        return self._filled(node, key) if row is None else row

    def refuses(self, node: InternedState, rule: str, *inputs: Any) -> bool:
        """Whether the protocol, and not merely the scope, forbids this step."""
        key = (rule, *inputs)
        refused = node.refusals.get(key)
        if refused is None:
            try:
                self._watched.rules[rule](self.k, node.state, *inputs)
                refused = False
            except Disabled as disabled:
                refused = not disabled.by_scope
            node.refusals[key] = refused
        return refused

    def _filled(self, node: InternedState, key: tuple[Any, ...]) -> MemoisedStep:
        """A row filled by calling the rule. The parts of the result that are not the actor's state
        are messages."""
        rule, *inputs = key
        values = [i.value if isinstance(i, InternedMessage) else i for i in inputs]
        self._watched.begin()
        result = self._watched.rules[rule](self.k, node.state, *values)
        if isinstance(result, Step):
            actor, sends = result.actor, result.sends
        elif type(result) is type(node.state):
            actor, sends = result, ()
        else:
            actor, sends = node.state, (result,)
        sent = tuple(self.message(message) for message in sends)
        row = MemoisedStep(self.node(actor), sent, self._noted(self.errors_in(sends)))
        self._make_room()
        node.rows[key] = row
        return row

    def _make_room(self) -> None:
        self._rows += 1
        if self._rows > MAX_ROWS:
            for node in self._nodes.values():
                node.rows.clear()
            self._nodes.clear()
            self._rows = 0

    def node(self, state: Any) -> InternedState:
        """The interned node of a state."""
        node = self._nodes.get(state)
        if node is None:
            node = self._nodes[state] = InternedState(state, self.state_view(state))
        return node

    def message(self, value: Any) -> InternedMessage:
        """The interned message of a value."""
        key = (type(value), value)
        message = self._messages.get(key)
        if message is None:
            message = self._messages[key] = InternedMessage(value, self.message_view(value))
        return message
