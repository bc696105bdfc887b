"""The model's text: read, patched, and loaded.

A `Model` is the model's modules together with their syntax trees. The plain one is the package
`model` as imported. A patched one is the same text with expressions replaced (`Patch`), executed
as modules of its own; everything else in `proofs` takes a `Model` and cannot tell the difference.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = (
    "language",
    "sentences",
    "naming",
    "setting",
    "messages",
    "leader",
    "client",
    "recovery",
    "answers",
    "network",
    "world",
    "promises",
    "beliefs",
    "scopes",
    "variants",
    "endless",
    "eventually",
)
"""The model's modules, each after those it imports."""


class UnknownBelief(ValueError):
    """No belief of the model has this name; the message lists those that it has."""


class PatchError(ValueError):
    """A patch that does not fit the text: unknown function, or an anchor not found just once."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One expression replaced inside one function, named `module.function`."""

    function: str
    before: str
    after: str


@dataclass(frozen=True, eq=False)
class Model:
    """The model, as text and as running modules. `functions` maps (module, name) to its tree."""

    modules: Mapping[str, ModuleType]
    functions: Mapping[tuple[str, str], ast.FunctionDef]
    files: Mapping[str, str]
    patches: tuple[Patch, ...]

    def __getattr__(self, name: str) -> Any:
        """A module of the model: `model.world`, `model.promises`, ..."""
        try:
            return self.modules[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def rules(self) -> Mapping[str, Callable[..., Any]]:
        """The rules of the world, by name."""
        rules: Mapping[str, Callable[..., Any]] = self.modules["language"].RULES
        return rules

    def tree_of(self, function: Callable[..., Any]) -> ast.FunctionDef | None:
        """The syntax tree of a function of the model; None if it is not the model's."""
        module = function.__module__.rpartition(".")[2]
        return self.functions.get((module, function.__name__))


def folder() -> Path:
    """Where the model's text is."""
    package = importlib.import_module("model")
    assert package.__file__ is not None
    return Path(package.__file__).parent


@functools.cache
def read(name: str) -> str:
    """The text of one module."""
    return (folder() / f"{name}.py").read_text(encoding="utf-8")


def functions_of(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], ast.FunctionDef]:
    """All top-level functions, by (module, name)."""
    return {
        (name, node.name): node
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def trees() -> dict[str, ast.Module]:
    """Fresh syntax trees of all modules."""
    return {name: ast.parse(read(name), filename=f"model/{name}.py") for name in MODULES}


def files() -> dict[str, str]:
    """The name that errors give each module's file."""
    return {name: f"model/{name}.py" for name in MODULES}


@functools.cache
def plain() -> Model:
    """The model as it stands."""
    modules = {name: importlib.import_module(f"model.{name}") for name in MODULES}
    return Model(modules, functions_of(trees()), files(), ())


class _Replacer(ast.NodeTransformer):
    """Replaces each expression that reads like `anchor`, and counts."""

    def __init__(self, anchor: str, after: str) -> None:
        self.anchor = ast.dump(ast.parse(anchor, mode="eval").body)
        self.after = after
        self.found = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self.anchor:
            self.found += 1
            replacement = ast.parse(self.after, mode="eval").body
            for part in ast.walk(replacement):
                ast.copy_location(part, node)
            return replacement
        return self.generic_visit(node)


def apply(patch: Patch, all_trees: Mapping[str, ast.Module]) -> None:
    """Change the trees as the patch says. Raises PatchError."""
    module, _, name = patch.function.rpartition(".")
    function = functions_of(all_trees).get((module, name))
    if function is None:
        raise PatchError(f"the model has no function {patch.function!r} (write module.function)")
    replacer = _Replacer(patch.before, patch.after)
    replacer.visit(function)
    if replacer.found != 1:
        raise PatchError(
            f"in {patch.function}: {patch.before!r} is found {replacer.found} times;"
            " an anchor must be found exactly once"
        )


@contextmanager
def _model_modules_set_aside() -> Iterator[None]:
    """While the patched text is executed, `import model.x` means the patched module."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "model"}
    for name in kept:
        if name != "model":
            del sys.modules[name]
    package = sys.modules["model"]
    attributes = {name: getattr(package, name) for name in MODULES if hasattr(package, name)}
    try:
        yield
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "model"]:
            del sys.modules[name]
        sys.modules.update(kept)
        for name, module in attributes.items():
            setattr(package, name, module)


def execute(name: str, tree: ast.Module, package: str = "model") -> ModuleType:
    """A module made of a tree."""
    module = ModuleType(f"{package}.{name}")
    module.__file__ = f"{package.replace('.', '/')}/{name}.py"
    sys.modules[module.__name__] = module
    if package == "model":
        setattr(sys.modules["model"], name, module)
    exec(compile(tree, module.__file__, "exec"), module.__dict__)
    return module


def patched(patches: Sequence[Patch]) -> Model:
    """The model with patches applied. Raises PatchError."""
    if not patches:
        return plain()
    plain()
    changed = trees()
    for patch in patches:
        apply(patch, changed)
    with _model_modules_set_aside():
        modules = {name: execute(name, changed[name]) for name in MODULES}
    return Model(modules, functions_of(changed), files(), tuple(patches))


def imports_of(tree: ast.Module, package: str) -> set[str]:
    """The modules of the package that a module imports, at its top as all of the model do."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == package:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            names.add(str(node.module)[len(package) + 1 :])
    return names


def in_order(trees: Mapping[str, ast.Module], package: str) -> tuple[str, ...]:
    """The modules, each after those it imports."""
    before = {name: imports_of(tree, package) & set(trees) for name, tree in trees.items()}
    return tuple(graphlib.TopologicalSorter(before).static_order())


def loaded(directory: Path, package: str, patches: Sequence[Patch] = ()) -> Model:
    """Another model in the same language: the modules that `directory` has.

    They import each other as `package.name` and the words from `model.language`, of which the
    model gets a copy of its own: its rules are its rules only. Raises PatchError.
    """
    plain()
    own = {path.stem: path for path in sorted(directory.glob("*.py")) if path.stem != "__init__"}
    texts = {"language": read("language")}
    texts |= {name: path.read_text(encoding="utf-8") for name, path in own.items()}
    names = {name: package if name in own else "model" for name in texts}
    files = {name: f"{names[name].replace('.', '/')}/{name}.py" for name in texts}
    trees = {name: ast.parse(texts[name], filename=files[name]) for name in texts}
    for patch in patches:
        apply(patch, trees)
    order = ("language", *in_order({name: trees[name] for name in own}, package))
    kept = {name: m for name, m in sys.modules.items() if name.startswith(f"{package}.")}
    with _model_modules_set_aside():
        try:
            modules = {name: execute(name, trees[name], names[name]) for name in order}
        finally:
            for name in [n for n in sys.modules if n.startswith(f"{package}.")]:
                del sys.modules[name]
            sys.modules.update(kept)
    return Model(modules, functions_of(trees), files, tuple(patches))


COMPOSITIONS = ("producer_ids", "transactions", "processing")
"""Folders of the model that are models of their own: other actors, in worlds of their own."""


def composition(name: str, patches: Sequence[Patch] = ()) -> Model:
    """One of COMPOSITIONS; as it stands it is loaded once. Raises PatchError."""
    return as_it_stands(name) if not patches else loaded(folder() / name, f"model.{name}", patches)


@functools.cache
def as_it_stands(name: str) -> Model:
    """One of COMPOSITIONS without patches."""
    return loaded(folder() / name, f"model.{name}")


@functools.cache
def home_of(scope: str) -> str:
    """The composition that has a scope; "" for the model itself, also where nobody knows it.

    The model comes first: to load a composition takes longer than most questions about it.
    """
    name = scope.partition("/")[0]
    if name in scopes_of(plain()):
        return ""
    return next((c for c in COMPOSITIONS if name in scopes_of(composition(c))), "")


def scopes_of(model: Model) -> frozenset[str]:
    """The names of a model's scopes, those without an end too."""
    endless = getattr(model.modules.get("eventually"), "SCOPES", {})
    return frozenset(model.scopes.SCOPES) | frozenset(endless)


def model_for(scope: str, patches: Sequence[Patch] = ()) -> Model:
    """The model whose scope it is. Raises PatchError."""
    home = home_of(scope)
    return composition(home, patches) if home else patched(patches)


def beliefs_of(model: Model) -> tuple[Any, ...]:
    """What users believe and nobody promises, where a model says it."""
    return tuple(getattr(model.modules.get("beliefs"), "BELIEFS", ()))


def believing(model: Model, names: Collection[str]) -> Model:
    """The model with these beliefs among its promises. They cost time, so that who wants to know
    asks by name. Raises UnknownBelief."""
    known = {belief.name: belief for belief in beliefs_of(model)}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise UnknownBelief(f"no belief is called {unknown[0]!r}; there are {', '.join(known)}")
    asked = tuple(belief for name, belief in known.items() if name in names)
    promises = ModuleType(model.promises.__name__)
    vars(promises).update(vars(model.promises), PROMISES=(*model.promises.PROMISES, *asked))
    return replace(model, modules={**model.modules, "promises": promises}) if asked else model


def read_patches(path: Path) -> tuple[Patch, ...]:
    """Patches from a file: a Python list of (function, before, after).

    Raises PatchError with the place if the file is not of that form.
    """
    try:
        rows = ast.literal_eval(path.read_text(encoding="utf-8"))
        return tuple(Patch(*row) for row in rows)
    except (OSError, SyntaxError, ValueError, TypeError) as error:
        raise PatchError(
            f"{path}: {error}; write a list of (function, expression before, expression after)"
        ) from error
