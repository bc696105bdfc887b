"""Small files as brokers leave them that have just begun."""

from __future__ import annotations

import pytest

from impl.log.checkpoint_files import CorruptCheckpoint, check_properties, decode_offsets


def test_an_empty_checkpoint_has_no_offsets() -> None:
    assert decode_offsets(b"") == {}


@pytest.mark.parametrize("damage", [b"\n", b"0\n", b"0\n1\n", b"1\n0\n"])
def test_a_checkpoint_that_is_cut_is_damaged(damage: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(damage)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"version": "1", "node.id": "1"}, "cluster.id is not there: write the id"),
        (
            {"version": "1", "node.id": "1", "cluster.id": ""},
            "cluster.id has no value: write the id",
        ),
    ],
)
def test_a_directory_without_the_id_of_its_cluster_is_told_what_to_write(
    properties: dict[str, str], problem: str
) -> None:
    with pytest.raises(CorruptCheckpoint, match=problem):
        check_properties({"version": "1", "node.id": "1", **properties})
