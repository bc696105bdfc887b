"""Reads, patches and loads the model's source.

A *composition* is a package of the model: its actors, their world, its guarantees and scopes. A
`Model` is one composition, as modules and as syntax trees. Without patches its modules are the
package's own, as imported. With patches (`Patch`) the same source is executed as separate modules.
All other code in `proofs` takes a `Model` and cannot tell the difference.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import EnumMeta
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import model
from model.language import is_actor_rule, is_event
from proofs.lift.patch import (
    Patch,
    PatchError,
    apply,
    apply_to_text,
    find_scope,
    parse_diff,
    parse_rows,
)
from proofs.run import nearest

NOT_LIFTED = frozenset({"configuration", "scopes", "spec", "variants"})
"""Modules that make configurations and initial worlds; the functions of all others are lifted."""


class UnknownAssumedProperty(ValueError):
    """No assumed property of the model has this name; the message lists the names that exist."""


class UnknownClaim(ValueError):
    """A scope claims that it never has something, but nothing has this name; the message has
    both."""


@dataclass(frozen=True, eq=False)
class Model:
    """One composition, as text and as running modules. `trees` has the text of each module,
    `functions` the text of each function by (module, name)."""

    package: str
    modules: Mapping[str, ModuleType]
    trees: Mapping[str, ast.Module]
    functions: Mapping[tuple[str, str], ast.FunctionDef]
    files: Mapping[str, str]
    patches: tuple[Patch, ...]

    def __getattr__(self, name: str) -> Any:
        """Return a module of the model: `model.world`, `model.guarantees`, ..."""
        try:
            return self.modules[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def name(self) -> str:
        """The composition's name: `transactions`."""
        return self.package.rpartition(".")[2]

    @functools.cached_property
    def rules(self) -> Mapping[str, Callable[..., Any]]:
        """The rules of the world, by name."""
        return dict(self._functions_where(is_event))

    @functools.cached_property
    def actor_rules(self) -> Mapping[str, Callable[..., Any]]:
        """The rules of actors, by name."""
        return dict(self._functions_where(is_actor_rule))

    def _functions_where(
        self, wanted: Callable[[Any], bool]
    ) -> Iterator[tuple[str, Callable[..., Any]]]:
        for module, name in self.functions:
            function: Callable[..., Any] | None = vars(self.modules[module]).get(name)
            if function is not None and wanted(function):
                yield name, function

    def is_lifted(self, module: str) -> bool:
        """Whether the functions of a module are lifted."""
        return module not in NOT_LIFTED

    def tree_of(self, function: Callable[..., Any]) -> ast.FunctionDef | None:
        """Return the syntax tree of a function of the model. None if it is not a function of the
        model, or does not do what the text of its name says: a decorator or another function made
        it."""
        package, _, module = function.__module__.rpartition(".")
        if package != self.package or not is_defined_at_top(function):
            return None
        return self.functions.get((module, function.__name__))


def is_defined_at_top(function: Callable[..., Any]) -> bool:
    """Whether a function's `def` stands at the top of its module, and makes exactly this
    function."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_qualname == function.__name__ and not code.co_freevars


def functions_of(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], ast.FunctionDef]:
    """Return all top-level functions, by (module, name)."""
    return {
        (name, node.name): node
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def imports_of(tree: ast.Module, package: str) -> set[str]:
    """Return the modules of the package that a module imports at its top, where the model's imports
    are."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == package:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            names.add(str(node.module)[len(package) + 1 :])
    return names


@dataclass(frozen=True, slots=True)
class PackageSource:
    """The text of a package's modules; `trees` has each module after the modules that it
    imports."""

    package: str
    trees: Mapping[str, ast.Module]

    def file(self, name: str) -> str:
        """Return a module's file as errors name it."""
        return file_of(self.package, name)


def file_of(package: str, module: str) -> str:
    """Return a module's file, below the folder of the repository."""
    return f"{package.replace('.', '/')}/{module}.py"


def read_source(package: str, hunks: Sequence[Patch] = ()) -> PackageSource:
    """Return fresh syntax trees of all modules of a package, with patches of their text applied.

    Raises PatchError.
    """
    texts = texts_of(package)
    for patch in hunks:
        name = Path(patch.function).stem
        texts[name] = apply_to_text(patch, texts[name])
    trees = {name: parse(texts[name], file_of(package, name)) for name in sorted(texts)}
    imports = {name: imports_of(tree, package) & set(trees) for name, tree in trees.items()}
    order = graphlib.TopologicalSorter(imports).static_order()
    return PackageSource(package, {name: trees[name] for name in order})


def texts_of(package: str) -> dict[str, str]:
    """Return the text of each module of a package, by the module's name."""
    root = importlib.import_module(package).__file__
    assert root is not None
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(root).parent.glob("*.py")}
    del texts["__init__"]
    return texts


def parse(text: str, file: str) -> ast.Module:
    """Parse a module's text. Raises PatchError, because only a patched text can fail to be
    Python."""
    try:
        return ast.parse(text, file)
    except SyntaxError as error:
        raise PatchError(f"{file}, line {error.lineno}: not Python: {error.msg}") from error


@contextmanager
def _set_aside(package: str, names: Collection[str]) -> Iterator[ModuleType]:
    """Make imports of the package's modules find the patched ones, while patched source is
    executed."""
    parent = sys.modules[package]
    kept = {name: sys.modules.pop(f"{package}.{name}") for name in names}
    try:
        yield parent
    finally:
        for name, module in kept.items():
            sys.modules[f"{package}.{name}"] = module
            setattr(parent, name, module)


def execute(source: PackageSource) -> dict[str, ModuleType]:
    """Execute the source as separate modules. Raises PatchError, because only a patched text can
    fail."""
    modules: dict[str, ModuleType] = {}
    with _set_aside(source.package, source.trees) as parent:
        for name, tree in source.trees.items():
            module = modules[name] = ModuleType(f"{source.package}.{name}")
            module.__file__ = source.file(name)
            sys.modules[module.__name__] = module
            setattr(parent, name, module)
            try:
                exec(code_of(tree, module.__file__), module.__dict__)
            except Exception as error:
                place = place_of(error, source, module.__file__)
                raise PatchError(f"{place}: {error}") from error
    return modules


def place_of(error: Exception, source: PackageSource, executed: str) -> str:
    """Return the file in which a patched text fails during execution, and the code there. Line
    numbers would mislead, because a patched text has other lines than the file."""
    trees = {source.file(name): tree for name, tree in source.trees.items()}
    frames = traceback.extract_tb(error.__traceback__)
    places = ((f.filename, f.lineno) for f in reversed(frames) if f.filename in trees)
    file, line = next(places, (executed, getattr(error, "lineno", None)))
    nodes = (node for node in ast.walk(trees[file]) if getattr(node, "lineno", -1) == line)
    code, *_ = next(map(ast.unparse, nodes), "").splitlines() or [""]
    return f"{file}, with the patch, at `{code}`"


@functools.lru_cache(maxsize=512)
def code_of(tree: ast.Module, file: str) -> CodeType:
    """Compile a module's code, once for a tree that many models share."""
    return compile(tree, file, "exec")


@functools.lru_cache(maxsize=64)
def modules_that_act(model: Model) -> frozenset[str]:
    """Return the modules with events and the modules that they import, directly or not. All others
    only look at worlds."""
    return modules_imported_by(
        model, {r.__module__.rpartition(".")[2] for r in model.rules.values()}
    )


def modules_imported_by(model: Model, modules: Iterable[str]) -> frozenset[str]:
    """Return some modules of a model, and the modules that they import, directly or not."""
    trees = model.trees
    found: set[str] = set()
    frontier = set(modules)
    while frontier:
        found |= frontier
        imported = (imports_of(trees[name], model.package) for name in frontier)
        frontier = (set().union(*imported) & trees.keys()) - found
    return frozenset(found)


@functools.cache
def source_of(package: str) -> PackageSource:
    """Return a package's source as it stands; callers must not change it."""
    return read_source(package)


@functools.cache
def load_package(package: str) -> Model:
    """Return the model of a package, as it stands. Raises UnknownClaim."""
    source = source_of(package)
    modules = {name: importlib.import_module(f"{package}.{name}") for name in source.trees}
    files = {name: source.file(name) for name in modules}
    model = Model(package, modules, source.trees, functions_of(source.trees), files, ())
    check_scopes(model)
    return model


def check_scopes(model: Model) -> None:
    """Raise UnknownClaim if a scope claims that it never has a name which nothing has. Packages
    other than compositions may have no named scopes."""
    scopes = getattr(model.modules.get("scopes"), "SCOPES", {})
    claims = [(scope.name, name) for scope in scopes.values() for name in scope.never]
    known = claimed_names(model) if claims else set()
    for scope, name in claims:
        if name not in known:
            near = nearest(name, sorted(known), "list")
            what = f"scope {scope}, never {name}"
            raise UnknownClaim(f"{what}: no event and no witness is called so; {near}")


def claimed_names(model: Model) -> set[str]:
    """Return the names that a scope may claim never to have: events, witnesses, steps of the
    specification."""
    witnesses = (witness.name for witness in model.guarantees.WITNESSES)
    steps = getattr(model.modules.get("spec"), "STEPS", ())
    return {*model.rules, *witnesses, *(step.name for step in steps)}


def load(package: str, patches: Sequence[Patch] = ()) -> Model:
    """Return the model of a package, with patches applied. Raises PatchError."""
    return load_patched(package, tuple(patches)) if patches else load_package(package)


@functools.lru_cache(maxsize=16)
def load_patched(package: str, patches: tuple[Patch, ...]) -> Model:
    """Return the model with patches applied. The result is cached, so that exploration and replay
    of its traces use the same object. Raises PatchError."""
    unpatched = load_package(package)
    source = patched_source(unpatched, patches)
    modules = execute(source)
    check_members(unpatched.modules, modules)
    functions = functions_of(source.trees)
    return Model(package, modules, source.trees, functions, unpatched.files, patches)


def patched_source(unpatched: Model, patches: Sequence[Patch]) -> PackageSource:
    """Return the source with patches applied. Modules that no patch changes are shared with the
    model without patches, because reading them takes most of the time of a small change. Raises
    PatchError."""
    package, hunks = unpatched.package, hunks_of(unpatched, patches)
    source = read_source(package, hunks) if hunks else source_of(package)
    named = [patch for patch in patches if not patch.is_text]
    if not hunks:
        own = {find_scope(patch.function, source.trees)[0] for patch in named}
        texts = texts_of(package)
        fresh = {name: parse(texts[name], source.file(name)) for name in own}
        source = PackageSource(package, {**source.trees, **fresh})
    for patch in named:
        apply(patch, source.trees)
    return source


def members_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the members of a module's own enumerations, as `Class.MEMBER`, with their numbers."""
    for kind in vars(module).values():
        if isinstance(kind, EnumMeta) and kind.__module__ == module.__name__:
            yield from ((f"{kind.__name__}.{m.name}", m.value) for m in kind)  # type: ignore[var-annotated]


def check_members(before: Mapping[str, ModuleType], after: Mapping[str, ModuleType]) -> None:
    """Raise PatchError if a member has another number than before. The formulas of proofs identify
    members by number, and would then be about another member."""
    for module in before:
        numbers = dict(members_of(before[module]))
        for name, number in members_of(after[module]):
            if numbers.get(name, number) != number:
                raise PatchError(
                    f"{module}.{name} is {number}, and was {numbers[name]}: members keep their"
                    " numbers; give a new member a new one"
                )


def hunks_of(model: Model, patches: Sequence[Patch]) -> list[Patch]:
    """Return the patches of a model's own files; a diff may change other compositions too. Raises
    PatchError if no patch is left."""
    files = set(model.files.values())
    for patch in patches:
        if patch.is_text and patch.function not in files:
            check_file(patch.function)
    own = [patch for patch in patches if patch.is_text and patch.function in files]
    if not own and all(patch.is_text for patch in patches):
        raise PatchError(f"the patches change no file of {model.package.replace('.', '/')}")
    return own


def model_folder() -> Path:
    """Return the folder of the model's source."""
    assert model.__file__ is not None
    return Path(model.__file__).parent


COMPOSITIONS = tuple(
    sorted(
        (p.parent.name for p in model_folder().glob("*/world.py")),
        key=lambda n: (n != "idempotent", n),
    )
)
"""The packages of the model, each with its own actors and world."""


def load_model(name: str, patches: Sequence[Patch] = ()) -> Model:
    """Return the model of one of COMPOSITIONS. Raises PatchError."""
    return load(f"model.{name}", patches)


def check_file(name: str) -> None:
    """Raise PatchError for a file that belongs to no composition."""
    if not any(name in load_model(home).files.values() for home in COMPOSITIONS):
        folders = ", ".join(f"model/{home}" for home in COMPOSITIONS)
        raise PatchError(f"{name} cannot be patched; a diff changes files of {folders}")


def patches_by_composition(
    patches: Sequence[Patch], names: Collection[str] = COMPOSITIONS
) -> dict[str, tuple[Patch, ...]]:
    """Return the patches of each composition among those named. Hunks belong to the composition of
    their file; the other patches belong, all together, to the one text that they fit. Raises
    PatchError if nothing is changed."""
    hunks = [patch for patch in patches if patch.is_text]
    named = tuple(patch for patch in patches if not patch.is_text)
    changed = {name: named for name in (fitting(named, names),) if name}
    for patch in hunks:
        check_file(patch.function)
        home = patch.function.split("/")[1]
        if home in names:
            changed[home] = (*changed.get(home, ()), patch)
    if patches and not changed:
        raise PatchError(f"the patches change no file of {', '.join(sorted(names))}")
    return {name: load_model(name, own).patches for name, own in changed.items()}


def fitting(patches: Sequence[Patch], names: Collection[str]) -> str:
    """Return the one composition that has the text which the patches replace; "" without patches.
    Raises PatchError."""
    found, errors = [], []
    for name in names if patches else ():
        try:
            load_model(name, patches)
            found.append(name)
        except PatchError as error:
            errors.append(str(error))
    if len(found) > 1:
        raise PatchError(f"the patches fit {' and '.join(found)}; name one of them with --only")
    if errors and not found:
        raise PatchError("; ".join(errors))
    return found[0] if found else ""


@functools.cache
def composition_of(scope: str) -> str:
    """Return the name of the composition that has a scope, also if some of its budgets are
    replaced. An unknown scope is attributed to the first composition, which refuses it."""
    name = scope.partition("/")[0]
    return next((c for c in COMPOSITIONS if name in scopes_of(load_model(c))), COMPOSITIONS[0])


def scopes_of(model: Model) -> frozenset[str]:
    """Return the names of a model's scopes, including those of liveness."""
    unbounded = getattr(model.modules.get("liveness"), "SCOPES", {})
    return frozenset(model.scopes.SCOPES) | frozenset(unbounded)


def scope_names() -> Iterator[str]:
    """Yield the names of the scopes of all compositions."""
    for name in COMPOSITIONS:
        yield from sorted(scopes_of(load_model(name)))


def model_for(scope: str, patches: Sequence[Patch] = ()) -> Model:
    """Return the model that has the scope. Raises PatchError."""
    return load_model(composition_of(scope), patches)


def assumed_properties_of(model: Model) -> tuple[Any, ...]:
    """Return the properties that users assume and no variant guarantees, if the model lists any."""
    return tuple(getattr(model.modules.get("assumed_properties"), "ASSUMED_PROPERTIES", ()))


def with_assumed_properties(model: Model, names: Collection[str]) -> Model:
    """Return the model with these assumed properties among its guarantees. They are checked by name
    only, because they take time. Raises UnknownAssumedProperty."""
    if not names:
        return model
    known = {assumed.name: assumed for assumed in assumed_properties_of(model)}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise UnknownAssumedProperty(
            f"no assumed property is called {unknown[0]!r}; there are {', '.join(known)}"
        )
    guarantees = ModuleType(model.guarantees.__name__)
    named = (assumed for name, assumed in known.items() if name in names)
    vars(guarantees).update(vars(model.guarantees))
    guarantees.GUARANTEES = (*model.guarantees.GUARANTEES, *named)  # type: ignore[attr-defined]
    return replace(model, modules={**model.modules, "guarantees": guarantees})


PATCH_FILE = (
    "a patch file is a unified diff, or a list of rows, each [function, expression before,"
    " expression after]: docs/reference/patches.md"
)


def read_patches(path: Path) -> tuple[Patch, ...]:
    """Read patches from a file: a unified diff of files of the model, or a list of (function,
    before, after), as JSON or Python.

    Raises PatchError with the place if the file has neither form.
    """
    try:
        text = path.read_text(encoding="utf-8")
        is_diff = re.search(r"^\+\+\+ ", text, re.MULTILINE)
        return parse_diff(text) if is_diff else parse_rows(text)
    except OSError as error:
        raise PatchError(f"{path}: {error.strerror}; name a patch file") from error
    except UnicodeDecodeError as error:
        raise PatchError(f"{path}: not a text in UTF-8; {PATCH_FILE}") from error
    except PatchError as error:
        raise PatchError(f"{path}: {error}; {PATCH_FILE}") from error
