"""What real brokers answered, answered by a node: recordings of five releases, at three levels."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from impl.coordinator.config import CONFIGS, TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.partition.log_config import LogConfig
from impl.partition.rules import RULES
from tests.impl.broker.network import Network
from tests.impl.broker.recording import Talker, prepare

RECORDINGS = sorted(Path(__file__).with_name("recorded").glob("*.json"))
CONFIG_OF = {"4.3.1": "4.3", "4.2.1": "4.1", "4.1.2": "4.1", "4.0.2": "4.0", "3.9.2": "3.8"}
RULES_OF = {"4.3.1": "4.3", "4.2.1": "4.2", "4.1.2": "4.1", "4.0.2": "4.0", "3.9.2": "3.6"}


def first_difference(recording: dict[str, Any], config: TransactionConfig) -> list[Any] | None:
    """The conversation up to the first answer that is another one here."""
    network = Network(
        log=LogConfig(rules=RULES[RULES_OF[recording["release"]]]),
        transactions=replace(config, num_partitions=1, transaction_version=recording["level"]),
        offsets=OffsetsConfig(num_partitions=1),
    )

    def settle() -> None:
        network.run(10)

    prepare(network.ask, settle)
    for number, trace in enumerate(recording["traces"]):
        talker = Talker(network.ask, f"R{number}", settle, lambda: network.now_ms)
        for length, (step, *wanted) in enumerate(trace, start=1):
            found = talker.take(step)
            if found != wanted:
                return [*trace[:length], {"found": found}]
    return None


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_node_answers_as_the_broker_did(path: Path) -> None:
    recording = json.loads(path.read_text())
    config = CONFIGS[CONFIG_OF[recording["release"]]]
    assert first_difference(recording, config) is None


@pytest.mark.parametrize(
    "rule",
    [
        {"fence_bump": "twice"},
        {"transaction_max_timeout_ms": 55_000},
        {"add_partitions_pending_first": False, "end_txn_pending_first": False, "level": 0},
    ],
)
def test_a_rule_of_another_release_shows(rule: dict[str, Any]) -> None:
    level = rule.pop("level", 2)
    recordings = [json.loads(path.read_text()) for path in RECORDINGS]
    recording = next(r for r in recordings if (r["release"], r["level"]) == ("4.3.1", level))
    assert first_difference(recording, replace(CONFIGS["4.3"], **rule)) is not None
