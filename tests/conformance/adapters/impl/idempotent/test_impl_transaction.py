"""Several batches of a transaction in flight in a partition, as the idempotent producer's."""

from __future__ import annotations

import pytest

from conformance.adapters.impl.judges import judge_of, judge_range
from conformance.judging.plan import BadPlan, Plan, prepare
from model.idempotent.variants import parse
from tests.sizes import sized

VARIANT = parse("4.3.1/recovery=reset_2_3/sequence_order=wraps").name


def plan_of(scope: str, variant: str = VARIANT) -> Plan:
    return Plan(scope=scope, variant=variant, actors="leader,transaction", traces_from=("cover",))


COVERED = {
    "idempotent-tiny/breaks=1/refusals=0": (340, 364),
    "idempotent-split/breaks=1/refusals=0/restarts=0": (587, 587),
    "idempotent-too-large": (217, 350),
}
"""Transitions that are followed, of how many: the others are behind the end of a transaction that
has failed."""


@pytest.mark.parametrize("scope", sized(COVERED, [scope for scope in COVERED if "split" in scope]))
def test_a_transaction_follows_the_scope(scope, tmp_path):
    prepared = prepare(plan_of(scope), tmp_path / "prepared")
    found = judge_range(prepared, 0, prepared.count)
    assert found.findings == []
    assert (found.summary.transitions_covered, prepared.transitions_total) == COVERED[scope]


@pytest.mark.parametrize(
    ("scope", "variant"),
    [
        ("idempotent-tiny", VARIANT),
        ("idempotent-timeout/refusals=0", VARIANT),
        ("idempotent-exhaustion", VARIANT),
        ("idempotent-restart", parse("4.3.1").name),
    ],
)
def test_what_no_transaction_does_is_refused(scope, variant):
    with pytest.raises(BadPlan, match="transaction"):
        judge_of(plan_of(scope, variant))
