"""What is made once for several tests is made by one worker: their group is part of their names."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def shared() -> object:
    return object()


@pytest.mark.xdist_group("groups")
def test_a_worker_sees_groups(request: pytest.FixtureRequest) -> None:
    """With pytest 9.2 and xdist 3.8 no worker does: each starts brokers of its own."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("groups mean something with --dist loadgroup only")
    assert request.node.nodeid.endswith("@groups")


@pytest.mark.usefixtures("shared")
def test_who_shares_a_fixture_is_in_a_group(request: pytest.FixtureRequest) -> None:
    assert groups_of(request.node) == ["tests/test_groups.py"]


def test_who_shares_none_is_in_no_group(request: pytest.FixtureRequest, tmp_path: object) -> None:
    assert groups_of(request.node) == []


def groups_of(item: pytest.Item) -> list[str]:
    return [mark.args[0] for mark in item.iter_markers("xdist_group")]
