"""What explored states show, against the guarantees and witnesses of the source."""

from pathlib import Path

import numpy as np
import pytest

from conformance.judging.guaranteed import GuaranteeWalker, observe_transitions
from conformance.judging.plan import Plan, configuration, prepare


@pytest.mark.parametrize("scope", ["idempotent-restart", "idempotent-tiny", "idempotent-expiry"])
def test_each_trace_shows_what_its_worlds_show(scope: str, tmp_path: Path) -> None:
    prepared = prepare(Plan(scope=scope, traces=150), tmp_path)
    walker = GuaranteeWalker(configuration(prepared.plan))
    assert prepared.transitions_total
    for number in range(0, prepared.count, 5):
        steps = prepared.trace(number)
        _, edges = prepared.walk(number)
        assert edges is not None
        for done in (0, len(steps) // 2, len(steps)):
            executed = np.zeros(prepared.transitions_total, dtype=bool)
            executed[edges[:done]] = True
            transitions = np.packbits(executed, bitorder="little").tobytes()
            assert observe_transitions(prepared, transitions) == walker.walk(steps[:done])
