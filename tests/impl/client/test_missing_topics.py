"""What is logged of topics without metadata: normal at first, a warning where it lasts."""

from __future__ import annotations

import logging

import pytest

from impl.client.missing_topics import LATE_S, MissingTopics
from impl.protocol.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "impl.client.missing_topics")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.parametrize("error", [UNKNOWN, ErrorCode.LEADER_NOT_AVAILABLE])
def test_a_topic_that_is_being_created_is_no_warning(
    caplog: pytest.LogCaptureFixture, error: ErrorCode
) -> None:
    topics = MissingTopics()
    for now_s in (100.0, 100.1, 100.9):
        topics.note("new", error, now_s)
    topics.forget("new")
    assert said(caplog) == [("DEBUG", f"metadata of topic 'new': {error.name}; asked again")]


def test_one_that_does_not_come_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    topics = MissingTopics()
    for now_s in (100.0, 101.0, 100 + LATE_S, 103.0, 110.0):
        topics.note("nope", UNKNOWN, now_s)
    warned = ("WARNING", "metadata of topic 'nope': UNKNOWN_TOPIC_OR_PARTITION, for 2 s")
    assert said(caplog)[1:] == [warned]
    topics.forget("nope")
    topics.note("nope", UNKNOWN, 200.0)
    assert said(caplog)[2:] == said(caplog)[:1], "it was there, and begins anew"


def test_what_asking_again_does_not_help_is_warned_of_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    MissingTopics().note("secret", refused, 100.0)
    assert said(caplog) == [("WARNING", "metadata of topic 'secret': TOPIC_AUTHORIZATION_FAILED")]
