"""Settings of the clients are known by name: to type checkers, and to whoever mistypes one."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from impl import Consumer, Producer, UnknownSettingError
from impl.producer.config import OTHER_NAMES, SETTINGS, ProducerConfig, ProducerSettings

WIDER = {"acks": int | str, "client_id": str | None}
"""What a user may write beside the type that a complete setting has."""


def test_type_checkers_know_each_setting_of_a_producer_with_its_type() -> None:
    typed, complete = get_type_hints(ProducerSettings), get_type_hints(ProducerConfig)
    assert typed.keys() == {*SETTINGS, *OTHER_NAMES}
    for name in SETTINGS:
        assert typed[name] == WIDER.get(name, complete[name]), name
    assert typed["max_batch_size"] == typed["batch_size"]


@pytest.mark.parametrize("client", [Producer, Consumer])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("request_timeout", "request_timeout_ms"),
        ("request.timeout.ms", "request_timeout_ms"),
        ("requestTimeoutMs", "request_timeout_ms"),
        ("METADATA-MAX-AGE-MS", "metadata_max_age_ms"),
    ],
)
async def test_a_mistyped_setting_is_refused_and_the_right_one_named(
    client: Any, name: str, meant: str
) -> None:
    with pytest.raises(UnknownSettingError, match=rf"did you mean '{meant}'\?$") as refused:
        client(bootstrap_servers="localhost", **{name: 5})
    assert refused.value.setting == name
    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize("client", [Producer, Consumer])
async def test_a_setting_like_no_other_is_refused_with_where_all_are_listed(client: Any) -> None:
    with pytest.raises(UnknownSettingError) as refused:
        client(bootstrap_servers="localhost", nothing_like_it=5)
    assert str(refused.value) == (
        f"unknown setting of {client.__name__} 'nothing_like_it'; help({client.__name__}) lists all"
    )
