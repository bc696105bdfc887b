"""The brokers that are asked: a real Kafka, a new node of ours, or any running broker."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.campaigns.held.cases import cases_of
from conformance.campaigns.held.conversation import CaseConversation
from conformance.campaigns.held.own_node import NEVER_MS, OwnNode
from conformance.campaigns.held.recording import Answers, write_recording
from conformance.campaigns.held.symbols import CLIENT_ID
from impl.protocol.schemas import ApiKey
from proofs.say import note

_STEP_TIMEOUT_MS: Final = 20_000
_SETTLING_S: Final = 0.01
"""The longest time until a broker that has answered applies the change that was requested."""
_PROPERTIES: Final = {"producer.id.expiration.check.interval.ms": NEVER_MS}
"""Records of cases are old: their producers would expire."""


def record(apis: Iterable[ApiKey], folder: Path) -> None:
    """Send all cases of each API to a new real broker, and write its answers.

    Raises NotPrepared, OSError, and as `KafkaBroker.start`.
    """
    for api_key in apis:
        answers = real_answers(api_key)
        write_recording(folder, NEWEST, api_key, answers)
        note(f"{api_key.name}: {len(answers)} answers recorded")


def real_answers(api_key: ApiKey) -> Answers:
    """The answers of a new real broker to all cases of an API. Raises as `record`."""
    with KafkaBroker(NEWEST, properties=_PROPERTIES) as broker:
        return served_answers(*broker.address, api_key)


def our_answers(api_key: ApiKey) -> Answers:
    """The answers of a new node of ours to all cases of an API."""
    own = OwnNode()
    return _answers(CaseConversation(own.connect, own.address[1]), api_key)


def served_answers(host: str, port: int, api_key: ApiKey) -> Answers:
    """The answers of a running broker to all cases of an API. Raises NotPrepared,
    ConnectionLost."""
    connect = partial(
        BrokerConnection, host, port, timeout_ms=_STEP_TIMEOUT_MS, client_id=CLIENT_ID
    )
    return _answers(CaseConversation(connect, port, _SETTLING_S), api_key)


def _answers(conversation: CaseConversation, api_key: ApiKey) -> Answers:
    played = conversation.play(cases_of(api_key))
    return {(case.name, case.version): answer for case, answer in played}
