"""Named replacements in source text: the one way to plant a bug, in the model and in `impl`.

A patch names a function, a class or a module by the end of its dotted name, and the text there that
it replaces: one expression, consecutive statements, or entries of a table, written as a dictionary
of just these entries. Texts are compared as syntax trees, so that neither formatting nor comments
matter, and the old text must be found exactly once.

A patch that names a file instead, such as `model/idempotent/leader.py`, replaces consecutive lines
of its text. Each hunk of a unified diff is therefore a patch, and a diff may add what a tree has no
place for: fields, rules, guarantees.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from textwrap import dedent

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Piece = Sequence[ast.AST]
"""One expression, or statements."""

BLOCKS = ("body", "orelse", "finalbody")
"""The fields in which nodes of Python's syntax have statements."""


class PatchError(ValueError):
    """A patch does not fit the text: the function is unknown, or the anchor is not found exactly
    once."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One replacement inside one function, named `module.function` or `Class.method`, or inside the
    text of one file."""

    function: str
    before: str
    after: str

    @property
    def is_text(self) -> bool:
        """Whether it names a file, in which it replaces lines."""
        return self.function.endswith(".py")


def parse_rows(text: str) -> tuple[Patch, ...]:
    """Parse a list of (function, before, after), as JSON or Python. Raises PatchError with the
    line."""
    try:
        table = ast.parse(text.lstrip(" \t"), mode="eval").body
    except SyntaxError as error:
        raise PatchError(f"line {error.lineno or 1}: not a list: {error.msg}") from error
    if not isinstance(table, ast.List | ast.Tuple):
        raise PatchError(f"line {table.lineno}: not a list")
    if not table.elts:
        raise PatchError(f"line {table.lineno}: an empty list")
    return tuple(map(parse_row, table.elts))


def parse_row(row: ast.expr) -> Patch:
    """Parse one row of a list as a patch. Raises PatchError with the line."""
    cells = row.elts if isinstance(row, ast.List | ast.Tuple) else []
    texts = [cell.value for cell in cells if isinstance(cell, ast.Constant)]
    match texts:
        case [str(function), str(before), str(after)] if len(texts) == len(cells):
            return Patch(function, before, after)
    raise PatchError(f"line {row.lineno}: {ast.unparse(row):.60} is not a row of three texts")


def parse_diff(diff: str) -> tuple[Patch, ...]:
    """Parse the hunks of a unified diff as patches of files. Raises PatchError."""
    found: list[Patch] = []
    name = ""
    hunk: list[str] = []
    for line in (*diff.splitlines(), "@@"):
        if line.startswith(("@@", "--- ", "diff ", "index ")):
            found += hunk_patches(name, hunk)
            hunk = []
        elif line.startswith("+++ "):
            name = line[4:].partition("\t")[0].strip().removeprefix("b/")
        elif line[:1] in ("+", "-", " ", ""):
            hunk.append(line or " ")
    if not found:
        raise PatchError("a diff without a change")
    return tuple(found)


def hunk_patches(name: str, hunk: Sequence[str]) -> Iterator[Patch]:
    """Yield a hunk of a file as a patch, unless it changes nothing. Raises PatchError."""
    before, after = (side_of(hunk, mark) for mark in "-+")
    if before == after:
        return
    if not name.endswith(".py"):
        raise PatchError(f"{name or 'a hunk'}: a diff changes Python files of the model")
    yield Patch(name, before, after)


def side_of(hunk: Iterable[str], mark: str) -> str:
    """Return the lines of a hunk before it is applied ("-"), or after ("+")."""
    return "\n".join(line[1:] for line in hunk if line[0] in (" ", mark))


def apply_to_text(patch: Patch, text: str) -> str:
    """Return the text of the file with the patch's lines replaced. Raises PatchError."""
    lines, before = text.splitlines(), patch.before.splitlines()
    starts = [i for i in range(len(lines)) if lines[i : i + len(before)] == before]
    if not before or len(starts) != 1:
        raise PatchError(
            f"in {patch.function}: these lines are found {len(starts) if before else 0} times;"
            f" a hunk's old lines must be found exactly once:\n{patch.before}"
        )
    lines[starts[0] : starts[0] + len(before)] = patch.after.splitlines()
    return "\n".join(lines) + "\n"


def apply(patch: Patch, trees: Mapping[str, ast.Module]) -> str:
    """Change the trees, by module name, as the patch says; return the module that it changed.

    Raises PatchError.
    """
    module, scope = find_scope(patch.function, trees)
    replacer = _Replacer(*parse_pieces(patch))
    replacer.visit(scope)
    if replacer.found != 1:
        raise PatchError(
            f"in {patch.function}: {patch.before!r} is found {replacer.found} times;"
            " an anchor must be found exactly once"
        )
    return module


def find_scope(name: str, trees: Mapping[str, ast.Module]) -> tuple[str, Scope]:
    """Return the one scope whose dotted name ends with `name`, and its module. Raises
    PatchError."""
    found = {
        dotted: (module, scope)
        for module, tree in trees.items()
        for dotted, scope in scopes_in(module, tree)
        if f".{dotted}".endswith(f".{name}")
    }
    if len(found) != 1:
        known = f"; it may be {', '.join(found)}" if found else ""
        raise PatchError(f"no function {name!r}{known} (write module.function or Class.method)")
    return next(iter(found.values()))


def scopes_in(name: str, scope: Scope) -> Iterator[tuple[str, Scope]]:
    """Yield a scope, and the classes and functions in it, with their dotted names."""
    yield name, scope
    for node in scope.body if isinstance(scope, ast.Module | ast.ClassDef) else ():
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from scopes_in(f"{name}.{node.name}", node)


def parse_pieces(patch: Patch) -> tuple[Piece, Piece]:
    """Parse both sides of a patch: two expressions, else statements. Raises PatchError."""
    try:
        return parse_expression(patch.before), parse_expression(patch.after)
    except SyntaxError:
        pass
    try:
        before, after = (ast.parse(dedent(text)).body for text in (patch.before, patch.after))
    except SyntaxError as error:
        raise PatchError(f"in {patch.function}: not Python: {error}") from error
    if not before:
        raise PatchError(f"in {patch.function}: nothing to replace; write a statement beside it")
    return before, after


def parse_expression(text: str) -> Piece:
    """Parse a text as one expression. Raises SyntaxError."""
    return [ast.parse(text.strip(), mode="eval").body]


def entry_texts(table: ast.Dict) -> list[tuple[str, str]]:
    """Return keys and values in a form for comparison; `**more` has no key."""
    keys = (ast.dump(key) if key else "" for key in table.keys)
    return list(zip(keys, map(ast.dump, table.values), strict=True))


class _Replacer(ast.NodeTransformer):
    """Replaces pieces that equal `before`, and counts them."""

    def __init__(self, before: Piece, after: Piece) -> None:
        self.before = before
        self.anchor = [ast.dump(node) for node in before]
        self.after = after
        self.found = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and [ast.dump(node)] == self.anchor:
            return self._replacement_at(node)[0]
        # The inner parts come first, so that the replacement itself is not searched.
        node = self.generic_visit(node)
        if isinstance(node, ast.Dict):
            self._replace_entries(node)
        for block in (getattr(node, name, None) for name in BLOCKS):
            if isinstance(block, list):
                self._replace_in(block)
        return node

    def _replace_in(self, block: list[ast.AST]) -> None:
        length = len(self.anchor)
        texts = [ast.dump(node) for node in block]
        for start in range(len(block) - length, -1, -1):
            if texts[start : start + length] == self.anchor:
                block[start : start + length] = self._replacement_at(block[start])

    def _replace_entries(self, table: ast.Dict) -> None:
        before = self.before[0]
        if not isinstance(before, ast.Dict):
            return
        length = len(before.keys)
        rows = [entry_texts(table)[i : i + length] for i in range(len(table.keys) - length + 1)]
        for start in [i for i, row in enumerate(rows) if row == entry_texts(before)]:
            [entries] = self._replacement_at(table.values[start])
            assert isinstance(entries, ast.Dict), "entries are replaced by entries"
            table.keys[start : start + length] = entries.keys
            table.values[start : start + length] = entries.values

    def _replacement_at(self, place: ast.AST) -> list[ast.AST]:
        """Return fresh nodes with the position of the nodes that they replace."""
        self.found += 1
        nodes = [deepcopy(node) for node in self.after]
        for part in (part for node in nodes for part in ast.walk(node)):
            ast.copy_location(part, place)
        return nodes
