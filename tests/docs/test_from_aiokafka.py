"""The tables of "From aiokafka": each name that aiokafka has is in them, and none that it has not;
what stands beside it is ours."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import kafka_eos
from impl.producer import BatchBuilder, RecordMetadata
from impl.producer.config import SETTINGS
from kafka_eos import Producer, errors
from tests.docs.pages import REPOSITORY

aiokafka = pytest.importorskip("aiokafka")
their_errors = importlib.import_module("aiokafka.errors")
their_metadata = importlib.import_module("aiokafka.structs").RecordMetadata
their_builder = importlib.import_module("aiokafka.producer.message_accumulator").BatchBuilder

GUIDE = REPOSITORY / "docs" / "guides" / "from_aiokafka.md"
REFERENCE = REPOSITORY / "docs" / "reference" / "producer.md"
NOT_IN_ALL = {"ProducerFenced"}
"""Errors that aiokafka has and does not list."""


def table(title: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    text = GUIDE.read_text(encoding="utf-8")
    [section] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def found_of(root: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        root = getattr(root, name)
    return root


def parameters(call: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(call).parameters)
    found.pop("self", None)
    return found


# ---- methods


def test_each_method_has_a_row() -> None:
    rows = table("The producer's methods")
    theirs = [name for row in rows for name in names(row[0])]
    assert sorted(theirs) == sorted(public(aiokafka.AIOKafkaProducer))
    ours = [name for row in rows for name in names(row[1])]
    assert sorted(ours) == sorted(public(Producer))


def test_methods_have_the_same_parameters_in_the_same_order() -> None:
    for row in table("The producer's methods"):
        if not names(row[0]):
            continue
        theirs = parameters(getattr(aiokafka.AIOKafkaProducer, names(row[0])[0]))
        ours = parameters(getattr(Producer, names(row[1])[0]))
        assert list(ours)[: len(theirs)] == list(theirs), row
        for name, parameter in theirs.items():
            assert ours[name].kind is parameter.kind, (row, name)
        for name in list(ours)[len(theirs) :]:
            assert f"`{name}`" in row[2], (row, name)


# ---- settings


def default_of(parameter: inspect.Parameter) -> str:
    text = repr(parameter.default)
    if "DefaultPartitioner" in text:
        return "DefaultPartitioner()"
    return "1" if parameter.name == "acks" else text


def our_settings() -> dict[str, str]:
    ours = {name: repr(p.default) for name, p in parameters(Producer.__init__).items()}
    return ours | {name: repr(setting.default) for name, setting in SETTINGS.items()}


def test_each_parameter_has_a_row_with_both_defaults() -> None:
    rows = table("The producer's settings")
    theirs = parameters(aiokafka.AIOKafkaProducer.__init__)
    assert [names(row[0]) for row in rows] == [[name] for name in theirs]
    ours = our_settings()
    for cell, there, here, difference in rows:
        [name] = names(cell)
        assert names(there) == [default_of(theirs[name])], name
        assert names(here) == ([ours[name]] if name in ours else []), name
        # Where the defaults differ, or we have none, the row says why.
        assert difference or there == here, name


def test_what_only_we_have_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", text, re.MULTILINE))
    ours = our_settings()
    del ours["config"]
    mine = ours.keys() - parameters(aiokafka.AIOKafkaProducer.__init__).keys()
    hidden = {"network", "clock_ms", "rng"}
    assert rows.keys() == mine - hidden
    assert rows == {name: ours[name] for name in rows}
    assert set(re.findall(r"`([a-z-]+-(?:total|avg|max))`", text)) == Producer().metrics().keys()


# ---- what both return, and export


def test_batches_and_metadata_have_a_row_each() -> None:
    rows = table("Batches and metadata")
    theirs = {f"BatchBuilder.{name}" for name in public(their_builder)}
    theirs |= {f"RecordMetadata.{name}" for name in their_metadata._fields}
    assert {name for row in rows for name in names(row[0])} == theirs
    ours = {"BatchBuilder": BatchBuilder, "RecordMetadata": RecordMetadata}
    for row in rows:
        [name] = names(row[1])
        kind, attribute = name.split(".")
        assert hasattr(ours[kind], attribute)
    assert RecordMetadata._fields == their_metadata._fields


def exported(title: str, root: Any) -> Iterator[str]:
    """The first column; what the second names is there."""
    for row in table(title):
        for name in names(row[1]):
            assert found_of(root, name)
        assert names(row[1]) or row[2], row
        yield from names(row[0])


def test_each_exported_name_has_a_row() -> None:
    assert sorted(exported("Exported names", kafka_eos)) == sorted(aiokafka.__all__)


def test_each_error_has_a_row() -> None:
    found = list(exported("Errors", errors))
    assert sorted(found) == sorted({*their_errors.__all__, *NOT_IN_ALL})
    assert all(hasattr(their_errors, name) for name in NOT_IN_ALL)
