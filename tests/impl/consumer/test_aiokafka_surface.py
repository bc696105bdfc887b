"""The page of the consumer names all of aiokafka's public surface, and says what differs.

Each table of "From aiokafka" is compared with both classes: a name without a row, a row without a
name, a difference that is not said, and one that is said and is none, all fail.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import aiokafka
import pytest

import kafka_eos
from impl.consumer.consumer_record import ConsumerRecord
from tests.test_names import REPOSITORY

PAGE = (REPOSITORY / "docs/reference/consumer.md").read_text(encoding="utf-8")
NOT_THERE = "not there"
_EMPTY = inspect.Parameter.empty


def rows_of(section: str) -> dict[str, list[str]]:
    """The cells of a section's table by the first one."""
    text = PAGE.split(f"### {section}\n")[1].split("\n### ")[0]
    rows = [
        line[2:].rstrip("|").split(" |") for line in text.splitlines() if line.startswith("| `")
    ]
    cells = [[cell.strip() for cell in row] for row in rows]
    names = [row[0].strip("`") for row in cells]
    assert len(set(names)) == len(names), "a name has two rows"
    return {name: row[1:] for name, row in zip(names, cells, strict=True)}


def public(members: Mapping[str, Any]) -> set[str]:
    """Methods, and those that the language calls, but for the constructor."""
    return {
        name
        for name, member in members.items()
        if inspect.isfunction(member)
        and (not name.startswith("_") or name.startswith("__"))
        and name != "__init__"
    }


THEIRS, OURS = aiokafka.AIOKafkaConsumer, kafka_eos.Consumer
METHODS = rows_of("Methods")
ARGUMENTS = rows_of("Arguments")


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    found.pop("self", None)
    return found


# ---- the rows are those of aiokafka


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Names of the package", set(aiokafka.__all__)),
        ("Fields of a record", {f.name for f in dataclasses.fields(aiokafka.ConsumerRecord)}),
        ("Methods", public(vars(THEIRS))),
        ("Arguments", set(parameters(THEIRS.__init__))),
    ],
)
def test_each_name_has_a_row(section: str, names: set[str]) -> None:
    rows = rows_of(section).keys()
    assert names - rows == set(), "names without a row"
    assert rows - names == set(), "rows that name what aiokafka does not have"


# ---- what stands in the rows is so


def test_exported_names_are_there() -> None:
    for ours, _ in rows_of("Names of the package").values():
        assert not ours or hasattr(kafka_eos, ours.strip("`")), ours


def test_a_record_has_the_fields() -> None:
    assert {
        name for name in rows_of("Fields of a record") if not hasattr(ConsumerRecord, name)
    } == set()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_there_and_takes_the_same_arguments(name: str) -> None:
    if name == "__del__":
        assert not hasattr(OURS, name)
        assert METHODS[name][0].startswith("no ")
        return
    theirs, ours = getattr(THEIRS, name), getattr(OURS, name)
    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours)
    if not name.startswith("__"):
        taken = parameters(ours)
        for argument, parameter in parameters(theirs).items():
            assert taken[argument].kind == parameter.kind, argument
            assert taken[argument].default == parameter.default, argument


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_has_the_defaults_that_its_row_says(name: str) -> None:
    default, difference = ARGUMENTS[name]
    theirs = parameters(THEIRS.__init__)[name].default
    assert default == ("" if theirs is _EMPTY else f"`{described(theirs)}`")
    ours = parameters(OURS.__init__).get(name)
    assert (ours is None) == difference.startswith(NOT_THERE)
    if ours is not None:
        said = re.match(r"`(.*?)` by default", difference)
        is_same = ours.default == theirs
        assert is_same == (said is None), (ours.default, difference)
        assert said is None or said[1] == described(ours.default)


def described(default: Any) -> str:
    """As a reader writes it: classes by name."""
    if isinstance(default, tuple) and all(inspect.isclass(each) for each in default):
        return f"({', '.join(each.__name__ for each in default)},)"
    return repr(default)


def test_what_is_only_here_is_said() -> None:
    more = set(parameters(OURS.__init__)) - set(parameters(THEIRS.__init__)) - {"unknown"}
    more |= {name for name in public(vars(OURS)) - public(vars(THEIRS)) if name[0] != "_"}
    assert {name for name in more if f"`{name}`" not in PAGE and f"`{name}()`" not in PAGE} == set()
