"""Settings that no broker starts with are refused where they are made, by name."""

from collections.abc import Iterator
from dataclasses import fields, make_dataclass, replace
from typing import Any

import pytest

from impl import LogConfig, NodeConfig, TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.settings import InvalidSetting, Settings


def parts_of(settings: Settings) -> Iterator[Settings]:
    """Settings, and those that are in them."""
    yield settings
    for value in values_of(settings).values():
        if isinstance(value, Settings):
            yield from parts_of(value)


def values_of(settings: Any) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def hash_of(settings: object) -> int | None:
    """None where a mapping is in them."""
    try:
        return hash(settings)
    except TypeError:
        return None


PARTS = tuple(parts_of(NodeConfig()))


@pytest.mark.parametrize(
    ("make", "setting", "value"),
    [
        (NodeConfig, "node_id", -1),
        (NodeConfig, "port", "x"),
        (NodeConfig, "port", 65_536),
        (NodeConfig, "num_partitions", 0),
        (NodeConfig, "num_partitions", 10**7),
        (NodeConfig, "log_retention_check_interval_ms", -1),
        (LogConfig, "segment_bytes", 0),
        (LogConfig, "min_insync_replicas", 0),
        (LogConfig, "retention_ms", -2),
        (LogConfig, "max_message_bytes", None),
        (LogConfig, "producer_id_expiration_ms", 0.5),
        (TransactionConfig, "num_partitions", 0),
        (TransactionConfig, "num_partitions", True),
        (TransactionConfig, "transaction_max_timeout_ms", 0),
        (TransactionConfig, "abort_timed_out_interval_ms", -1),
        (TransactionConfig, "transaction_version", 3),
        (OffsetsConfig, "num_partitions", 0),
        (OffsetsConfig, "offset_metadata_max_bytes", -1),
    ],
)
def test_a_setting_out_of_range_is_named(make, setting, value):
    named = f"^{make.__name__}.{setting} must be .*, is {value!r}$"
    with pytest.raises(InvalidSetting, match=named) as refused:
        make(**{setting: value})
    assert refused.value.setting == setting


@pytest.mark.parametrize("make", [NodeConfig, LogConfig, TransactionConfig, OffsetsConfig])
def test_the_defaults_are_fine(make):
    assert make() == make()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_settings_say_and_compare_what_a_dataclass_does(part):
    values = values_of(part)
    plain = make_dataclass(type(part).__name__, values, frozen=True)(**values)
    assert repr(part) == repr(plain)
    assert part == replace(part)
    assert part != plain
    assert hash_of(part) == hash_of(plain)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_settings_differ_where_one_of_them_does(part):
    for name, value in values_of(part).items():
        if isinstance(value, bool) and name != "allow_everyone_if_no_acl_found":
            assert replace(part, **{name: not value}) != part
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
            assert replace(part, **{name: value - 1}) != part


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_no_class_of_settings_has_methods_written_for_it_at_each_start(part):
    assert not {"__repr__", "__eq__", "__hash__"} & vars(type(part)).keys()
