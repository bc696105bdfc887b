"""Groups with members of both protocols: our broker answers each step as one of 4.3.1 does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.kafka.broker import KafkaBroker
from impl.broker.node_settings import configure
from tests.conformance.kafka.conftest import CONSUMER_GROUPS
from tests.conformance.kafka.group_scripts import CONFIG, check_answers
from tests.conformance.kafka.mixed_scripts import MIXED_SCRIPTS, MixedScript, policies
from tests.sizes import sized

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("script", MIXED_SCRIPTS, ids=lambda script: script.__name__)
def test_each_step_is_answered_as_by_kafka(
    script: Callable[[MixedScript], None], broker: KafkaBroker
) -> None:
    check_answers(script, MixedScript, broker.connect)


@pytest.mark.slow
@pytest.mark.parametrize("policy", sized(["disabled", "upgrade", "downgrade"], ["disabled"]))
def test_a_policy_says_which_groups_are_converted(policy: str, tmp_path: Path) -> None:
    name = "group.consumer.migration.policy"
    properties = {**CONSUMER_GROUPS, name: policy}
    with KafkaBroker("4.3.1", folder=tmp_path, properties=properties) as broker:
        check_answers(policies, MixedScript, broker.connect, configure(CONFIG, name, policy))
