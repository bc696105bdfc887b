"""A run that judges nothing counts each trace id once, on processes."""

from __future__ import annotations

from benchmarks.trace_ids import count_ids
from conformance.judging.runner import range_size


def test_each_id_is_counted_once() -> None:
    found = count_ids(5_000, "processes", 1)
    assert (found["count"], found["backend"]) == (5_000, "processes")
    assert 4 <= found["waves"] <= 5_000 / range_size(5_000)
    assert found["journal_bytes"] > 0
