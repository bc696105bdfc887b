"""Threads: each event of each composition declares the one that it belongs to."""

from __future__ import annotations

from inspect import signature

import pytest

from conformance.generate.threads import LOST_ANSWERS, thread_of, threads_of
from model.language import declaration_of
from proofs.lift.source import COMPOSITIONS, load_model

pytestmark = pytest.mark.fast

IDEMPOTENT, TRANSACTIONS = load_model("idempotent"), load_model("transactions")


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_threads_are_numbered_by_choices_that_their_events_have(name: str) -> None:
    threads = {}
    for rule, function in load_model(name).rules.items():
        thread = declaration_of(function).thread
        assert set(thread.by) <= set(signature(function).parameters), rule
        assert threads.setdefault(thread.name, thread) == thread, rule
    assert name == "producer_ids" or LOST_ANSWERS.name not in threads


def test_a_thread_is_an_actor_a_channel_or_a_fault() -> None:
    there, other = (("producer", 0), ("partition", 1)), (("producer", 0), ("partition", 0))

    def of_idempotent(rule: str, choice: tuple[tuple[str, int], ...]) -> object:
        return thread_of(IDEMPOTENT, (rule, choice))

    assert of_idempotent("client_sends", there) == of_idempotent("client_retries", other)
    assert of_idempotent("request_arrives", there) != of_idempotent("request_arrives", other)
    assert of_idempotent("request_arrives", there) != of_idempotent("answer_arrives", there)
    late = of_idempotent("late_request_arrives", (*there, ("connection", 1)))
    assert late == ("broken connections", (0, 1))


def test_lost_answers_are_threads_of_their_own() -> None:
    heard, lost = (("producer_id_is_asked", (("instance", 1), ("heard", h))) for h in (1, 0))
    assert thread_of(TRANSACTIONS, heard) == ("requests to the coordinator", (1,))
    assert thread_of(TRANSACTIONS, lost) == ("lost answers", (1, None))
    assert threads_of(TRANSACTIONS, [heard, lost, heard, lost]) == [0, 1, 0, 1]
