"""Each word of a public name is a term of the glossary, or is plain English or Python's own.

A word that is in neither list is a private one: use a word of the glossary, or explain it there.
`common_words.txt` is for words that need no explanation.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.test_names import REPOSITORY, modules

pytestmark = pytest.mark.fast

WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def words_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def terms_in(glossary: str) -> set[str]:
    """The words of the first column, and those that a row sets off as code or in italics: what the
    prose of a row says is not thereby explained."""
    rows = [line.split("|") for line in glossary.splitlines() if line.startswith("| ")]
    set_off = (word for row in rows for word in re.findall(r"`.+?`|\*.+?\*", "|".join(row)))
    return words_in(" ".join((*(row[1] for row in rows), *set_off)))


TO_RENAME = words_in(
    """
    own past seen
    """
)
"""Private words that are in names today. The list only shrinks."""


def singulars(word: str) -> set[str]:
    """The word, and what it may be the plural of."""
    return {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}


def public_names() -> Iterator[tuple[str, str]]:
    """(name, where) of each public module and class of the shipped packages."""
    for module, tree in modules().items():
        yield from ((part, module) for part in module.split("."))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield node.name, module


def private_words(known: set[str]) -> dict[str, set[str]]:
    """The words of public names that are not known, each with where it stands."""
    private: dict[str, set[str]] = defaultdict(set)
    for name, where in public_names():
        for word in map(str.lower, WORD.findall(name) if not name.startswith("_") else ()):
            if not singulars(word) & known:
                private[word].add(f"{where}: {name}")
    return private


def test_no_private_word_comes_in_unnoticed() -> None:
    glossary = terms_in((REPOSITORY / "docs/glossary.md").read_text(encoding="utf-8"))
    common = words_in((REPOSITORY / "tests/common_words.txt").read_text(encoding="utf-8"))
    private = private_words(glossary | common)
    assert private.keys() - TO_RENAME == set(), (
        "use a word of docs/glossary.md, or explain this one there",
        private,
    )
    assert private.keys() >= TO_RENAME, "take the words off the list that no name has any more"


def test_no_word_that_is_to_be_renamed_is_allowed_otherwise() -> None:
    assert not TO_RENAME & words_in((REPOSITORY / "tests/common_words.txt").read_text())


RAISES = re.compile(r"Raises ((?:[A-Z]\w+(?:, and |, | and | or )?)+)")


def documented(tree: ast.Module) -> Iterator[str]:
    """The exceptions that docstrings name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            for names in RAISES.findall(" ".join((ast.get_docstring(node) or "").split())):
                yield from re.findall(r"[A-Z]\w+", names)


def test_each_exception_that_a_docstring_names_exists() -> None:
    """A renamed exception leaves no old name behind."""
    known = set(vars(builtins))
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                known.add(node.name)
            elif isinstance(node, ast.ImportFrom):
                known.update(alias.asname or alias.name for alias in node.names)
    unknown = {
        (module, name)
        for module, tree in modules().items()
        for name in documented(tree)
        if name not in known
    }
    assert unknown == set()
