"""Threads: each event of each model that systems are judged against belongs to one."""

from __future__ import annotations

from collections import Counter
from inspect import signature

import pytest

from conformance.generate.threads import KINDS, UNHEARD, NoThread, thread_of, threads_of
from conformance.homes import HOMES

pytestmark = pytest.mark.fast

RULES = {name: rule for home in HOMES.values() for name, rule in home.model.rules.items()}


def test_each_rule_of_the_models_is_in_one_kind() -> None:
    listed = Counter(rule for kind in KINDS for rule in kind.rules)
    assert listed == Counter(list(RULES))


def test_each_kind_is_told_apart_by_what_its_choices_have() -> None:
    for kind in KINDS:
        for rule in kind.rules:
            assert set(kind.by) <= set(signature(RULES[rule]).parameters), rule
    assert len({kind.name for kind in (*KINDS, UNHEARD)}) == len(KINDS) + 1


def test_a_thread_is_an_actor_a_channel_or_trouble() -> None:
    there, other = (("producer", 0), ("partition", 1)), (("producer", 0), ("partition", 0))
    assert thread_of(("client_sends", there)) == thread_of(("client_retries", other))
    assert thread_of(("request_arrives", there)) != thread_of(("request_arrives", other))
    assert thread_of(("request_arrives", there)) != thread_of(("answer_arrives", there))
    arrives = ("late_request_arrives", (*there, ("connection", 1)))
    assert thread_of(arrives) == ("broken connections", (0, 1))
    heard, lost = (("producer_id_is_asked", (("instance", 1), ("heard", h))) for h in (1, 0))
    assert thread_of(heard) == ("requests to the coordinator", (1,))
    assert thread_of(lost) == ("lost answers", (1, None))
    assert threads_of([heard, lost, arrives, lost]) == [0, 1, 2, 1]


def test_an_event_of_no_kind_has_no_thread() -> None:
    with pytest.raises(NoThread, match="no kind has sun_rises"):
        thread_of(("sun_rises", ()))
