"""What Python would let pass in silence is an error in each engine: numbers taken for truths, keys
that no map has."""

from __future__ import annotations

import pytest

from model.language import Map
from proofs.explore.result import RangeBroken
from proofs.explore.scope import explore_scope
from proofs.explore.source import NotTotal
from proofs.lift.annotations import LiftError
from proofs.lift.build import lift
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of

REQUIRED = "len(link.requests) > 0"
NO_TRUTHS = (
    "any(2 for r in link.requests)",
    "all(2 for r in link.requests)",
    "any(len(link.requests) for r in link.requests if r.batch.record_count)",
    "not len(link.requests)",
    "len(link.requests) and producer == 0",
    "producer == 0 or 2",
    "(2 if producer == 0 else 1)",
    "(True if len(link.requests) > 0 else 2)",
    "(producer == 0) == 1",
    "(producer == 0) < 2",
    "0 <= len(link.requests) < (producer == 0)",
    "max(producer == 0, producer == 1)",
    "sum(r.batch.record_count > 0 for r in link.requests) > 0",
    "(producer == 0) + 1 > 0",
    "(producer == 0) in w.clients[0].bump_for",
    "len(link.requests)",
)
"""Conditions with a number where a bool belongs, or the other way round."""


@pytest.mark.parametrize("condition", NO_TRUTHS)
def test_a_number_is_no_condition(condition: str) -> None:
    model = load_model("idempotent", (Patch("world.next_request", REQUIRED, condition),))
    with pytest.raises(LiftError, match=r"world\.py.*: in next_request"):
        lift(model, configuration_of(model, "idempotent-tiny", "4.3.1"), "idempotent-tiny")


KEYS = ("partition + len(link.answers) - 1", "partition - len(link.answers) + 1")
"""Partition 0, until there is an answer: then one too high, or -1."""


def changed(before: str, key: str) -> Patch:
    """A rule of the world that puts, or looks, there."""
    return Patch("world.handled", before, before.replace("partition", key))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("before", ["w.leaders.put(partition, step.actor)"])
@pytest.mark.parametrize("engine", ["ints", "c", "source"])
def test_a_key_that_no_map_has_is_an_error_of_each_engine(
    engine: str, before: str, key: str
) -> None:
    fails = NotTotal if engine == "source" else RangeBroken
    with pytest.raises(fails, match="key") as failed:
        explore_scope("idempotent-tiny", patches=(changed(before, key),), engine=engine)
    assert failed.value.exit_code == 3
    assert "request_arrives(producer=0, partition=0)" in str(failed.value)


@pytest.mark.parametrize("key", [-1, 2])
def test_a_map_has_its_keys_alone(key: int) -> None:
    mapping = Map[int, int]((5, 7))
    with pytest.raises(IndexError, match=f"a map of 2 keys has no key {key}"):
        mapping.put(key, 9)
    with pytest.raises(IndexError):
        mapping[key]
