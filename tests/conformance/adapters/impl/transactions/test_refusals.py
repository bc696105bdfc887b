"""Answers that no scope has are given to copies of impl's client."""

from __future__ import annotations

import pytest

from conformance.adapters.impl.judges import judge_of, judge_range
from conformance.adapters.impl.transactions import judge as judging
from conformance.adapters.impl.transactions.refusals import OUTCOMES, Refused, expected_after
from conformance.judging.compositions import TRANSACTIONS
from conformance.judging.plan import Plan, prepare
from impl import ApiKey, ErrorCode
from impl.producer.transaction_manager import TransactionManager


def judged(variant, folder):
    name = TRANSACTIONS.model.variants.parse(variant).name
    actors = TRANSACTIONS.actors[0]
    plan = Plan(scope="transactions-tiny", variant=name, actors=actors, traces_from=("cover",))
    prepared = prepare(plan, folder / "prepared")
    judge_of.cache_clear()
    try:
        return judge_range(prepared, 0, prepared.count)
    finally:
        judge_of.cache_clear()


def test_the_smallest_scope_answers_many_errors(tmp_path, monkeypatch):
    answered = set()

    def noted(refused, state):
        answered.add((refused.api, refused.error))
        return expected_after(refused, state)

    monkeypatch.setattr(judging, "expected_after", noted)
    assert judged("v1", tmp_path).findings == []
    assert len(answered) >= 15
    assert (ApiKey.END_TXN, ErrorCode.TRANSACTION_ABORTABLE) in answered


def test_partitions_that_are_lost_with_a_failed_addition_are_found(tmp_path, monkeypatch):
    fail_call = TransactionManager._fail_call

    def forget(manager, *given):
        fail_call(manager, *given)
        manager.partitions.clear()

    monkeypatch.setattr(TransactionManager, "_fail_call", forget)
    found = {path for finding in judged("v1", tmp_path).findings for path in finding["expected"]}
    assert "client[0].after ADD_PARTITIONS_TO_TXN TOPIC_AUTHORIZATION_FAILED" in found


@pytest.mark.parametrize("api_key", OUTCOMES)
def test_what_is_abortable_is_fatal_only_to_an_abort(api_key):
    def state_after(before):
        refused = Refused(api_key, ErrorCode.TRANSACTION_ABORTABLE, before, "", -1)
        return expected_after(refused, (before, 0, 0, False, (), ()))[0]

    assert state_after("IN_TRANSACTION") == "ABORTABLE_ERROR"
    ends = api_key == ApiKey.END_TXN
    assert state_after("ABORTING") == ("FATAL_ERROR" if ends else "ABORTING")
