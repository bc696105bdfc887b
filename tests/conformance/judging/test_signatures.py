"""Findings by signature: all are counted, a few are kept, and no grouping of traces matters."""

import json
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.judging.signatures import (
    KEPT,
    VALUES,
    Finding,
    Occurrences,
    Signature,
    count_findings,
    findings_from,
    findings_json,
    merge_findings,
    signature_of,
)
from proofs.run.files import line


def finding(number: int, steps: int = 4, path: str = "leader[0].error", seen: int = 45) -> Finding:
    return {
        "id": number,
        "trace": [["request_arrives", {}]] * steps,
        "steps": steps,
        "rule": "request_arrives",
        "expected": {path: 0},
        "observed": {path: seen},
    }


@st.composite
def findings_of_a_run(draw: st.DrawFn) -> list[Finding]:
    """Fields and values repeat, and some fields have more values than are kept."""
    drawn = st.tuples(
        st.integers(1, 5),
        st.sampled_from(["leader[0].error", "leader[1].error", "log[2].offset"]),
        st.integers(0, 2 * VALUES),
    )
    return [finding(number, *what) for number, what in enumerate(draw(st.lists(drawn)))]


@given(found=findings_of_a_run(), cuts=st.lists(st.integers(0, 60)), data=st.data())
def test_any_grouping_in_any_order_gives_the_same(
    found: list[Finding], cuts: list[int], data: st.DataObject
) -> None:
    bounds = [0, *sorted(cuts), len(found)]
    parts = [count_findings(found[a:b]) for a, b in pairwise(bounds)]
    while len(parts) > 1:
        a, b = (parts.pop(data.draw(st.integers(0, len(parts) - 1))) for _ in range(2))
        parts.append(merge_findings(a, b))
    assert line(findings_json(parts[0])) == line(findings_json(count_findings(found)))


@given(found=findings_of_a_run())
def test_nothing_is_lost_and_little_is_kept(found: list[Finding]) -> None:
    counted = count_findings(found)
    assert sum(same.count for same in counted.values()) == len(found)
    assert {(s.rule, s.fields) for s in counted} == {
        (s.rule, s.fields) for s in map(signature_of, found)
    }
    for signature, same in counted.items():
        assert 1 <= len(same.shortest) <= min(same.count, KEPT)
        similar = [s for s in counted if s.without_values == signature.without_values]
        assert len(similar) <= VALUES + 1
        if signature.expected is not None:
            members = [f for f in found if signature_of(f) == signature]
            assert (same.count, same.first_id) == (len(members), members[0]["id"])
            assert same.shortest[0]["steps"] == min(f["steps"] for f in members)


@given(found=findings_of_a_run())
def test_findings_travel_as_json(found: list[Finding]) -> None:
    counted = count_findings(found)
    assert findings_from(json.loads(line(findings_json(counted)))) == counted


def test_places_that_indices_tell_apart_are_the_same() -> None:
    first, second = finding(1, path="leader[0].error"), finding(2, path="leader[1].error")
    assert signature_of(first) == signature_of(second)
    assert signature_of(first) == Signature(
        "request_arrives", ("leader.error",), '{"leader.error":["0"]}', '{"leader.error":["45"]}'
    )
    assert signature_of(first) != signature_of(finding(3, seen=46))


def test_a_defect_that_shows_late_and_once_is_kept() -> None:
    """However many others there are, and however much shorter."""
    known = [count_findings([finding(n, 1, seen=n)]) for n in range(100)]
    late = count_findings([finding(5_000, 9, path="log[0].offset")])
    total = reduce(merge_findings, [*known, late])
    assert total[signature_of(finding(0, path="log[0].offset"))] == Occurrences(
        1, 5_000, (finding(5_000, 9, path="log[0].offset"),)
    )
    others = signature_of(finding(0)).without_values
    assert total[others].count == 100 - VALUES


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, "x"])
def test_values_of_all_kinds_have_a_signature(value: object) -> None:
    one = finding(1)
    one["observed"] = {"leader[0].log[0]": value}
    assert signature_of(one).fields == ("leader.error", "leader.log")
