"""Settings that no broker starts with are refused where they are made, by name."""

import pytest

from impl import LogConfig, NodeConfig, TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.settings import InvalidSetting


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
